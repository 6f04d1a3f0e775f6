"""Which runs share one program: started runs of similar width, stacked along a leading axis."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator

import jax
import jax.numpy as jnp

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.compact import common_widths, compact_runs, full_sizes
from jaxprune.parameters import prunable_size
from jaxprune.training.start import Origin, Start

# Runs merge while padding is less than this share of every one's arrays: seeds of one sparsity do, a sparse run and a dense one do not.
WASTE = 0.2


@dataclasses.dataclass
class Stack:
    """Runs in one program.

    Attributes:
      agent: at the widths that all of them share.
      state: every leaf with a leading run axis.
      origins: of the runs, in order.
    """

    agent: Agent
    state: AgentState
    origins: list[Origin]


def widths_of(agent: Agent) -> dict[str, int]:
    """{"network/group": units} as the agent is now."""
    return {name: dict(agent.widths).get(name, size) for name, size in full_sizes(agent).items()}


@functools.cache
def executed_weights(agent: Agent) -> int:
    """Kernel weights in the agent's arrays, padding and masked ones included: what a forward pass multiplies by."""
    return prunable_size(agent.shapes().params)


def affordable(agent: Agent) -> int:
    """How many runs of an agent fit the device: training a stack takes about three times its state, and half the memory is left alone.

    64 where the device does not tell its memory, as CPUs do not.
    """
    memory = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" not in memory:
        return 64
    each = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(agent.shapes()))
    return max(1, int(memory["bytes_limit"] / 2 / (3 * each)))


def _wasted(starts: list[Start]) -> float:
    """The share of padding in the arrays of that run of a stack which has the most of it."""
    merged = starts[0].agent.with_widths(common_widths([widths_of(start.agent) for start in starts]))
    return 1 - min(executed_weights(start.agent) for start in starts) / executed_weights(merged)


def _moment(start: Start) -> tuple[str, int, int]:
    return start.run.algo, int(start.state.step), start.origin.end


def grouped(starts: Iterable[Start], *, most: int | None = None, merge: bool = True) -> Iterator[list[Start]]:
    """Consecutive runs of one algorithm, start step and end, merged while padding wastes less than a fifth of each.

    At most `most` come together, by default as many as are `affordable`.
    With `merge` off, only runs of the same widths come together: no state is compacted.

    Runs are to come in the order of their widths (a sweep's sparsities), so that neighbours fit together.
    """
    group: list[Start] = []
    for start in starts:
        together = [*group, start]
        same = not group or _moment(group[0]) == _moment(start)
        limit = affordable(start.agent) if most is None else most
        if group and (not same or len(together) > limit or (start.agent != group[0].agent and not (merge and _wasted(together) < WASTE))):
            yield group
            together = [start]
        group = together
    if group:
        yield group


def stack(starts: list[Start]) -> Stack:
    """The runs at their common widths, stacked."""
    if len({start.agent for start in starts}) == 1:
        agent, states = starts[0].agent, [start.state for start in starts]
    else:
        agent, states = compact_runs([(start.agent, start.state) for start in starts])
    return Stack(agent, jax.tree.map(lambda *leaves: jnp.stack(leaves), *states), [start.origin for start in starts])
