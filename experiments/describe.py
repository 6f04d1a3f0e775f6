"""Look at a data set before training on it: what it holds, what was dropped, what looks wrong.

    python experiments/describe.py jaxprune/hopper/medium-v0
    python experiments/describe.py hopper.hdf5 --env_id=Hopper-v5 --output=/tmp/look

prints a summary and writes it with a figure as OUTPUT/NAME.txt and OUTPUT/NAME.png.
"""

import pathlib
import re

from absl import flags, logging
from launch import launch

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


def main(name):
    logging.set_verbosity(logging.ERROR)  # what it warns of is in the summary
    dataset = load(
        name,
        env_id=_ENV_ID.value,
        clip_actions=_CLIP_ACTIONS.value,
        max_episode_steps=_MAX_EPISODE_STEPS.value,
        size=_SIZE.value,
        seed=_SEED.value,
    )
    text = describe(dataset)
    print(text)
    stem = re.sub(r"\W+", "_", pathlib.Path(name).stem if pathlib.Path(name).exists() else dataset.name)
    picture, words = (pathlib.Path(_OUTPUT.value) / f"{stem}.{suffix}" for suffix in ("png", "txt"))
    for path in (picture, words):
        if path.is_dir():
            raise ValueError(f"{path}: expected to write a file there, found a folder; move it or name another --output")
    figure = describe_figure(dataset)
    try:
        picture.parent.mkdir(parents=True, exist_ok=True)
        words.write_text(text + "\n")
        figure.savefig(picture, dpi=110)
    except OSError as error:
        raise ValueError(f"cannot write to {picture.parent}: {error.strerror or error}; name another --output") from error
    print(f"wrote {picture} and {words}")


if __name__ == "__main__":
    launch(main, argument="one data set (the path of an HDF5 file, a Minari id, or jaxprune/<task>/<level>-v0)")
