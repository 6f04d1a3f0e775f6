"""What an algorithm is, and the one update that trains every algorithm, dense or sparse."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax

from jaxprune.agents.deployment import Deployment
from jaxprune.data.transitions import Spec, Statistics, Transitions
from jaxprune.objective import Objective
from jaxprune.parameters import UnitGroup, apply_masks, prunable_size
from jaxprune.pruning.masks import dense_masks


class AgentState(flax.struct.PyTreeNode):
    """Everything that training changes; all dicts are by network.

    Attributes:
      params: parameters; a masked weight is exactly 0.0.
      targets: slowly following copies, of the networks that have one.
      opt_state: optimizer states.
      masks: booleans with the structure of `params`, True where kept and where not prunable.
      statistics: of the raw observations; zero mean and unit deviation where normalisation is off.
      units: {network: {unit group: original index of each unit, int32 [size] or [members, size]}}; −1 marks padding.
      total: int32, number of prunable weights before any compaction.
      step: int32, updates made.
    """

    params: dict[str, Any]
    targets: dict[str, Any]
    opt_state: dict[str, Any]
    masks: dict[str, Any]
    statistics: Statistics
    units: dict[str, dict[str, jax.Array]]
    total: dict[str, jax.Array]
    step: jax.Array


class Context(flax.struct.PyTreeNode):
    """What one network's loss may read of the agent, all held fixed.

    Attributes:
      params: of every network. The network's own are there for `prepare` (the greedy action in a target, say): only those handed to
        `predict` are differentiated.
      targets: of the networks that have one.
      statistics: of the raw observations.
    """

    params: dict[str, Any]
    targets: dict[str, Any]
    statistics: Statistics


class Policy(flax.struct.PyTreeNode):
    """What acting needs: parameters of every network and the observation statistics."""

    params: dict[str, Any]
    statistics: Statistics


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """One trainable network of an algorithm: its loss, and how it is updated.

    Attributes:
      init: key -> parameters.
      objective: the loss. Its `prepare` receives standardised transitions (see `standardize`) and a `Context`.
      optimizer: any optax gradient transformation.
      groups: hidden layers whose units can be removed.
      chains: path prefixes of the multilayer perceptrons in it; each is ranked by itself.
      members: number of stacked networks, 0 for one.
      tau: step of the target towards the parameters, None without a target.
      every: updated in every so many-th step: after step + 1 = every, 2·every, …
      target_every: likewise for the target.
      monitor: (outputs, rows) -> {name: scalar} reported beside the loss.
    """

    init: Callable[[jax.Array], Any]
    objective: Objective
    optimizer: optax.GradientTransformation
    groups: tuple[UnitGroup, ...] = ()
    chains: tuple[str, ...] = ("",)
    members: int = 0
    tau: float | None = None
    every: int = 1
    target_every: int = 1
    monitor: Callable[[Any, Any], dict[str, jax.Array]] | None = None


@dataclasses.dataclass(frozen=True)
class Agent:
    """An algorithm for one kind of environment. It may be static under jit.

    Two agents are equal when name, spec, config and widths are, and their networks and functions are the same ones: constructors are
    cached, so that equal settings give one object, and an agent changed by hand equals no other.

    Attributes:
      name: of the algorithm.
      spec: observation and action sizes and bounds.
      config: the algorithm's frozen dataclass.
      widths: ((unit group, size), …) after compaction, empty when at full size.
      networks: in update order.
      draw_rows: (key, n) -> noise, a dict of arrays with n rows.
      choose: (params, standardised observations [n, S], key) -> unit actions [n, A] in [−1, 1], or [n] int32.
      build: (spec, config, widths) -> Agent, cached.
      deployment: what `choose` computes, as data, for exports; None where it cannot be exported.
    """

    name: str
    spec: Spec
    config: Any
    widths: tuple[tuple[str, int], ...] = ()
    networks: dict[str, Network] = dataclasses.field(kw_only=True, hash=False, repr=False)
    draw_rows: Callable[[jax.Array, int], dict[str, jax.Array]] = dataclasses.field(kw_only=True, hash=False, repr=False)
    choose: Callable[[Any, jax.Array, jax.Array], jax.Array] = dataclasses.field(kw_only=True, hash=False, repr=False)
    build: Callable[..., Agent] = dataclasses.field(kw_only=True, hash=False, repr=False)
    deployment: Deployment | None = dataclasses.field(default=None, kw_only=True, hash=False, repr=False)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Agent):
            return NotImplemented
        if (self.name, self.spec, self.config, self.widths) != (other.name, other.spec, other.config, other.widths):
            return False
        parts = ("draw_rows", "choose", "build", "deployment")
        same = all(getattr(self, part) is getattr(other, part) for part in parts)
        # By identity: a network's objective may hold arrays, which have no one truth value.
        return same and self.order == other.order and all(other.networks[name] is network for name, network in self.networks.items())

    @property
    def order(self) -> tuple[str, ...]:
        """Networks in update order."""
        return tuple(self.networks)

    @property
    def optimizers(self) -> dict[str, optax.GradientTransformation]:
        """One per network."""
        return {name: network.optimizer for name, network in self.networks.items()}

    @property
    def targets(self) -> dict[str, float]:
        """{network: tau} of the networks that have a target."""
        return {name: network.tau for name, network in self.networks.items() if network.tau is not None}

    @property
    def every(self) -> dict[str, int]:
        """{network: update period}."""
        return {name: network.every for name, network in self.networks.items()}

    @property
    def period(self) -> int:
        """Updates after which the pattern of `every` repeats."""
        return math.lcm(*(n for network in self.networks.values() for n in (network.every, network.target_every)))

    def groups(self, name: str) -> tuple[UnitGroup, ...]:
        """Unit groups of a network."""
        return self.networks[name].groups

    def with_widths(self, widths: Any) -> Agent:
        """The same algorithm with other hidden sizes, given as {unit group "network/group": size} or its items."""
        items = widths.items() if isinstance(widths, dict) else widths
        return self.build(self.spec, self.config, tuple(sorted(items)))

    def init(self, key: jax.Array, statistics: Statistics, *, optimizers: bool = True) -> AgentState:
        """A dense state at step 0. Targets are copies, so that the state may be donated.

        Args:
          key: for the parameters.
          statistics: of the raw observations.
          optimizers: False leaves `opt_state` empty, for `restart_optimizers` to fill once the arrays are small.
        """
        params = {name: net.init(jax.random.fold_in(key, i)) for i, (name, net) in enumerate(self.networks.items())}
        dtype = jnp.result_type(*jax.tree.leaves(params))
        if getattr(self.config, "normalize", True):
            statistics = Statistics(jnp.array(statistics.mean, dtype), jnp.array(statistics.std, dtype))
        else:
            size = self.spec.observation_size
            statistics = Statistics(jnp.zeros(size, dtype), jnp.ones(size, dtype))
        return AgentState(
            params=params,
            targets={name: jax.tree.map(jnp.copy, params[name]) for name in self.targets},
            opt_state={name: network.optimizer.init(params[name]) for name, network in self.networks.items() if optimizers},
            masks={name: dense_masks(params[name]) for name in params},
            statistics=statistics,
            units={name: {group.name: _original_units(group) for group in network.groups} for name, network in self.networks.items()},
            total={name: jnp.asarray(prunable_size(params[name]), jnp.int32) for name in params},
            step=jnp.zeros((), jnp.int32),
        )

    def shapes(self) -> AgentState:
        """A state's shapes and dtypes, without its arrays."""
        size = self.spec.observation_size
        return jax.eval_shape(lambda: self.init(jax.random.key(0), Statistics(jnp.zeros(size), jnp.ones(size))))

    def restart_optimizers(self, state: AgentState, networks: Sequence[str] | None = None) -> AgentState:
        """The state with fresh optimizer states, of all networks or of those named; a learning rate's schedule goes on where it was."""
        names = self.order if networks is None else networks
        fresh = {name: self.networks[name].optimizer.init(state.params[name]) for name in names}
        fresh = {name: _with_schedule(new, state.opt_state[name]) if name in state.opt_state else new for name, new in fresh.items()}
        return dataclasses.replace(state, opt_state={**state.opt_state, **fresh})

    def policy(self, state: AgentState) -> Policy:
        """The part of a state that acts. It shares the state's arrays."""
        return Policy(state.params, state.statistics)

    def draw(self, key: jax.Array, n: int) -> dict[str, jax.Array]:
        """The noise of one update of n rows: a dict of arrays [n, …]."""
        return self.draw_rows(key, n)

    def objective(self, name: str, state: AgentState) -> Objective:
        """The loss of one network, the others held fixed. Its `rows` take a raw batch."""
        return _standardized(self, name).replace(context=Context(state.params, state.targets, state.statistics))

    def update(self, state: AgentState, batch: Transitions, key: jax.Array) -> tuple[AgentState, dict[str, jax.Array]]:
        """`update_with` on freshly drawn noise."""
        return self.update_with(state, batch, self.draw(key, batch.rewards.shape[0]))

    def update_with(
        self, state: AgentState, batch: Transitions, noise: Any, *, phase: int | None = None
    ) -> tuple[AgentState, dict[str, jax.Array]]:
        """One update of every network that is due, in order, then of the targets.

        Gradients are masked before clipping and moments, updates after weight decay: a masked weight stays exactly 0.0 whatever
        the optimizer.

        Args:
          state: the state before.
          batch: raw transitions, B rows.
          noise: as `draw` gives it, B rows.
          phase: `state.step` modulo `period` where the caller knows it at trace time, which spares a `lax.cond`.

        Returns:
          The state after, and the losses {name: scalar}; those of a network that was not due are missing, or NaN without `phase`.
        """
        metrics: dict[str, jax.Array] = {}
        for name, network in self.networks.items():
            step = functools.partial(self._update_network, name, batch=batch, noise=noise)
            state, reported = _when_due(network.every, state, phase, step, _skipped(step, traced=phase is None))
            metrics |= reported
        for name, network in self.networks.items():
            if network.tau is not None:
                follow = functools.partial(_follow, name, network.tau)
                state = _when_due(network.target_every, state, phase, follow, lambda s: s)
        return state.replace(step=state.step + 1), metrics

    def _update_network(self, name: str, state: AgentState, *, batch: Transitions, noise: Any) -> tuple[AgentState, dict[str, jax.Array]]:
        network = self.networks[name]
        objective = self.objective(name, state)
        rows = objective.rows(batch, noise)
        params, masks = state.params[name], state.masks[name]

        def mean_loss(p):
            outputs = objective.outputs(p, rows)
            return jnp.mean(objective.loss(outputs, rows, objective.context)), outputs

        (loss, outputs), gradient = jax.value_and_grad(mean_loss, has_aux=True)(params)
        updates, opt_state = network.optimizer.update(apply_masks(gradient, masks), state.opt_state[name], params)
        params = optax.apply_updates(params, apply_masks(updates, masks))
        state = state.replace(params={**state.params, name: params}, opt_state={**state.opt_state, name: opt_state})
        metrics = {f"{name}_loss": loss}
        if network.monitor is not None:
            metrics |= network.monitor(outputs, rows)
        return state, metrics

    def act(self, policy: Policy, observations: jax.Array, key: jax.Array) -> jax.Array:
        """Actions in environment units, [n, A] float or [n] int32, for raw observations [n, S]."""
        standard = (observations - policy.statistics.mean) / policy.statistics.std
        actions = self.choose(policy.params, standard, key)
        return actions if self.spec.discrete else from_unit(self.spec, actions)


