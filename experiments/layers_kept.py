"""What each layer keeps: does GraSP keep more in the last layers, and what do observations, initialisation and budget change?

    python experiments/layers_kept.py --output=results/layers_kept
    python experiments/layers_kept.py --full --output=results/layers_kept_full       # ten seeds, all three levels of data

Agents are pruned before training; nothing is trained. One setting is changed at a time: observations left raw, kernels drawn otherwise,
budgets per network or pooled over networks. Writes OUTPUT/README.md, table.csv, layers.png and settings.png. Times some prunings and
prints an estimate first; stopped, the same command goes on.
"""

from __future__ import annotations

import itertools
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from arm_runs import KeptRows, authors_settings, made_by, write_page
from claims import CANNOT_TELL, CONTRADICT, RULE, SUPPORT, bullets, counted, difference_text, judge, opposite, sentence, spread_of
from launch import command_line, launch
from tqdm.auto import tqdm

import jaxprune as jp
from jaxprune.agents.base import Agent, AgentState
from jaxprune.parameters import is_kernel, prunable_leaves
from jaxprune.pruning.inspection import effective_masks
from jaxprune.pruning.ranking import below
from jaxprune.reporting import naming
from jaxprune.reporting.appearance import INK, PAPER, drawing, looks
from jaxprune.reporting.summary import Series
from jaxprune.reporting.tables import markdown_table
from jaxprune.training.grid import Run
from jaxprune.training.start import RunKeys, prune_run
from jaxprune.training.sweep import fingerprint

MEDIUM = [f"jaxprune/{task}/medium-v0" for task in ("hopper", "walker2d", "halfcheetah")]
DATASETS = flags.DEFINE_list("datasets", MEDIUM, "Data sets.")
ALGOS = flags.DEFINE_list("algos", ["bc", "bcq", "td3_bc", "iql"], "Algorithms.")
CRITERIA = flags.DEFINE_list("criteria", ["snip", "grasp", "crop", "random", "magnitude"], "Criteria.")
SPARSITY = flags.DEFINE_float("sparsity", 0.95, "Fraction of weights removed.", lower_bound=0, upper_bound=1)
SEEDS = flags.DEFINE_integer("seeds", 5, "Seeds of initialisation and pruning rows.", lower_bound=1)
PRUNE_ROWS = flags.DEFINE_integer("prune_rows", 1024, "Rows that the criteria score on.", lower_bound=1)
FULL = flags.DEFINE_bool("full", False, "Ten seeds, and the random and expert sets of the same tasks too.")
WORK = flags.DEFINE_string("work", "/tmp/jaxprune-layers", "Folder for what is made on the way.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

DEFAULT = "as by default"
ORTHOGONAL = "orthogonal kernels"
# {what is changed: (settings of the agent, budget)}
SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    DEFAULT: ({}, "mlp"),
    "raw observations": ({"normalize": False}, "mlp"),
    "LeCun-normal kernels": ({"init": "lecun_normal"}, "mlp"),
    ORTHOGONAL: ({}, "mlp"),
    "random biases": ({"init": "reference"}, "mlp"),
    "one budget per network": ({}, "network"),
    "one budget for all": ({}, "pooled"),
}
PLACES = ("first", "middle", "last")
POINTS = 0.05  # a change of a share by less than so much is none


def redrawn(state: AgentState, key: jax.Array) -> AgentState:
    """The state with every kernel orthogonal, times √2; targets are copies again."""
    draw = jax.nn.initializers.orthogonal(np.sqrt(2))

    def fresh(path, leaf, key):
        if not is_kernel(path, leaf):
            return leaf
        shape = leaf.shape[-2:]
        return draw(key, shape) if leaf.ndim == 2 else jnp.stack([draw(k, shape) for k in jax.random.split(key, len(leaf))])

    params = {}
    for i, (name, tree) in enumerate(state.params.items()):
        flat, structure = jax.tree_util.tree_flatten_with_path(tree)
        keys = jax.random.split(jax.random.fold_in(key, i), len(flat))
        params[name] = structure.unflatten([fresh(path, leaf, k) for (path, leaf), k in zip(flat, keys, strict=True)])
    return state.replace(params=params, targets={name: jax.tree.map(jnp.copy, params[name]) for name in state.targets})


