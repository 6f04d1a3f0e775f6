"""The oracle's networks, and small ones of our own."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprune.networks import MLP, apply, linear_signal, unit_groups
from jaxprune.objective import Objective

VECTORS = pathlib.Path(__file__).parent.parent / "vectors" / "criteria.npz"
ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh}


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def strict():
    with jax.numpy_dtype_promotion("strict"):
        yield


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One network with its data. Hashed by identity, so that what is computed of it can be cached."""

    objective: Objective
    params: Any
    rows: Any
    groups: tuple
    mlp: MLP
    hidden: int
    expected: Any = None
    value: Any = None


def regression(mlp: MLP) -> Objective:
    """Mean squared error over outputs, one value a row; rows are {"x": [B, in], "y": [B, out]}."""
    return Objective(
        predict=lambda params, rows, context: apply(mlp, params, rows["x"]),
        loss=lambda outputs, rows, context: jnp.mean((outputs - rows["y"]) ** 2, axis=-1),
        signal=lambda params, context: linear_signal(params),
    )


def layer_names(arrays) -> dict[str, np.ndarray]:
    """Arrays in the order kernel, bias, kernel, bias, … as {"Dense_0/kernel": …}."""
    return {f"Dense_{i // 2}/{'bias' if i % 2 else 'kernel'}": array for i, array in enumerate(arrays)}


@functools.cache
def _case(case: str) -> Case:
    data = np.load(VECTORS)
    sizes = data[f"{case}/sizes"].tolist()
    mlp = MLP(tuple(sizes[1:]), activation=ACTIVATIONS[str(data[f"{case}/activation"])])
    count = 2 * (len(sizes) - 1)

    def expected(name):
        return layer_names([data[f"{case}/{name}/{i}"] for i in range(count)])

    params: dict = {}
    for path, array in expected("param").items():
        layer, leaf = path.split("/")
        params.setdefault(layer, {})[leaf] = jnp.asarray(array)
    return Case(
        objective=regression(mlp),
        params=params,
        rows={"x": jnp.asarray(data[f"{case}/x"]), "y": jnp.asarray(data[f"{case}/y"])},
        groups=unit_groups(mlp),
        expected=expected,
        value=lambda name: data[f"{case}/{name}"],
        hidden=len(sizes) - 2,
        mlp=mlp,
    )


@pytest.fixture(params=["relu", "tanh", "deep"])
def oracle(request, x64, strict):
    """One case of the vectors: objective, params, rows, groups, and expected(name) -> {path: array}."""
    del x64, strict
    return _case(request.param)


def small_network(key, sizes=(4, 6, 5, 2), rows=12, activation=jnp.tanh) -> Case:
    """A regression with random biases, in the default float type."""
    mlp = MLP(tuple(sizes[1:]), activation=activation, init_scheme="reference")
    x, y = (jax.random.normal(jax.random.fold_in(key, i), (rows, sizes[end])) for i, end in ((1, 0), (2, -1)))
    params = mlp.parameters(jax.random.fold_in(key, 0), sizes[0])
    return Case(regression(mlp), params, {"x": x, "y": y}, unit_groups(mlp), mlp, len(sizes) - 2)


@pytest.fixture
def network():
    """Makes small regressions: network(key, sizes=..., rows=..., activation=...)."""
    return small_network
