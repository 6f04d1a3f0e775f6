import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprune.agents import BCConfig, BCQConfig, bc, bcq
from jaxprune.agents.sparse import mask_agent
from jaxprune.data.transitions import Spec, Statistics, Transitions
from jaxprune.parameters import prunable_leaves, prunable_size
from jaxprune.pruning.masks import kept_count
from jaxprune.training.baselines import gradual, lottery_ticket
from jaxprune.training.loop import train

SPEC, N = Spec(4, 2, (-1.0, -1.0), (1.0, 1.0)), 64
KEY = jax.random.key(3)


@pytest.fixture(scope="module")
def transitions():
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(N, 4)).astype(np.float32)
    actions = np.tanh(observations[:, :2])
    return Transitions(observations, actions, rng.normal(size=N).astype(np.float32), observations[::-1].copy(), np.ones(N, np.float32))


def fresh(agent):
    return agent.init(jax.random.key(0), Statistics(np.zeros(4, np.float32), np.ones(4, np.float32)))


@pytest.fixture(scope="module")
def cloner():
    return bc(SPEC, BCConfig(hidden=(8, 6), batch_size=16))


def kernels(tree):
    return np.concatenate([np.ravel(leaf) for leaf in prunable_leaves(tree).values()])


def by_hand(masks, params, keep):
    """The `keep` largest of the kept weights."""
    scores = np.where(kernels(masks), np.abs(kernels(params)), -1)
    mask = np.zeros(scores.size, bool)
    mask[np.argsort(-scores, kind="stable")[:keep]] = True
    return mask


@pytest.mark.parametrize("rewind_to", [0, 5])
def test_a_ticket_is_the_rewound_weights_under_the_trained_masks(cloner, transitions, rewind_to):
    state = fresh(cloner)
    ticket, info = lottery_ticket(cloner, state, transitions, KEY, sparsity=0.75, rounds=2, steps=25, rewind_to=rewind_to)
    start = train(cloner, state, transitions, steps=rewind_to, key=KEY)[0] if rewind_to else state
    n = prunable_size(state.params["policy"])

    dense = train(cloner, start, transitions, steps=25 - rewind_to, key=KEY)[0]
    first = by_hand(start.masks["policy"], dense.params["policy"], kept_count(0.5, n))
    leaves, place = {}, 0
    for name, leaf in prunable_leaves(start.masks["policy"]).items():
        leaves[name] = jnp.asarray(first[place : place + leaf.size].reshape(leaf.shape))
        place += leaf.size
    masks = {"policy": {layer: {**leaf, "kernel": leaves[f"{layer}/kernel"]} for layer, leaf in start.masks["policy"].items()}}
    again = train(cloner, mask_agent(cloner, start, masks), transitions, steps=25 - rewind_to, key=KEY)[0]
    second = by_hand(masks["policy"], again.params["policy"], kept_count(0.75, n))

    np.testing.assert_array_equal(kernels(ticket.masks["policy"]), second)
    np.testing.assert_array_equal(kernels(ticket.params["policy"]), np.where(second, kernels(start.params["policy"]), 0))
    assert info.kept == kept_count(0.75, n)
    assert ticket.step == rewind_to


def test_a_ticket_of_every_network(transitions):
    agent = bcq(SPEC, BCQConfig(hidden=(8, 6), vae_hidden=(8, 8), batch_size=16))
    ticket, info = lottery_ticket(agent, fresh(agent), transitions, KEY, sparsity=0.5, rounds=2, steps=3, networks=("critic", "actor"))
    assert kernels(ticket.masks["vae"]).all()
    for name in ("critic", "actor"):
        assert kernels(ticket.masks[name]).sum() == kept_count(0.5, prunable_size(ticket.params[name]))
        assert (kernels(ticket.targets[name])[~kernels(ticket.masks[name])] == 0).all()
    assert set(info.layers) == {f"{n}/Dense_{i}/kernel" for n in ("critic", "actor") for i in range(3)}


def test_gradual_pruning_ends_at_the_sparsity_after_all_updates(cloner, transitions):
    state, info = gradual(cloner, fresh(cloner), transitions, KEY, sparsity=0.9, steps=40, begin=4, prunings=5)
    n = prunable_size(state.params["policy"])
    assert info.kept == kept_count(0.9, n) == kernels(state.masks["policy"]).sum()
    assert state.step == 40
    assert (kernels(state.params["policy"])[~kernels(state.masks["policy"])] == 0).all()
    assert (kernels(state.params["policy"])[kernels(state.masks["policy"])] != 0).all()


def test_gradual_pruning_of_nothing_is_training(cloner, transitions):
    state, _ = gradual(cloner, fresh(cloner), transitions, KEY, sparsity=0.0, steps=40, prunings=4)
    plain = train(cloner, fresh(cloner), transitions, steps=40, key=KEY)[0]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), state.params, plain.params)


def test_one_gradual_pruning_at_the_end_is_magnitude_of_the_trained(cloner, transitions):
    state, _ = gradual(cloner, fresh(cloner), transitions, KEY, sparsity=0.8, steps=20, end=20, prunings=1)
    plain = train(cloner, fresh(cloner), transitions, steps=20, key=KEY)[0].params["policy"]
    expected = by_hand(jax.tree.map(lambda leaf: np.ones(leaf.shape, bool), plain), plain, kept_count(0.8, prunable_size(plain)))
    np.testing.assert_array_equal(kernels(state.masks["policy"]), expected)


def test_times_out_of_order_are_refused(cloner, transitions):
    with pytest.raises(ValueError, match="rewind_to=9"):
        lottery_ticket(cloner, fresh(cloner), transitions, KEY, sparsity=0.5, steps=9, rewind_to=9)
    with pytest.raises(ValueError, match="begin=8, end=7"):
        gradual(cloner, fresh(cloner), transitions, KEY, sparsity=0.5, steps=9, begin=8, end=7)
