"""Turn a trained run into files to deploy, each checked against the live policy before it is written.

    python experiments/export.py --run=OUTPUT/runs/bc-snip-0.95-0 --formats=safetensors,onnx,stablehlo,c,c_int8 --output=/tmp/policy

writes OUTPUT/policy.safetensors (and .json), policy.onnx, policy.stablehlo, policy.c and policy_int8.c (each with its .h). Each takes
the raw observation and returns the action in environment units. Of BCQ, the candidates' latents are drawn once, from --seed.
"""

import exporting
from absl import flags
from exporting import FORMATS
from launch import launch

RUN = flags.DEFINE_string("run", None, "A run's folder, such as OUTPUT/runs/bc-snip-0.95-0.", required=True)
WANTED = flags.DEFINE_list("formats", list(FORMATS), "What to write: " + ", ".join(FORMATS) + ".")
SEED = flags.DEFINE_integer("seed", 0, "Of the candidates' latents (BCQ).")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write; made if absent.", required=True)


def main():
    if not WANTED.value:
        raise ValueError(f"--formats is empty; expected some of {', '.join(FORMATS)}")
    exporting.write(RUN.value, WANTED.value, OUTPUT.value, seed=SEED.value)


if __name__ == "__main__":
    launch(main)
