"""Pruning in the middle of a run."""

import jax
import numpy as np
import optax
import pytest

import jaxprune as jp
from jaxprune.parameters import prunable_leaves
from jaxprune.pruning.early import relative_movement
from jaxprune.training.early import parse_when, train_early
from tests.agents.small import small_agent
from tests.agents.states import agree, fresh_state, plain, same
from tests.conftest import statistics_of

KEY, PRUNE_KEY = jax.random.key(3), jax.random.key(4)


@pytest.fixture
def started(spec, transitions):
    agent = small_agent("bc", spec)
    return agent, fresh_state(agent, statistics_of(transitions))


def early(agent, state, transitions, **kwargs):
    return train_early(agent, state, transitions, key=KEY, prune_rows=transitions, prune_key=PRUNE_KEY, **{"sparsity": 0.8, **kwargs})


def test_at_a_step_it_is_train_prune_compact_train(started, transitions):
    agent, state = started
    before = jax.tree.map(lambda x: plain(x).copy(), state)
    small, now, report = early(agent, state, transitions, steps=16, when="step:6")
    same(state, before)
    half, _ = jp.train(agent, state, transitions, steps=6, key=KEY)
    pruned, info = jp.prune_agent(agent, half, transitions, PRUNE_KEY, sparsity=0.8)
    expected_agent, compacted = jp.compact(agent, pruned)
    expected, metrics = jp.train(expected_agent, compacted, transitions, steps=10, key=KEY)
    assert small is expected_agent
    assert small.widths
    same(now, expected)
    assert int(now.step) == 16
    assert report.pruned_at == {"policy": 6}
    assert report.kept == {("policy",): info}
    assert report.widths == dict(small.widths)
    assert report.metrics.keys() == metrics.keys()

    masked, dense, _ = early(agent, state, transitions, steps=6, when="step:6", compact=False)
    assert masked is agent
    agree(agent, dense, *jp.compact(agent, dense), 2e-6)

    _, after, _ = early(agent, state, transitions, steps=10, when="step:6", total="full-after")
    same(after, expected)
    _, restarted, _ = early(agent, state, transitions, steps=6, when="step:6", restart_optimizer=True)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(restarted.opt_state))


def test_the_detector_fires_when_movement_settles(spec, transitions):
    agent = small_agent("bc", spec, optimizer=optax.adam(optax.exponential_decay(1e-2, 1, 0.8)))
    state = fresh_state(agent, statistics_of(transitions))
    small, now, report = early(agent, state, transitions, steps=60, check_every=3, reference="init")
    (step,) = set(report.pruned_at.values())
    assert report.checks[-1]["fired"]
    assert [row["fired"] for row in report.checks[:-1]] == [False] * (len(report.checks) - 1)
    assert [row["step"] for row in report.checks] == list(range(3, step + 1, 3))
    assert int(now.step) == 60
    initial = prunable_leaves({"policy": state.params["policy"]})
    movements = []
    for row in report.checks:
        trained, _ = jp.train(agent, state, transitions, steps=row["step"], key=KEY)
        movements.append(float(relative_movement(initial, prunable_leaves({"policy": trained.params["policy"]}))))
        assert row["movement"] == pytest.approx(movements[-1], rel=1e-4)
    changes = np.abs(np.diff(movements))
    assert step < 30, "the cap came first"
    assert [change < movements[0] * (1 - 0.8) for change in changes] == [False] * (len(changes) - 1) + [True]
    assert report.widths == dict(small.widths)


def test_the_cap_prunes_in_any_case_and_networks_may_go_their_own_ways(spec, transitions):
    agent = small_agent("bcq", spec)
    state = fresh_state(agent, statistics_of(transitions))
    small, now, report = early(
        agent, state, transitions, steps=7, check_every=3, cap=5, scope="network", sparsity=0.9, networks=("vae", "actor"), compact=False
    )
    assert small is agent
    assert report.pruned_at == {"vae": 5, "actor": 5}
    assert set(report.kept) == {("vae",), ("actor",)}
    assert [row["step"] for row in report.checks] == [3, 3, 5, 5]
    assert int(now.step) == 7
    assert np.asarray(now.masks["critic"]["Dense_0"]["kernel"]).all()


def test_refusals(started, transitions):
    agent, state = started
    assert [parse_when(w) for w in ("init", "early", "step:0", "step:250")] == [0, None, 0, 250]
    for wrong in ("late", "step:", "step:-1", "step:x"):
        with pytest.raises(ValueError, match="expected init, early or step:N"):
            parse_when(wrong)
    for kwargs, message in (
        ({"when": "step:9"}, "pruning after 9 updates is beyond the 5"),
        ({"scope": "layer"}, "scope='layer'"),
        ({"total": "half"}, "total='half'"),
        ({"check_every": 0}, "check_every of at least one"),
        ({"structure": "units", "sparsity": 0.95}, "can never fire for units"),
    ):
        with pytest.raises(ValueError, match=message):
            early(agent, state, transitions, steps=5, **kwargs)
