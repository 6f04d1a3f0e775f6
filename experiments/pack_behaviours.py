"""Pack chosen snapshots of a task's training into the one weights file that its built-in data sets are made with.

    python experiments/pack_behaviours.py --task=hopper --medium=A.npz --expert=B.npz --replay=C.npz,D.npz,A.npz

writes ``jaxprune/data/behaviours/hopper.npz`` (or --output). ``random`` needs no weights. Sets that were made with other
weights are made anew when they are next loaded.
"""

import json
import pathlib

import numpy as np
from absl import app, flags

from jaxprune.data import behaviours
from jaxprune.data.behaviours import TASKS, load_policy

_TASK = flags.DEFINE_enum("task", None, list(TASKS), "Task.", required=True)
_MEDIUM = flags.DEFINE_string("medium", None, "Snapshot that plays the medium level.", required=True)
_EXPERT = flags.DEFINE_string("expert", None, "Snapshot that plays the expert level.", required=True)
_REPLAY = flags.DEFINE_list(
    "replay", None, "Snapshots of medium-replay, in the order of training; the last may be the medium one.", required=True
)
_OUTPUT = flags.DEFINE_string("output", None, "File to write; by default the package's.")


def main(_):
    sources = {"medium": _MEDIUM.value, "expert": _EXPERT.value} | {f"replay_{index}": path for index, path in enumerate(_REPLAY.value)}
    arrays, policies = {}, {}
    for name, path in sources.items():
        policies[name] = dict(load_policy(path).metadata)
        if policies[name]["env_id"] != TASKS[_TASK.value]:
            raise app.UsageError(
                f"{path} plays {policies[name]['env_id']}, but {_TASK.value} is {TASKS[_TASK.value]}; give a snapshot of that task."
            )
        with np.load(path) as snapshot:
            arrays |= {f"{name}/{key}": snapshot[key] for key in snapshot.files if key != "metadata"}
        print(f"{name:10} {policies[name]['steps']:>10,} steps, mean return {policies[name]['return_mean']:.0f}")
    output = pathlib.Path(_OUTPUT.value or pathlib.Path(behaviours.__file__).parent / f"{_TASK.value}.npz")
    metadata = {"env_id": TASKS[_TASK.value], "policies": policies}
    np.savez_compressed(output, metadata=np.asarray(json.dumps(metadata)), **arrays)
    print(f"wrote {output} ({output.stat().st_size / 1024:.0f} KB)")


if __name__ == "__main__":
    app.run(main)
