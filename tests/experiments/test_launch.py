"""How scripts start."""

import os

import jax
import launch
import pytest
from absl import app

FLAG = "--xla_cpu_use_fusion_emitters"


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, f"{FLAG}=false"), ("--xla_dump_to=d", f"--xla_dump_to=d {FLAG}=false"), (f"{FLAG}=true", f"{FLAG}=true")],
)
def test_scripts_compile_quickly_unless_told_otherwise(given, expected, monkeypatch):
    monkeypatch.setattr(jax, "__version_info__", (0, 10, 2))
    monkeypatch.delenv("XLA_FLAGS")
    if given is not None:
        monkeypatch.setenv("XLA_FLAGS", given)
    monkeypatch.setattr(app, "run", lambda main: None)
    launch.launch(lambda: None)
    assert os.environ["XLA_FLAGS"] == expected


def test_no_flag_for_an_xla_that_may_not_know_it(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(jax, "__version_info__", (0, 11, 0))
    launch.compile_quickly()
    assert os.environ["XLA_FLAGS"] == ""