def _with_schedule(fresh: Any, before: Any) -> Any:
    def is_schedule(part: Any) -> bool:
        return isinstance(part, optax.ScaleByScheduleState)

    return jax.tree.map(lambda new, old: old if is_schedule(new) else new, fresh, before, is_leaf=is_schedule)


def _skipped(step: Callable, *, traced: bool) -> Callable:
    """What takes the place of a network's update in a step at which it is not due."""

    def skip(state):
        if not traced:
            return state, {}
        shapes = jax.eval_shape(step, state)[1]
        return state, jax.tree.map(lambda x: jnp.full(x.shape, jnp.nan, x.dtype), shapes)

    return skip


def _when_due(every: int, state: AgentState, phase: int | None, do: Callable, otherwise: Callable) -> Any:
    """`do(state)` at every so many-th step, `otherwise(state)` at the rest; decided while tracing where that is possible."""
    if every == 1:
        return do(state)
    if phase is not None:
        return do(state) if (phase + 1) % every == 0 else otherwise(state)
    return jax.lax.cond((state.step + 1) % every == 0, do, otherwise, state)


def _follow(name: str, tau: float, state: AgentState) -> AgentState:
    target = jax.tree.map(lambda p, t: tau * p + (1 - tau) * t, state.params[name], state.targets[name])
    return state.replace(targets={**state.targets, name: target})


