"""Minari writes into a folder of the test's own."""

import pytest


@pytest.fixture(autouse=True)
def minari_folder(tmp_path, monkeypatch):
    folder = tmp_path / "minari"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder
