"""Fixtures shared by all tests: 64-bit mode, strict promotion, a tiny log."""

import os
import pathlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.data.transitions import Spec, Statistics, Transitions

# Tests compile many small programs and run them a few times: code that is quick to make, not to run, takes half of the time.
QUICK = "--xla_backend_optimization_level=0"
# JAX 0.12 does not know this one, and is quick without.
if jax.__version_info__ < (0, 11):
    QUICK += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", QUICK)


@pytest.fixture(autouse=True, scope="module")
def programs_are_let_go():
    """Every compiled program holds several memory maps, of which Linux gives a process 65,530: a whole run in one process needs more."""
    yield
    maps = pathlib.Path("/proc/self/maps")
    if not maps.exists() or maps.read_text().count("\n") > 20_000:
        jax.clear_caches()


@pytest.fixture
def x64():
    """64-bit arrays. (Not strict promotion: optax's Adam mixes dtypes.)"""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def strict():
    """Strict dtype promotion, around code of ours alone."""
    with jax.numpy_dtype_promotion("strict"):
        yield


def make_transitions(rows=600, observation_size=4, action_size=2, seed=0, dtype=np.float32) -> Transitions:
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(rows, observation_size)) * 3 + 1
    actions = np.tanh(observations[:, :action_size] * 0.3 + 0.1 * rng.normal(size=(rows, action_size)))
    return Transitions(
        observations.astype(dtype),
        actions.astype(dtype),
        rng.normal(size=rows).astype(dtype),
        (observations + 0.1 * rng.normal(size=observations.shape)).astype(dtype),
        (rng.random(rows) > 0.05).astype(dtype),
    )


def statistics_of(transitions: Transitions) -> Statistics:
    return Statistics(transitions.observations.mean(0), transitions.observations.std(0))


@pytest.fixture
def transitions() -> Transitions:
    return make_transitions()


@pytest.fixture
def spec() -> Spec:
    return Spec(4, 2, [-1, -1], [1, 1])


def make_dataset(rows: int = 300) -> jp.data.Dataset:
    """Four observation features, two actions in [−1, 1] that follow from them, random rewards, episodes of 50 rows."""
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(rows, 4)).astype(np.float32)
    actions, rewards = np.tanh(observations[:, :2]).astype(np.float32), rng.normal(size=rows).astype(np.float32)
    return jp.data.from_arrays(observations, actions, rewards, np.arange(rows) % 50 == 49, np.zeros(rows, bool), low=-1, high=1)
