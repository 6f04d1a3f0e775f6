"""Comparing an exported policy with the live one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprune.agents.base import Agent, AgentState, Policy
from jaxprune.export.policy import ExportedPolicy, forward

TOLERANCE = 1e-5


class Verification(NamedTuple):
    """What a comparison found.

    Attributes:
      observations: compared.
      difference: largest |exported − live| of an action feature, in units of half its range where that is above 1; over observations
        without a tie. Of discrete actions, the number that differ without being tied.
      ties: observations at which another choice scored the same to rounding (discrete actions and candidates only).
    """

    observations: int
    difference: float
    ties: int


def verification_observations(policy: ExportedPolicy, seed: int = 0) -> np.ndarray:
    """[n, S] float32, three of the data's standard deviations wide; fewer where a policy tries many candidates."""
    count = 1000 if policy.latents is None else 100
    noise = np.random.default_rng(seed).normal(size=(count, policy.spec.observation_size))
    return (policy.mean + 3 * policy.std * noise).astype(np.float32)


def live_actions(agent: Agent, policy: Policy, observations: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """The agent's own actions, one observation at a time with one key, in full float32 products."""
    with jax.default_matmul_precision("highest"):
        return np.asarray(_one_at_a_time(agent, policy, observations, jax.random.key(seed)))


@functools.partial(jax.jit, static_argnames=("agent",))
def _one_at_a_time(agent: Agent, policy: Policy, observations: Any, key: jax.Array) -> jax.Array:
    return jax.lax.map(lambda row: agent.act(policy, row[None], key)[0], observations)


def verify(
    act: Callable[[np.ndarray], np.ndarray],
    agent: Agent,
    state: AgentState,
    policy: ExportedPolicy,
    *,
    what: str,
    observations: np.ndarray | None = None,
    tolerance: float = TOLERANCE,
) -> Verification:
    """Compare an exported function with the agent's own `act`.

    Args:
      act: raw observations [n, S] -> actions.
      agent: the live algorithm.
      state: its state.
      policy: what was exported.
      what: names the export in the error.
      observations: to compare on; `verification_observations` by default.
      tolerance: see `Verification.difference`.

    Raises:
      ValueError: they differ by more.
    """
    observations = verification_observations(policy) if observations is None else observations
    return compare(
        np.asarray(act(observations)),
        live_actions(agent, agent.policy(state), observations, seed=policy.seed),
        policy,
        observations,
        what=what,
        tolerance=tolerance,
    )


def compare(
    got: np.ndarray, expected: np.ndarray, policy: ExportedPolicy, observations: np.ndarray, *, what: str, tolerance: float = TOLERANCE
) -> Verification:
    """`verify` on actions already computed.

    Rounding may decide between choices that score alike, so a different choice is no difference where a float64 computation finds both
    within 1e-5 (of the score's size where that is above 1) of the best.

    Raises:
      ValueError: another shape, or a larger difference than `tolerance`.
    """
    if got.shape != expected.shape:
        raise ValueError(f"{what}: expected actions of shape {list(expected.shape)}, got {list(got.shape)}; nothing was written")
    if policy.spec.discrete:
        gap = (got != expected).astype(np.float64)
    else:
        gap = np.abs(got.astype(np.float64) - expected) / np.maximum(1, policy.scale()[1])
        gap = np.where(np.isnan(gap), np.inf, gap).max(axis=-1)
    tied = np.zeros(len(got), bool)
    if policy.spec.discrete or policy.head == "candidates":
        for row in np.flatnonzero(gap > tolerance):
            tied[row] = _tied(policy, observations[row], got[row])
    worst = float(gap[~tied].max(initial=0.0))
    if worst > tolerance:
        raise ValueError(
            f"{what}: differs from the live policy by {worst:.3g}, more than {tolerance:g}; nothing was written; "
            "check that the agent's `deployment` says what its `choose` does"
        )
    return Verification(len(got), float(gap.sum()) if policy.spec.discrete and not tied.any() else worst, int(tied.sum()))


def _tied(policy: ExportedPolicy, observation: np.ndarray, action: np.ndarray) -> bool:
    """Whether the action is one of those that score best to rounding."""
    exact = policy.astype(np.float64)
    standard = (observation[None] - exact.mean) / exact.std
    allowed = certain = slice(None)
    if policy.spec.discrete:
        scores = forward(exact.perceptrons["actor"], standard)[0]
        chosen = np.arange(len(scores)) == action
        if policy.head == "likely":
            likelihood = exact.likelihood(standard)[0]
            allowed, certain = (likelihood > policy.threshold * scale for scale in (1 - TOLERANCE, 1 + TOLERANCE))
    else:
        actions, values = exact.candidates(standard)
        scores = values[0]
        middle, half = exact.scale()
        chosen = (np.abs(middle + half * actions[0] - action) / np.maximum(1, half)).max(axis=-1) <= TOLERANCE
    close = scores >= scores[certain].max() - TOLERANCE * max(1.0, float(np.abs(scores).max()))
    return bool((chosen & close)[allowed].any())
