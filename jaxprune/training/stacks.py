"""Which runs share one program: started runs of similar width, stacked along a leading axis."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator

import jax
import jax.numpy as jnp

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.compact import common_widths, compact_runs, full_sizes
from jaxprune.data.transitions import Statistics
from jaxprune.parameters import prunable_size
from jaxprune.training.start import Start

# Groups of runs merge while less than this share of the merged arrays is padding.
WASTE = 0.25


@dataclasses.dataclass
class Stack:
    """Runs in one program.

    Attributes:
      agent: at the widths that all of them share.
      state: every leaf with a leading run axis.
      starts: of the runs, in order.
    """

    agent: Agent
    state: AgentState
    starts: list[Start]


def widths_of(agent: Agent) -> dict[str, int]:
    """{"network/group": units} as the agent is now."""
    return {name: dict(agent.widths).get(name, size) for name, size in full_sizes(agent).items()}


@functools.cache
def executed_weights(agent: Agent) -> int:
    """Kernel weights in the agent's arrays, padding and masked ones included: what a forward pass multiplies by."""
    size = agent.spec.observation_size
    shapes = jax.eval_shape(lambda: agent.init(jax.random.key(0), Statistics(jnp.zeros(size), jnp.ones(size))).params)
    return prunable_size(shapes)


def _wasted(starts: list[Start]) -> float:
    """The share of padding in the arrays of a stack of these runs."""
    merged = starts[0].agent.with_widths(common_widths([widths_of(start.agent) for start in starts]))
    return 1 - sum(executed_weights(start.agent) for start in starts) / (len(starts) * executed_weights(merged))


def grouped(starts: Iterable[Start], *, most: int, merge: bool = True) -> Iterator[list[Start]]:
    """Consecutive runs of one algorithm and start step, merged while padding wastes less than a quarter, at most `most` at a time.

    With `merge` off, only runs of the same widths come together: no state is compacted.

    Runs are to come in the order of their widths (a sweep's sparsities), so that neighbours fit together.
    """
    group: list[Start] = []
    for start in starts:
        together = [*group, start]
        same = not group or (group[0].run.algo == start.run.algo and int(group[0].state.step) == int(start.state.step))
        if group and (not same or len(together) > most or (start.agent != group[0].agent and not (merge and _wasted(together) < WASTE))):
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
    return Stack(agent, jax.tree.map(lambda *leaves: jnp.stack(leaves), *states), starts)
