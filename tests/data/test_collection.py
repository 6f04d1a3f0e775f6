import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from jaxprune.data import DataError, collection
from jaxprune.data.collection import collect


class Countdown:
    """Environment i lives episodes of the lengths in `plan[i]`, over and over; it observes (i, episode, step) and earns step + 1."""

    backend = "test"

    def __init__(self, plan):
        self.plan, self.size = plan, len(plan)
        self.episode, self.step_number, self.ended, self.steps = [0] * self.size, [0] * self.size, [False] * self.size, 0

    def observe(self, i):
        return np.asarray([i, self.episode[i], self.step_number[i]], np.float32)

    def reset(self):
        return np.stack([self.observe(i) for i in range(self.size)])

    def step(self, actions, indices):
        rewards, terminated = np.zeros(len(indices)), np.zeros(len(indices), bool)
        self.steps += len(indices)
        for k, i in enumerate(indices):
            if self.ended[i]:
                self.episode[i], self.step_number[i], self.ended[i] = self.episode[i] + 1, 0, False
                continue
            self.step_number[i] += 1
            rewards[k] = self.step_number[i]
            terminated[k] = self.ended[i] = self.step_number[i] == self.plan[i][self.episode[i] % len(self.plan[i])]
        return np.stack([self.observe(i) for i in indices]), rewards, terminated, np.zeros(len(indices), bool)

    def close(self):
        pass


@pytest.fixture
def countdown(monkeypatch):
    made = []

    def install(plan):
        monkeypatch.setattr(collection, "_action_kind", lambda env_id: collection._BoxActions(Box(-1, 1, (2,))))
        monkeypatch.setattr(collection, "make_batched", lambda env_id, seeds: made.append(Countdown(plan)) or made[-1])
        return made

    return install


def zeros(observations, rng):
    return np.zeros((len(observations), 2))


def test_order_is_fixed_beforehand(countdown):
    """Lane 1 finishes two short episodes while lane 0 lives one long one; the order is still lane 0, lane 1, lane 0, …"""
    made = countdown([[7], [2, 3]])
    episodes = collect("Countdown-v0", zeros, steps=20, seed=0, environments=2)
    assert [(int(e.observations[0, 0]), int(e.observations[0, 1]), len(e)) for e in episodes] == [
        (0, 0, 7),
        (1, 0, 2),
        (0, 1, 7),
        (1, 1, 3),
        (0, 2, 1),
    ]
    for e in episodes:
        assert e.observations[:, 2].tolist() == list(range(len(e) + 1))
        assert e.rewards.tolist() == list(range(1, len(e) + 1))
    assert [bool(e.terminations[-1]) for e in episodes] == [True, True, True, True, False]
    assert [bool(e.truncations[-1]) for e in episodes] == [False, False, False, False, True]
    assert not any(e.terminations[:-1].any() or e.truncations[:-1].any() for e in episodes)
    assert made[0].steps < 40


def test_an_episode_that_ends_exactly_at_the_size_is_not_truncated(countdown):
    countdown([[4], [2]])
    episodes = collect("Countdown-v0", zeros, steps=6, seed=0, environments=2)
    assert [len(e) for e in episodes] == [4, 2]
    assert [bool(e.truncations[-1]) for e in episodes] == [False, False]


def test_short_episodes_are_not_favoured(countdown):
    """Lane 0 lives 100 steps, lane 1 one: whole rounds hold as many of one as of the other."""
    countdown([[100], [1]])
    lengths = [len(e) for e in collect("Countdown-v0", zeros, steps=505, seed=0, environments=2)]
    assert lengths == [100, 1] * 5


def test_actions_are_clipped_and_checked(countdown):
    countdown([[3]])
    episodes = collect("Countdown-v0", lambda observations, rng: np.full((len(observations), 2), 5.0), steps=3, seed=0, environments=1)
    assert episodes[0].actions.tolist() == [[1, 1]] * 3
    with pytest.raises(DataError, match=r"policy: expected actions of shape \[1, 2\].* got \[1, 3\]"):
        collect("Countdown-v0", lambda observations, rng: np.zeros((len(observations), 3)), steps=3, seed=0, environments=1)
    with pytest.raises(DataError, match="policy: expected finite actions"):
        collect("Countdown-v0", lambda observations, rng: np.full((len(observations), 2), np.nan), steps=3, seed=0, environments=1)


def test_real_environments_replay():
    """The recorded actions, played again from the recorded start, give the recorded observations and rewards."""
    gymnasium = pytest.importorskip("gymnasium")
    episode = collect("Pendulum-v1", None, steps=30, seed=3, environments=1)[0]
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.reset()
    cosine, sine, speed = episode.observations[0].astype(np.float64)
    env.state = np.asarray([np.arctan2(sine, cosine), speed])
    for action, observation, reward in zip(episode.actions, episode.observations[1:], episode.rewards, strict=True):
        seen, earned, *_ = env.step(action)
        np.testing.assert_allclose(seen, observation, atol=1e-3)
        assert earned == pytest.approx(reward, abs=1e-2)


def test_discrete_actions_are_checked(countdown, monkeypatch):
    countdown([[5], [5]])
    monkeypatch.setattr(collection, "_action_kind", lambda env_id: collection._DiscreteActions(Discrete(3, start=2)))
    taken = np.concatenate([e.actions for e in collect("Countdown-v0", None, steps=400, seed=0, environments=2)])
    assert taken.dtype == np.int32
    # Uniform on 2, 3, 4: five standard errors of 400 draws.
    assert np.abs(np.bincount(taken, minlength=5) / 400 - [0, 0, 1 / 3, 1 / 3, 1 / 3]).max() < 5 * np.sqrt(2 / 9 / 400)
    for actions, message in (
        (np.asarray([2.0, 3.5]), "policy: expected integer actions from 2 to 4, got 3.5 in row 1"),
        (np.asarray([5, 2]), "policy: expected integer actions from 2 to 4, got 5 in row 0"),
        (np.asarray([np.nan, 2]), "policy: expected integer actions from 2 to 4, got nan in row 0"),
        (np.asarray([[2], [3]]), r"policy: expected actions of shape \[2\], one row an environment, got \[2, 1\]"),
    ):
        with pytest.raises(DataError, match=message):
            collect("Countdown-v0", lambda observations, rng, actions=actions: actions, steps=3, seed=0, environments=2)


def test_other_actions_are_refused(monkeypatch):
    class Environment:
        action_space = MultiDiscrete([2, 2])

        def close(self):
            pass

    monkeypatch.setattr("gymnasium.make", lambda env_id: Environment())
    with pytest.raises(DataError, match="Levers-v0: expected a Box or Discrete action space, got MultiDiscrete"):
        collect("Levers-v0", None, steps=3, seed=0)


def make_without_box2d(env_id):
    raise gymnasium.error.DependencyNotInstalled("Box2D is not installed\npip install it")


def make_without_a_word(env_id):
    raise AssertionError


@pytest.mark.parametrize(
    ("make", "reason"),
    [(gymnasium.make, "Namespace gone not found"), (make_without_box2d, "Box2D is not"), (make_without_a_word, "AssertionE")],
)
def test_an_environment_that_cannot_be_made(make, reason, monkeypatch):
    monkeypatch.setattr("gymnasium.make", make)
    expected = "^env_id: expected an environment that can be made here, got 'gone/Gone-v1' "
    with pytest.raises(DataError, match=rf"{expected}\({reason}.*\); install what it needs") as error:
        collect("gone/Gone-v1", None, steps=3, seed=0)
    assert "\n" not in str(error.value)
