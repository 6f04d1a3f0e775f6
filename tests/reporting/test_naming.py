import pytest

from jaxprune.reporting import naming


@pytest.mark.parametrize(
    ("key", "expected"),
    [("bcq", "BCQ"), ("td3_bc", "TD3+BC"), ("grasp", "GraSP"), ("snip_shuffled", "SNIP, shuffled"), ("mine", "mine"), ("my_own", "my_own")],
)
def test_names(key, expected):
    assert naming.name(key) == expected


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("jaxprune/hopper/medium-v0", "Hopper medium"),
        ("jaxprune/halfcheetah/medium-replay-v0", "HalfCheetah medium-replay"),
        ("D4RL/door/human-v2", "Door human"),
        ("../data/hopper_expert.hdf5", "hopper_expert"),
        ("C:\\data\\walker.h5", "walker"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_data_sets(dataset, expected):
    assert naming.dataset_name(dataset) == expected


def test_numbers():
    assert [naming.percent(value) for value in (0.0, 0.9, 0.995, 0.98847)] == ["0 %", "90 %", "99.5 %", "98.847 %"]
    assert [naming.number(value) for value in (1946.4, -280.2, 52.44, 0.314, 3.0, None)] == ["1,946", "−280", "52.4", "0.31", "3", "n/a"]
    assert [naming.duration(value) for value in (4.14, 41.0, 310.0, 11_520.0, None)] == ["4.1 s", "41 s", "5 min", "3.2 h", "n/a"]
