"""Several processes, each with its share of the runs: SLURM jobs, TPU pods, or processes started by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeVar

import jax
import numpy as np

T = TypeVar("T")

_PATIENCE_MS = 30 * 24 * 3600 * 1000
# Every process comes to the same barriers in the same order; a name serves once.
_barriers = itertools.count()


def connect(coordinator: str | None = None, processes: int | None = None, index: int | None = None) -> None:
    """Join the other processes; to be called before anything else of JAX.

    Args:
      coordinator: host:port of the first process. None with the others None asks the cluster (SLURM, TPU pods, Open MPI).
      processes: how many there are.
      index: which one this is.

    Raises:
      ValueError: only some of the three are given, or no cluster is found.
    """
    given = (coordinator is not None, processes is not None, index is not None)
    if any(given) and not all(given):
        raise ValueError("expected --coordinator, --processes and --process together, or none of them on a cluster that JAX knows")
    if coordinator is not None and not coordinator.rpartition(":")[2].isdecimal():
        raise ValueError(f"--coordinator={coordinator}: expected host:port of the first process, for example localhost:23456")
    try:
        jax.distributed.initialize(coordinator, processes, index)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"cannot join the other processes: {str(error).splitlines()[0]}") from error


def part() -> int | None:
    """Which process this is, None where it is the only one."""
    return jax.process_index() if jax.process_count() > 1 else None


def own(items: Sequence[T]) -> list[T]:
    """This process's share: every n-th item, so that cheap and dear runs are spread evenly."""
    return list(items[jax.process_index() :: jax.process_count()])


def wait_for_all(name: str) -> None:
    """Come here only when every process has, be it days later: collectives give up after half an hour, this does not."""
    if jax.process_count() > 1:
        from orbax.checkpoint import multihost

        multihost.get_barrier_sync_fn()(key=f"jaxprune {name} {next(_barriers)}", timeout_ms=_PATIENCE_MS)


def first_says(yes: bool = True) -> bool:
    """What the first process says, once every process has come here; of the others, what they pass counts for nothing."""
    if jax.process_count() == 1:
        return yes
    from jax.experimental import multihost_utils

    return bool(multihost_utils.broadcast_one_to_all(np.asarray(yes)))
