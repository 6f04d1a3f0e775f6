"""Which network matters: prune only the actor, only the critic, only the VAE, or all.

    python experiments/which_network.py --output=results/which_network
    python experiments/which_network.py --full --output=results/which_network_full       # the papers' million updates

Each network of an algorithm is pruned alone at one sparsity, then all together, beside the dense agent. Writes OUTPUT/README.md, table.csv
and networks.png. Times some updates and prints an estimate first; stopped, the same command goes on.
"""

from __future__ import annotations

import itertools
import pathlib
import time
from typing import Any

import numpy as np
from absl import flags
from arm_runs import authors_settings, cell_rows, failures_told, is_done, made_by, returns_of, sweep_runs, updates_of, write_page
from claims import MARGIN, RETURNS_RULE, bullets, counted, differences, sentence, share_text, spread_of
from estimates import sweep_seconds, told
from launch import command_line, launch
from tqdm.auto import tqdm

import jaxprune as jp
from jaxprune.parameters import prunable_size
from jaxprune.reporting import naming
from jaxprune.reporting.appearance import INK, PAPER, SLOTS, drawing
from jaxprune.reporting.tables import markdown_table

MEDIUM = [f"jaxprune/{task}/medium-v0" for task in ("hopper", "walker2d", "halfcheetah")]

