"""Train one agent, dense or pruned at initialisation.

python experiments/train.py --dataset=jaxprune/hopper/medium-v0 --algo=bcq --criterion=snip --sparsity=0.95 --seed=0 --output=/tmp/run
"""

import run_flags
from absl import flags
from launch import command_line, launch
from run_flags import OUTPUT, join_processes, run_sweep, sweep_config

from jaxprune.reporting.report import text_table

ALGO = flags.DEFINE_string("algo", "bc", "Algorithm.")
CRITERION = flags.DEFINE_string("criterion", "snip", "Pruning criterion; of no effect at sparsity 0.")
SPARSITY = flags.DEFINE_float("sparsity", 0.0, "Fraction of weights removed; 0 trains dense.")
SEED = flags.DEFINE_integer("seed", 0, "Seed.")

flags.adopt_module_key_flags(run_flags)


def main():
    join_processes()
    config = sweep_config(algos=(ALGO.value,), criteria=(CRITERION.value,), sparsities=(SPARSITY.value,), seeds=(SEED.value,))
    records = run_sweep(config, command_line())
    print(text_table(records))
    print(f"\n{OUTPUT.value}/runs/{records[-1]['run_id']}\n{OUTPUT.value}/report.html")


if __name__ == "__main__":
    launch(main)
