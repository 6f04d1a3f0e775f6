"""A policy as plain arrays: standardisation, perceptrons, head, action scaling. Every format is written from it."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.deployment import CandidatePolicy, LikelyPolicy
from jaxprune.data.transitions import Spec
from jaxprune.parameters import path_name
from jaxprune.pruning.compaction import compact_tree

ACTIVATIONS = ("relu", "tanh")


@dataclasses.dataclass(frozen=True)
class Layer:
    """One dense layer.

    Attributes:
      weight: [in, out] float32, exactly 0.0 where removed.
      kept: [in, out] bool.
      bias: [out] float32.
    """

    weight: np.ndarray
    kept: np.ndarray
    bias: np.ndarray


@dataclasses.dataclass(frozen=True)
class Perceptron:
    """Dense layers with an activation between them and none after the last.

    Attributes:
      layers: without dead units.
      activation: one of ACTIVATIONS.
      units: of each hidden layer, the original index of every unit, int32; −1 for padding.
      sizes: original widths, input and output included.
    """

    layers: tuple[Layer, ...]
    activation: str
    units: tuple[np.ndarray, ...]
    sizes: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class ExportedPolicy:
    """What is deployed.

    Attributes:
      algorithm: its name.
      spec: sizes and bounds.
      mean, std: of the raw observations, [S] float32.
      head: `tanh`, `clip`, `argmax`, `likely` or `candidates`.
      perceptrons: `actor`; with candidates also `decoder` and `critic`, with `likely` also `imitation` (the actor being the values).
      latents: [K, L] float32, clipped: the table that stands for fresh draws; None without candidates.
      phi: bound of the perturbation of candidates.
      seed: of the latents.
      threshold: of `likely` actions.
    """

    algorithm: str
    spec: Spec
    mean: np.ndarray
    std: np.ndarray
    head: str
    perceptrons: dict[str, Perceptron]
    latents: np.ndarray | None = None
    phi: float = 0.0
    seed: int = 0
    threshold: float = 0.0

    def act(self, observations: Any, xp: Any = np) -> Any:
        """Actions in environment units [n, A], or indices [n] int32, for raw observations [n, S]; computed by NumPy or `jax.numpy`."""
        x = (observations - self.mean) / self.std
        if self.latents is None:
            outputs = forward(self.perceptrons["actor"], x, xp)
            if self.head == "likely":
                outputs = xp.where(self.likelihood(x, xp) > np.asarray(self.threshold, x.dtype), outputs, -np.inf)
            if self.head in ("argmax", "likely"):
                return xp.argmax(outputs, axis=-1).astype(np.int32)
            unit = xp.tanh(outputs) if self.head == "tanh" else xp.clip(outputs, -1, 1)
        else:
            actions, values = self.candidates(x, xp)
            unit = xp.take_along_axis(actions, xp.argmax(values, axis=-1)[:, None, None], axis=1)[:, 0]
        middle, half = self.scale()
        return middle + half * unit

    def likelihood(self, standard: Any, xp: Any = np) -> Any:
        """Probabilities over the largest of them [n, A], for standardised observations [n, S]."""
        logits = forward(self.perceptrons["imitation"], standard, xp)
        return xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))

    def candidates(self, standard: Any, xp: Any = np) -> tuple[Any, Any]:
        """Unit actions [n, K, A] and their values [n, K], for standardised observations [n, S]."""
        assert self.latents is not None
        n, (count, latent) = standard.shape[0], self.latents.shape
        observations = xp.broadcast_to(standard[:, None], (n, count, standard.shape[1]))
        latents = xp.broadcast_to(xp.asarray(self.latents)[None], (n, count, latent))
        decoded = xp.tanh(forward(self.perceptrons["decoder"], xp.concatenate([observations, latents], axis=-1), xp))
        moved = xp.tanh(forward(self.perceptrons["actor"], xp.concatenate([observations, decoded], axis=-1), xp))
        actions = xp.clip(decoded + np.asarray(self.phi, decoded.dtype) * moved, -1, 1)
        return actions, forward(self.perceptrons["critic"], xp.concatenate([observations, actions], axis=-1), xp)[..., 0]

    def scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Middle and half width of every action feature's range, in the dtype of `mean`."""
        low, high = np.asarray(self.spec.low, self.mean.dtype), np.asarray(self.spec.high, self.mean.dtype)
        return (high + low) / 2, (high - low) / 2

    def astype(self, dtype: Any) -> ExportedPolicy:
        """The same with other floats: float64 makes `act` a reference to compare with."""

        def cast(net: Perceptron) -> Perceptron:
            layers = tuple(Layer(layer.weight.astype(dtype), layer.kept, layer.bias.astype(dtype)) for layer in net.layers)
            return dataclasses.replace(net, layers=layers)

        return dataclasses.replace(
            self,
            mean=self.mean.astype(dtype),
            std=self.std.astype(dtype),
            perceptrons={name: cast(net) for name, net in self.perceptrons.items()},
            latents=None if self.latents is None else self.latents.astype(dtype),
        )


def forward(net: Perceptron, x: Any, xp: Any = np) -> Any:
    """[..., inputs] -> [..., outputs], before any head."""
    for index, layer in enumerate(net.layers):
        if index:
            x = xp.maximum(x, 0) if net.activation == "relu" else xp.tanh(x)
        x = x @ layer.weight + layer.bias
    return x


