"""The training loop: whole chunks of updates inside one jitted program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.inert import leave_out_inert
from jaxprune.data.transitions import Transitions
from jaxprune.training.progress import progress_bar

RUNS = "runs"


def sample(transitions: Transitions, key: jax.Array, batch_size: int) -> Transitions:
    """`batch_size` rows drawn uniformly with replacement."""
    return transitions.take(jax.random.randint(key, (batch_size,), 0, transitions.rewards.shape[0]))


def _train_one(agent: Agent, batch_size: int, phase: int, span: int, state: AgentState, key, transitions: Transitions, blocks) -> Any:
    """`blocks` times `span` updates, from a state at `phase` of the agent's period; with more than one block, `span` is that period."""

    def update(state, offset):
        batch_key, noise_key = jax.random.split(jax.random.fold_in(key, state.step))
        batch = sample(transitions, batch_key, batch_size)
        return agent.update_with(state, batch, agent.draw(noise_key, batch_size), phase=(phase + offset) % agent.period)

    def block(state):
        reported: dict[str, list] = {}
        for offset in range(span):
            state, metrics = update(state, offset)
            for name, value in metrics.items():
                reported.setdefault(name, []).append(value)
        return state, {name: sum(values) / len(values) for name, values in reported.items()}

    def add_block(_, carry):
        state, totals = carry
        state, means = block(state)
        return state, jax.tree.map(jnp.add, totals, means)

    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(block, state)[1])
    state, totals = jax.lax.fori_loop(0, blocks, add_block, (state, zeros))
    return state, jax.tree.map(lambda total: total / jnp.maximum(blocks, 1).astype(total.dtype), totals)


@functools.partial(jax.jit, static_argnames=("agent", "batch_size", "phase", "span", "stacked"), donate_argnames=("state",))
def train_blocks(agent, state, key, transitions, blocks, *, batch_size, phase=0, span=1, stacked=None):
    """`blocks` · `span` updates of one run, or of a stack of runs; the state is donated.

    Args:
      agent: static.
      state: of one run; with `stacked`, every leaf has a leading run axis.
      key: of the run, or a stack of them. Update t draws from fold_in(key, t), whatever runs beside it.
      transitions: shared by all runs.
      blocks: a traced int32, so that one compilation serves every length.
      batch_size: rows an update.
      phase: `state.step` modulo `agent.period`.
      span: updates a block, `agent.period` if there is more than one block.
      stacked: None for one run; for a stack `vectorized` (vmap), `sequential` (`lax.map`), or `sharded`, one of these on each device of
        this process, for stacks that `place_runs` has spread.

    Returns:
      The state, and the mean of every metric over the updates that reported it.
    """
    one = functools.partial(_train_one, agent, batch_size, phase, span)
    if stacked is None:
        return one(state, key, transitions, blocks)
    if stacked == "sharded":
        each, every = jax.sharding.PartitionSpec(RUNS), jax.sharding.PartitionSpec()
        stack = functools.partial(_train_stack, one, one_device_strategy())
        return jax.shard_map(stack, mesh=run_mesh(), in_specs=(each, each, every, every), out_specs=each, check_vma=False)(
            state, key, transitions, blocks
        )
    return _train_stack(one, stacked, state, key, transitions, blocks)


def _train_stack(one, strategy: str, state, key, transitions, blocks):
    if strategy == "vectorized":
        return jax.vmap(one, in_axes=(0, 0, None, None))(state, key, transitions, blocks)
    if strategy == "sequential":
        return jax.lax.map(lambda run: one(run[0], run[1], transitions, blocks), (state, key))
    raise ValueError(f"stacked={strategy!r} is unknown; expected None, 'vectorized', 'sequential' or 'sharded'")


def one_device_strategy() -> str:
    """How a stack is stepped on one device of the default backend: one run after the other on a CPU, whose caches hold one run."""
    return "sequential" if jax.default_backend() == "cpu" else "vectorized"


@functools.cache
def run_mesh() -> jax.sharding.Mesh:
    """The devices of this process, along the runs axis."""
    return jax.sharding.Mesh(np.asarray(jax.local_devices()), (RUNS,))


def place_runs(tree: Any, strategy: str | None) -> Any:
    """A tree of stacks where `train_blocks` wants it: with `sharded`, padded by copies of its last run and spread over the devices."""
    if strategy != "sharded":
        return tree
    mesh = run_mesh()

    def padded(leaf):
        missing = -leaf.shape[0] % mesh.size
        return jnp.concatenate([leaf, *[leaf[-1:]] * missing]) if missing else leaf

    return jax.device_put(jax.tree.map(padded, tree), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(RUNS)))


