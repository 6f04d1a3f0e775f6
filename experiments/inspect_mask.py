"""Look at the masks that a sweep with the same flags would train: what criteria give an agent at initialisation.

    python experiments/inspect_mask.py --algo=bcq --criteria=snip,grasp,magnitude,random --sparsity=0.95 --seeds=0,1,2 --output=/tmp/masks

prints, for every network, the fraction each layer keeps, effective density (weights on a live path from input to output), dead and constant
units, and how much masks overlap (Jaccard index) between seeds and between criteria; writes OUTPUT/layers.csv, OUTPUT/layers.png (bars) and
OUTPUT/NETWORK.png (heat maps of the first seed).
"""

import csv
import dataclasses
import itertools
import pathlib

import numpy as np
from absl import flags
from launch import launch
from run_flags import OUTPUT, numbers, sweep_config

import jaxprune as jp
from jaxprune.agents.scoring import chosen_networks
from jaxprune.agents.sparse import describe_masks
from jaxprune.parameters import prunable_leaves
from jaxprune.pruning.inspection import count_units, effective_density, jaccard
from jaxprune.reporting.layers import layer_fractions
from jaxprune.reporting.mask_figure import mask_figure
from jaxprune.training.grid import expand
from jaxprune.training.start import start_run

ALGO = flags.DEFINE_string("algo", "bcq", "Algorithm.")
CRITERIA = flags.DEFINE_list("criteria", ["snip", "grasp", "magnitude", "random"], "Pruning criteria.")
SPARSITY = flags.DEFINE_float("sparsity", 0.95, "Fraction of weights removed.")
SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds of initialisation and pruning rows.")


def overlap(masks, pairs) -> str:
    """Mean Jaccard index (kept by both / kept by either) over pairs of runs, or n/a."""
    values = [float(jaccard(masks[a], masks[b])) for a, b in pairs]
    return f"{np.mean(values):.3f}" if values else "n/a"


def main():
    seeds = numbers("seeds", SEEDS.value, int)
    config = sweep_config(algos=(ALGO.value,), criteria=tuple(CRITERIA.value), sparsities=(SPARSITY.value,), seeds=seeds)
    config = dataclasses.replace(config, compact=False)
    for name in ("algos", "sparsities"):
        if len(getattr(config, name)) != 1:
            raise ValueError(f"{name}: expected one to look at the masks of, got {', '.join(map(str, getattr(config, name)))}")
    (algo,), (sparsity,), seeds = config.algos, config.sparsities, config.seeds
    if not 0 < sparsity < 1:
        raise ValueError(f"--sparsity={sparsity}: expected a fraction between 0 and 1, both excluded: there is no mask to look at")
    folder = pathlib.Path(OUTPUT.value)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"expected a folder at {folder}, found a file; name another output folder")
    dataset = jp.data.load(
        config.dataset, env_id=config.env_id, clip_actions=config.clip_actions, max_episode_steps=config.max_episode_steps
    )
    agent = jp.agents.make(algo, dataset.spec, **config.settings)
    networks = chosen_networks(agent, config.networks)
    states = {(run.criterion, run.seed): start_run(agent, run, config, dataset, dataset.transitions).state for run in expand(config)}
    folder.mkdir(parents=True, exist_ok=True)

    rows = []
    for name in networks:
        masks = {run: state.masks[name] for run, state in states.items()}
        print(f"\n{algo} {name}, {sparsity:.4g} of the weights removed, {len(seeds)} seed(s)")
        names = [layer.removesuffix("/kernel").replace("Dense_", "") for layer in prunable_leaves(next(iter(masks.values())))]
        print(f"{'':12} {'effective':>9} {'units':>6} {'units':>8} {'overlap':>8}  kept per layer, %")
        print(f"{'criterion':12} {'density':>9} {'dead':>6} {'constant':>8} {'of seeds':>8}  {'  '.join(f'{layer:>9}' for layer in names)}")
        for criterion in config.criteria:
            runs = [(criterion, seed) for seed in seeds]
            live = np.mean([effective_density(states[run].params[name], masks[run], agent.groups(name)) for run in runs])
            units = [count for run in runs for count in count_units(masks[run], agent.groups(name)).values()]
            dead, constant = (sum(getattr(count, kind) for count in units) / len(runs) for kind in ("dead", "constant"))
            layers = {run: describe_masks({name: masks[run]}).layers for run in runs}
            shares = [np.mean([layers[run][layer][0] / layers[run][layer][1] for run in runs]) for layer in layers[runs[0]]]
            seeds_agree = overlap(masks, itertools.combinations(runs, 2))
            kept = "  ".join(f"{100 * share:9.1f}" for share in shares)
            print(f"{criterion:12} {live:9.4f} {dead:6.1f} {constant:8.1f} {seeds_agree:>8}  {kept}")
            for run in runs:
                for layer, counts in layers[run].items():
                    rows.append((algo, criterion, sparsity, run[1], layer.removesuffix("/kernel"), *counts))
        for a, b in itertools.combinations(config.criteria, 2):
            print(f"overlap of {a} and {b}, seed by seed: {overlap(masks, [((a, seed), (b, seed)) for seed in seeds])}")
        print(f"overlap of two random masks: {(1 - sparsity) / (1 + sparsity):.3f}")
        pictures = {c: {k: np.asarray(m) for k, m in prunable_leaves(masks[c, seeds[0]]).items()} for c in config.criteria}
        mask_figure(pictures, title=f"{algo} {name}, sparsity {sparsity:g}").savefig(folder / f"{name}.png", dpi=130)

    columns = ("algo", "criterion", "sparsity", "seed", "layer", "kept", "total")
    with (folder / "layers.csv").open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    layer_fractions([dict(zip(columns, row, strict=True)) for row in rows]).savefig(folder / "layers.png", dpi=130)
    print(f"\nwrote {folder}/layers.csv, layers.png and a heat map of each network")


if __name__ == "__main__":
    launch(main)