def pruned(algo: str, setting: str, criterion: str, seed: int, data: jp.data.Dataset) -> tuple[Agent, AgentState]:
    """An agent as a sweep would prune it before training, at full size."""
    settings, budget = SETTINGS[setting]
    agent = jp.agents.make(algo, data.spec, **authors_settings(algo, data), **settings)
    shared: dict[str, Any] = {"algos": (algo,), "criteria": (criterion,), "sparsities": (SPARSITY.value,), "seeds": (seed,)}
    config = jp.SweepConfig(data.name, **shared, budget=budget, prune_rows=PRUNE_ROWS.value, settings=settings)
    keys = RunKeys.of(seed)
    state = agent.init(keys.init, data.statistics, optimizers=False)
    if setting == ORTHOGONAL:
        state = redrawn(state, jax.random.fold_in(keys.init, 2))
    return agent, prune_run(agent, state, Run(algo, criterion, SPARSITY.value, seed), config, data.transitions, data.statistics)[0]


def layer_rows(agent: Agent, state: AgentState) -> list[dict[str, Any]]:
    """A row for every layer: its perceptron, its place in it, and how many weights it has, keeps, and keeps on live paths."""
    rows = []
    for name in agent.order:
        live = effective_masks(state.masks[name], agent.groups(name))
        masks = prunable_leaves(state.masks[name])
        for chain in agent.networks[name].chains:
            layers = [layer for layer in masks if below(chain, layer)]
            for index, layer in enumerate(layers):
                mask = np.asarray(masks[layer])
                place = PLACES[0] if not index else PLACES[2] if index == len(layers) - 1 else PLACES[1]
                counts = {"total": mask.size, "kept": int(mask.sum()), "live": int(np.sum(np.asarray(live[layer])))}
                rows.append({"perceptron": f"{name} {chain}".strip(), "layer": index, "place": place, **counts})
    return rows


class Shares:
    """Shares of weights by place, from rows of one dataset, algorithm, setting, criterion, seed and layer each."""

    def __init__(self, rows: list[dict[str, Any]]):
        self.counts: dict[tuple, list[int]] = {}
        self.perceptrons = list(dict.fromkeys((row["dataset"], row["algo"], row["perceptron"]) for row in rows))
        self.algos = list(dict.fromkeys(row["algo"] for row in rows))
        self.seeds = sorted({row["seed"] for row in rows})
        for row in rows:
            about = (row["dataset"], row["algo"], row["perceptron"], row["setting"], row["criterion"], row["seed"])
            for key in ((*about, row["place"]), (*about, "all")):
                counts = self.counts.setdefault(key, [0, 0, 0])
                counts[:] = [a + b for a, b in zip(counts, (row["total"], row["kept"], row["live"]), strict=True)]

    def of(self, perceptron: tuple[str, str, str], setting: str, criterion: str, what: str) -> list[float]:
        """One share a seed: of the weights kept in the layers of a place, or (`live`) of the kept weights that are on live paths."""
        place, top, bottom = ("all", 2, 1) if what == "live" else (what, 1, 0)
        found = [self.counts.get((*perceptron, setting, criterion, seed, place)) for seed in self.seeds]
        return [counts[top] / counts[bottom] if counts[bottom] else 0.0 for counts in found if counts is not None]

    def mean(self, perceptrons: list[tuple[str, str, str]], setting: str, criterion: str, what: str) -> float | None:
        """Over perceptrons and seeds."""
        values = [value for perceptron in perceptrons for value in self.of(perceptron, setting, criterion, what)]
        return float(np.mean(values)) if values else None

    def cut_off(self, perceptrons: list[tuple[str, str, str]], setting: str, criterion: str) -> tuple[int, int]:
        """How many of the perceptrons (of every seed) have no live path, and how many there are."""
        values = [value for perceptron in perceptrons for value in self.of(perceptron, setting, criterion, "live")]
        return sum(not value for value in values), len(values)

    def differences(self, one: tuple[str, str], other: tuple[str, str], what: str, algo: str | None = None) -> dict[str, list[float]]:
        """{data set and perceptron: one (setting, criterion) minus another, of each seed}."""
        chosen = [perceptron for perceptron in self.perceptrons if algo in (None, perceptron[1])]
        return {
            " ".join(perceptron): [a - b for a, b in zip(self.of(perceptron, *one, what), self.of(perceptron, *other, what), strict=True)]
            for perceptron in chosen
        }


