"""Two problems small enough to be solved by hand, which every algorithm has to solve: dense, and at 80 % sparsity.

The point mass. Position x in [−1, 1], action a, next position x′ = clip(x + ½a), reward −x′². What brings x′ nearest to 0 is best now
and ever after, so the optimal action is a* = clip(−2x, −1, 1), or of −1, 0, 1 the nearest to it. The log holds a* in half of the rows
and uniform actions in the others: the mean action, a clone's, is ½a*; the most likely of the three is a*.

The chain. Three states in a row, seen one-hot, left one after the other by whatever action; the third ends the episode. The reward is
a, −a and a by state, so Q(state, a) = ±a + γ·V(next) with V known for each algorithm, and γ = 0.9. With discrete actions, right from the
third state earns 1 and ends the episode; left goes back, or stays in the first, and earns 0.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.agents import make
from jaxprune.data.transitions import Spec, Statistics, Transitions
from jaxprune.training.loop import train_blocks
from tests.agents.small import DISCRETE, NAMES

GAMMA, SPARSITY = 0.9, 0.8
CLONING = {"hidden": (64, 64), "batch_size": 64}
LEARNING = {**CLONING, "learning_rate": 1e-3, "discount": GAMMA, "tau": 0.02}
SETTINGS = {
    "bc": CLONING,
    "discrete_bc": CLONING,
    "bcq": {**LEARNING, "vae_hidden": (64, 64), "evaluation_candidates": 50},
    "td3_bc": LEARNING,
    "iql": {**LEARNING, "max_steps": 3000},
    "discrete_bcq": LEARNING,
}


def trained(name, spec, log, steps, **settings):
    """The agent, and two states: trained dense, and pruned by SNIP at initialisation; both in one program."""
    agent = make(name, spec, **{**SETTINGS[name], **settings})
    dense = agent.init(jax.random.key(0), Statistics(log.observations.mean(0), log.observations.std(0)))
    pruned, info = jp.prune_agent(agent, dense, log.take(np.arange(512)), jax.random.key(1), sparsity=SPARSITY)
    assert info.kept <= (1 - SPARSITY) * info.total + 2
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), dense, pruned)
    keys = jnp.stack([jax.random.key(2)] * 2)
    blocks = jnp.int32(steps // agent.period)
    stack, _ = train_blocks(
        agent, stack, keys, jax.device_put(log), blocks, batch_size=agent.config.batch_size, span=agent.period, stacked="vectorized"
    )
    return agent, [jax.tree.map(lambda leaf, i=i: leaf[i], stack) for i in range(2)]


def point_mass(discrete, rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, rows).astype(np.float32)
    best = np.round(np.clip(-2 * x, -1, 1)) if discrete else np.clip(-2 * x, -1, 1)
    other = rng.integers(-1, 2, rows) if discrete else rng.uniform(-1, 1, rows)
    actions = np.where(rng.random(rows) < 0.5, best, other).astype(np.float32)
    following = np.clip(x + 0.5 * actions, -1, 1)
    taken = (actions + 1).astype(np.int32) if discrete else actions[:, None]
    return Transitions(x[:, None], taken, -(following**2), following[:, None], np.ones(rows, np.float32))


# Less held to the log than published: nothing here needs it.
GREEDY = {"bcq": {"phi": 0.25}, "td3_bc": {"alpha": 40.0}, "iql": {"temperature": 30.0}}


@pytest.mark.parametrize("name", NAMES)
def test_point_mass(name):
    discrete = name in DISCRETE
    spec = Spec(1, 3, (), (), discrete=True) if discrete else Spec(1, 1, [-1], [1])
    agent, states = trained(name, spec, point_mass(discrete), 1000 if name == "bcq" else 1500, **GREEDY.get(name, {}))
    x = np.linspace(-0.95, 0.95, 60, dtype=np.float32)[:, None]
    best = np.clip(-2 * x[:, 0], -1, 1)
    for state in states:
        actions = np.asarray(agent.act(agent.policy(state), x, jax.random.key(0)))
        if discrete:
            clear = np.abs(np.abs(x[:, 0]) - 0.25) > 0.05
            np.testing.assert_array_equal(actions[clear], np.round(best)[clear] + 1)
        else:
            # The clone's own action is wrong by 0.37 on average.
            assert np.abs(actions[:, 0] - (0.5 * best if name == "bc" else best)).mean() < 0.1


STATES = np.eye(3, dtype=np.float32)
SIGN = np.asarray([1.0, -1.0, 1.0])
RIGHT = np.asarray([0.6, 0.5, 0.4])


def chain(rows=3000, middle=0.0, spread=1.0, seed=0):
    """States drawn uniformly; actions uniform, `spread` around `middle` in the rewarded direction."""
    rng = np.random.default_rng(seed)
    state = rng.integers(0, 3, rows)
    actions = (SIGN[state] * (middle + rng.uniform(-spread, spread, rows))).astype(np.float32)
    rewards = (SIGN[state] * actions).astype(np.float32)
    following = np.minimum(state + 1, 2)
    return Transitions(STATES[state], actions[:, None], rewards, STATES[following], live(state == 2))


def walk(right, rows=3000, seed=0):
    """States drawn uniformly; right with the probabilities given."""
    rng = np.random.default_rng(seed)
    state = rng.integers(0, 3, rows)
    actions = (rng.random(rows) < right[state]).astype(np.int32)
    following, last = np.clip(state + 2 * actions - 1, 0, 2), (state == 2) & (actions == 1)
    return Transitions(STATES[state], actions, last.astype(np.float32), STATES[following], live(last))


def live(last):
    return 1 - last.astype(np.float32)


def perceptron(params, x):
    """Of one network, in NumPy."""
    layers = [jax.tree.map(np.asarray, params[f"Dense_{i}"]) for i in range(len(params))]
    for i, layer in enumerate(layers):
        x = (np.maximum(x, 0) if i else x) @ layer["kernel"] + layer["bias"]
    return x


def standard(state, observations):
    return (observations - np.asarray(state.statistics.mean)) / np.asarray(state.statistics.std)


# What a state's reward is worth to the policy that an algorithm evaluates, at least and at most.
# BCQ: the log holds 0.4 to 0.6, so the VAE decodes something between; the actor adds φ = 0.05 to the best of what it decodes.
# TD3+BC: actions are 1 − |ε| where the noise ε points inwards, so 1 + E[min(ε, 0)] with ε = clip(N(0, 0.2²), ±0.5):
#   1 − 0.2/√(2π)·(1 − exp(−2.5²/2)) − 0.5·Φ(−2.5).
# IQL: the 0.7-expectile v of a uniform reward on [−1, 1]: 0.7·(1 − v)² = 0.3·(1 + v)².
WORTH = {"bcq": (0.55, 0.65), "td3_bc": (0.9206, 0.9206), "iql": (0.20871, 0.20871)}
LOG = {"bcq": {"middle": 0.5, "spread": 0.1}}
# The action itself. IQL's is the mean of the logged ones under the weights min(exp(30·(a − v)), 100), for a uniform on [−1, 1]: 0.664.
ACTION = {"bcq": (0.45, 0.66), "td3_bc": (0.9, 1.01), "iql": (0.614, 0.714)}


@pytest.mark.parametrize("name", sorted(WORTH))
def test_chain(name):
    log = chain(**LOG.get(name, {}))
    agent, states = trained(name, Spec(3, 1, [-1], [1]), log, 2000, **(GREEDY[name] if name != "bcq" else {}))
    least, most = (worth * np.asarray([GAMMA + GAMMA**2, GAMMA, 0.0]) for worth in WORTH[name])
    for state in states:
        acted = np.asarray(agent.act(agent.policy(state), STATES, jax.random.key(0)))[:, 0]
        assert (SIGN * acted > ACTION[name][0]).all()
        assert (SIGN * acted < ACTION[name][1]).all()
        for s in range(3):
            logged = log.actions[log.observations[:, s] == 1][:50]
            inputs = np.concatenate([standard(state, np.tile(STATES[s], (50, 1))), logged], axis=1)
            now = SIGN[s] * logged[:, 0]
            for member in range(2):
                critic = jax.tree.map(lambda leaf, member=member: leaf[member], state.params["critic"])
                values = perceptron(critic, inputs)[:, 0]
                assert (values > now + least[s] - 0.06).all()
                assert (values < now + most[s] + 0.06).all()
            if name == "iql":
                value = perceptron(state.params["value"], standard(state, STATES[s : s + 1]))
                np.testing.assert_allclose(value, WORTH["iql"][0] + least[s], atol=0.06)


def test_clones_of_the_chain():
    """The mean action of every state, and the frequencies of discrete ones."""
    _, states = trained("bc", Spec(3, 1, [-1], [1]), chain(middle=0.5, spread=0.4), 600)
    for state in states:
        actions = np.tanh(perceptron(state.params["policy"], standard(state, STATES)))[:, 0]
        np.testing.assert_allclose(actions, 0.5 * SIGN, atol=0.05)
    log = walk(RIGHT)
    _, states = trained("discrete_bc", Spec(3, 2, (), (), discrete=True), log, 600)
    frequencies = log.observations.T @ np.eye(2)[log.actions] / log.observations.sum(0)[:, None]
    for state in states:
        likelihoods = np.exp(perceptron(state.params["policy"], standard(state, STATES)))
        np.testing.assert_allclose(likelihoods / likelihoods.sum(1, keepdims=True), frequencies, atol=0.05)


@pytest.mark.parametrize("name", sorted(DISCRETE - {"discrete_bc"}))
def test_discrete_chain(name):
    """Q* by hand; and where the log hardly ever ends the episode, what cannot be taken is worth nothing to the states before it."""
    spec = Spec(3, 2, (), (), discrete=True)
    free = [[0.729, 0.81], [0.729, 0.9], [0.81, 1.0]]
    bound = [[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    for right, expected in ((RIGHT, free), (np.asarray([0.5, 0.5, 0.1]), bound)):
        agent, states = trained(name, spec, walk(right), 2000)
        for state in states:
            np.testing.assert_allclose(perceptron(state.params["critic"], standard(state, STATES)), expected, atol=0.05)
            acted = np.asarray(agent.act(agent.policy(state), STATES, jax.random.key(0)))
            if expected is free:
                np.testing.assert_array_equal(acted, [1, 1, 1])
            else:
                assert acted[2] == 0
