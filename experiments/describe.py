"""Look at a data set before training on it: what it holds, what was dropped, what looks wrong.

    python experiments/describe.py jaxprune/hopper/medium-v0
    python experiments/describe.py hopper.hdf5 --env_id=Hopper-v5 --output=/tmp/look

prints a summary and writes it with a figure as OUTPUT/NAME.txt and OUTPUT/NAME.png.
"""

import pathlib
import re

from absl import app, flags, logging

from jaxprune.data import load
from jaxprune.data.description import describe
from jaxprune.data.description_figure import describe_figure

_ENV_ID = flags.DEFINE_string("env_id", None, "Gymnasium environment of the data, where they do not say.")
_CLIP_ACTIONS = flags.DEFINE_bool("clip_actions", False, "Move actions outside the bounds to the bound.")
_MAX_EPISODE_STEPS = flags.DEFINE_integer(
    "max_episode_steps", None, "Time limit of a file that holds neither timeouts nor next_observations."
)
_SIZE = flags.DEFINE_integer("size", None, "Transitions of a built-in set.")
_SEED = flags.DEFINE_integer("seed", None, "Seed of a built-in set.")
_OUTPUT = flags.DEFINE_string("output", ".", "Folder for the figure and the text.")


def main(argv):
    if len(argv) != 2:
        raise app.UsageError("Give one data set: the path of an HDF5 file, a Minari id, or jaxprune/<task>/<level>-v0.")
    logging.set_verbosity(logging.ERROR)  # what it warns of is in the summary
    try:
        dataset = load(
            argv[1],
            env_id=_ENV_ID.value,
            clip_actions=_CLIP_ACTIONS.value,
            max_episode_steps=_MAX_EPISODE_STEPS.value,
            size=_SIZE.value,
            seed=_SEED.value,
        )
    except (ValueError, FileNotFoundError) as error:
        raise SystemExit(f"error: {error}") from error
    text = describe(dataset)
    print(text)
    folder = pathlib.Path(_OUTPUT.value)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemExit(f"error: cannot write to {folder}: {error.strerror}; name another --output") from error
    name = pathlib.Path(argv[1]).stem if pathlib.Path(argv[1]).exists() else dataset.name
    stem = re.sub(r"\W+", "_", name)
    (folder / f"{stem}.txt").write_text(text + "\n")
    describe_figure(dataset).savefig(folder / f"{stem}.png", dpi=110)
    print(f"wrote {folder / stem}.png and {folder / stem}.txt")


if __name__ == "__main__":
    app.run(main)
