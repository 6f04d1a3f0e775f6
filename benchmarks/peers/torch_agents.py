"""BC and BCQ steps in idiomatic PyTorch: the peer of `benchmarks/steps.py`.

Dense, on the CPU, with the data already in tensors. `python benchmarks/peers/torch_agents.py` checks the BCQ step against the recorded
steps of `tests/vectors/bcq.npz`; needs only torch and numpy.
"""

from __future__ import annotations

import copy
import itertools
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class MLP(nn.Sequential):
    def __init__(self, *sizes: int):
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        super().__init__(*layers[:-1])


class Actor(nn.Module):
    def __init__(self, observation_size: int, action_size: int, hidden: tuple[int, ...], phi: float):
        super().__init__()
        self.network, self.phi = MLP(observation_size + action_size, *hidden, action_size), phi

    def forward(self, observations, actions):
        moved = self.phi * torch.tanh(self.network(torch.cat([observations, actions], 1)))
        return (actions + moved).clamp(-1, 1)


class Critic(nn.Module):
    def __init__(self, observation_size: int, action_size: int, hidden: tuple[int, ...]):
        super().__init__()
        self.first, self.second = (MLP(observation_size + action_size, *hidden, 1) for _ in range(2))

    def forward(self, observations, actions):
        both = torch.cat([observations, actions], 1)
        return self.first(both), self.second(both)

    def q1(self, observations, actions):
        return self.first(torch.cat([observations, actions], 1))


class VAE(nn.Module):
    def __init__(self, observation_size: int, action_size: int, latent: int, hidden: tuple[int, ...]):
        super().__init__()
        self.encoder = nn.Sequential(*MLP(observation_size + action_size, *hidden), nn.ReLU())
        self.mean, self.log_std = nn.Linear(hidden[-1], latent), nn.Linear(hidden[-1], latent)
        self.decoder = MLP(observation_size + latent, *reversed(hidden), action_size)

    def forward(self, observations, actions, eps):
        z = self.encoder(torch.cat([observations, actions], 1))
        mean, std = self.mean(z), self.log_std(z).clamp(-4, 15).exp()
        return self.decode(observations, mean + std * eps), mean, std

    def decode(self, observations, z):
        return torch.tanh(self.decoder(torch.cat([observations, z], 1)))


class BCQ:
    def __init__(
        self,
        observation_size: int,
        action_size: int,
        *,
        hidden: tuple[int, ...] = (400, 300),
        vae_hidden: tuple[int, ...] = (750, 750),
        discount: float = 0.99,
        tau: float = 0.005,
        mixture: float = 0.75,
        phi: float = 0.05,
        candidates: int = 10,
        latent_clip: float = 0.5,
        learning_rate: float = 1e-3,
    ):
        self.latent = 2 * action_size
        self.actor = Actor(observation_size, action_size, hidden, phi)
        self.critic = Critic(observation_size, action_size, hidden)
        self.vae = VAE(observation_size, action_size, self.latent, vae_hidden)
        self.actor_target, self.critic_target = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.optimizers = {name: torch.optim.Adam(getattr(self, name).parameters(), learning_rate) for name in ("vae", "critic", "actor")}
        self.discount, self.tau, self.mixture, self.candidates, self.clip = discount, tau, mixture, candidates, latent_clip

    def step(self, observations, actions, rewards, following, not_done, *, noise=None):
        size = len(observations)
        if noise is None:
            noise = {
                "eps": torch.randn(size, self.latent),
                "next": torch.randn(size * self.candidates, self.latent),
                "now": torch.randn(size, self.latent),
            }
        reconstruction, mean, std = self.vae(observations, actions, noise["eps"])
        kl = -0.5 * (1 + torch.log(std.pow(2)) - mean.pow(2) - std.pow(2)).mean()
        self._descend("vae", F.mse_loss(reconstruction, actions) + 0.5 * kl)

        with torch.no_grad():
            repeated = torch.repeat_interleave(following, self.candidates, 0)
            proposed = self.vae.decode(repeated, noise["next"].clamp(-self.clip, self.clip))
            q1, q2 = self.critic_target(repeated, self.actor_target(repeated, proposed))
            mixed = self.mixture * torch.min(q1, q2) + (1 - self.mixture) * torch.max(q1, q2)
            target = rewards + not_done * self.discount * mixed.reshape(size, -1).max(1)[0].reshape(-1, 1)
        q1, q2 = self.critic(observations, actions)
        self._descend("critic", F.mse_loss(q1, target) + F.mse_loss(q2, target))

        with torch.no_grad():
            sampled = self.vae.decode(observations, noise["now"].clamp(-self.clip, self.clip))
        self._descend("actor", -self.critic.q1(observations, self.actor(observations, sampled)).mean())
        with torch.no_grad():
            for network, target_network in ((self.critic, self.critic_target), (self.actor, self.actor_target)):
                for source, slow in zip(network.parameters(), target_network.parameters(), strict=True):
                    slow.mul_(1 - self.tau).add_(self.tau * source)

    def _descend(self, name, loss):
        optimizer = self.optimizers[name]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