def verdicts(shares: Shares) -> list[str]:
    """A sentence for every claim and question."""
    found: list[str] = []
    shown: Any = {"case": "perceptron", "unit": "points"}
    for algo in shares.algos:
        for other in (c for c in CRITERIA.value if c != "grasp" and "grasp" in CRITERIA.value):
            claim = f"GraSP keeps more of the last layers than {naming.name(other)} does ({naming.name(algo)})"
            pairs = shares.differences((DEFAULT, "grasp"), (DEFAULT, other), "last", algo)
            found.append(sentence(claim, pairs, low=0.0, **shown))
    for setting in (s for s in SETTINGS if s != DEFAULT):
        judged: dict[str, list[str]] = {SUPPORT: [], CONTRADICT: [], CANNOT_TELL: []}
        for criterion, told, pairs in changes(shares, setting):
            change = spread_of(pairs)
            text = f"{naming.name(criterion)}, {told}: {difference_text(change, 'points')}"
            judged[opposite(judge(change, low=-POINTS, high=POINTS))].append(text)
        parts = [f"**{outcome}** ({'; '.join(texts)})" for outcome, texts in judged.items() if texts]
        found.append(f"A change by over {100 * POINTS:.0f} points with {setting}: our runs {', '.join(parts)}.")
    return found


def changes(shares: Shares, setting: str) -> Iterator[tuple[str, str, dict[str, list[float]]]]:
    """(criterion, what is looked at, differences to the default) of a setting."""
    for criterion in (c for c in ("snip", "grasp") if c in CRITERIA.value):
        for what, told in (("last", "kept of the last layers"), ("live", "of what is kept, on live paths")):
            yield criterion, told, shares.differences((setting, criterion), (DEFAULT, criterion), what)


def tables(shares: Shares) -> tuple[list[str], list[str]]:
    """By default: a line for each perceptron. Settings: a line for each algorithm and setting."""
    heads = {"perceptron": "perceptron", **{criterion: naming.name(criterion) for criterion in CRITERIA.value}}
    lines = []
    for algo, name in dict.fromkeys((algo, name) for _, algo, name in shares.perceptrons):
        own = [p for p in shares.perceptrons if p[1:] == (algo, name)]
        line = {"perceptron": f"{naming.name(algo)} {name}"}
        for criterion in CRITERIA.value:
            parts = [_percent(shares.mean(own, DEFAULT, criterion, place)) for place in PLACES]
            line[criterion] = f"{' / '.join(parts)} ({_percent(shares.mean(own, DEFAULT, criterion, 'live'))})"
        lines.append(line)
    default = markdown_table(heads, lines)
    chosen = [c for c in ("snip", "grasp") if c in CRITERIA.value] or CRITERIA.value
    heads = {"algorithm": "algorithm", "setting": "setting"}
    heads |= {f"{c} shares": f"{naming.name(c)}, first / middle / last (live)" for c in chosen}
    heads |= {f"{c} cut": f"{naming.name(c)}, without a live path" for c in chosen}
    lines = []
    for algo in shares.algos:
        own = [p for p in shares.perceptrons if p[1] == algo]
        for setting in SETTINGS:
            line = {"algorithm": naming.name(algo), "setting": setting}
            for criterion in chosen:
                parts = [_percent(shares.mean(own, setting, criterion, place)) for place in PLACES]
                line[f"{criterion} shares"] = f"{' / '.join(parts)} ({_percent(shares.mean(own, setting, criterion, 'live'))})"
                cut, count = shares.cut_off(own, setting, criterion)
                line[f"{criterion} cut"] = f"{cut} of {count}"
            lines.append(line)
    return default, markdown_table(heads, lines)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.3g}"


