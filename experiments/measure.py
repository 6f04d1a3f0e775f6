"""What runs weigh, how fast they act, what training them took, and whether the exported policies still earn the return.

    python -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.13.0 numpy
    python experiments/measure.py --runs='out/runs/*' --torch_python=/tmp/torch/bin/python --output=results/export

writes OUTPUT/networks.csv (a row per run, network and representation), policies.csv (a row per run and file format), latency.csv (a row
per run, way to call and batch size), returns.csv, training.csv, tables.md with all of them, and bytes_ALGO.png, latency_ALGO.png and
return_ALGO.png. Latency and training are measured for the first seed of every kind of run. --latency=false, --episodes=0, --updates=0 and
--energy_updates=0 leave parts out.
"""

import glob
import json
import os
import pathlib
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version

from absl import flags
from launch import command_line, launch

from jaxprune.export.compiling import c_compiler
from jaxprune.export.measurement import MeasuredRun, latency_rows, network_rows, policy_rows, return_rows, training_rows
from jaxprune.export.measurement_tables import COLUMNS, draw, speedups, write_tables
from jaxprune.training.sweep import versions

TORCH_SERVER = pathlib.Path(__file__).resolve().parents[1] / "benchmarks" / "peers" / "torch_policy.py"

RUNS = flags.DEFINE_list("runs", None, "Run folders; patterns such as out/runs/* are expanded.", required=True)
TORCH_PYTHON = flags.DEFINE_string("torch_python", None, "Interpreter with torch and numpy; without it PyTorch is left out.")
LATENCY = flags.DEFINE_bool("latency", True, "Time the policies.")
BATCHES = flags.DEFINE_list("batches", ["1", "256"], "Batch sizes to time.")
ROUNDS = flags.DEFINE_integer("rounds", 5, "Rounds in which every way to call has its turn.", lower_bound=1)
SECONDS = flags.DEFINE_float("seconds", 0.5, "About how long a turn takes, at most 2,000 calls.", lower_bound=0.01)
EPISODES = flags.DEFINE_integer("episodes", 20, "Episodes for each of the live, the C and the C int8 policy; 0 plays none.", lower_bound=0)
BACKEND = flags.DEFINE_string("backend", "auto", "Environment stepping: envpool, gymnasium or auto.")
UPDATES = flags.DEFINE_integer("updates", 200, "Updates to time; 0 times none.", lower_bound=0)
ENERGY_UPDATES = flags.DEFINE_integer("energy_updates", 0, "Updates to measure the energy of, with codecarbon.", lower_bound=0)
COUNTRY = flags.DEFINE_string("country", None, "ISO code of three letters, for the CO2 of its electricity.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)


def run_folders() -> list[pathlib.Path]:
    """The folders that --runs names; a pattern stands for the runs that match it."""
    found = [
        (pattern, [path for path in sorted(glob.glob(pattern)) if (pathlib.Path(path) / "agent.json").exists()]) for pattern in RUNS.value
    ]
    return [pathlib.Path(path) for pattern, paths in found for path in (paths or [pattern])]


def hardware() -> str:
    names = [line.split(":", 1)[1].strip() for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"{len(names) or os.cpu_count()} cores of {names[0] if names else platform.processor()}, load average at the start {load:.2f}"


def _read(path: str) -> str:
    return pathlib.Path(path).read_text() if os.path.exists(path) else ""


def more_versions() -> dict[str, str]:
    found = {}
    for name in ("onnx", "onnxruntime", "safetensors", "codecarbon"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    found["c compiler"] = subprocess.run([*c_compiler(), "--version"], capture_output=True, text=True, check=False).stdout.splitlines()[0]
    if TORCH_PYTHON.value:
        asked = [TORCH_PYTHON.value, "-c", "import torch; print(torch.__version__)"]
        found["torch"] = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return found


def main():
    machine = hardware()
    if not all(batch.isdigit() and int(batch) for batch in BATCHES.value):
        raise ValueError(f"--batches={','.join(BATCHES.value)}: expected positive whole numbers separated by commas")
    if not RUNS.value or not BATCHES.value:
        raise ValueError(f"--{'batches' if RUNS.value else 'runs'} is empty; expected at least one")
    folder = pathlib.Path(OUTPUT.value)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"expected a folder at {folder}, found a file; name another output folder")
    timed = {"batches": [int(batch) for batch in BATCHES.value], "rounds": ROUNDS.value, "seconds": SECONDS.value}
    timed |= {"torch_python": TORCH_PYTHON.value, "torch_server": TORCH_SERVER}
    trained = {"updates": UPDATES.value, "energy_updates": ENERGY_UPDATES.value, "country": COUNTRY.value}
    heading = [f"    {command_line()}", "", f"{machine}; {json.dumps(versions() | more_versions())}"]
    runs = [MeasuredRun(folder) for folder in run_folders()]
    runs.sort(key=lambda run: (run.names["algo"], run.names["structure"] != "weights", run.names["sparsity"], run.names["seed"]))
    first: dict[tuple, MeasuredRun] = {}
    for run in runs:
        first.setdefault(run.kind, run)
    tables: dict[str, list] = {name: [] for name in COLUMNS}
    for number, run in enumerate(runs):
        print(f"{number + 1} of {len(runs)}: {run.names['run']}", flush=True)
        tables["networks"] += network_rows(run)
        tables["policies"] += policy_rows(run)
        tables["returns"] += return_rows(run, episodes=EPISODES.value, backend=BACKEND.value) if EPISODES.value else []
        if first[run.kind] is run:
            tables["latency"] += latency_rows(run, **timed) if LATENCY.value else []
            tables["training"] += training_rows(run, **trained)
    folder.mkdir(parents=True, exist_ok=True)
    write_tables(folder, tables, heading)
    draw(folder, tables)
    print("\n".join([*speedups(tables["latency"]), f"wrote {folder}/tables.md, the tables as CSV, and figures"]))


if __name__ == "__main__":
    launch(main)
