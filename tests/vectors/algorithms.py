"""Records `td3_bc.npz`, `iql.npz`, `discrete_bc.npz` and `discrete_bcq.npz`: five updates of each algorithm in PyTorch and float64.

    python tests/vectors/algorithms.py        # needs torch and numpy, nothing of this repository

Written from the papers and the order of updates in their authors' public code. Every file holds the networks and targets before the
first and after the first, second and fifth update (`STEP/NETWORK/…`), the batches and noise (`batch/I/…`, `noise/I/…`) and the
hyper-parameters that differ from the published ones (`meta/…`). A perceptron is kernel (in, out), bias, kernel, …: `k0 b0 k1 b1 k2 b2`.
"""

import itertools
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
S, A, ROWS, HIDDEN, LR, UPDATES, KEPT = 4, 2, 8, (7, 6), 1e-2, 5, (0, 1, 2, 5)


def perceptron(generator, inputs, outputs):
    sizes = (inputs, *HIDDEN, outputs)
    out = []
    for n, m in itertools.pairwise(sizes):
        out += [torch.empty(n, m).uniform_(-1, 1, generator=generator) / math.sqrt(n) * 1.7]
        out += [torch.empty(m).uniform_(-0.3, 0.3, generator=generator)]
    return [p.requires_grad_() for p in out]


def forward(net, x):
    for i in range(0, len(net), 2):
        x = x @ net[i] + net[i + 1]
        if i + 2 < len(net):
            x = torch.relu(x)
    return x


def copied(net):
    return [p.detach().clone() for p in net]


def follow(target, net, tau):
    for t, p in zip(target, net, strict=True):
        t.mul_(1 - tau).add_(p.detach(), alpha=tau)


