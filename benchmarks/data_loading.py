"""How long loading takes and how much memory it holds, beside what h5py and Minari need to read the same.

    python benchmarks/data_loading.py --output=results/data_loading.csv

Each measurement runs in a process of its own; memory is the growth of the process's peak over what it holds after the imports, also as a
multiple of the arrays' size in float32. Files are written in processes of their own as well: a child inherits its parent's peak.
"""

import csv
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from absl import app, flags

_ROWS = flags.DEFINE_integer("rows", 1_000_000, "Rows of the HDF5 files.", lower_bound=1_000)
_EPISODES = flags.DEFINE_integer("episodes", 2_000, "Episodes of the Minari set.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 100, "Steps of each of its episodes.", lower_bound=1)
_OUTPUT = flags.DEFINE_string("output", None, "CSV file to write besides printing.")

_OBSERVATIONS, _ACTIONS = 17, 6


def write_hdf5(path: pathlib.Path, rows: int, dtype: type, with_next: bool) -> float:
    """Writes episodes of 1,000 steps; returns the arrays' size in float32, in MiB."""
    import h5py

    rng = np.random.default_rng(0)
    observations = rng.standard_normal((rows, _OBSERVATIONS), np.float32).astype(dtype)
    arrays = {
        "observations": observations,
        "actions": rng.uniform(-1, 1, (rows, _ACTIONS)).astype(dtype),
        "rewards": rng.standard_normal(rows, np.float32).astype(dtype),
        "terminals": np.zeros(rows, bool),
        "timeouts": np.arange(1, rows + 1) % 1_000 == 0,
    }
    if with_next:
        following = np.roll(observations, -1, axis=0)
        ends = np.flatnonzero(arrays["timeouts"])
        following[ends] = observations[ends] + 0.1
        arrays["next_observations"] = following
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array, chunks=True, compression="lzf")
    return sum(array.size * min(array.itemsize, 4) for array in arrays.values()) / 2**20


def write_minari(episodes: int, steps: int) -> float:
    """Writes the set that the two Minari measurements read; returns the arrays' size as above."""
    import gymnasium
    import minari
    from minari.data_collector.episode_buffer import EpisodeBuffer

    rng = np.random.default_rng(0)
    last = np.arange(steps) == steps - 1
    buffers = [
        EpisodeBuffer(
            observations=rng.standard_normal((steps + 1, _OBSERVATIONS)),  # pyright: ignore[reportArgumentType]
            actions=rng.uniform(-1, 1, (steps, _ACTIONS)).astype(np.float32),  # pyright: ignore[reportArgumentType]
            rewards=rng.standard_normal(steps),  # pyright: ignore[reportArgumentType]
            terminations=last & False,  # pyright: ignore[reportArgumentType]
            truncations=last,  # pyright: ignore[reportArgumentType]
            infos={},
        )
        for _ in range(episodes)
    ]
    minari.create_dataset_from_buffers(  # pyright: ignore[reportAttributeAccessIssue]
        "speed-v0",
        buffers,
        observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (_OBSERVATIONS,)),
        action_space=gymnasium.spaces.Box(-1, 1, (_ACTIONS,)),
    )
    return episodes * steps * (2 * _OBSERVATIONS + _ACTIONS + 2) * 4 / 2**20


def read(how: str, source: str) -> None:
    """Runs in a process of its own: reads `source`, prints seconds and growth of the peak in MiB."""
    import h5py
    import minari

    import jaxprune.data

    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    if how == "jaxprune":
        kept = jaxprune.data.load(source)
    elif how == "h5py":
        with h5py.File(source) as file:
            kept = {key: file[key][()] for key in file}  # pyright: ignore[reportIndexIssue]
    else:
        kept = [episode.observations for episode in minari.load_dataset(source).iterate_episodes()]  # pyright: ignore[reportAttributeAccessIssue]
    seconds = time.perf_counter() - start
    print(json.dumps([seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))
    del kept


def child(*arguments: object) -> list:
    """Runs this file with a subcommand in a process of its own, and returns what it printed."""
    output = subprocess.run([sys.executable, __file__, *map(str, arguments)], check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def main(argv):
    if argv[1:2] == ["read"]:
        return read(*argv[2:])
    if argv[1:2] == ["write_hdf5"]:
        return print(write_hdf5(pathlib.Path(argv[2]), int(argv[3]), np.dtype(argv[4]).type, argv[5] == "True"))
    if argv[1:2] == ["write_minari"]:
        return print(write_minari(int(argv[2]), int(argv[3])))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        path = pathlib.Path(folder) / "log.hdf5"
        for dtype, with_next in (("float32", True), ("float64", True), ("float32", False)):
            size = child("write_hdf5", path, _ROWS.value, dtype, with_next)
            name = f"HDF5 {_ROWS.value:,} rows, {dtype}{'' if with_next else ', no next'}"
            for how in ("h5py", "jaxprune"):
                seconds, peak = child("read", how, path)
                rows.append([name, how, f"{seconds:.2f}", f"{size:.0f}", f"{peak:.0f}", f"{peak / size:.2f}"])
        size = child("write_minari", _EPISODES.value, _STEPS.value)
        for how in ("minari", "jaxprune", "jaxprune again"):
            results = []
            for _ in range(3):
                if how == "jaxprune":  # without the arrays that an earlier run kept
                    (pathlib.Path(folder) / "speed-v0" / ".jaxprune-arrays.npz").unlink(missing_ok=True)
                results.append(child("read", how.split()[0], "speed-v0"))
            seconds, peak = min(results)
            name = f"Minari {_EPISODES.value:,} episodes of {_STEPS.value}"
            rows.append([name, how, f"{seconds:.2f}", f"{size:.0f}", f"{peak:.0f}", f"{peak / size:.2f}"])
    header = ["log", "reader", "seconds", "arrays_mib", "peak_mib", "peak_over_arrays"]
    for row in [header, *rows]:
        print("{:38} {:15} {:>8} {:>11} {:>9} {:>17}".format(*row))
    if _OUTPUT.value:
        with open(_OUTPUT.value, "w", newline="") as file:
            csv.writer(file).writerows([header, *rows])


if __name__ == "__main__":
    app.run(main)