def advance(agent: Agent, state: AgentState, key, transitions: Transitions, steps: int, *, batch_size: int, phase: int, stacked=None):
    """`steps` updates of a run or a stack, in as few programs as the agent's period allows. Donates the state."""
    blocks, rest = divmod(steps, agent.period)
    parts = [(blocks, agent.period)] * bool(blocks) + [(1, rest)] * bool(rest)
    totals: dict[str, Any] = {}
    for count, span in parts:
        state, metrics = train_blocks(
            agent, state, key, transitions, jnp.int32(count), batch_size=batch_size, phase=phase, span=span, stacked=stacked
        )
        add_metrics(totals, metrics, count * span)
    return state, mean_metrics(totals)


def advance_in_pieces(
    agent: Agent,
    state: AgentState,
    key,
    transitions: Transitions,
    steps: int,
    *,
    batch_size: int,
    phase: int,
    stacked=None,
    report: Callable[[int], Any] | None = None,
):
    """`advance`, in pieces of about 1,000 updates where `report` wants to hear of each; the metrics are those of all. Donates."""
    piece = steps if report is None else max(1, 1000 // agent.period) * agent.period
    totals: dict[str, Any] = {}
    for start in range(0, steps, max(piece, 1)):
        now = min(piece, steps - start)
        at = (phase + start) % agent.period
        state, metrics = advance(agent, state, key, transitions, now, batch_size=batch_size, phase=at, stacked=stacked)
        add_metrics(totals, metrics, now)
        if report is not None:
            jax.block_until_ready(state.step)
            report(now)
    return state, mean_metrics(totals)


def add_metrics(totals: dict[str, Any], metrics: dict[str, Any], updates: int) -> None:
    """Add the means over some updates; a network that was not due in them reports nothing and weighs nothing."""
    for name, value in metrics.items():
        summed, weight = totals.get(name, (0, 0))
        totals[name] = (summed + updates * value, weight + updates)


def mean_metrics(totals: dict[str, Any]) -> dict[str, Any]:
    """The mean of each metric over what was added."""
    return {name: summed / weight for name, (summed, weight) in totals.items()}


def train(
    agent: Agent,
    state: AgentState,
    transitions: Transitions,
    *,
    steps: int,
    key: jax.Array,
    batch_size: int | None = None,
    compact: bool = True,
    progress: bool = False,
) -> tuple[AgentState, dict[str, jax.Array]]:
    """Train one agent for `steps` updates.

    The caller's state stays usable: it is copied once, and donated only inside. Update t draws from fold_in(key, t) with t counted from the
    state's first update ever, so two calls of n steps with one key equal one call of 2n.

    A pruned agent is trained without the hidden units that no live path crosses, and given back at the size it had, masks and all. Only
    units that training cannot move are left out (see `leave_out_inert`), so the path is that of masked training up to rounding, for
    optimizers that work element by element without noise. The weights of units left out keep the values they had, whatever weight decay or
    old momentum would have made of them: nothing reads them. After pruning at initialisation with zero biases and ReLU, these are all the
    units that `jaxprune.compact` would remove; later, or with other activations, compacting first makes the arrays smaller still.

    Args:
      agent: the algorithm.
      state: dense or pruned.
      transitions: raw transitions.
      steps: number of updates.
      key: of the run.
      batch_size: rows an update; the config's by default.
      compact: whether to train in smaller arrays; a state of other widths is another compilation.
      progress: show a progress bar where standard error is a terminal.

    Returns:
      The state, and the mean of every metric over the updates, as scalars on the device.

    Raises:
      ValueError: no transitions, or a negative number of steps or rows.
    """
    batch_size = int(agent.config.batch_size if batch_size is None else batch_size)
    if steps < 0 or batch_size < 1:
        raise ValueError(f"expected steps of at least 0 and a batch_size of at least 1, got steps={steps} and batch_size={batch_size}")
    if not transitions.rewards.shape[0]:
        raise ValueError("expected at least one transition to train on, got none")
    put_back = None
    if compact and steps:
        agent, state, put_back = leave_out_inert(agent, state)
    state = jax.tree.map(jnp.copy, state)
    transitions = jax.device_put(transitions)
    phase = int(state.step) % agent.period
    with progress_bar(steps, f"train {agent.name}", disable=not progress) as bar:
        report = bar.update if progress else None
        state, metrics = advance_in_pieces(agent, state, key, transitions, steps, batch_size=batch_size, phase=phase, report=report)
    return (state if put_back is None else put_back(state)), metrics
