"""Episodes of a policy, collected in environments stepped side by side."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from jaxprune.environments import BatchedEnvironment, make_batched
from jaxprune.errors import DataError

# (observations [E, S], rng) -> actions [E, A], or [E] integers
Act = Callable[[np.ndarray, np.random.Generator], np.ndarray]

_ENVIRONMENTS = 64
_EPISODE = 1_000
# How many episodes a lane may run ahead of the slowest.
_AHEAD = 4


@dataclasses.dataclass(frozen=True)
class Episode:
    """observations [T + 1, S]; actions [T, A], or [T] int32; rewards, terminations, truncations [T]."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray

    def __len__(self) -> int:
        return len(self.rewards)

    def cut(self, steps: int) -> Episode:
        """The first `steps` steps, marked truncated unless the episode ends there anyway."""
        truncations = self.truncations[:steps].copy()
        truncations[-1] = not self.terminations[steps - 1]
        return Episode(self.observations[: steps + 1], self.actions[:steps], self.rewards[:steps], self.terminations[:steps], truncations)


class _BoxActions:
    """Vectors between bounds."""

    def __init__(self, space: Any):
        self.low, self.high = (bound.reshape(-1).astype(np.float32) for bound in (space.low, space.high))

    def uniform(self, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(self.low, self.high, (len(observations), len(self.low)))

    def taken(self, actions: np.ndarray, environments: int) -> np.ndarray:
        """The actions as the environments take them, [E, A] within the bounds; DataError for what is none."""
        _check_shape(actions, (environments, len(self.low)))
        if not np.isfinite(actions).all():
            raise DataError(f"policy: expected finite actions, got NaN or infinity in row {int(np.argwhere(~np.isfinite(actions))[0, 0])}")
        return np.clip(actions, self.low, self.high).astype(np.float32)


class _DiscreteActions:
    """Integers from `start` on."""

    def __init__(self, space: Any):
        self.start, self.stop = int(space.start), int(space.start + space.n)

    def uniform(self, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(self.start, self.stop, len(observations))

    def taken(self, actions: np.ndarray, environments: int) -> np.ndarray:
        """The actions as the environments take them, [E] int32; DataError for what is none."""
        _check_shape(actions, (environments,))
        wrong = np.flatnonzero(~((actions >= self.start) & (actions < self.stop) & (actions == np.floor(actions))))
        if len(wrong):
            raise DataError(
                f"policy: expected integer actions from {self.start} to {self.stop - 1}, got {actions[wrong[0]]} in row {wrong[0]}"
            )
        return actions.astype(np.int32)


def collect(env_id: str, act: Act | None, *, steps: int, seed: int, environments: int | None = None) -> list[Episode]:
    """Exactly `steps` transitions of whole episodes, the last one cut (and marked truncated) where they are full.

    Environments finish short episodes first, so taking episodes as they finish would favour the short ones. Here the order is fixed
    beforehand: first the first episode of every environment, then the second of every one, and so on; what was lived through beyond the
    last one needed is thrown away. The same seed gives the same arrays on the same machine.

    Args:
      env_id: Gymnasium id.
      act: (observations [E, S], rng) -> actions [E, A], clipped to the bounds here, or [E] integers where the environment's are discrete;
        None acts uniformly.
      steps: how many transitions.
      seed: of the environments and of the generator handed to `act`.
      environments: how many side by side; by default one for every 1,000 steps, at most 64.

    Raises:
      DataError: an environment that cannot be made here or whose actions are neither vectors nor single integers, or a policy whose
        actions it does not take.
    """
    if steps < 1:
        raise DataError(f"size: expected at least 1 transition, got {steps}")
    kind = _action_kind(env_id)
    count = environments or min(max(steps // _EPISODE, 1), _ENVIRONMENTS)
    sequence = np.random.SeedSequence(seed)
    rng = np.random.default_rng(sequence.spawn(1)[0])
    environment = make_batched(env_id, [int(value) % 2**31 for value in sequence.generate_state(count)])
    try:
        with tqdm(total=steps, desc=f"collecting {env_id}", unit="step", unit_scale=True, leave=False, disable=None) as progress:
            return _roll_out(environment, act or kind.uniform, kind, steps, rng, progress)
    finally:
        environment.close()


class _Lane:
    """What one environment has lived through: its whole episodes, in order, and the one under way."""

    def __init__(self, observation: np.ndarray):
        self.finished: list[Episode] = []
        self.restart(observation)

    def restart(self, observation: np.ndarray) -> None:
        self.observations, self.actions, self.rewards, self.ended = [observation], [], [], False

    def add(self, action, reward, terminated, truncated, observation) -> None:
        if self.ended:  # the step after an episode's last one resets: it ignores the action and is no transition
            self.restart(observation)
            return
        self.observations.append(observation)
        self.actions.append(action)
        self.rewards.append(reward)
        if terminated or truncated:
            self.finished.append(self.current(bool(terminated), bool(truncated)))
            self.ended = True

    def current(self, terminated: bool = False, truncated: bool = False) -> Episode:
        last = np.arange(len(self.rewards)) == len(self.rewards) - 1
        return Episode(np.stack(self.observations), np.stack(self.actions), np.asarray(self.rewards), last & terminated, last & truncated)

    def length(self, index: int) -> int:
        """Steps lived through of this lane's episode number `index`."""
        if index < len(self.finished):
            return len(self.finished[index])
        return len(self.rewards) if index == len(self.finished) and not self.ended else 0


def _roll_out(
    environment: BatchedEnvironment,
    act: Act,
    kind: _BoxActions | _DiscreteActions,
    steps: int,
    rng: np.random.Generator,
    progress: tqdm,
) -> list[Episode]:
    observations = environment.reset().copy()
    lanes = [_Lane(observation.copy()) for observation in observations]
    chosen: list[Episode] = []
    missing = steps
    while True:
        # Take what is complete in the fixed order, or enough; wait at the first episode that is neither.
        while missing:
            lane, index = lanes[len(chosen) % len(lanes)], len(chosen) // len(lanes)
            complete, length = index < len(lane.finished), lane.length(index)
            if not complete and length < missing:
                break
            episode = lane.finished[index] if complete else lane.current()
            chosen.append(episode.cut(missing) if length > missing or not complete else episode)
            missing -= len(chosen[-1])
            progress.update(len(chosen[-1]))
        if not missing:
            return chosen
        active = _active(lanes, len(chosen), missing)
        actions = kind.taken(np.asarray(act(observations[active], rng)), len(active))
        stepped = environment.step(actions, active)
        observations[active] = stepped[0]
        for i, action, observation, reward, terminated, truncated in zip(active, actions, *stepped, strict=True):
            lanes[i].add(action, reward, terminated, truncated, observation)


def _active(lanes: Sequence[_Lane], first: int, missing: int) -> np.ndarray:
    """Which lanes must go on: those whose episode under way comes, in the fixed order, before what is already there suffices."""
    active = []
    for number in range(first, first + _AHEAD * len(lanes)):
        lane, index = lanes[number % len(lanes)], number // len(lanes)
        if index == len(lane.finished):
            active.append(number % len(lanes))
        missing -= lane.length(index)
        if missing <= 0:
            break
    return np.asarray(sorted(active), np.int32)


def _check_shape(actions: np.ndarray, shape: tuple[int, ...]) -> None:
    if actions.shape != shape:
        raise DataError(f"policy: expected actions of shape {list(shape)}, one row an environment, got {list(actions.shape)}")


def _action_kind(env_id: str) -> _BoxActions | _DiscreteActions:
    import gymnasium

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are told again when it is made to be played in
            environment = gymnasium.make(env_id)
    except Exception as error:  # an unknown id, a missing simulator, a version that is gone
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"env_id: expected an environment that can be made here, got {env_id!r} ({reason}); install what it needs or name another, "
            "such as Hopper-v5"
        ) from error
    space = environment.action_space
    environment.close()
    if isinstance(space, gymnasium.spaces.Box):
        return _BoxActions(space)
    if isinstance(space, gymnasium.spaces.Discrete):
        return _DiscreteActions(space)
    raise DataError(f"{env_id}: expected a Box or Discrete action space, got {space}; agents act with one vector or one integer")
