"""Return against sparsity: is performance kept at 95 %, and does the criterion matter or only how many weights each layer keeps?

    python experiments/return_against_sparsity.py --parts=bc --output=results/return_against_sparsity
    python experiments/return_against_sparsity.py --parts=bc,bcq --output=results/return_against_sparsity
    python experiments/return_against_sparsity.py --recordings=a.hdf5,b.hdf5 --recording_envs=Hopper-v4,Walker2d-v4 --output=out
    python experiments/return_against_sparsity.py --full --output=results/return_against_sparsity_full      # the papers' size

Parts: `bc` is the whole grid on every data set; `bcq` the whole grid on the first of --bcq_datasets and 95 % on the others. Recordings
(files in D4RL's HDF5 layout) are a part of their own, cloned at fewer sparsities; files that are not there are left out.

Writes OUTPUT/README.md, table.csv and return_PART.png. Times some updates and prints an estimate first; stopped, the same command goes on.
With --records the page can grow from machine to machine: what one has run, the next, given the same folder, takes from there.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import time
from typing import Any

from absl import flags
from arm_runs import cell_rows, failures_told, is_done, kept_rows, made_by, numbers_of, returns_of, sweep_runs, write_page
from claims import (
    CANNOT_TELL,
    CONTRADICT,
    MARGIN,
    RETURNS_RULE,
    SUPPORT,
    bullets,
    counted,
    differences,
    judge,
    judge_majority,
    sentence,
    share_text,
    spread_of,
)
from estimates import sweep_seconds, told
from launch import command_line, launch

import jaxprune as jp
from jaxprune.reporting import naming
from jaxprune.reporting.appearance import INK, PAPER, drawing, looks
from jaxprune.reporting.figures import sparsity_positions
from jaxprune.reporting.summary import Series
from jaxprune.reporting.tables import markdown_table

MEDIUM = [f"jaxprune/{task}/medium-v0" for task in ("hopper", "walker2d", "halfcheetah")]
EXPERT = [f"jaxprune/{task}/expert-v0" for task in ("hopper", "walker2d", "halfcheetah")]

PARTS = flags.DEFINE_list("parts", ["bc", "bcq"], "What to run: bc, bcq. Recordings run where they are given.")
DATASETS = flags.DEFINE_list("datasets", MEDIUM + EXPERT, "Data sets of BC.")
SPARSITIES = flags.DEFINE_list("sparsities", ["0", "0.5", "0.8", "0.9", "0.95", "0.98", "0.99"], "Fractions of weights removed, BC.")
CRITERIA = flags.DEFINE_list(
    "criteria", ["snip", "grasp", "crop", "random", "magnitude", "snip_shuffled", "small_dense"], "Criteria and controls, BC."
)
MORE = flags.DEFINE_list("more_criteria", ["synflow", "lm", "qm", "obd"], "Criteria of BC at the sparsity of the claims alone.")
AT = flags.DEFINE_float("at", 0.95, "The sparsity of the claims.", lower_bound=0, upper_bound=1)
SEEDS = flags.DEFINE_integer("seeds", 5, "Seeds, BC.", lower_bound=1)
STEPS = flags.DEFINE_integer("steps", 3000, "Updates of a run, BC.", lower_bound=1)
EVALUATIONS = flags.DEFINE_integer("evaluations", 3, "Evaluations of a run, evenly spaced, BC.", lower_bound=1)
EPISODES = flags.DEFINE_integer("episodes", 5, "Episodes of an evaluation.", lower_bound=1)
BCQ_DATASETS = flags.DEFINE_list(
    "bcq_datasets", MEDIUM, "Data sets of BCQ: the grid on the first, the sparsity of the claims on the others."
)
BCQ_SPARSITIES = flags.DEFINE_list("bcq_sparsities", ["0", "0.9", "0.95", "0.99"], "Fractions of weights removed, BCQ.")
BCQ_CRITERIA = flags.DEFINE_list("bcq_criteria", ["snip", "grasp", "random", "snip_shuffled"], "Criteria and controls, BCQ.")
BCQ_SEEDS = flags.DEFINE_integer("bcq_seeds", 3, "Seeds, BCQ.", lower_bound=1)
BCQ_STEPS = flags.DEFINE_integer("bcq_steps", 20_000, "Updates of a run, BCQ.", lower_bound=1)
BCQ_EVALUATIONS = flags.DEFINE_integer("bcq_evaluations", 4, "Evaluations of a run, evenly spaced, BCQ.", lower_bound=1)
BCQ_EPISODES = flags.DEFINE_integer("bcq_episodes", None, "Episodes of an evaluation, BCQ; --episodes by default.", lower_bound=1)
RECORDINGS = flags.DEFINE_list("recordings", [], "Files in D4RL's HDF5 layout, for BC.")
RECORDING_ENVS = flags.DEFINE_list("recording_envs", [], "Environments of the recordings, one for each; none where the files name theirs.")
RECORDING_SPARSITIES = flags.DEFINE_list("recording_sparsities", ["0", "0.9", "0.95", "0.99"], "Fractions of weights removed, recordings.")
FULL = flags.DEFINE_bool(
    "full", False, "A million updates and ten evaluations of ten episodes a run; BCQ with the grid, and five seeds, on all data sets of BC."
)
WORK = flags.DEFINE_string("work", "/tmp/jaxprune-return", "Folder for the sweeps.")
RECORDS = flags.DEFINE_string(
    "records", None, "Folder that keeps the rows of finished sweeps: one that has its rows there is not run again, on whatever machine."
)
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

FULL_SIZE: dict[str, Any] = {"steps": 1_000_000, "eval_every": 100_000, "episodes": 10, "seeds": tuple(range(5))}
# (criterion, what it is held against, what the claim says of it)
AGAINST = (
    ("snip", "random", "scoring beats chance"),
    ("snip", "snip_shuffled", "which weights stay matters, and not only how many each layer keeps"),
    ("snip", "small_dense", "a pruned network beats a small dense one of as many weights"),
)


@dataclasses.dataclass(frozen=True)
class Sweep:
    """One grid on one data set, in a folder of its own."""

    dataset: str
    data: jp.data.Dataset
    config: jp.SweepConfig
    folder: pathlib.Path


def plan() -> dict[str, list[Sweep]]:
    """{part: sweeps}; nothing is written."""
    if unknown := sorted(set(PARTS.value) - {"bc", "bcq"}):
        raise ValueError(f"--parts: {unknown[0]!r} is unknown; expected bc, bcq or both")
    sparsities = numbers_of("sparsities", SPARSITIES.value, float)
    bcq_sparsities = numbers_of("bcq_sparsities", BCQ_SPARSITIES.value, float)
    recording_sparsities = numbers_of("recording_sparsities", RECORDING_SPARSITIES.value, float)
    bc = _size("bc", STEPS.value, EVALUATIONS.value, SEEDS.value)
    bcq = _size("bcq", BCQ_STEPS.value, BCQ_EVALUATIONS.value, BCQ_SEEDS.value, BCQ_EPISODES.value)
    grid = {"criteria": tuple(CRITERIA.value), "sparsities": sparsities}
    parts: dict[str, list[Sweep]] = {}
    if "bc" in PARTS.value:
        parts["bc"] = []
        for name in DATASETS.value:
            parts["bc"].append(_sweep(name, "bc", {**bc, **grid}))
            if MORE.value:
                extra = {"criteria": tuple(MORE.value), "sparsities": (AT.value,)}
                parts["bc"].append(_sweep(name, "bc-more", {**bc, **extra}, parts["bc"][-1].data))
    if "bcq" in PARTS.value:
        whole, one = {**bcq, "sparsities": bcq_sparsities}, {**bcq, "sparsities": (0.0, AT.value)}
        names = DATASETS.value if FULL.value else BCQ_DATASETS.value
        criteria = {"criteria": tuple(BCQ_CRITERIA.value)}
        parts["bcq"] = [
            _sweep(name, "bcq", {**(whole if FULL.value or not place else one), **criteria}) for place, name in enumerate(names)
        ]
    if RECORDINGS.value:
        if RECORDING_ENVS.value and len(RECORDING_ENVS.value) != len(RECORDINGS.value):
            raise ValueError(f"expected one of --recording_envs for each of the {len(RECORDINGS.value)} --recordings, or none")
        envs = RECORDING_ENVS.value or [None] * len(RECORDINGS.value)
        settings = {**bc, **grid, "sparsities": recording_sparsities, "clip_actions": True}
        parts["recordings"] = [
            _sweep(path, "recording", {**settings, "env_id": env_id})
            for path, env_id in zip(RECORDINGS.value, envs, strict=True)
            if pathlib.Path(path).exists()
        ]
    return {part: sweeps for part, sweeps in parts.items() if sweeps}


def _size(algo: str, steps: int, evaluations: int, seeds: int, episodes: int | None = None) -> dict[str, Any]:
    size = {
        "steps": steps,
        "eval_every": max(1, steps // evaluations),
        "episodes": episodes or EPISODES.value,
        "seeds": tuple(range(seeds)),
    }
    return {"algos": (algo,), **(FULL_SIZE if FULL.value else size)}


def _sweep(name: str, kind: str, settings: dict[str, Any], data: jp.data.Dataset | None = None) -> Sweep:
    config = jp.SweepConfig(dataset=name, **settings)
    if data is None:
        data = jp.data.load(name, env_id=config.env_id, clip_actions=config.clip_actions)
    if config.env_id is None and data.env_id is None:
        raise ValueError(f"{name} does not say which environment it is from; name it with --recording_envs")
    label = naming.dataset_name(name)
    folder = "-".join((kind, *label.lower().split(), *(["full"] if FULL.value else [])))
    return Sweep(label, data, config, pathlib.Path(WORK.value) / folder)


def records() -> pathlib.Path | None:
    """The folder of --records."""
    return None if RECORDS.value is None else pathlib.Path(RECORDS.value)


def estimate(parts: dict[str, list[Sweep]]) -> list[str]:
    """Lines; of each part and kind of grid the first data set is timed for all. What is done already is left out."""
    lines = []
    for part, everything in parts.items():
        sweeps = [sweep for sweep in everything if not is_done(sweep.folder, records())]
        seconds: dict[Any, float] = {}
        for sweep in sweeps:
            kind = (sweep.config.criteria, sweep.config.sparsities)
            seconds[kind] = seconds[kind] if kind in seconds else sweep_seconds(sweep.config, sweep.data)
        total = sum(seconds[sweep.config.criteria, sweep.config.sparsities] for sweep in sweeps)
        lines.append((part, [sweep.config for sweep in sweeps], total))
    return told(lines)


class Part:
    """What the runs of a part returned.

    Attributes:
      finals: {(criterion, sparsity): {data set: {seed: return}}}.
      rows: of the table, a criterion and sparsity on a data set each.
      seconds: that the runs took.
    """

    def __init__(self, name: str, sweeps: list[Sweep]):
        self.name, self.algo, self.seconds = name, sweeps[0].config.algos[0], 0.0
        self.size = sweeps[0].config
        self.finals: dict[tuple[str, float], dict[str, dict[int, float]]] = {}
        self.rows: list[dict[str, Any]] = []
        for place, sweep in enumerate(sweeps):
            print(f"{name}: sweep {place + 1} of {len(sweeps)}, {sweep.dataset}", flush=True)
            runs, seconds = sweep_runs(sweep.folder, sweep.data, sweep.config, progress=True, records=records())
            self.seconds += seconds
            for arm, returns in returns_of(runs).items():
                self.finals.setdefault(arm, {})[sweep.dataset] = returns
            self.rows += cell_rows(runs, part=name, dataset=sweep.dataset, algorithm=naming.name(self.algo))

    @property
    def dense(self) -> dict[str, dict[int, float]]:
        """Of the unpruned runs."""
        return self.finals.get(("dense", 0.0), {})

    @property
    def datasets(self) -> list[str]:
        """In order."""
        return list(dict.fromkeys(row["dataset"] for row in self.rows))

    @property
    def criteria(self) -> list[str]:
        """In order, those of one sparsity last."""
        return list(dict.fromkeys(criterion for criterion, _ in self.finals if criterion != "dense"))

    @property
    def sparsities(self) -> list[float]:
        """Above zero, ascending."""
        return sorted({sparsity for _, sparsity in self.finals if sparsity})

    def pairs(self, criterion: str, sparsity: float, reference: tuple[str, float] = ("dense", 0.0)) -> dict[str, list[float]]:
        """{data set: differences to the reference}, in fractions of the dense return."""
        return differences(self.finals.get((criterion, sparsity), {}), self.finals.get(reference, {}), self.dense)


def page(part: Part) -> list[str]:
    """The lines of a part: figure, tables, verdicts."""
    title = {"recordings": f"{naming.name(part.algo)} on recordings made elsewhere"}.get(part.name, naming.name(part.algo))
    size = part.size
    lines = [f"## {title}", "", f"![Return against sparsity](return_{part.name}.png)", ""]
    lines += [f"Return in per cent of dense, pooled over data sets (how many, in brackets); {counted(len(size.seeds), 'seed')}.", ""]
    counts = {sparsity: max(len(part.finals.get((c, sparsity), {})) for c in part.criteria) for sparsity in part.sparsities}
    heads = {"criterion": "criterion", **{f"{s}": f"{naming.percent(s)} ({counts[s]})" for s in part.sparsities}}
    rows = [
        {"criterion": naming.name(c), **{f"{s}": share_text(spread_of(found)) for s in part.sparsities if (found := part.pairs(c, s))}}
        for c in part.criteria
    ]
    lines += [*markdown_table(heads, rows), "", f"At {naming.percent(AT.value)}, each data set by itself:", ""]
    heads = {"criterion": "criterion", **{name: name for name in part.datasets}}
    rows = [{"criterion": "Dense, return", **{name: _dense_text(part, name) for name in part.datasets}}]
    for criterion in part.criteria:
        found = part.pairs(criterion, AT.value)
        rows.append({"criterion": naming.name(criterion), **{name: share_text(spread_of({name: v})) for name, v in found.items()}})
    return [*lines, *markdown_table(heads, rows), "", *bullets(verdicts(part)), "", *failures_told(part.rows)]


def _dense_text(part: Part, dataset: str) -> str:
    values = list(part.dense.get(dataset, {}).values())
    return naming.number(math.fsum(values) / len(values)) if values else "n/a"


def verdicts(part: Part) -> list[str]:
    """A sentence for every claim."""
    if AT.value not in part.sparsities:
        return []
    at, algo = naming.percent(AT.value), naming.name(part.algo)
    margin, words = f"{naming.percent(MARGIN)} of dense", {SUPPORT: "kept in", CONTRADICT: "lost in", CANNOT_TELL: "open in"}
    found = []
    for criterion in (c for c in ("snip", "grasp") if c in part.criteria):
        outcomes = [judge(spread_of({name: values}), low=-MARGIN) for name, values in part.pairs(criterion, AT.value).items()]
        counts = ", ".join(f"{told} {outcomes.count(outcome)}" for outcome, told in words.items())
        claim = f"{naming.name(criterion)} keeps performance at {at}, but for {margin}, in the majority of experiments ({algo})"
        found.append(f"{claim}: our runs **{judge_majority(outcomes)}** ({counts} of {len(outcomes)} data sets).")
    for criterion in part.criteria:
        if pairs := part.pairs(criterion, AT.value):
            claim = f"{naming.name(criterion)} keeps the return at {at}, but for {margin} ({algo})"
            found.append(sentence(claim, pairs, low=-MARGIN, case="data set"))
    for one, other, reason in AGAINST:
        for sparsity in dict.fromkeys((AT.value, part.sparsities[-1])):
            if pairs := part.pairs(one, sparsity, (other, sparsity)):
                claim = f"{naming.name(one)} returns more than {naming.name(other)}, by over {margin} ({algo})"
                claim = f"At {naming.percent(sparsity)} {reason}: {claim}"
                found.append(sentence(claim, pairs, low=MARGIN, case="data set"))
    return found


def figure(part: Part, path: pathlib.Path) -> None:
    """Per cent of the dense return against sparsity: all data sets pooled, with intervals or ranges, and a panel for each."""
    from matplotlib.figure import Figure

    sparsities = part.sparsities
    places = dict(zip(sparsities, sparsity_positions(sparsities), strict=True))
    shown = [c for c in part.criteria if len(sparsities) == 1 or sum(sparsity > 0 for d, sparsity in part.finals if d == c) > 1]
    styles = looks([Series(criterion) for criterion in shown])
    panels: list[tuple[str, list[str]]] = [(f"{len(part.datasets)} data sets, pooled", part.datasets)] if len(part.datasets) > 1 else []
    panels += [(name, [name]) for name in part.datasets]
    columns = min(4, len(panels))
    rows = math.ceil(len(panels) / columns)
    extent = (max(places.values()) - min(places.values())) or 1.0
    with drawing():
        drawn = Figure(figsize=(2.7 * columns + 0.6, 2.35 * rows + 0.8), layout="constrained")
        grid = drawn.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, (title, datasets) in zip(grid.flat, panels, strict=False):
            axes.axhline(100, color=INK, linewidth=1.2, zorder=1)
            axes.axhspan(100 - 100 * MARGIN, 100 + 100 * MARGIN, color=INK, alpha=0.08, linewidth=0, zorder=0)
            for order, criterion in enumerate(shown):
                look, shift = styles[Series(criterion)], 0.012 * extent * (order - (len(shown) - 1) / 2)
                points = []
                for sparsity in sparsities:
                    pairs = {name: values for name, values in part.pairs(criterion, sparsity).items() if name in datasets}
                    if len(pairs) == len(datasets) and (found := spread_of(pairs)):
                        points.append((places[sparsity] + shift, *(100 + 100 * value for value in (found.mean, found.low, found.high))))
                if points:
                    x, mean, low, high = zip(*points, strict=True)
                    marks = dict(marker=look.marker, markersize=4.5, markeredgecolor=PAPER, markeredgewidth=0.6)
                    axes.plot(
                        x, mean, color=look.color, linestyle=look.line, linewidth=1.4, label=naming.name(criterion), zorder=4, **marks
                    )
                    axes.vlines(x, low, high, color=look.color, linewidth=0.9, zorder=3)
            axes.set_title(title)
            axes.set_xticks(list(places.values()), [naming.percent(sparsity).replace(" ", "") for sparsity in sparsities], fontsize=7.5)
            axes.grid(axis="y")
        grid[0, 0].set_ylim(bottom=min(0, grid[0, 0].get_ylim()[0]))
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_axis_off()
        for axes in list(grid.flat)[: len(panels)]:
            axes.xaxis.set_tick_params(labelbottom=True)
        drawn.supxlabel("Sparsity (log scale of what is kept)", fontsize=9)
        drawn.supylabel("Return, % of dense", fontsize=9)
        labelled = max(grid.flat, key=lambda axes: len(axes.get_legend_handles_labels()[0]))
        drawn.legend(
            *labelled.get_legend_handles_labels(),
            loc="outside upper center",
            ncols=min(max(2, 7 * columns // 4), len(shown) or 1),
            handlelength=2.6,
        )
        drawn.savefig(path, dpi=130)


def main():
    parts, output, began = plan(), pathlib.Path(OUTPUT.value), time.time()
    absent = [path for path in RECORDINGS.value if not pathlib.Path(path).exists()]
    for path in absent:
        print(f"{path}: no such file, left out")
    if not parts:
        raise ValueError("nothing to run: name --parts, or --recordings that are there")
    for sweep in (sweep for sweeps in parts.values() for sweep in sweeps):
        kept_rows(sweep.folder, sweep.data, sweep.config, records())
    print("\n".join(estimate(parts)), flush=True)
    output.mkdir(parents=True, exist_ok=True)
    done = [Part(name, sweeps) for name, sweeps in parts.items()]
    lines = ["# Return against sparsity", ""]
    for part in done:
        figure(part, output / f"return_{part.name}.png")
        lines += page(part)
    sizes = []
    for part in done:
        size = part.size
        sizes.append(f"{part.name}: {size.steps:,} updates, {counted(size.episodes, 'episode')} every {size.eval_every:,}")
    lines += [
        f"A return is the mean of a run's last three evaluations, or of all where there are fewer ({'; '.join(sizes)}). Pruned "
        "before the first update, every network and perceptron to the sparsity named, on 1,024 rows; runs of one seed share "
        "initialisation, batches and episode starts. In brackets, "
        "and as bars in the figures: the 95 % bootstrap interval of the mean, or the range of fewer than five pairs; the grey band is "
        f"{naming.percent(MARGIN)} about dense. LM without a "
        "step-size penalty keeps the largest |θ·g| as SNIP does, and so the same weights.",
        "",
        RETURNS_RULE,
        "",
        f"The runs took {naming.duration(sum(part.seconds for part in done))} of this machine in all. "
        + made_by(command_line(), time.time() - began),
    ]
    if RECORDS.value is not None:
        lines += ["", f"Rows kept in `{RECORDS.value}`, with the versions and hardware that made them, were not made again."]
    write_page(output, lines, {"table": [row for part in done for row in part.rows]})


if __name__ == "__main__":
    launch(main)
