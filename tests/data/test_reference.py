import pytest

from jaxprune.data import normalized_score, reference_returns


@pytest.mark.parametrize("env_id", ["Hopper-v4", "Hopper-v5", "hopper-medium-v2", "mujoco/Hopper-v3"])
def test_any_version_of_a_family(env_id):
    assert reference_returns(env_id) == (-20.272305, 3234.3)


@pytest.mark.parametrize("env_id", [None, "", "HopperBulletEnv-v0", "MyHopper-v1", "Hopper", "Pendulum-v1"])
def test_others_are_unknown(env_id):
    assert reference_returns(env_id) is None


def test_scores_by_hand():
    assert normalized_score("HalfCheetah-v5", 12135.0) == pytest.approx(100.0)
    assert normalized_score("Walker2d-v5", 1.629008) == pytest.approx(0.0)
    assert normalized_score((0.0, 200.0), [50.0, 300.0]) == pytest.approx([25.0, 150.0])
    assert normalized_score("Pendulum-v1", 3.0) is None
    assert normalized_score(None, 3.0) is None