def read_policy(agent: Agent, state: AgentState, *, seed: int = 0, compact: bool = True) -> ExportedPolicy:
    """The arrays of an agent's policy, compacted: no optimizer state, no targets, no dead units.

    Args:
      agent: the algorithm, with a `deployment`.
      state: of one run.
      seed: of the latents that candidate policies choose from. The table is `jax.random.normal(jax.random.key(seed), (1, K, L))`, clipped,
        so the exported policy is `agent.act(policy, observation[None], jax.random.key(seed))`.
      compact: False keeps the units and zeros of the state as they are, to compare with.

    Raises:
      ValueError: no `deployment`, perceptrons that are not chains of dense layers, or weights that are not finite.
    """
    how = agent.deployment
    if how is None:
        raise ValueError(f"{agent.name}: expected an agent with a `deployment`, got None; give its constructor one to export it")
    statistics = (np.asarray(state.statistics.mean, np.float32), np.asarray(state.statistics.std, np.float32))
    for name, value in zip(("mean", "std"), statistics, strict=True):
        _refuse_nan(f"statistics/{name}", value)
    outputs = agent.spec.action_size
    read = functools.partial(_perceptron, agent, state, compact=compact)
    if isinstance(how, LikelyPolicy):
        nets = {"actor": read(how.values, outputs), "imitation": read(how.imitation, outputs)}
        return ExportedPolicy(agent.name, agent.spec, *statistics, "likely", nets, threshold=how.threshold)
    if not isinstance(how, CandidatePolicy):
        actor = read(how.perceptron, outputs)
        return ExportedPolicy(agent.name, agent.spec, *statistics, how.head, {"actor": actor})
    nets = {
        "decoder": read(how.decoder, outputs),
        "actor": read(how.actor, outputs),
        "critic": read(how.critic, 1),
    }
    latents = jax.random.normal(jax.random.key(seed), (1, how.candidates, how.latent_size), state.statistics.mean.dtype)[0]
    latents = np.clip(np.asarray(latents, np.float32), -how.latent_clip, how.latent_clip)
    return ExportedPolicy(agent.name, agent.spec, *statistics, "candidates", nets, latents, how.phi, seed)


def _perceptron(agent: Agent, state: AgentState, path: str, outputs: int, *, compact: bool) -> Perceptron:
    network, _, prefix = path.partition("/")
    params, masks = state.params[network], state.masks[network]
    for key in filter(None, prefix.split("/")):
        params, masks = params[key], masks[key]
    stacked = agent.networks[network].members > 0
    if stacked:
        params, masks = jax.tree.map(lambda leaf: leaf[0], (params, masks))
    root = f"{prefix}/" if prefix else ""
    groups = {group.name.removeprefix(root): group for group in agent.groups(network) if group.name.startswith(root)}
    names = _layer_names(path, params, groups)
    for leaf_path, leaf in jax.tree_util.tree_leaves_with_path(params):
        _refuse_nan(f"{path}/{path_name(leaf_path)}", np.asarray(leaf))
    hidden = [
        dataclasses.replace(
            groups[name],
            name=name,
            producers=((f"{name}/kernel", 1), (f"{name}/bias", 0)),
            consumers=((f"{after}/kernel", 0, 0),),
            members=0,
        )
        for name, after in itertools.pairwise(names)
    ]
    chosen = {group.name: np.arange(group.size) for group in hidden}
    small, kept = params, masks
    if compact:
        small, kept, plan = compact_tree(params, masks, hidden)
        chosen = {name: np.ravel(units) for name, units in plan.units.items()}
    layers = [Layer(*(np.asarray(leaf) for leaf in (small[n]["kernel"], kept[n]["kernel"], small[n]["bias"]))) for n in names]
    layers = [Layer(l.weight.astype(np.float32), l.kept.astype(bool), l.bias.astype(np.float32)) for l in layers]
    last = layers[-1]
    layers[-1] = Layer(last.weight[:, :outputs], last.kept[:, :outputs], last.bias[:outputs])
    full = {group.name: group.size for group in agent.with_widths({}).groups(network)}
    units = []
    for name in names[:-1]:
        before = np.asarray(state.units[network][root + name])
        before = before[0] if stacked else before
        units.append(np.where(chosen[name] < 0, -1, before[np.maximum(chosen[name], 0)]).astype(np.int32))
    sizes = (layers[0].weight.shape[0], *(full[root + name] for name in names[:-1]), outputs)
    return Perceptron(tuple(layers), _activation(path, groups.values()), tuple(units), sizes)


def _layer_names(path: str, params: Any, groups: Any) -> list[str]:
    """Dense_0, Dense_1, … in order.

    Raises:
      ValueError: anything else among the parameters.
    """
    names = [f"Dense_{index}" for index in range(len(params))]
    chain = set(params) == set(names) and all(set(params[name]) == {"kernel", "bias"} for name in names) and set(groups) == set(names[:-1])
    if not chain:
        raise ValueError(f"{path}: expected the layers Dense_0, Dense_1, … with kernel and bias and no others, got {', '.join(params)}")
    return names


def _activation(path: str, groups: Any) -> str:
    found = {group.activation for group in groups}
    known = {jax.nn.relu: "relu", jnp.tanh: "tanh", jax.numpy.tanh: "tanh", jax.nn.tanh: "tanh"}
    names = {known.get(function) for function in found} or {"relu"}
    if len(names) != 1 or None in names:
        raise ValueError(f"{path}: expected one activation of {', '.join(ACTIVATIONS)} in all hidden layers, got {sorted(map(str, found))}")
    return str(names.pop())


def _refuse_nan(name: str, leaf: np.ndarray) -> None:
    if not np.isfinite(leaf.astype(np.float64)).all():
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity; the run has failed and cannot be exported")
