"""Many environments stepped side by side, each with its own start seed."""

from __future__ import annotations

import importlib.util
import logging
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import jax
import numpy as np

from jaxprune.spaces import flatten

if TYPE_CHECKING:
    from jaxprune.data.transitions import Spec

BACKENDS = ("auto", "envpool", "gymnasium")


class BatchedEnvironment(Protocol):
    """n environments of one kind; environment i plays one episode after the other from its own seed.

    Attributes:
      backend: `envpool` or `gymnasium`.
      size: n.
      action_space: of one of them.
    """

    backend: str
    size: int
    action_space: Any

    def reset(self) -> np.ndarray:
        """First observations, [n, S] float32."""
        ...

    def step(self, actions: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Step the environments at `indices` only.

        Args:
          actions: [k, A] in environment units, or [k] int32.
          indices: [k] int32, increasing.

        Returns:
          Observations [k, S] float32 (an ended episode's last one), rewards [k] float64, terminated [k] and truncated [k].
        """
        ...

    def close(self) -> None:
        """Free the environments."""
        ...


class _EnvPool:
    backend = "envpool"

    def __init__(self, env_id: str, seeds: Sequence[int], threads: int | None):
        import envpool

        self.size = len(seeds)
        threads = min(self.size, threads or os.cpu_count() or 1)
        self._pool: Any = envpool.make_gymnasium(env_id, num_envs=self.size, seed=[int(seed) for seed in seeds], num_threads=threads)
        self.action_space = self._pool.action_space

    def reset(self):
        observations, _ = self._pool.reset()
        return _flat(observations)

    def step(self, actions, indices):
        stepped, rewards, terminated, truncated, info = self._pool.step(
            np.asarray(actions, self.action_space.dtype), np.asarray(indices, np.int32)
        )
        order = np.argsort(info["env_id"])
        return _flat(stepped[order]), np.asarray(rewards[order], np.float64), terminated[order], truncated[order]

    def close(self):
        self._pool.close()


class _Gymnasium:
    backend = "gymnasium"

    def __init__(self, env_id: str, seeds: Sequence[int]):
        import gymnasium

        self.size = len(seeds)
        self._seeds = [int(seed) for seed in seeds]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self._environments = [gymnasium.make(env_id) for _ in seeds]
        self._ended = np.zeros(self.size, bool)
        self.action_space = self._environments[0].action_space

    def reset(self):
        self._ended[:] = False
        firsts = [
            self._observe(i, env.reset(seed=seed)[0]) for i, (env, seed) in enumerate(zip(self._environments, self._seeds, strict=True))
        ]
        return _flat(np.stack(firsts))

    def _observe(self, i, observation):
        if isinstance(observation, np.ndarray):
            return observation.astype(np.float32)
        one_step = jax.tree.map(lambda part: np.asarray(part)[None], observation)
        return flatten(self._environments[i].observation_space, one_step)[0]

    def step(self, actions, indices):
        results = []
        for action, i in zip(np.asarray(actions), indices, strict=True):
            if self._ended[i]:  # as EnvPool does: the step after the last one starts the next episode
                results.append((self._observe(i, self._environments[i].reset()[0]), 0.0, False, False))
                self._ended[i] = False
                continue
            observation, reward, terminated, truncated, _ = self._environments[i].step(action)
            self._ended[i] = terminated or truncated
            results.append((self._observe(i, observation), float(reward), terminated, truncated))
        observations, rewards, terminated, truncated = (np.array(column) for column in zip(*results, strict=True))
        return _flat(observations), rewards.astype(np.float64), terminated.astype(bool), truncated.astype(bool)

    def close(self):
        for environment in self._environments:
            environment.close()


def first_action(environment: BatchedEnvironment) -> int:
    """The number of the first of discrete actions: an agent's action i is the environment's first_action + i. 0 for continuous ones."""
    return int(getattr(environment.action_space, "start", 0))


def _flat(observations: np.ndarray) -> np.ndarray:
    return np.asarray(observations, np.float32).reshape(len(observations), -1)


def envpool_has(env_id: str) -> bool:
    """Whether EnvPool is installed here and knows the task."""
    if importlib.util.find_spec("envpool") is None:
        return False
    import envpool

    return env_id in envpool.list_all_envs()


def make_batched(env_id: str, seeds: Sequence[int], *, backend: str = "auto", threads: int | None = None) -> BatchedEnvironment:
    """len(seeds) environments, the i-th started from seeds[i].

    Args:
      env_id: Gymnasium id.
      seeds: non-negative integers below 2³¹.
      backend: `envpool`, `gymnasium`, or `auto`: EnvPool where it is installed and has the task. Their start states differ for one seed.
      threads: EnvPool's; all cores by default.

    Raises:
      ValueError: an unknown backend or environment.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend={backend!r} is unknown; expected one of {', '.join(BACKENDS)}")
    if backend == "envpool" or (backend == "auto" and envpool_has(env_id)):
        return _EnvPool(env_id, seeds, threads)
    check_environment(env_id)
    if backend == "auto":
        logging.getLogger("jaxprune").info("%s: EnvPool does not have it here, stepping with Gymnasium", env_id)
    return _Gymnasium(env_id, seeds)


def check_environment(env_id: str, *, backend: str = "auto", spec: Spec | None = None) -> None:
    """Refuse an environment that cannot be played here.

    Args:
      env_id: Gymnasium id.
      backend: see `make_batched`.
      spec: of the data: the environment is made once, and has to have its observations and actions. None only looks the name up.

    Raises:
      ValueError: neither EnvPool nor Gymnasium has it, it cannot be made (with the reason), or it does not fit the data.
    """
    if not envpool_has(env_id):
        import gymnasium

        try:
            gymnasium.spec(env_id)
        except gymnasium.error.Error as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"env_id={env_id!r} is not an environment that is installed here ({reason}); try Hopper-v5") from error
    if spec is None:
        return
    try:
        environment = make_batched(env_id, [0], backend=backend)
        observation_size, space = environment.reset().shape[1], environment.action_space
        environment.close()
    except Exception as error:  # whatever the environment's own packages raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"env_id={env_id!r} cannot be made here with backend={backend!r}: {reason}") from error
    if observation_size != spec.observation_size:
        raise ValueError(
            f"{env_id} has {observation_size} observation features but the data have {spec.observation_size}; evaluate in the environment "
            "the data came from"
        )
    theirs = f"{space.n} discrete actions" if hasattr(space, "n") else f"{int(np.prod(space.shape))} action features"
    ours = f"{spec.action_size} discrete actions" if spec.discrete else f"{spec.action_size} action features"
    if theirs != ours:
        raise ValueError(f"{env_id} has {theirs} but the data have {ours}; evaluate in the environment the data came from")
