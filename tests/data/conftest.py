"""Minari, and MuJoCo's log of warnings, write into a folder of the test's own."""

import pathlib

import pytest


@pytest.fixture(autouse=True)
def minari_folder(tmp_path, monkeypatch):
    folder = tmp_path / "minari"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(__file__).parents[2]))  # for the processes that tests start
    monkeypatch.chdir(tmp_path)
    return folder
