"""The table of algorithms, at a size that proves that it runs, resumes and says what it did."""

import csv
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
SET = "jaxprune/hopper/random-n300-s0-v0"


def test_algorithms(tmp_path):
    out = tmp_path / "out"
    sizes = ["--algos=bc", "--seeds=1", "--evaluations=2", "--episodes=1", f"--datasets={SET}"]
    environment = {**os.environ, "MINARI_DATASETS_PATH": str(tmp_path / "data")}

    def run(*flags):
        command = [sys.executable, "experiments/algorithms.py", *sizes, *flags, f"--work={tmp_path / 'work'}", f"--output={out}"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, env=environment)

    refused = run("--steps=4,6")
    assert refused.returncode != 0
    assert "expected one number for each of --algos=bc" in refused.stderr
    assert not out.exists()
    done = run("--steps=4")
    assert done.returncode == 0, done.stderr
    assert "4 runs, 16 updates:" in done.stdout
    assert done.stdout.index("in all if pruned updates") < done.stdout.index("# Algorithms, dense and pruned")
    with (out / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["algorithm"], row["steps"], row["arm"]) for row in rows] == [
        ("BC", "4", arm) for arm in ("dense", "SNIP 90 %", "SNIP 95 %", "GraSP 95 %")
    ]
    # 11-256-256-3 has 69,120 kernel weights.
    assert [int(row["kept"]) for row in rows] == [69_120, 6_912, 3_456, 3_456]
    written = (out / "table.csv").stat().st_mtime_ns
    again = run("--steps=4")
    assert again.returncode == 0, again.stderr
    assert (out / "table.csv").stat().st_mtime_ns > written
    with (out / "table.csv").open() as file:
        assert list(csv.DictReader(file)) == rows