def layers_figure(shares: Shares, path: pathlib.Path) -> None:
    """Bars of what the first, middle and last layers keep, a panel for each perceptron, means over data sets and seeds."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys((algo, name) for _, algo, name in shares.perceptrons))
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    styles = looks([Series(criterion) for criterion in CRITERIA.value])
    with drawing():
        drawn = Figure(figsize=(2.3 * columns + 0.6, 2.0 * rows + 0.8), layout="constrained")
        grid = drawn.subplots(rows, columns, sharey=True, squeeze=False)
        for axes, (algo, name) in zip(grid.flat, names, strict=False):
            own = [p for p in shares.perceptrons if p[1:] == (algo, name)]
            for order, criterion in enumerate(CRITERIA.value):
                look, width = styles[Series(criterion)], 0.8 / len(CRITERIA.value)
                means = [100 * (shares.mean(own, DEFAULT, criterion, place) or 0.0) for place in PLACES]
                x = [place - 0.4 + width * (order + 0.5) for place in range(3)]
                style: dict[str, Any] = dict(facecolor=look.color, edgecolor="white", hatch=look.hatch, linewidth=0)
                axes.bar(x, means, width * 0.92, label=naming.name(criterion), **style)
            axes.axhline(100 * (1 - SPARSITY.value), color=INK, linestyle=(0, (4, 3)), linewidth=0.9)
            axes.set_xticks(range(3), PLACES)
            axes.set_title(f"{naming.name(algo)} {name}")
            axes.grid(axis="y")
        for axes in list(grid.flat)[len(names) :]:
            axes.set_axis_off()
        drawn.supylabel("Weights kept, % of the layer (dashed: of all)", fontsize=9)
        drawn.legend(*grid.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(CRITERIA.value))
        drawn.savefig(path, dpi=130)


def settings_figure(shares: Shares, path: pathlib.Path) -> None:
    """Dots: what a setting makes of the layers' shares and of live paths; a row of panels for each algorithm."""
    from matplotlib.figure import Figure

    styles = looks([Series(criterion) for criterion in CRITERIA.value])
    heads = {**{place: f"{place} layers, % kept" for place in PLACES}, "live": "kept on live paths, %"}
    with drawing():
        drawn = Figure(figsize=(9.4, 1.75 * len(shares.algos) + 0.9), layout="constrained")
        grid = drawn.subplots(len(shares.algos), len(heads), sharey=True, squeeze=False)
        for (line, algo), (column, (what, head)) in itertools.product(enumerate(shares.algos), enumerate(heads.items())):
            own, axes = [p for p in shares.perceptrons if p[1] == algo], grid[line, column]
            for order, criterion in enumerate(CRITERIA.value):
                look = styles[Series(criterion)]
                found = [shares.mean(own, setting, criterion, what) for setting in SETTINGS]
                y = [place + 0.13 * (order - (len(CRITERIA.value) - 1) / 2) for place in range(len(SETTINGS))]
                marks: dict[str, Any] = dict(marker=look.marker, markersize=5, markeredgecolor=PAPER, markeredgewidth=0.6)
                points = [(100 * value, place) for value, place in zip(found, y, strict=True) if value is not None]
                if points:
                    axes.plot(*zip(*points, strict=True), linestyle="none", color=look.color, label=naming.name(criterion), **marks)
            if not column:
                axes.set_yticks(range(len(SETTINGS)), list(SETTINGS))
                axes.set_ylim(len(SETTINGS) - 0.5, -0.5)
                axes.set_ylabel(naming.name(algo), fontweight="bold")
            if not line:
                axes.set_title(head)
            axes.set_xlim(0, 1.06 * axes.get_xlim()[1])
            axes.grid(axis="both")
        drawn.legend(*grid.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(CRITERIA.value))
        drawn.savefig(path, dpi=130)