class BC:
    def __init__(self, observation_size: int, action_size: int, *, hidden: tuple[int, ...] = (256, 256), learning_rate: float = 1e-3):
        self.network = MLP(observation_size, *hidden, action_size)
        self.optimizer = torch.optim.Adam(self.network.parameters(), learning_rate)

    def step(self, observations, actions, rewards, following, not_done):
        loss = F.mse_loss(torch.tanh(self.network(observations)), actions)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class Log:
    """Transitions in tensors, sampled uniformly with replacement."""

    def __init__(self, observations, actions, rewards, following, not_done):
        tensors = (observations, actions, np.reshape(rewards, (-1, 1)), following, np.reshape(not_done, (-1, 1)))
        self.tensors = [torch.as_tensor(np.asarray(array, np.float32)) for array in tensors]

    def sample(self, rows: int):
        index = torch.randint(len(self.tensors[0]), (rows,))
        return [tensor[index] for tensor in self.tensors]


def check(path: pathlib.Path) -> float:
    """Five steps against the recorded ones; the largest relative difference over all parameters."""
    recorded = np.load(path)
    torch.set_default_dtype(torch.float64)
    agent = BCQ(5, 2, hidden=(16, 12), vae_hidden=(20, 20))
    names = {
        "actor": {"l1": "network.0", "l2": "network.2", "l3": "network.4"},
        "critic": {f"l{i + 1}": f"{'first' if i < 3 else 'second'}.{2 * (i % 3)}" for i in range(6)},
        "vae": {
            **{"e1": "encoder.0", "e2": "encoder.2", "mean": "mean", "log_std": "log_std"},
            **{f"d{i + 1}": f"decoder.{2 * i}" for i in range(3)},
        },
    }
    worst = 0.0

    def visit(step, load):
        nonlocal worst
        for network, layers in names.items():
            for suffix in ("", "_target") if network != "vae" else ("",):
                state = getattr(agent, network + suffix).state_dict()
                for theirs, ours in layers.items():
                    for kind in ("weight", "bias"):
                        array = recorded[f"step/{step}/{network}{suffix}/{theirs}.{kind}"]
                        array = torch.as_tensor(array.T if kind == "weight" else array)
                        if load:
                            state[f"{ours}.{kind}"].copy_(array)
                        else:
                            difference = (state[f"{ours}.{kind}"] - array).abs().max() / array.abs().max()
                            worst = max(worst, difference.item())

    visit(0, load=True)
    for i in range(5):
        columns = ("observations", "actions", "rewards", "next_observations", "not_done")
        batch = [torch.as_tensor(recorded[f"batch/{i}/{column}"]) for column in columns]
        keys = {"eps": "vae_eps", "next": "next_latent_unclipped", "now": "latent_unclipped"}
        agent.step(*batch, noise={ours: torch.as_tensor(recorded[f"noise/{i}/{theirs}"]) for ours, theirs in keys.items()})
        if i in (0, 4):
            visit(i + 1, load=False)
    torch.set_default_dtype(torch.float32)
    return worst


if __name__ == "__main__":
    difference = check(pathlib.Path(__file__).parents[2] / "tests" / "vectors" / "bcq.npz")
    print(f"largest relative difference to the recorded BCQ steps: {difference:.1e}")
    if difference > 1e-7:
        raise SystemExit("the PyTorch peer does not make the recorded steps")
