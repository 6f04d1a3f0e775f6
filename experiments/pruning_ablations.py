"""Do more pruning rows or more rounds change anything, and does it matter which data are scored?

    python experiments/pruning_ablations.py --output=results/pruning_ablations
    python experiments/pruning_ablations.py --full --output=results/pruning_ablations_full       # the papers' million updates

One thing is changed at a time from the reference, 1,024 rows of the training set in one round: how many rows the criterion sees, in how
many rounds it prunes, and which level of play it is shown before training goes on with the training set. Returns, and how much the masks
overlap with the reference's. Writes OUTPUT/README.md, table.csv and ablations_ALGO.png. Times some updates and prints an estimate first;
stopped, the same command goes on.
"""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from arm_runs import KeptRows, cell_rows, failures_told, made_by, numbers_of, returns_of, sweep_runs, write_page
from claims import MARGIN, RETURNS_RULE, bullets, counted, differences, sentence, share_text, spread_of
from estimates import sweep_seconds, timed, told
from launch import command_line, launch
from tqdm.auto import tqdm

import jaxprune as jp
from jaxprune.agents.compact import compact
from jaxprune.agents.sparse import PruneInfo
from jaxprune.data.builtin import is_builtin, parse
from jaxprune.reporting import naming
from jaxprune.reporting.appearance import INK, PAPER, drawing, looks
from jaxprune.reporting.summary import LAST_EVALUATIONS, Series
from jaxprune.reporting.tables import markdown_table
from jaxprune.training.evaluation import evaluate_stack
from jaxprune.training.grid import Run, expand
from jaxprune.training.loop import advance, one_device_strategy
from jaxprune.training.stacks import grouped, stack
from jaxprune.training.start import Origin, Rankings, RunKeys, Start, prune_run
from jaxprune.training.sweep import fingerprint

MEDIUM = [f"jaxprune/{task}/medium-v0" for task in ("hopper", "walker2d", "halfcheetah")]