def step(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def batches(rng, discrete=0):
    for _ in range(UPDATES):
        action = rng.integers(0, discrete, ROWS) if discrete else np.tanh(rng.normal(size=(ROWS, A)))
        yield {
            "observations": rng.normal(size=(ROWS, S)),
            "actions": action,
            "rewards": rng.normal(size=ROWS),
            "next_observations": rng.normal(size=(ROWS, S)),
            "discounts": (rng.random(ROWS) > 0.25).astype(float),
        }


class Recorder:
    def __init__(self, **meta):
        self.arrays = {f"meta/{name}": np.asarray(value) for name, value in meta.items()}

    def networks(self, at, **nets):
        if at not in KEPT:
            return
        for name, net in nets.items():
            for i, p in enumerate(net):
                self.arrays[f"{at}/{name}/{'kb'[i % 2]}{i // 2}"] = p.detach().numpy().copy()

    def inputs(self, at, batch, **noise):
        self.arrays |= {f"batch/{at}/{name}": value for name, value in batch.items()}
        self.arrays |= {f"noise/{at}/{name}": value for name, value in noise.items()}
        return [torch.as_tensor(value) for value in batch.values()]

    def save(self, name):
        np.savez_compressed(pathlib.Path(__file__).with_name(f"{name}.npz"), allow_pickle=False, **self.arrays)


def td3_bc():
    generator, rng = torch.Generator().manual_seed(0), np.random.default_rng(0)
    gamma, tau, sigma, clip, alpha, every = 0.97, 0.05, 0.4, 0.5, 2.5, 2
    q1, q2, actor = perceptron(generator, S + A, 1), perceptron(generator, S + A, 1), perceptron(generator, S, A)
    t1, t2, ta = copied(q1), copied(q2), copied(actor)
    critic_adam, actor_adam = torch.optim.Adam([*q1, *q2], LR), torch.optim.Adam(actor, LR)
    record = Recorder(discount=gamma, tau=tau, policy_noise=sigma, noise_clip=clip, alpha=alpha, policy_every=every)

    def keep(at):
        record.networks(at, q1=q1, q2=q2, actor=actor, q1_target=t1, q2_target=t2, actor_target=ta)

    keep(0)
    for i, batch in enumerate(batches(rng)):
        normal = rng.normal(size=(ROWS, A)) * 1.5
        s, a, r, s2, live = record.inputs(i, batch, target_actions=normal)
        with torch.no_grad():
            a2 = (torch.tanh(forward(ta, s2)) + (sigma * torch.as_tensor(normal)).clamp(-clip, clip)).clamp(-1, 1)
            x2 = torch.cat([s2, a2], 1)
            y = r[:, None] + gamma * live[:, None] * torch.minimum(forward(t1, x2), forward(t2, x2))
        x = torch.cat([s, a], 1)
        step(critic_adam, F.mse_loss(forward(q1, x), y) + F.mse_loss(forward(q2, x), y))
        if (i + 1) % every == 0:
            pi = torch.tanh(forward(actor, s))
            q = forward(q1, torch.cat([s, pi], 1))
            step(actor_adam, -(alpha / q.abs().mean().detach()) * q.mean() + F.mse_loss(pi, a))
            for target, net in ((t1, q1), (t2, q2), (ta, actor)):
                follow(target, net, tau)
        keep(i + 1)
    record.save("td3_bc")


def iql():
    generator, rng = torch.Generator().manual_seed(1), np.random.default_rng(1)
    gamma, tau, expectile, beta, bound, steps, scale = 0.97, 0.05, 0.7, 3.0, 2.0, 8, 1.5
    q1, q2 = perceptron(generator, S + A, 1), perceptron(generator, S + A, 1)
    value, actor = perceptron(generator, S, 1), perceptron(generator, S, A)
    log_std = torch.tensor([0.2, -5.5], requires_grad=True)  # the second is below its bound of −5
    t1, t2 = copied(q1), copied(q2)
    value_adam, critic_adam = torch.optim.Adam(value, LR), torch.optim.Adam([*q1, *q2], LR)
    actor_adam = torch.optim.Adam([*actor, log_std], LR)
    cosine = torch.optim.lr_scheduler.LambdaLR(actor_adam, lambda n: 0.5 * (1 + math.cos(math.pi * min(n, steps) / steps)))
    record = Recorder(
        discount=gamma, tau=tau, expectile=expectile, temperature=beta, weight_clip=bound, max_steps=steps, reward_scale=scale
    )

    def keep(at):
        record.networks(at, q1=q1, q2=q2, value=value, actor=actor, q1_target=t1, q2_target=t2)
        if at in KEPT:
            record.arrays[f"{at}/log_std"] = log_std.detach().numpy().copy()

    keep(0)
    for i, batch in enumerate(batches(rng)):
        s, a, r, s2, live = record.inputs(i, batch)
        x = torch.cat([s, a], 1)
        with torch.no_grad():
            q = torch.minimum(forward(t1, x), forward(t2, x))[:, 0]
        u = q - forward(value, s)[:, 0]
        step(value_adam, (torch.abs(expectile - (u <= 0).double()) * u**2).mean())
        with torch.no_grad():
            weight = torch.exp(beta * (q - forward(value, s)[:, 0])).clamp(max=bound)
        assert i > 0 or 0 < (weight == bound).sum() < ROWS
        normal = torch.distributions.Normal(torch.tanh(forward(actor, s)), torch.exp(log_std.clamp(-5, 2)))
        step(actor_adam, -(weight * normal.log_prob(a).sum(1)).mean())
        cosine.step()
        with torch.no_grad():
            y = scale * r + gamma * live * forward(value, s2)[:, 0]
        step(critic_adam, F.mse_loss(forward(q1, x)[:, 0], y) + F.mse_loss(forward(q2, x)[:, 0], y))
        follow(t1, q1, tau)
        follow(t2, q2, tau)
        keep(i + 1)
    record.save("iql")


def discrete_bc(actions=3):
    generator, rng = torch.Generator().manual_seed(2), np.random.default_rng(2)
    policy = perceptron(generator, S, actions)
    adam = torch.optim.Adam(policy, LR)
    record = Recorder()
    record.networks(0, policy=policy)
    for i, batch in enumerate(batches(rng, actions)):
        s, a, *_ = record.inputs(i, batch)
        step(adam, F.cross_entropy(forward(policy, s), a))
        record.networks(i + 1, policy=policy)
    record.save("discrete_bc")


def discrete_bcq(actions=3):
    generator, rng = torch.Generator().manual_seed(3), np.random.default_rng(3)
    gamma, tau, threshold, penalty = 0.97, 0.05, 0.7, 1e-2
    critic, imitation = perceptron(generator, S, actions), perceptron(generator, S, actions)
    target = copied(critic)
    adam = torch.optim.Adam([*critic, *imitation], LR)  # one module and one optimizer, as the authors have it
    record = Recorder(discount=gamma, tau=tau, threshold=threshold)
    record.networks(0, critic=critic, imitation=imitation, critic_target=target)
    differing = 0
    for i, batch in enumerate(batches(rng, actions)):
        batch["rewards"] *= 2  # errors on both sides of Huber's bend
        s, a, r, s2, live = record.inputs(i, batch)
        with torch.no_grad():
            likely = F.softmax(forward(imitation, s2), 1)
            likely = likely / likely.max(1, keepdim=True).values > threshold
            q2 = forward(critic, s2)
            best = q2.masked_fill(~likely, -math.inf).argmax(1)
            differing += int((best != q2.argmax(1)).sum())
            y = r + gamma * live * forward(target, s2).gather(1, best[:, None])[:, 0]
        q = forward(critic, s).gather(1, a[:, None])[:, 0]
        logits = forward(imitation, s)
        assert i > 0 or 0 < ((q - y).abs() > 1).sum() < ROWS
        step(adam, F.smooth_l1_loss(q, y) + F.cross_entropy(logits, a) + penalty * logits.pow(2).mean())
        follow(target, critic, tau)
        record.networks(i + 1, critic=critic, imitation=imitation, critic_target=target)
    assert differing > 3
    record.save("discrete_bcq")


if __name__ == "__main__":
    td3_bc(), iql(), discrete_bc(), discrete_bcq()
