"""A policy in plain PyTorch, timed call by call: python torch_policy.py POLICY.npz, then a line on standard input for each batches.npy."""

import json
import pathlib
import sys
import time

import numpy as np
import torch
from torch import nn


def perceptron(arrays, name):
    layers, index = [], 0
    while f"{name}.{index}.weight" in arrays:
        weight = torch.from_numpy(arrays[f"{name}.{index}.weight"].T.copy())
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            layer.weight.copy_(weight)
            layer.bias.copy_(torch.from_numpy(arrays[f"{name}.{index}.bias"]))
        layers += [nn.ReLU()] * (index > 0) + [layer]
        index += 1
    return nn.Sequential(*layers)


class Policy(nn.Module):
    def __init__(self, arrays):
        super().__init__()
        self.mean, self.std, self.middle, self.half = (torch.from_numpy(arrays[k].copy()) for k in ("mean", "std", "middle", "half"))
        self.head, self.phi, self.threshold = str(arrays["head"]), float(arrays["phi"]), float(arrays["threshold"])
        self.latents = torch.from_numpy(arrays["latents"].copy())
        self.nets = nn.ModuleDict(
            {name: perceptron(arrays, name) for name in ("actor", "imitation", "decoder", "critic") if f"{name}.0.weight" in arrays}
        )

    def forward(self, observations):
        x = (observations - self.mean) / self.std
        if self.head == "candidates":
            count = len(self.latents)
            repeated = x[:, None].expand(-1, count, -1)
            latents = self.latents[None].expand(len(x), -1, -1)
            decoded = torch.tanh(self.nets["decoder"](torch.cat([repeated, latents], -1)))
            moved = torch.tanh(self.nets["actor"](torch.cat([repeated, decoded], -1)))
            actions = (decoded + self.phi * moved).clamp(-1, 1)
            best = self.nets["critic"](torch.cat([repeated, actions], -1))[..., 0].argmax(1)
            unit = actions[torch.arange(len(x)), best]
        else:
            outputs = self.nets["actor"](x)
            if self.head == "likely":
                logits = self.nets["imitation"](x)
                likely = torch.exp(logits - logits.amax(-1, keepdim=True)) > self.threshold
                outputs = torch.where(likely, outputs, -torch.inf)
            if self.head in ("argmax", "likely"):
                return outputs.argmax(-1)
            unit = torch.tanh(outputs) if self.head == "tanh" else outputs.clamp(-1, 1)
        return self.middle + self.half * unit


def main():
    path = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    policy = Policy(dict(np.load(path))).eval()
    print(json.dumps({"torch": torch.__version__, "threads": 1}), flush=True)
    with torch.inference_mode():
        for _ in sys.stdin:
            batches, seconds, actions = np.load(path.parent / "batches.npy"), [], np.zeros(0)
            for batch in batches:
                start = time.perf_counter_ns()
                actions = policy(torch.from_numpy(batch)).numpy()
                seconds.append(1e-9 * (time.perf_counter_ns() - start))
            np.save(path.parent / "actions.npy", actions)
            print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