PARTS = flags.DEFINE_list("parts", ["bc", "bcq"], "Algorithms to run: bc, bcq.")
ROWS = flags.DEFINE_list("rows", ["1", "4", "16", "64", "256", "1024", "4096"], "Rows that the criterion scores on, in one round.")
ROUNDS = flags.DEFINE_list("rounds", ["1", "3", "10", "30", "100"], "Pruning rounds, each on fresh rows.")
SCORED_ON = flags.DEFINE_list(
    "scored_on", ["random", "expert"], "Levels of the built-in sets that are scored in place of the training set."
)
DATASETS = flags.DEFINE_list("datasets", MEDIUM, "Training sets, BC.")
CRITERIA = flags.DEFINE_list("criteria", ["snip", "grasp"], "Criteria, BC.")
SPARSITIES = flags.DEFINE_list("sparsities", ["0.95", "0.99"], "Fractions of weights removed, BC.")
SEEDS = flags.DEFINE_integer("seeds", 5, "Seeds, BC.", lower_bound=1)
STEPS = flags.DEFINE_integer("steps", 3000, "Updates of a run, BC.", lower_bound=1)
EVALUATIONS = flags.DEFINE_integer("evaluations", 3, "Evaluations of a run, evenly spaced, BC.", lower_bound=1)
EPISODES = flags.DEFINE_integer("episodes", 5, "Episodes of an evaluation.", lower_bound=1)
BCQ_DATASETS = flags.DEFINE_list("bcq_datasets", MEDIUM[:2], "Training sets, BCQ.")
BCQ_CRITERIA = flags.DEFINE_list("bcq_criteria", ["snip"], "Criteria, BCQ.")
BCQ_SPARSITIES = flags.DEFINE_list("bcq_sparsities", ["0.95"], "Fractions of weights removed, BCQ.")
BCQ_SEEDS = flags.DEFINE_integer("bcq_seeds", 3, "Seeds, BCQ.", lower_bound=1)
BCQ_STEPS = flags.DEFINE_integer("bcq_steps", 5000, "Updates of a run, BCQ.", lower_bound=1)
BCQ_EVALUATIONS = flags.DEFINE_integer("bcq_evaluations", 5, "Evaluations of a run, evenly spaced, BCQ.", lower_bound=1)
FULL = flags.DEFINE_bool("full", False, "A million updates, ten evaluations of ten episodes, five seeds, BCQ on the grid of BC.")
WORK = flags.DEFINE_string("work", "/tmp/jaxprune-ablations", "Folder for the sweeps.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

log = logging.getLogger("jaxprune")

REFERENCE_ROWS = 1024
REFERENCE, OTHER_ROWS, CHANCE = "reference", "1,024 other rows", "random masks"
# Added to a seed to draw other rows for the same weights.
OTHER_SEED = 1_000_000


@dataclasses.dataclass(frozen=True)
class Arm:
    """One way to prune; `level` is that of the data scored, None for the training set."""

    name: str
    rows: int = REFERENCE_ROWS
    rounds: int = 1
    level: str | None = None

    @property
    def folder(self) -> str:
        """For its sweep."""
        return f"rows{self.rows}-rounds{self.rounds}"


@dataclasses.dataclass(frozen=True)
class Grid:
    """What is run of one algorithm."""

    algo: str
    datasets: tuple[str, ...]
    criteria: tuple[str, ...]
    sparsities: tuple[float, ...]
    seeds: tuple[int, ...]
    steps: int
    eval_every: int
    episodes: int

    def config(self, dataset: str, arm: Arm) -> jp.SweepConfig:
        """The sweep of an arm; that of the reference has dense runs and random masks too."""
        shared: dict[str, Any] = {"algos": (self.algo,), "seeds": self.seeds, "prune_rows": arm.rows, "rounds": arm.rounds}
        size: dict[str, Any] = {"steps": self.steps, "eval_every": self.eval_every, "episodes": self.episodes}
        criteria, sparsities = self.criteria, self.sparsities
        if arm.name == REFERENCE:
            criteria, sparsities = (*criteria, "random"), (0.0, *sparsities)
        return jp.SweepConfig(dataset, criteria=criteria, sparsities=sparsities, **shared, **size)


def arms() -> list[Arm]:
    """The reference first."""
    rows, rounds = numbers_of("rows", ROWS.value, int), numbers_of("rounds", ROUNDS.value, int)
    found = [Arm(REFERENCE)]
    found += [Arm(f"{n:,} row{'s' * (n > 1)}", rows=n) for n in rows if n != REFERENCE_ROWS]
    found += [Arm(f"{n:,} rounds", rounds=n) for n in rounds if n != 1]
    return found + [Arm(f"scored on {level}", level=level) for level in SCORED_ON.value]


def grids() -> list[Grid]:
    """One for each of --parts."""
    if unknown := sorted(set(PARTS.value) - {"bc", "bcq"}):
        raise ValueError(f"--parts: {unknown[0]!r} is unknown; expected bc, bcq or both")
    flags_of: dict[str, Any] = {
        "bc": (DATASETS, CRITERIA, SPARSITIES, SEEDS, STEPS, EVALUATIONS),
        "bcq": (BCQ_DATASETS, BCQ_CRITERIA, BCQ_SPARSITIES, BCQ_SEEDS, BCQ_STEPS, BCQ_EVALUATIONS),
    }
    found = []
    for algo in PARTS.value:
        datasets, criteria, sparsities, seeds, steps, evaluations = flags_of["bc" if FULL.value else algo]
        size: dict[str, Any] = {"steps": steps.value, "eval_every": max(1, steps.value // evaluations.value), "episodes": EPISODES.value}
        size |= {"steps": 1_000_000, "eval_every": 100_000, "episodes": 10} if FULL.value else {}
        fractions = numbers_of(sparsities.name, sparsities.value, float)
        if not all(0 < fraction < 1 for fraction in fractions):
            raise ValueError(f"--{sparsities.name}={','.join(sparsities.value)}: expected fractions between 0 and 1, both excluded")
        found.append(Grid(algo, tuple(datasets.value), tuple(criteria.value), fractions, tuple(range(seeds.value)), **size))
    return found


def scored_set(dataset: str, level: str) -> str:
    """The built-in set of the same task, size and seed at another level.

    Raises:
      ValueError: the training set is not built in.
    """
    if not is_builtin(dataset):
        raise ValueError(f"--scored_on needs built-in training sets, got {dataset}; leave it empty for others: --scored_on=")
    return parse(dataclasses.replace(parse(dataset), level=level).dataset_id).dataset_id


class Masks:
    """Prunings of one seed's agent at initialisation, as the sweeps do them."""

    def __init__(self, grid: Grid, data: jp.data.Dataset, criterion: str, seed: int):
        self.grid, self.data, self.criterion, self.seed = grid, data, criterion, seed
        self.agent = jp.agents.make(grid.algo, data.spec)
        self.state = self.agent.init(RunKeys.of(seed).init, data.statistics, optimizers=False)
        # One for each arm: a ranking serves all sparsities.
        self.rankings: dict[tuple[Arm, int | None], Rankings] = {}

    def pruned(self, arm: Arm, transitions: Any, sparsity: float, *, rows_seed: int | None = None) -> tuple[Any, PruneInfo] | None:
        """The state and what it kept, scored on some transitions; None where nothing could be ranked. `rows_seed` draws other rows."""
        config = self.grid.config(self.data.name, arm)
        run = Run(self.grid.algo, self.criterion, sparsity, self.seed if rows_seed is None else rows_seed)
        rankings = self.rankings.setdefault((arm, rows_seed), Rankings())
        try:
            return prune_run(self.agent, self.state, run, config, transitions, self.data.statistics, rankings=rankings)
        except ValueError as error:
            log.warning("%s, %s, %s: %s", arm.name, self.criterion, self.data.name, error)
            return None

    def overlaps(self, chosen: list[Arm], sets: dict[str, jp.data.Dataset]) -> list[dict[str, Any]]:
        """A row for every arm and sparsity: the Jaccard index of its masks and the reference's, all networks together."""
        found = []
        own = self.data.transitions
        others: list[tuple[Arm, Any, int | None]] = [(Arm(OTHER_ROWS), own, self.seed + OTHER_SEED)]
        others += [(arm, own if arm.level is None else sets[arm.level].transitions, None) for arm in chosen if arm.name != REFERENCE]
        for sparsity in self.grid.sparsities:
            reference = self.pruned(Arm(REFERENCE), own, sparsity)
            for arm, transitions, rows_seed in others:
                made = self.pruned(arm, transitions, sparsity, rows_seed=rows_seed)
                if made and reference:
                    overlap = float(jp.jaccard(reference[0].masks, made[0].masks))
                    found.append({"arm": arm.name, "sparsity": sparsity, "overlap": overlap})
        return found


def trained_elsewhere(grid: Grid, data: jp.data.Dataset, arm: Arm, scored: jp.data.Dataset, criterion: str) -> dict[str, dict[str, float]]:
    """Score one set, train on another: {sparsity: {seed: mean return of the last three evaluations}}.

    Everything but the rows that are scored is as in the reference's sweep, batches and episodes included.
    """
    config, finals = grid.config(data.name, arm), {}
    transitions, env_id = jax.device_put(data.transitions), data.env_id
    if env_id is None:
        raise ValueError(f"{data.name} does not say which environment it is from")
    starts: dict[float, list[Start]] = {}
    for seed in grid.seeds:
        masks = Masks(grid, data, criterion, seed)
        for sparsity in grid.sparsities:
            if made := masks.pruned(arm, scored.transitions, sparsity):
                agent, small = compact(masks.agent, made[0])
                origin = Origin(Run(grid.algo, criterion, sparsity, seed), made[1], grid.steps)
                starts.setdefault(sparsity, []).append(Start(origin, agent, agent.restart_optimizers(small)))
    for sparsity, own in starts.items():
        for group in grouped(own):
            together = stack(group)
            agent, state, step, evaluated = together.agent, together.state, 0, []
            seeds = [origin.run.seed for origin in together.origins]
            keys = jnp.stack([RunKeys.of(seed).train for seed in seeds])
            how: dict[str, Any] = {"batch_size": config.batch_size or agent.config.batch_size, "stacked": one_device_strategy()}
            while step < grid.steps:
                now = min(grid.eval_every, grid.steps - step)
                state, _ = advance(agent, state, keys, transitions, now, phase=step % agent.period, **how)
                step += now
                played: dict[str, Any] = {"episodes": grid.episodes, "seeds": [(seed, step) for seed in seeds]}
                evaluated.append(evaluate_stack(agent, agent.policy(state), env_id, **played).mean(axis=1))
            means = np.mean(evaluated[-LAST_EVALUATIONS:], axis=0)
            finite = {str(seed): float(mean) for seed, mean in zip(seeds, means, strict=True) if np.isfinite(mean)}
            finals.setdefault(str(sparsity), {}).update(finite)
    return finals


class Part:
    """What the runs and masks of one algorithm say.

    Attributes:
      finals: {(arm, criterion, sparsity): {data set: {seed: return}}}.
      overlaps: {(arm, criterion, sparsity): Jaccard indices, of every data set and seed}.
      rows: of the table.
      seconds: that the sweeps took.
    """

    def __init__(self, grid: Grid, chosen: list[Arm], loaded: dict[str, jp.data.Dataset], kept: KeptRows):
        self.grid, self.arms, self.seconds = grid, chosen, 0.0
        self.finals: dict[tuple[str, str, float], dict[str, dict[int, float]]] = {}
        self.overlaps: dict[tuple[str, str, float], list[float]] = {}
        self.rows: list[dict[str, Any]] = []
        jobs = [(dataset, arm) for dataset in grid.datasets for arm in chosen]
        for dataset, arm in tqdm(jobs, desc=f"{grid.algo}, returns", disable=None):
            self._returns(dataset, arm, loaded, kept)
        jobs = [(dataset, criterion, seed) for dataset in grid.datasets for criterion in grid.criteria for seed in grid.seeds]
        for dataset, criterion, seed in tqdm(jobs, desc=f"{grid.algo}, masks", disable=None):
            key = f"overlap {grid.algo} {dataset} {criterion} {seed}"
            if key not in kept.rows:
                sets = {level: loaded[scored_set(dataset, level)] for level in SCORED_ON.value}
                kept.add(key, Masks(grid, loaded[dataset], criterion, seed).overlaps(chosen, sets))
            for row in kept.rows[key]:
                self.overlaps.setdefault((row["arm"], criterion, row["sparsity"]), []).append(row["overlap"])

    def _returns(self, dataset: str, arm: Arm, loaded: dict[str, jp.data.Dataset], kept: KeptRows) -> None:
        grid, label = self.grid, naming.dataset_name(dataset)
        if arm.level is None:
            folder = pathlib.Path(WORK.value) / "-".join((grid.algo, *label.lower().split(), arm.folder, str(grid.steps)))
            runs, seconds = sweep_runs(folder, loaded[dataset], grid.config(dataset, arm))
            self.seconds += seconds
            self.rows += cell_rows(runs, arm=arm.name, dataset=label, algorithm=naming.name(grid.algo))
            for (criterion, sparsity), returns in returns_of(runs).items():
                name = CHANCE if criterion == "random" else arm.name
                self.finals.setdefault((name, criterion, sparsity), {})[label] = returns
            return
        for criterion in grid.criteria:
            key = f"returns {grid.algo} {dataset} {arm.name} {criterion}"
            if key not in kept.rows:
                scored = loaded[scored_set(dataset, arm.level)]
                began = time.time()
                returns = trained_elsewhere(grid, loaded[dataset], arm, scored, criterion)
                kept.add(key, {"returns": returns, "seconds": time.time() - began})
            self.seconds += kept.rows[key]["seconds"]
            for sparsity, returns in kept.rows[key]["returns"].items():
                by_seed = {int(seed): value for seed, value in returns.items()}
                self.finals.setdefault((arm.name, criterion, float(sparsity)), {})[label] = by_seed
                missing = "; ".join(f"seed {seed}: not pruned, or no finite return" for seed in grid.seeds if seed not in by_seed)
                found = {
                    "return_mean": float(np.mean(list(by_seed.values()))) if by_seed else None,
                    "seeds": len(by_seed),
                    "failed": missing,
                }
                names = {"arm": arm.name, "dataset": label, "algorithm": naming.name(grid.algo)}
                self.rows.append({**names, "criterion": naming.name(criterion), "sparsity": float(sparsity), **found})

    @property
    def dense(self) -> dict[str, dict[int, float]]:
        """Of the unpruned runs."""
        return self.finals.get((REFERENCE, "dense", 0.0), {})

    def to_dense(self, arm: str, criterion: str, sparsity: float) -> dict[str, list[float]]:
        """{data set: differences to dense}; random masks stand for any criterion."""
        key = (arm, "random" if arm == CHANCE else criterion, sparsity)
        return differences(self.finals.get(key, {}), self.dense, self.dense)

    def to_reference(self, arm: str, criterion: str, sparsity: float) -> dict[str, list[float]]:
        """{data set: differences to the reference}, in fractions of the dense return."""
        one, other = self.finals.get((arm, criterion, sparsity), {}), self.finals.get((REFERENCE, criterion, sparsity), {})
        return differences(one, other, self.dense)

    def overlap(self, arm: str, criterion: str, sparsity: float) -> float | None:
        """Mean Jaccard index with the reference; of random masks, what is expected."""
        if arm == CHANCE:
            return (1 - sparsity) / (1 + sparsity)
        found = [1.0] if arm == REFERENCE else self.overlaps.get((arm, criterion, sparsity), [])
        return float(np.mean(found)) if found else None


def page(part: Part) -> list[str]:
    """The lines of an algorithm: figure, table, verdicts."""
    grid, name = part.grid, naming.name(part.grid.algo)
    columns = [(criterion, sparsity) for criterion in grid.criteria for sparsity in grid.sparsities]
    heads = {"arm": "pruned with", **{f"{c} {s}": f"{naming.name(c)} {naming.percent(s)}" for c, s in columns}}
    rows = []
    for arm in (*(arm.name for arm in part.arms), OTHER_ROWS, CHANCE):
        row = {"arm": f"{arm} (1,024 rows, 1 round)" if arm == REFERENCE else arm}
        for criterion, sparsity in columns:
            overlap, pairs = part.overlap(arm, criterion, sparsity), part.to_dense(arm, criterion, sparsity)
            returned = share_text(spread_of(pairs)) if pairs else "–"
            row[f"{criterion} {sparsity}"] = f"{returned}; {'–' if overlap is None else f'{overlap:.2f}'}"
        rows.append(row)
    about = f"{counted(len(grid.datasets), 'data set')}, {counted(len(grid.seeds), 'seed')}, {grid.steps:,} updates"
    return [
        f"## {name}",
        "",
        f"![Return and overlap of masks]({figure_name(part)})",
        "",
        f"Return in per cent of dense, pooled over {about}; then the Jaccard index of the masks with the reference's.",
        "",
        *markdown_table(heads, rows),
        "",
        *bullets(verdicts(part)),
        "",
        *failures_told(part.rows, "arm"),
    ]


def verdicts(part: Part) -> list[str]:
    """A sentence for every claim, criterion and sparsity."""
    changed = [arm for arm in part.arms if arm.name != REFERENCE]
    by_rows = [arm for arm in changed if arm.rows != REFERENCE_ROWS]
    most = max(by_rows, key=lambda arm: arm.rows, default=None)
    fewest = min(by_rows, key=lambda arm: arm.rows, default=None)
    rounds = max((arm for arm in changed if arm.rounds > 1), key=lambda arm: arm.rounds, default=None)
    margin, found = f"{naming.percent(MARGIN)} of dense", []
    for criterion in part.grid.criteria:
        for sparsity in part.grid.sparsities:
            where = f"{naming.name(part.grid.algo)}, {naming.name(criterion)} at {naming.percent(sparsity)}"

            def add(arm: Arm, claim: str, *, where=where, criterion=criterion, sparsity=sparsity, **bounds: Any) -> None:
                pairs = part.to_reference(arm.name, criterion, sparsity)
                found.append(sentence(f"{claim} ({where})", pairs, case="data set", **bounds))

            if most is not None and most.rows > REFERENCE_ROWS:
                add(most, f"{most.name} help no more than {REFERENCE_ROWS:,}, by {margin}", high=MARGIN)
            if rounds is not None:
                add(rounds, f"{rounds.name} help no more than one, by {margin}", high=MARGIN)
            if fewest is not None and fewest.rows < REFERENCE_ROWS:
                add(fewest, f"{fewest.name} will do: no loss by {margin} against {REFERENCE_ROWS:,}", low=-MARGIN)
            for arm in changed:
                if arm.level is not None:
                    add(arm, f"Scoring {arm.level} play will do: no loss by {margin} against the training set", low=-MARGIN)
    return found


def figure_name(part: Part) -> str:
    return f"ablations_{part.grid.algo}.png"


def figure(part: Part, path: pathlib.Path) -> None:
    """Return (above) and overlap (below) against rows, rounds and the data scored; a line for each criterion and sparsity."""
    from matplotlib.figure import Figure

    panels = {
        "rows scored": [(arm.rows, arm) for arm in part.arms if arm.level is None and arm.rounds == 1],
        "rounds": [(arm.rounds, arm) for arm in part.arms if arm.level is None and arm.rows == REFERENCE_ROWS],
        "data scored": [(0, part.arms[0]), *((1 + i, arm) for i, arm in enumerate(a for a in part.arms if a.level is not None))],
    }
    panels = {name: sorted(points, key=lambda point: point[0]) for name, points in panels.items() if len(points) > 1}
    lines = [(criterion, sparsity) for criterion in part.grid.criteria for sparsity in part.grid.sparsities]
    styles = looks([Series(f"{criterion} {sparsity}") for criterion, sparsity in lines])
    with drawing():
        drawn = Figure(figsize=(3.1 * len(panels) + 0.6, 5.2), layout="constrained")
        grid = drawn.subplots(2, len(panels), sharex="col", sharey="row", squeeze=False)
        for column, (name, points) in enumerate(panels.items()):
            above, below = grid[0, column], grid[1, column]
            ordered = name != "data scored"
            for order, (criterion, sparsity) in enumerate(lines):
                shift = 0.035 * (order - (len(lines) - 1) / 2)
                look, label = styles[Series(f"{criterion} {sparsity}")], f"{naming.name(criterion)} {naming.percent(sparsity)}"
                marks: dict[str, Any] = dict(marker=look.marker, markersize=4.5, markeredgecolor=PAPER, markeredgewidth=0.6)
                style: dict[str, Any] = dict(color=look.color, linestyle=look.line, linewidth=1.4, label=label, **marks)
                own_style = style if ordered else style | {"linestyle": "none"}
                spreads = [(_beside(x, shift, ordered), spread_of(part.to_dense(arm.name, criterion, sparsity))) for x, arm in points]
                found = [(x, 100 + 100 * s.mean, 100 + 100 * s.low, 100 + 100 * s.high) for x, s in spreads if s is not None]
                if found:
                    x, mean, low, high = zip(*found, strict=True)
                    above.plot(x, mean, **own_style)
                    above.vlines(x, low, high, color=look.color, linewidth=0.9)
                overlaps = [(_beside(x, shift, ordered), part.overlap(arm.name, criterion, sparsity)) for x, arm in points]
                below.plot([x for x, _ in overlaps], [np.nan if y is None else y for _, y in overlaps], **own_style)
            above.axhline(100, color=INK, linewidth=1.0, zorder=1)
            below.set_ylim(0, 1.03)
            below.set_xlabel(name)
            if name == "data scored":
                below.set_xticks([x for x, _ in points], ["training set" if arm.level is None else arm.level for _, arm in points])
                below.set_xlim(-0.3, len(points) - 0.7)
            else:
                below.set_xscale("log")
                below.set_xticks([x for x, _ in points], [f"{x:,}" for x, _ in points], fontsize=7.5)
                below.minorticks_off()
            for axes in (above, below):
                axes.grid(axis="y")
        grid[0, 0].set_ylabel("Return, % of dense")
        grid[1, 0].set_ylabel("Jaccard index with the reference's mask")
        drawn.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=max(1, len(lines)), handlelength=2.6)
        drawn.savefig(path, dpi=130)


def _beside(x: float, shift: float, ordered: bool) -> float:
    """Where a line's points are drawn, so that its bars do not cover the other lines': on the logarithmic axes, and among the words."""
    return x * 10 ** (2 * shift) if ordered else x + 2 * shift


def estimate(grid: Grid, chosen: list[Arm], data: jp.data.Dataset) -> tuple[str, list[jp.SweepConfig], float]:
    """For `estimates.told`: the reference is timed on one data set for all, and one scoring for all rounds."""
    reference = grid.config(data.name, Arm(REFERENCE))
    each = sweep_seconds(reference, data) / len(expand(reference))
    configs = [grid.config(name, arm) for name in grid.datasets for arm in chosen]
    masks = Masks(grid, data, grid.criteria[0], 0)

    def one_round():
        masks.rankings.clear()
        made = masks.pruned(Arm(REFERENCE), data.transitions, grid.sparsities[0])
        return made and made[0].masks

    one_round()
    rounds = sum(arm.rounds for arm in chosen)
    # Multi-round prunings are made for each sparsity, in the sweeps and again to compare masks.
    scorings = 2 * rounds * len(grid.datasets) * len(grid.criteria) * len(grid.sparsities) * len(grid.seeds)
    seconds = sum(each * len(expand(config)) for config in configs) + timed(one_round) * scorings
    return grid.algo, configs, seconds


def main():
    chosen, own, output, began = arms(), grids(), pathlib.Path(OUTPUT.value), time.time()
    for grid in own:
        for dataset in grid.datasets:
            for arm in chosen:
                grid.config(dataset, arm)
    names = [name for grid in own for name in grid.datasets]
    names += [scored_set(name, level) for name in names for level in SCORED_ON.value]
    loaded = {name: jp.data.load(name) for name in dict.fromkeys(names)}
    print("\n".join(told([estimate(grid, chosen, loaded[grid.datasets[0]]) for grid in own])), flush=True)
    settings = {"rows": ROWS.value, "rounds": ROUNDS.value, "scored_on": SCORED_ON.value}
    output.mkdir(parents=True, exist_ok=True)
    parts = []
    for grid in own:
        seen = {name: fingerprint(loaded[name]) for name in grid.datasets}
        depends_on = {**settings, "grid": dataclasses.asdict(grid), "data": seen}
        kept = KeptRows(pathlib.Path(WORK.value) / f"rows-{grid.algo}-{grid.steps}.jsonl", depends_on)
        parts.append(Part(grid, chosen, loaded, kept))
    lines = ["# Pruning rows, rounds, and the data that are scored", ""]
    for part in parts:
        figure(part, output / figure_name(part))
        lines += page(part)
    rows = [row for part in parts for row in part.rows]
    for part in parts:
        for row in part.rows:
            criterion = next((c for c in part.grid.criteria if naming.name(c) == row["criterion"]), None)
            row["overlap"] = None if criterion is None else part.overlap(row["arm"], criterion, row["sparsity"])
    lines += [
        "A return is the mean of a run's last three evaluations, or of all where there are fewer. Weights are removed before the "
        "first update, from every network; runs of one seed share initialisation, batches and episode starts. Several rounds prune "
        "exponentially, each on fresh rows. Scored on "
        "another level: the criterion sees that level's set of the same task, standardised as the training set is, and training goes on "
        "with the training set. In brackets, and as bars: the 95 % bootstrap interval of the mean, or the range of fewer than five pairs.",
        "",
        RETURNS_RULE,
        "",
        f"The runs took {naming.duration(sum(part.seconds for part in parts))} of this machine in all. "
        + made_by(command_line(), time.time() - began),
    ]
    write_page(output, lines, {"table": rows})


if __name__ == "__main__":
    launch(main)
