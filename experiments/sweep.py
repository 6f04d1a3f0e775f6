"""Dense against pruned: a grid of algorithms, criteria, sparsities and seeds on one data set.

python experiments/sweep.py --dataset=jaxprune/hopper/medium-v0 --algo=bc --criteria=snip,grasp,random --sparsities=0,0.9,0.95,0.99 \
    --seeds=0,1,2 --output=/tmp/sweep
"""

import run_flags
from absl import flags
from launch import command_line, launch
from run_flags import OUTPUT, join_processes, numbers, run_sweep, sweep_config

from jaxprune.reporting.report import text_table

ALGO = flags.DEFINE_list("algo", ["bc"], "Algorithms, for example bc,bcq.")
CRITERIA = flags.DEFINE_list(
    "criteria",
    ["snip", "grasp", "random"],
    "Criteria, their sanity checks (snip_shuffled, …) and baselines (small_dense, lottery_ticket, gradual).",
)
SPARSITIES = flags.DEFINE_list("sparsities", ["0", "0.9", "0.95", "0.99"], "Fractions of weights removed; 0 is the dense reference.")
SANITY = flags.DEFINE_bool("sanity", False, "Add the sanity checks of each criterion: masks shuffled, weights drawn anew, scores inverted.")
LOTTERY_ROUNDS = flags.DEFINE_integer("lottery_rounds", 5, "How often lottery_ticket trains and prunes.")
SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds.")

flags.adopt_module_key_flags(run_flags)


def main():
    join_processes()
    config = sweep_config(
        algos=tuple(ALGO.value),
        criteria=tuple(CRITERIA.value),
        sparsities=numbers("sparsities", SPARSITIES.value, float),
        seeds=numbers("seeds", SEEDS.value, int),
        sanity=SANITY.value,
        lottery_rounds=LOTTERY_ROUNDS.value,
    )
    records = run_sweep(config, command_line())
    print(text_table(records))
    print(f"\n{OUTPUT.value}/report.html")


if __name__ == "__main__":
    launch(main)
