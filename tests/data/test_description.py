from typing import Any

import numpy as np

from jaxprune.data import from_arrays
from jaxprune.data.description import describe
from jaxprune.data.description_figure import describe_figure
from tests.data import logs

EPISODES = [(3, logs.TERMINAL), (4, logs.TIMEOUT), (2, logs.OPEN)]


def test_text_says_what_is_inside():
    columns = logs.columns_of(EPISODES)
    columns["actions"][0, 1] = 4
    dataset = from_arrays(**columns, low=-1, high=1, env_id="Hopper-v5", name="mine")
    text = describe(dataset)
    # returns: 0 + (0 + 1 + 2)/16, 4 + 6/16 and an open episode that is not counted
    assert "returns   mean 2.3" in text
    assert "episodes  3 (1 terminal, 1 timeout, 1 open)" in text
    assert "score     0.7" in text  # 100 (2.28125 + 20.272305) / 3254.572305 = 0.69
    assert "1 of 18 values lie outside" in text
    assert "0 rows repeat" in text


def test_repeated_rows_are_counted():
    columns: dict[str, Any] = {key: np.concatenate([array, array]) for key, array in logs.columns_of(EPISODES[:2]).items()}
    assert "7 rows repeat" in describe(from_arrays(**columns, low=-1, high=1))


def test_figures_of_odd_logs():
    columns = logs.columns_of(EPISODES)
    one_feature = columns | {key: columns[key][:, 1:] for key in ("observations", "next_observations")}
    constant: dict[str, Any] = columns | {
        "observations": np.ones((9, 2)),
        "rewards": np.ones(9),
        "next_observations": None,
        "timeouts": np.zeros(9),
    }
    discrete: dict[str, Any] = columns | {"actions": np.arange(9) % 3}
    datasets = [
        from_arrays(**columns, low=-1, high=1, env_id="Hopper-v5"),
        from_arrays(**one_feature, low=-1, high=1),
        from_arrays(**constant, low=-1, high=1),
        from_arrays(**discrete, discrete=3),
    ]
    for dataset in datasets:
        describe(dataset)
        figure = describe_figure(dataset)
        figure.canvas.draw()
        assert len(figure.axes) >= 6
