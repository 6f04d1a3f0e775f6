"""Turn a trained run into files to deploy, each checked against the live policy before it is written.

    python experiments/export.py --run=OUTPUT/runs/bc-snip-0.95-0 --formats=safetensors,onnx,stablehlo,c,c_int8 --output=/tmp/policy

writes OUTPUT/policy.safetensors (and .json), policy.onnx, policy.stablehlo, policy.c and policy_int8.c (each with its .h). Each takes
the raw observation and returns the action in environment units. Of BCQ, the candidates' latents are drawn once, from --seed.
"""

import functools
import pathlib
import shutil
import tempfile

from absl import flags
from launch import launch

import jaxprune as jp

FORMATS = {
    "safetensors": ("policy.safetensors", jp.export.to_safetensors),
    "onnx": ("policy.onnx", jp.export.to_onnx),
    "stablehlo": ("policy.stablehlo", jp.export.to_stablehlo),
    "c": ("policy.c", jp.export.to_c),
    "c_int8": ("policy_int8.c", functools.partial(jp.export.to_c, weights="int8", name="policy_int8")),
}

RUN = flags.DEFINE_string("run", None, "A run's folder, such as OUTPUT/runs/bc-snip-0.95-0.", required=True)
WANTED = flags.DEFINE_list("formats", list(FORMATS), "What to write: " + ", ".join(FORMATS) + ".")
SEED = flags.DEFINE_integer("seed", 0, "Of the candidates' latents (BCQ).")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write; made if absent.", required=True)


def main():
    if unknown := [name for name in WANTED.value if name not in FORMATS]:
        raise ValueError(f"--formats: {unknown[0]!r} is unknown; expected some of {', '.join(FORMATS)}")
    agent, state = jp.load_run(RUN.value)
    jp.export.read_policy(agent, state, seed=SEED.value)
    folder = pathlib.Path(OUTPUT.value)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"expected a folder at {folder}, found a file; name another output folder")
    with tempfile.TemporaryDirectory(prefix="jaxprune-export-") as scratch:
        lines = []
        for name in WANTED.value:
            file, write = FORMATS[name]
            found = write(agent, state, pathlib.Path(scratch) / file, seed=SEED.value)
            size = (pathlib.Path(scratch) / file).stat().st_size
            notes = f", {found.ties} tied choices left out" if found.ties else ""
            lines.append(f"{file:20} {size:10,}  {found.difference:.2e} over {found.observations:,} observations{notes}")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(scratch, folder, dirs_exist_ok=True)
    print(f"{'file':20} {'bytes':>10}  largest difference from the live policy")
    print("\n".join(lines))


if __name__ == "__main__":
    launch(main)
