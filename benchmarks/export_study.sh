#!/bin/sh
# The study in results/export: trains the runs that are not there yet, then measures all of them in one process.
#
#     sh benchmarks/export_study.sh RUNS OUTPUT TORCH_PYTHON [flags of experiments/measure.py]
#
# RUNS is a folder for the trained runs, TORCH_PYTHON an interpreter with torch and numpy. Run it on a machine with nothing else to do.
set -eu
runs=$1 output=$2 torch=$3
shift 3
common="--dataset=jaxprune/hopper/medium-v0 --sparsities=0,0.8,0.9,0.95,0.98,0.99"
[ -e "$runs/bc" ] || python experiments/sweep.py $common --algo=bc --criteria=snip --seeds=0,1,2 --steps=10000 --output="$runs/bc"
[ -e "$runs/bc_units" ] || python experiments/sweep.py --dataset=jaxprune/hopper/medium-v0 --sparsities=0.8,0.9,0.95 --algo=bc --criteria=crop \
  --structure=units --seeds=0 --steps=10000 --output="$runs/bc_units"
[ -e "$runs/bcq" ] || python experiments/sweep.py $common --algo=bcq --criteria=snip --seeds=0 --steps=10000 --episodes=5 --output="$runs/bcq"
python experiments/measure.py --runs="$runs/bc/runs/*,$runs/bc_units/runs/*,$runs/bcq/runs/*" --torch_python="$torch" --output="$output" "$@"
