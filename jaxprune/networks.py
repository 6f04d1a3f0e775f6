"""Multilayer perceptrons, their initialisation and their unit groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxprune.parameters import UnitGroup

INITIALIZERS = ("uniform", "lecun_normal", "reference")


def kernel_initializer(name: str) -> nn.initializers.Initializer:
    """An initialiser by name.

    `uniform` is ±1/√fan_in, the scale of PyTorch's linear layers; `lecun_normal` Flax's default; `reference` is `uniform` with biases drawn
    alike.
    """
    if name not in INITIALIZERS:
        raise ValueError(f"init={name!r} is unknown; expected one of {', '.join(INITIALIZERS)}")
    if name == "lecun_normal":
        return nn.initializers.lecun_normal()
    return nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


class MLP(nn.Module):
    """Dense layers with an activation between them and none after the last.

    Attributes:
      features: width of every layer, the output's last.
      activation: elementwise function between layers.
      init_scheme: see `kernel_initializer`.
    """

    features: Sequence[int]
    activation: Callable[[jax.Array], jax.Array] = nn.relu
    init_scheme: str = "uniform"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., inputs] -> [..., features[-1]]."""
        for index, width in enumerate(self.features):
            if index:
                x = self.activation(x)
            x = nn.Dense(width, kernel_init=kernel_initializer(self.init_scheme), param_dtype=x.dtype, name=f"Dense_{index}")(x)
        return x

    def parameters(self, key: jax.Array, inputs: int) -> Any:
        """Fresh parameters for `inputs` input features."""
        params = self.init(key, jnp.zeros((1, inputs)))["params"]
        return _with_random_biases(key, params) if self.init_scheme == "reference" else params


def _with_random_biases(key: jax.Array, params: Any) -> Any:
    out = {}
    for index, (name, layer) in enumerate(params.items()):
        bound = 1 / jnp.sqrt(layer["kernel"].shape[0])
        bias_key = jax.random.fold_in(jax.random.fold_in(key, 1), index)
        out[name] = {**layer, "bias": jax.random.uniform(bias_key, layer["bias"].shape, layer["bias"].dtype, -bound, bound)}
    return out


def apply(mlp: MLP, params: Any, x: jax.Array) -> jax.Array:
    """The outputs of one network, [..., features[-1]]."""
    return cast(jax.Array, mlp.apply({"params": params}, x))


def stacked_parameters(mlp: MLP, key: jax.Array, inputs: int, members: int) -> Any:
    """Fresh parameters of `members` networks, every leaf with a leading axis of `members`."""
    return jax.vmap(lambda k: mlp.parameters(k, inputs))(jax.random.split(key, members))


def apply_stacked(mlp: MLP, params: Any, x: jax.Array) -> jax.Array:
    """The outputs of every member for the same input, [members, ..., features[-1]]."""
    return jax.vmap(lambda p: apply(mlp, p, x))(params)


def linear_signal(*networks: Any, members: int = 0) -> jax.Array:
    """SynFlow's R: the sum of outputs for an all-ones input with |θ| and no activation (Tanaka et al. 2020, equation 6).

    Every layer's signal is scaled by a power of two, which rounds nothing, and its biases by the same. All networks and members share one
    scale in the end, the true one where 2^±60 holds it: so the ranking is that of the unscaled sum, and 30 layers stay within float32.

    Args:
      *networks: parameters of perceptrons whose signals are added.
      members: with a number, every leaf has a leading axis of so many members, whose signals are added too.
    """
    one = jax.vmap(_scaled_signal) if members else _scaled_signal
    totals, exponents = (jnp.stack(parts) for parts in zip(*(one(params) for params in networks), strict=True))
    top = jnp.max(exponents)
    return jnp.sum(totals * _power_of_two(exponents - top, totals.dtype)) * _power_of_two(jnp.clip(top, -60, 60), totals.dtype)


def _scaled_signal(params: Any) -> tuple[jax.Array, jax.Array]:
    """(m, e), a scalar and an int32: the signal of one perceptron is m·2^e."""
    layers = [params[name] for name in sorted(params, key=lambda name: int(name.rsplit("_", 1)[1]))]
    dtype = layers[0]["kernel"].dtype
    x, exponent = jnp.ones(layers[0]["kernel"].shape[0], dtype), jnp.int32(0)
    for layer in layers:
        weighted, bias = x @ jnp.abs(layer["kernel"]), jnp.abs(layer["bias"])
        following = jnp.maximum(exponent + _mean_exponent(weighted), _mean_exponent(bias))
        following = jnp.where(following < _NOTHING // 2, exponent, following)
        x = weighted * _power_of_two(exponent - following, dtype) + bias * _power_of_two(-following, dtype)
        exponent = following
    return jnp.sum(x), exponent


# The exponent of a mean of zero: far below every float's.
_NOTHING = -(2**24)


def _mean_exponent(x: jax.Array) -> jax.Array:
    mean = jnp.mean(jax.lax.stop_gradient(x))
    return jnp.where(mean > 0, jnp.frexp(mean)[1].astype(jnp.int32), _NOTHING)


def _power_of_two(exponent: jax.Array, dtype: Any) -> jax.Array:
    largest = jnp.finfo(dtype).maxexp - 1
    return jnp.ldexp(jnp.ones((), dtype), jnp.clip(exponent, -2 * largest, largest))


def unit_groups(mlp: MLP, *, prefix: str = "", members: int = 0) -> tuple[UnitGroup, ...]:
    """The hidden layers of an MLP as unit groups; `prefix` is the path of its parameters."""
    lead = 1 if members else 0
    root = f"{prefix}/" if prefix else ""
    return tuple(
        UnitGroup(
            name=f"{root}Dense_{index}",
            size=width,
            activation=mlp.activation,
            producers=((f"{root}Dense_{index}/kernel", lead + 1), (f"{root}Dense_{index}/bias", lead)),
            consumers=((f"{root}Dense_{index + 1}/kernel", lead, 0),),
            members=members,
        )
        for index, width in enumerate(mlp.features[:-1])
    )