def _original_units(group: UnitGroup) -> jax.Array:
    units = jnp.arange(group.size, dtype=jnp.int32)
    return jnp.tile(units, (group.members, 1)) if group.members else units


def _scale(spec: Spec, dtype: Any) -> tuple[jax.Array, jax.Array]:
    low, high = jnp.asarray(spec.low, dtype), jnp.asarray(spec.high, dtype)
    return (high + low) / 2, (high - low) / 2


def to_unit(spec: Spec, actions: jax.Array) -> jax.Array:
    """Environment units to [−1, 1]."""
    middle, half = _scale(spec, actions.dtype)
    return (actions - middle) / half


def from_unit(spec: Spec, actions: jax.Array) -> jax.Array:
    """[−1, 1] to environment units."""
    middle, half = _scale(spec, actions.dtype)
    return middle + half * actions


def standardize(spec: Spec, batch: Transitions, statistics: Statistics) -> Transitions:
    """Observations with zero mean and unit deviation, continuous actions in [−1, 1]."""
    return batch.replace(
        observations=(batch.observations - statistics.mean) / statistics.std,
        next_observations=(batch.next_observations - statistics.mean) / statistics.std,
        actions=batch.actions if spec.discrete else to_unit(spec, batch.actions),
    )


@functools.cache
def _standardized(agent: Agent, name: str) -> Objective:
    """The network's objective with raw batches accepted: cached, so that its functions are one object and compile once."""
    inner = agent.networks[name].objective

    def prepare(batch, noise, context):
        return inner.prepare(standardize(agent.spec, batch, context.statistics), noise, context)

    return inner.replace(prepare=prepare)


def refuse_discrete(name: str, spec: Spec) -> None:
    """A ValueError where an algorithm for continuous actions is given discrete ones."""
    if spec.discrete:
        raise ValueError(
            f"{name} needs continuous actions, but this data set has {spec.action_size} discrete ones; use discrete_bc or discrete_bcq"
        )


def refuse_continuous(name: str, spec: Spec) -> None:
    """A ValueError where an algorithm for discrete actions is given continuous ones."""
    if not spec.discrete:
        raise ValueError(
            f"{name} needs discrete actions, but those of this data set are vectors of {spec.action_size} numbers; use bc, bcq, td3_bc "
            "or iql"
        )


def sized(widths: tuple[tuple[str, int], ...], network: str, hidden: tuple[int, ...], *, prefix: str = "") -> tuple[int, ...]:
    """Hidden sizes of one perceptron after compaction: `widths` where it names a layer, else `hidden`."""
    known = dict(widths)
    root = f"{network}/{prefix}/" if prefix else f"{network}/"
    return tuple(known.get(f"{root}Dense_{index}", size) for index, size in enumerate(hidden))
