"""What a saved run knows of its agent."""

import json

import jax
import numpy as np
import optax
import pytest

import jaxprune as jp
from tests.agents.small import small_agent
from tests.agents.states import fresh_state, same, with_random_masks
from tests.conftest import statistics_of


def started(name, spec, transitions, **settings):
    agent = small_agent(name, spec, **settings)
    return agent, with_random_masks(agent, fresh_state(agent, statistics_of(transitions)), 0.1)


@pytest.mark.parametrize("name", ["bc", "bcq"])
def test_a_compacted_run_loads_with_the_agent_at_any_size(name, spec, transitions, tmp_path):
    agent, state = started(name, spec, transitions, optimizer=optax.sgd(0.1, momentum=0.9))
    small, compacted = jp.compact(agent, state, multiple=1)
    assert small.widths
    jp.save_run(tmp_path / "small", small, compacted, {})
    jp.save_run(tmp_path / "full", agent, state, {})
    other, _ = jp.compact(agent, state, multiple=5)
    assert other.widths != small.widths
    for given in (agent, small, other):
        for folder, expected, saved in (("small", small, compacted), ("full", agent, state)):
            loaded, restored = jp.load_run(tmp_path / folder, agent=given)
            assert loaded is expected
            same(restored, saved)


def test_another_agent_is_refused(spec, transitions, tmp_path):
    agent, state = started("bc", spec, transitions)
    jp.save_run(tmp_path / "run", agent, state, {})
    with pytest.raises(ValueError, match="holds a run of bc with .* but the agent given is bcq"):
        jp.load_run(tmp_path / "run", agent=small_agent("bcq", spec))
    with pytest.raises(ValueError, match=r"'observation_size': 4, .* but the agent given is bc with Spec\(observation_size=5"):
        jp.load_run(tmp_path / "run", agent=small_agent("bc", jp.Spec(5, 2, [-1, -1], [1, 1])))
    with pytest.raises(FileNotFoundError, match="holds no run"):
        jp.load_run(tmp_path, agent=agent)


def test_an_agent_with_other_layers_or_another_optimizer_is_refused(spec, transitions, tmp_path, monkeypatch):
    agent, state = started("bc", spec, transitions, optimizer=optax.sgd(0.1, momentum=0.9))
    jp.save_run(tmp_path / "one", agent, state, {})
    with monkeypatch.context() as several:  # of several processes, each writes .npz
        several.setattr(jax, "process_count", lambda: 2)
        jp.save_run(tmp_path / "several", agent, state, {})
    wider, deeper = (tuple(agent.config.hidden[:-1]) + more for more in ((agent.config.hidden[-1] + 1,), (agent.config.hidden[-1], 5)))
    for folder in ("one", "several"):
        same(jp.load_run(tmp_path / folder, agent=agent)[1], state)
        for settings in ({"hidden": wider}, {"hidden": deeper}, {"optimizer": optax.adam(1e-3)}):
            other = small_agent("bc", spec, **{"optimizer": agent.config.optimizer, **settings})
            with pytest.raises(ValueError, match=f"{folder}/state does not fit the agent given .*; give it the layers and") as told:
                jp.load_run(tmp_path / folder, agent=other)
            assert "\n" not in str(told.value)


def test_a_damaged_or_foreign_description_is_named(spec, transitions, tmp_path):
    agent, state = started("bc", spec, transitions)
    jp.save_run(tmp_path / "run", agent, state, {})
    file = tmp_path / "run" / "agent.json"
    described = json.loads(file.read_text())
    for content, message in (
        ("", "agent.json is damaged: expected JSON"),
        ("[]", "agent.json is damaged: expected a JSON object, got list"),
        (json.dumps({**described, "agent": "mine"}), "'mine' is none of bc, bcq, .*; add it to jaxprune.agents.AGENTS first"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=message):
            jp.load_run(tmp_path / "run")


def test_a_description_cannot_replace_what_the_agent_is_made_from(spec, transitions, tmp_path):
    agent, state = started("bc", spec, transitions)
    for name in ("format", "agent", "spec", "config", "custom_optimizer", "widths"):
        with pytest.raises(ValueError, match=f"a description cannot name '{name}': agent.json keeps format, agent, spec"):
            jp.save_run(tmp_path / "run", agent, state, {"seed": 0, name: 1})
        assert not (tmp_path / "run").exists()
    jp.save_run(tmp_path / "run", agent, state, {"seed": 0, "algo": "bc"})
    assert json.loads((tmp_path / "run" / "agent.json").read_text())["seed"] == 0
    np.testing.assert_array_equal(jax.tree.leaves(jp.load_run(tmp_path / "run")[1].masks)[1], jax.tree.leaves(state.masks)[1])
