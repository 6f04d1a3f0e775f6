"""Episodes of a policy, collected in environments stepped side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from tqdm.auto import tqdm

from jaxprune.environments import BatchedEnvironment, make_batched
from jaxprune.errors import DataError

# (observations [E, S], rng) -> actions [E, A]
Act = Callable[[np.ndarray, np.random.Generator], np.ndarray]

_ENVIRONMENTS = 64
_EPISODE = 1_000
# How many episodes a lane may run ahead of the slowest.
_AHEAD = 4


@dataclasses.dataclass(frozen=True)
class Episode:
    """observations [T + 1, S]; actions [T, A]; rewards, terminations, truncations [T]."""

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


def uniform(low: np.ndarray, high: np.ndarray) -> Act:
    """Actions uniform between the bounds."""
    return lambda observations, rng: rng.uniform(low, high, (len(observations), len(low)))


def collect(env_id: str, act: Act | None, *, steps: int, seed: int, environments: int | None = None) -> list[Episode]:
    """Exactly `steps` transitions of whole episodes, the last one cut (and marked truncated) where they are full.

    Environments finish short episodes first, so taking episodes as they finish would favour the short ones. Here the order is fixed
    beforehand: first the first episode of every environment, then the second of every one, and so on; what was lived through beyond the
    last one needed is thrown away. The same seed gives the same arrays on the same machine.

    Args:
      env_id: Gymnasium id of an environment with continuous actions.
      act: (observations [E, S], rng) -> actions [E, A], clipped to the bounds here; None acts uniformly.
      steps: how many transitions.
      seed: of the environments and of the generator handed to `act`.
      environments: how many side by side; by default one for every 1,000 steps, at most 64.

    Raises:
      DataError: no continuous actions, or actions of a wrong shape or not finite.
    """
    if steps < 1:
        raise DataError(f"size: expected at least 1 transition, got {steps}")
    low, high = _bounds(env_id)
    count = environments or min(max(steps // _EPISODE, 1), _ENVIRONMENTS)
    sequence = np.random.SeedSequence(seed)
    rng = np.random.default_rng(sequence.spawn(1)[0])
    environment = make_batched(env_id, [int(value) % 2**31 for value in sequence.generate_state(count)])
    try:
        with tqdm(total=steps, desc=f"collecting {env_id}", unit="step", unit_scale=True, leave=False, disable=None) as progress:
            return _roll_out(environment, act or uniform(low, high), low, high, steps, rng, progress)
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


def _roll_out(environment: BatchedEnvironment, act: Act, low, high, steps: int, rng: np.random.Generator, progress: tqdm) -> list[Episode]:
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
        actions = np.asarray(act(observations[active], rng))
        _check_actions(actions, (len(active), len(low)))
        actions = np.clip(actions, low, high).astype(np.float32)
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


def _check_actions(actions: np.ndarray, shape: tuple[int, int]) -> None:
    if actions.shape != shape:
        raise DataError(f"policy: expected actions of shape {list(shape)}, one row an environment, got {list(actions.shape)}")
    if not np.isfinite(actions).all():
        raise DataError(f"policy: expected finite actions, got NaN or infinity in row {int(np.argwhere(~np.isfinite(actions))[0, 0])}")


def _bounds(env_id: str) -> tuple[np.ndarray, np.ndarray]:
    import gymnasium

    environment = gymnasium.make(env_id)
    space = environment.action_space
    environment.close()
    if not isinstance(space, gymnasium.spaces.Box):
        raise DataError(f"{env_id}: expected a Box action space, got {space}; only continuous actions can be collected here")
    return space.low.reshape(-1).astype(np.float32), space.high.reshape(-1).astype(np.float32)