DATASETS = flags.DEFINE_list("datasets", MEDIUM, "Data sets.")
ALGOS = flags.DEFINE_list("algos", ["bcq", "td3_bc", "iql"], "Algorithms.")
STEPS = flags.DEFINE_list("steps", ["5000", "20000", "20000"], "Updates of a run, for each of the algorithms.")
CRITERION = flags.DEFINE_string("criterion", "snip", "Pruning criterion.")
SPARSITY = flags.DEFINE_float("sparsity", 0.95, "Fraction of a network's weights removed.", lower_bound=0, upper_bound=1)
SEEDS = flags.DEFINE_integer("seeds", 3, "Seeds.", lower_bound=1)
EVALUATIONS = flags.DEFINE_integer("evaluations", 5, "Evaluations of a run, evenly spaced.", lower_bound=1)
EPISODES = flags.DEFINE_integer("episodes", 5, "Episodes of an evaluation.", lower_bound=1)
FULL = flags.DEFINE_bool("full", False, "A million updates, ten evaluations of ten episodes and five seeds.")
WORK = flags.DEFINE_string("work", "/tmp/jaxprune-networks", "Folder for the sweeps.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

NONE, ALL = "none", "all"
MARKERS = "osD^vPX"


def config_of(dataset: str, data: jp.data.Dataset, algo: str, steps: int, pruned: str) -> jp.SweepConfig:
    """The sweep of an arm: one network's name, `all` or `none`."""
    evaluations, episodes, seeds = (10, 10, 5) if FULL.value else (EVALUATIONS.value, EPISODES.value, SEEDS.value)
    size: dict[str, Any] = {"steps": steps, "eval_every": max(1, steps // evaluations), "episodes": episodes, "seeds": tuple(range(seeds))}
    how: dict[str, Any] = {"criteria": (CRITERION.value,), "sparsities": (SPARSITY.value,)}
    how |= {"criteria": (), "sparsities": (0.0,)} if pruned == NONE else {} if pruned == ALL else {"networks": (pruned,)}
    return jp.SweepConfig(dataset, algos=(algo,), settings=authors_settings(algo, data, steps), **size, **how)


class Algorithm:
    """What the runs of one algorithm returned.

    Attributes:
      arms: none, each network, all.
      finals: {arm: {data set: {seed: return}}}.
      weights: {arm: prunable weights of the networks it prunes}, of the first data set.
      rows: of the table.
      seconds: that the runs took.
    """

    def __init__(self, algo: str, steps: int, loaded: dict[str, jp.data.Dataset]):
        self.algo, self.steps, self.loaded, self.seconds = algo, steps, loaded, 0.0
        agent = jp.agents.make(algo, next(iter(loaded.values())).spec)
        self.arms = [NONE, *agent.order, ALL]
        sizes = {name: prunable_size(tree) for name, tree in agent.shapes().params.items()}
        self.weights = {NONE: 0, **sizes, ALL: sum(sizes.values())}
        self.finals: dict[str, dict[str, dict[int, float]]] = {arm: {} for arm in self.arms}
        self.rows: list[dict[str, Any]] = []

    def configs(self) -> list[jp.SweepConfig]:
        """Of all arms and data sets."""
        return [config_of(name, data, self.algo, self.steps, arm) for name, data in self.loaded.items() for arm in self.arms]

    def seconds_expected(self) -> float:
        """The dense agent and the one pruned throughout are timed on the first data set; one pruned in part is taken for dense.

        What is done already costs nothing.
        """
        name, data = next(iter(self.loaded.items()))
        left = [arm for dataset, arm in itertools.product(self.loaded, self.arms) if not is_done(self.folder(dataset, arm))]
        kinds = [ALL if arm == ALL else NONE for arm in left]
        return sum(sweep_seconds(config_of(name, data, self.algo, self.steps, arm), data) * kinds.count(arm) for arm in sorted(set(kinds)))

    def folder(self, dataset: str, arm: str) -> pathlib.Path:
        """Of an arm's sweep."""
        return pathlib.Path(WORK.value) / "-".join((self.algo, *naming.dataset_name(dataset).lower().split(), arm, str(self.steps)))

    def run(self, dataset: str, arm: str) -> None:
        """One arm on one data set, or go on with it."""
        label, data = naming.dataset_name(dataset), self.loaded[dataset]
        runs, seconds = sweep_runs(self.folder(dataset, arm), data, config_of(dataset, data, self.algo, self.steps, arm))
        self.seconds += seconds
        self.rows += cell_rows(runs, dataset=label, algorithm=naming.name(self.algo), pruned=arm)
        for returns in returns_of(runs).values():
            self.finals[arm][label] = returns

    def pairs(self, arm: str, reference: str = NONE) -> dict[str, list[float]]:
        """{data set: differences to the reference}, in fractions of the dense return."""
        return differences(self.finals[arm], self.finals[reference], self.finals[NONE])


def page(found: Algorithm) -> list[str]:
    """The lines of an algorithm: table and verdicts."""
    datasets = [naming.dataset_name(name) for name in found.loaded]
    heads = {"pruned": "pruned", "weights": "of its weights", **{name: name for name in datasets}, "pooled": "pooled"}
    rows = []
    for arm in found.arms:
        share = f"{100 * found.weights[arm] / found.weights[ALL]:.0f} %"
        if arm == NONE:
            cells = {name: naming.number(float(np.mean(list(values.values())))) for name, values in found.finals[NONE].items()}
            rows.append({"pruned": "none, return", "weights": share, **cells, "pooled": ""})
            continue
        pairs = found.pairs(arm)
        cells = {name: share_text(spread_of({name: values})) for name, values in pairs.items()}
        rows.append({"pruned": arm, "weights": share, **cells, "pooled": share_text(spread_of(pairs))})
    title = f"## {naming.name(found.algo)}, {found.steps:,} updates"
    return [title, "", *markdown_table(heads, rows), "", *bullets(verdicts(found)), "", *failures_told(found.rows, "pruned")]


def verdicts(found: Algorithm) -> list[str]:
    """A sentence for every network, and for every two of them."""
    algo, margin, told = naming.name(found.algo), f"{naming.percent(MARGIN)} of dense", []
    for arm in found.arms[1:]:
        what = "With all networks pruned" if arm == ALL else f"With only its {arm} pruned"
        claim = f"{what}, {algo} keeps its return, but for {margin}"
        told.append(sentence(claim, found.pairs(arm), low=-MARGIN, case="data set"))
    for one, other in itertools.combinations(found.arms[1:-1], 2):
        claim = f"Pruning only {algo}'s {one} or only its {other} makes a difference of over {margin}"
        pairs = found.pairs(one, other)
        told.append(sentence(claim, pairs, low=-MARGIN, high=MARGIN, contrary=True, case="data set"))
    return told


def figure(algorithms: list[Algorithm], path: pathlib.Path) -> None:
    """Per cent of the dense return by what is pruned: a small mark a seed, a shape for each data set, a bar for the mean of all."""
    from matplotlib.figure import Figure

    with drawing():
        drawn = Figure(figsize=(2.9 * len(algorithms) + 0.6, 3.9), layout="constrained")
        for axes, found in zip(drawn.subplots(1, len(algorithms), sharey=True, squeeze=False)[0], algorithms, strict=True):
            arms = found.arms[1:]
            axes.axhline(100, color=INK, linewidth=1.2, zorder=1)
            axes.axhspan(100 - 100 * MARGIN, 100 + 100 * MARGIN, color=INK, alpha=0.08, linewidth=0, zorder=0)
            labels = [naming.dataset_name(name) for name in found.loaded]
            for place, arm in enumerate(arms):
                pairs = found.pairs(arm)
                if pooled := spread_of(pairs):
                    axes.hlines(100 + 100 * pooled.mean, place - 0.36, place + 0.36, color=INK, linewidth=2.2, zorder=4)
                for order, label in enumerate(labels):
                    y = [100 + 100 * value for value in pairs.get(label, [])]
                    middle = place + 0.3 * (order - (len(labels) - 1) / 2)
                    x = [middle + 0.07 * (seed - (len(y) - 1) / 2) for seed in range(len(y))]
                    marks: dict[str, Any] = dict(marker=MARKERS[order % len(MARKERS)], markersize=5.5, markeredgecolor=PAPER)
                    color = SLOTS[order % len(SLOTS)][0]
                    axes.plot(x, y, linestyle="none", color=color, label=label if not place else None, zorder=3, **marks)
            axes.set_xticks(range(len(arms)), arms)
            axes.set_xlim(-0.5, len(arms) - 0.5)
            axes.set_title(naming.name(found.algo))
            axes.set_xlabel("pruned")
            axes.grid(axis="y")
        drawn.axes[0].set_ylabel("Return, % of dense")
        drawn.legend(*drawn.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
        drawn.savefig(path, dpi=130)


def main():
    if not 0 < SPARSITY.value < 1:
        raise ValueError(f"--sparsity={SPARSITY.value}: expected a fraction between 0 and 1, both excluded")
    steps = dict.fromkeys(ALGOS.value, 1_000_000) if FULL.value else updates_of(ALGOS.value, STEPS.value)
    output, began = pathlib.Path(OUTPUT.value), time.time()
    loaded = {name: jp.data.load(name) for name in DATASETS.value}
    algorithms = [Algorithm(algo, count, loaded) for algo, count in steps.items()]
    planned = [(naming.name(found.algo), found.configs(), found.seconds_expected()) for found in algorithms]
    print("\n".join(told(planned)), flush=True)
    output.mkdir(parents=True, exist_ok=True)
    for found, dataset, arm in tqdm([(f, dataset, arm) for f in algorithms for dataset in loaded for arm in f.arms], disable=None):
        found.run(dataset, arm)
    figure(algorithms, output / "networks.png")
    size = planned[0][1][0]
    lines = [
        f"# Which network matters: one pruned by {naming.percent(SPARSITY.value)}, the others dense",
        "",
        "![Return by what is pruned](networks.png)",
        "",
        f"Return in per cent of dense, {counted(len(size.seeds), 'seed')}, {naming.name(CRITERION.value)} before training.",
        "",
        *(line for found in algorithms for line in page(found)),
        "A return is the mean of a run's last three evaluations, or of all where there are fewer, of "
        f"{counted(size.episodes, 'episode')}. Runs of one seed share initialisation, batches and episode starts. Twin critics count as "
        "one network. In brackets: the 95 % bootstrap interval of the "
        "mean, or the range of fewer than five pairs. In the figure: a mark a seed; black, the mean of all; grey, "
        f"{naming.percent(MARGIN)} about dense.",
        "",
        RETURNS_RULE,
        "",
        f"The runs took {naming.duration(sum(found.seconds for found in algorithms))} of this machine in all. "
        + made_by(command_line(), time.time() - began),
    ]
    write_page(output, lines, {"table": [row for found in algorithms for row in found.rows]})


if __name__ == "__main__":
    launch(main)