def main():
    if not 0 < SPARSITY.value < 1:
        raise ValueError(f"--sparsity={SPARSITY.value}: expected a fraction between 0 and 1, both excluded: there is no mask to look at")
    names, seeds = list(DATASETS.value), 10 if FULL.value else SEEDS.value
    if FULL.value:
        names = [name.replace("medium", level) for name in names for level in ("random", "medium", "expert")]
    jp.SweepConfig(names[0], algos=tuple(ALGOS.value), criteria=tuple(CRITERIA.value), sparsities=(SPARSITY.value,))
    loaded = {name: jp.data.load(name) for name in dict.fromkeys(names)}
    output, began = pathlib.Path(OUTPUT.value), time.time()
    settings = {"data": {name: fingerprint(data) for name, data in loaded.items()}, "criteria": CRITERIA.value}
    kept = KeptRows(pathlib.Path(WORK.value) / "rows.jsonl", {**settings, "sparsity": SPARSITY.value, "prune_rows": PRUNE_ROWS.value})
    jobs = [(name, algo, setting, seed) for name in loaded for algo in ALGOS.value for setting in SETTINGS for seed in range(seeds)]
    print(estimate(next(iter(loaded.values())), len(jobs) // len(ALGOS.value)), flush=True)
    output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for name, algo, setting, seed in tqdm(jobs, disable=None):
        data, key = loaded[name], f"{name} {algo} {setting} {seed}"
        if key not in kept.rows:
            made = {criterion: layer_rows(*pruned(algo, setting, criterion, seed, data)) for criterion in CRITERIA.value}
            kept.add(key, [{"criterion": criterion, **row} for criterion, layers in made.items() for row in layers])
        names_of: dict[str, Any] = {"dataset": naming.dataset_name(name), "algo": algo, "setting": setting, "seed": seed}
        rows += [{**names_of, **row} for row in kept.rows[key]]
    shares = Shares(rows)
    layers_figure(shares, output / "layers.png")
    settings_figure(shares, output / "settings.png")
    default, changed = tables(shares)
    about = f"{counted(len(loaded), 'data set')}, {counted(seeds, 'seed')}, {naming.percent(SPARSITY.value)} of the weights removed"
    lines = ["# What each layer keeps", "", "![Weights kept in the first, middle and last layers](layers.png)", ""]
    lines += [
        f"Per cent of the first / middle / last layers' weights that stay, and in brackets per cent of what stays that lies on a live path "
        f"from input to output; means over {about}. Nothing is trained.",
        "",
        *default,
        "",
        "![What a setting changes](settings.png)",
        "",
        "The same, means over an algorithm's perceptrons, with one setting changed. By default: standardised observations, kernels uniform "
        "±1/√fan_in, biases zero, a budget a perceptron. Orthogonal kernels are scaled by √2; random biases are drawn like the kernels. "
        "Without a live path: perceptrons (of each data set and seed) through which no kept weight leads from an input to an output.",
        "",
        *changed,
        "",
        *bullets(verdicts(shares)),
        "",
        f"{RULE} A task is here a perceptron on a data set; a change by less than {100 * POINTS:.0f} percentage points is none.",
        "",
        made_by(command_line(), time.time() - began),
    ]
    write_page(output, lines, {"table": over_seeds(rows)})


def estimate(data: jp.data.Dataset, each: int) -> str:
    """A line, from one timed pruning of every algorithm and criterion."""
    seconds = 0.0
    for algo in ALGOS.value:
        for criterion in CRITERIA.value:
            layer_rows(*pruned(algo, DEFAULT, criterion, 0, data))
            start = time.perf_counter()
            layer_rows(*pruned(algo, DEFAULT, criterion, 0, data))
            seconds += each * (time.perf_counter() - start)
    count = each * len(ALGOS.value) * len(CRITERIA.value)
    return f"{count:,} prunings: about {naming.duration(seconds)} on this machine, and compilation on top"


def over_seeds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for every layer, criterion, setting and data set: kept and live fractions, mean and range over seeds."""
    groups: dict[tuple, list[dict[str, Any]]] = {}
    columns = ("dataset", "algo", "setting", "criterion", "perceptron", "layer", "place", "total")
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    found = []
    for key, group in groups.items():
        kept, live = ([row[what] / row["total"] for row in group] for what in ("kept", "live"))
        spread = {"kept": np.mean(kept), "kept_min": min(kept), "kept_max": max(kept), "live": np.mean(live)}
        shown = {name: f"{value:.5g}" for name, value in spread.items()}
        found.append({**dict(zip(columns, key, strict=True)), **shown, "seeds": len(group)})
    return found


if __name__ == "__main__":
    launch(main)
