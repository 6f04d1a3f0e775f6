"""Returns of known policies, and what an evaluation may not depend on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.environments import envpool_has, make_batched
from jaxprune.training.evaluation import episode_seeds, evaluate_stack
from tests.agents.small import small_agent

BACKENDS = ["gymnasium", *(["envpool"] if envpool_has("Hopper-v5") else [])]


@pytest.fixture(scope="module")
def hopper():
    """BC on Hopper whose policy always acts with zeros: its kernels and biases are 0."""
    agent = small_agent("bc", jp.Spec(11, 3, [-1] * 3, [1] * 3))
    state = agent.init(jax.random.key(0), jp.data.Statistics(np.zeros(11), np.ones(11)))
    return agent, state


def still_returns(seeds):
    """Returns of acting with zeros, by stepping Gymnasium's own environment."""
    import gymnasium

    returns = []
    for seed in seeds:
        env = gymnasium.make("Hopper-v5")
        env.reset(seed=int(seed))
        total, done = 0.0, False
        while not done:
            _, reward, terminated, truncated, _ = env.step(np.zeros(3, np.float32))
            total, done = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def test_returns_are_the_environments_own(hopper):
    agent, state = hopper
    still = jax.tree.map(jnp.zeros_like, agent.policy(state)).replace(statistics=state.statistics)
    returns = jp.evaluate(agent, still, "Hopper-v5", episodes=4, seed=3, backend="gymnasium")
    np.testing.assert_allclose(returns, still_returns(episode_seeds(3, 4)), rtol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_does_not_know_its_neighbours(hopper, backend):
    agent, state = hopper
    others = [agent.policy(agent.init(jax.random.key(i), state.statistics)) for i in range(3)]
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *others)
    seeds = [(7, 100), (8, 100), (7, 100)]
    together = evaluate_stack(agent, stack, "Hopper-v5", episodes=3, seeds=seeds, backend=backend)
    assert together.shape == (3, 3)
    assert len(np.unique(together)) == 9
    again = evaluate_stack(agent, stack, "Hopper-v5", episodes=3, seeds=seeds, backend=backend)
    np.testing.assert_array_equal(together, again)
    alone = evaluate_stack(agent, jax.tree.map(lambda leaf: leaf[1:2], stack), "Hopper-v5", episodes=3, seeds=seeds[1:2], backend=backend)
    np.testing.assert_allclose(alone[0], together[1], rtol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_environments_are_stepped_by_index_and_start_from_their_own_seed(backend):
    pair = make_batched("Hopper-v5", [5, 9], backend=backend)
    swapped = make_batched("Hopper-v5", [9, 5, 1], backend=backend)
    first, second = pair.reset(), swapped.reset()
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, second[[1, 0]])
    action = np.full((1, 3), 0.5, np.float32)
    for _ in range(3):
        a, r, *_ = pair.step(action, np.array([1]))
    b, s, *_ = swapped.step(np.repeat(action, 2, axis=0), np.array([0, 2]))
    b, s, *_ = swapped.step(action, np.array([0]))
    b, s, *_ = swapped.step(action, np.array([0]))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(r, s)
    for environment in (pair, swapped):
        environment.close()


def test_episode_seeds_differ_and_depend_on_every_number():
    seeds = np.concatenate([episode_seeds(s, 50) for s in (0, 1, (0, 1), (1, 0))])
    assert len(np.unique(seeds)) == 200
    assert seeds.min() >= 0
    assert seeds.max() < 2**31
    np.testing.assert_array_equal(episode_seeds((3, 4), 5), episode_seeds((3, 4), 9)[:5])


def test_a_wrong_environment_is_refused(hopper):
    agent, state = hopper
    with pytest.raises(ValueError, match="17 observation features but the agent was made for 11"):
        jp.evaluate(agent, agent.policy(state), "HalfCheetah-v5", episodes=1, seed=0)
    with pytest.raises(ValueError, match="'Hoper-v5' is not an environment that is installed here"):
        jp.evaluate(agent, agent.policy(state), "Hoper-v5", episodes=1, seed=0)
    with pytest.raises(ValueError, match="backend='isaac' is unknown"):
        make_batched("Hopper-v5", [0], backend="isaac")


def test_nested_observations_are_flattened_in_the_order_of_the_logs():
    """By key in alphabetical order, whatever the space's own order; a discrete part becomes one-hot."""
    import gymnasium
    from gymnasium import spaces

    class Nested(gymnasium.Env):
        def __init__(self):
            self.observation_space = spaces.Dict({"b": spaces.Box(-9, 9, (2,)), "a": spaces.Discrete(3)})
            self.action_space = spaces.Box(-1, 1, (1,))

        def reset(self, *, seed=None, options=None):
            return {"b": np.float32([4, 5]), "a": 1}, {}

        def step(self, action):
            return {"b": np.float32([6, 7]), "a": 2}, float(action[0]), True, False, {}

    gymnasium.register("JaxpruneNested-v0", Nested)
    environment = make_batched("JaxpruneNested-v0", [0])
    np.testing.assert_array_equal(environment.reset(), [[0, 1, 0, 4, 5]])
    observations, rewards, terminated, _ = environment.step(np.float32([[0.5]]), np.array([0]))
    np.testing.assert_array_equal(observations, [[0, 0, 1, 6, 7]])
    assert (rewards[0], terminated[0]) == (0.5, True)


def test_discrete_actions_are_counted_from_the_environments_first():
    import gymnasium

    class FromTwo(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gymnasium.spaces.Discrete(3, start=2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {}

        def step(self, action):
            assert self.action_space.contains(action)
            return np.zeros(2, np.float32), float(action), True, False, {}

    gymnasium.register("FromTwo-v0", FromTwo)
    try:
        agent = jp.agents.make("discrete_bc", jp.Spec(2, 3, (), (), discrete=True), hidden=(4,))
        state = agent.init(jax.random.key(0), jp.data.Statistics(np.zeros(2, np.float32), np.ones(2, np.float32)))
        for best in range(3):  # its output layer says so, whatever it sees
            outputs = state.params["policy"]["Dense_1"] | {"bias": 50.0 * jax.nn.one_hot(best, 3)}
            policy = agent.policy(state.replace(params={"policy": state.params["policy"] | {"Dense_1": outputs}}))
            assert jp.evaluate(agent, policy, "FromTwo-v0", episodes=2, seed=0).tolist() == [2.0 + best] * 2
    finally:
        del gymnasium.registry["FromTwo-v0"]
