"""Every Python block of the README runs, and prints what its comments say."""

import contextlib
import io
import json
import pathlib
import re

import jax
import numpy as np
import pytest

import jaxprune as jp
from tests.conftest import make_dataset

ROOT = pathlib.Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)


def prepare_output():
    """The folder that the README's sweep would have written."""
    dataset = make_dataset(200)
    config = jp.SweepConfig("log", sparsities=(0.95,), seeds=(0,), steps=2, eval_every=2, prune_rows=32, evaluate=False)
    rows = jp.sweep(config, "out", dataset=dataset)
    pathlib.Path("out/records.jsonl").write_text("".join(json.dumps({**row, "return_mean": 1.0}) + "\n" for row in rows))
    return {"jaxprune": jp, "jax": jax, "observations": dataset.transitions.observations}


@pytest.mark.parametrize("index", range(len(BLOCKS)))
def test_block(index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = BLOCKS[index]
    names = prepare_output() if '"out' in code else {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, f"README block {index}", "exec"), names)
    assert printed.getvalue().split("\n")[:-1] == re.findall(r"print\(.*\)  # (.*)", code)
    if "actions" in names:
        assert np.isfinite(np.asarray(names["actions"])).all()


def test_there_are_blocks():
    assert len(BLOCKS) >= 3
