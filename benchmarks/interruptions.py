"""A sweep killed at random moments again and again, and resumed: the same bits, every row once.

    python benchmarks/interruptions.py --kills=20 --output=results/interruptions

A process runs a small sweep and is sent SIGKILL after a random time, --kills times, a new sweep beginning where one is finished.
The records and the states of all runs are compared with those of a sweep that nobody disturbed. Writes OUTPUT/README.md; a difference is
an error.
"""

import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

import jax
import numpy as np
from absl import app, flags

import jaxprune as jp
from jaxprune.training.records import read_records
from jaxprune.training.sweep import versions

KILLS = flags.DEFINE_integer("kills", 20, "Times the process is killed.", lower_bound=1)
LONGEST = flags.DEFINE_float("longest", 40.0, "Seconds after which it is killed at the latest.")
SEED = flags.DEFINE_integer("seed", 0, "Of the random moments.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

TIMES = ("start_s", "dense_s", "wall_s", "eval_s")
SWEEP = pathlib.Path(__file__).parent.parent / "experiments" / "sweep.py"
ARGUMENTS = [
    "--dataset=jaxprune/hopper/medium-v0",
    "--algo=bc",
    "--criteria=snip,random",
    "--sparsities=0,0.95",
    "--seeds=0,1",
    "--steps=6000",
    "--eval_every=500",
    "--episodes=1",
    "--max_stack=2",
    "--resume",
]


def start(folder: pathlib.Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(SWEEP), *ARGUMENTS, f"--output={folder}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def standing(folder: pathlib.Path) -> str:
    """What the journal says, in a few words."""
    if not (folder / "progress.json").exists():
        return "nothing safe yet"
    entry = json.loads((folder / "progress.json").read_text())
    half_written = [path.name for path in (folder / "checkpoints").glob("*tmp*")]
    told = f"{len(entry['finished'])} runs finished, {len(entry['checkpoints'])} checkpoints, {entry['records']:,} bytes of records safe"
    return told + (", one checkpoint half written" if half_written else "")


def differences(one: pathlib.Path, other: pathlib.Path) -> list[str]:
    found = []
    rows = [[{k: v for k, v in row.items() if k not in TIMES} for row in read_records(path)] for path in (one, other)]
    if rows[0] != rows[1]:
        found.append(f"records: {len(rows[0])} and {len(rows[1])} rows that differ")
    for run in sorted(path.name for path in (other / "runs").iterdir()):
        states = [jp.load_run(path / "runs" / run)[1] for path in (one, other)]
        if not all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, states), strict=True)):
            found.append(f"{run}: another state")
    return found


def main(_):
    output, draw = pathlib.Path(OUTPUT.value), random.Random(SEED.value)
    output.mkdir(parents=True, exist_ok=True)
    lines = ["| kill | after | found on disk |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as scratch:
        whole, broken = pathlib.Path(scratch) / "whole", pathlib.Path(scratch) / "broken"
        process = start(whole)
        if process.communicate()[0] or process.returncode:
            raise SystemExit("the undisturbed sweep failed")
        killed = sweeps = 0
        found: list[str] = []
        while True:
            process, seconds = start(broken), draw.uniform(0.5, LONGEST.value)
            try:
                told = process.communicate(timeout=seconds if killed < KILLS.value else None)[1].decode()
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                killed += 1
                lines.append(f"| {killed} | {seconds:.2f} s | {standing(broken)} |")
                print(lines[-1], flush=True)
                continue
            if process.returncode:
                raise SystemExit(told)
            sweeps += 1
            found += differences(broken, whole)
            lines.append(f"| | finished | {standing(broken)} |")
            print(lines[-1], flush=True)
            if killed >= KILLS.value:
                break
            broken = pathlib.Path(scratch) / f"broken-{sweeps}"
        count = len(read_records(whole))
    verdict = "; ".join(found) or f"{count} rows and every bit of six runs' states are the same as undisturbed, in {sweeps} sweeps"
    text = ["# Killed and resumed", "", f"`sweep.py {' '.join(ARGUMENTS)}`, SIGKILL at random moments (seed {SEED.value}):", "", *lines, ""]
    text += [f"**{verdict}**", "", json.dumps(versions())]
    (output / "README.md").write_text("\n".join(text) + "\n")
    print(verdict)
    if found:
        raise SystemExit(1)


if __name__ == "__main__":
    app.run(main)
