"""Runs training steps of a PyTorch agent when asked: a line `N` on standard input runs N steps and prints the seconds they took."""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from torch_agents import BC, BCQ, Log


def main() -> None:
    name, path, rows, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    with np.load(path) as file:
        log = Log(*(file[key] for key in ("observations", "actions", "rewards", "next_observations", "discounts")))
    sizes = log.tensors[0].shape[1], log.tensors[1].shape[1]
    agent = {"bc": BC, "bcq": BCQ}[name](*sizes)
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            agent.step(*log.sample(rows))
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
