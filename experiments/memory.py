"""What 95 % sparsity saves in memory: the published factor of 4, and what better storage gives, measured from files.

    python experiments/memory.py --output=results/memory
    python experiments/memory.py --full --output=results/memory_full       # every algorithm, five seeds

Agents are pruned before training, written in every format, read back and compared. Writes OUTPUT/README.md, table.csv, policies.csv and
bytes.png. Times some files and prints an estimate first; stopped, the same command goes on.
"""

from __future__ import annotations

import pathlib
import tempfile
import time
from typing import Any

import numpy as np
from absl import flags
from arm_runs import KeptRows, made_by, numbers_of, write_page
from claims import bullets, counted, judge_numbers
from launch import command_line, launch
from storage_formats import DENSE, FORMATS, PUBLISHED, leaves, read, write
from tqdm.auto import tqdm

import jaxprune as jp
from jaxprune.agents.compact import compact
from jaxprune.export.measurement import MeasuredRun, policy_rows
from jaxprune.reporting import naming
from jaxprune.reporting.appearance import FAINT, INK, PAPER, SLOTS, drawing
from jaxprune.reporting.figures import sparsity_positions
from jaxprune.reporting.tables import markdown_table
from jaxprune.training.grid import Run
from jaxprune.training.start import Rankings, RunKeys, prune_run
from jaxprune.training.sweep import fingerprint

DATASET = flags.DEFINE_string("dataset", "jaxprune/hopper/medium-v0", "Data set that sets the networks' sizes and is scored on.")
ALGOS = flags.DEFINE_list("algos", ["bc", "bcq"], "Algorithms; all networks of one go into one file.")
CRITERION = flags.DEFINE_string("criterion", "snip", "Pruning criterion.")
SPARSITIES = flags.DEFINE_list("sparsities", ["0", "0.5", "0.8", "0.9", "0.95", "0.98", "0.99"], "Fractions of weights removed.")
SEEDS = flags.DEFINE_integer("seeds", 3, "Seeds of initialisation and pruning rows.", lower_bound=1)
EXPORTS = flags.DEFINE_bool("exports", True, "Write the policies in the formats they are deployed in too; this needs a C compiler.")
FULL = flags.DEFINE_bool("full", False, "BC, BCQ, TD3+BC and IQL, five seeds.")
WORK = flags.DEFINE_string("work", "/tmp/jaxprune-memory", "Folder for what is made on the way.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

CLAIMED, FACTOR, BREAK_EVEN = 0.95, 4.0, 0.8  # the published figures
WITHIN = 0.05  # of a published figure, relatively
STEP = 0.001  # of the search for where a format breaks even


class Pruned:
    """One seed's agent at any sparsity, and the files it makes.

    Args:
      algo: its algorithm.
      seed: of the run.
      data: the log.
      scratch: folder for files.
    """

    def __init__(self, algo: str, seed: int, data: jp.data.Dataset, scratch: pathlib.Path):
        self.agent = jp.agents.make(algo, data.spec)
        self.algo, self.seed, self.data, self.scratch = algo, seed, data, scratch
        self.config = jp.SweepConfig(data.name, algos=(algo,), criteria=(CRITERION.value,), sparsities=(0.5,), seeds=(seed,))
        self.dense = self.agent.init(RunKeys.of(seed).init, data.statistics, optimizers=False)
        self.rankings, self.states = Rankings(), {}

    def at(self, sparsity: float, *, compacted: bool = False) -> tuple[Any, Any]:
        """The agent and its state, pruned."""
        if sparsity not in self.states:
            run, data = Run(self.algo, CRITERION.value, sparsity, self.seed), self.data
            state, _ = prune_run(self.agent, self.dense, run, self.config, data.transitions, data.statistics, rankings=self.rankings)
            # The dense agent is asked for again and again, every other one for a while.
            self.states = {**{key: value for key, value in self.states.items() if not key}, sparsity: {False: (self.agent, state)}}
        found = self.states[sparsity]
        if compacted and True not in found:
            found[True] = compact(*found[False], multiple=1)
        return found[compacted]

    def file(self, name: str, sparsity: float, *, check: bool = False) -> int:
        """Bytes of the file in a format; with `check`, the file is read and compared.

        Raises:
          ValueError: the file does not hold what was written.
        """
        how, path = FORMATS[name], self.scratch / "network"
        _, state = self.at(sparsity, compacted=how.compacted)
        size = write(path, how, state.params, state.masks)
        for leaf, found, array in read(path, how, state.params, state.masks) if check else ():
            # int8 rounds to 1/127 of an output's largest weight.
            bound = 0.0 if how.exact else 0.51 / 127 * np.abs(array).max(initial=0.0)
            if found.shape != array.shape or np.abs(found - array).max(initial=0.0) > bound:
                raise ValueError(f"{name}: {leaf} of {self.algo} came back from the file as something else")
        return size

    def break_even(self, name: str) -> float:
        """The smallest sparsity, in steps of 0.1 %, from which on the file is smaller than the dense one."""
        dense = self.file(DENSE, 0.0)
        low, high = 0, round(1 / STEP)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.file(name, middle * STEP) < dense else (middle, high)
        return high * STEP

    def rows(self, sparsities: tuple[float, ...]) -> list[dict[str, Any]]:
        """A row for every format and sparsity."""
        found = []
        dense = self.file(DENSE, 0.0)
        begins = {name: None if name == DENSE else self.break_even(name) for name in FORMATS}
        for sparsity in sparsities:
            state = self.at(sparsity)[1]
            parts = [(array, kept) for _, array, kept in leaves(state.params, state.masks)]
            kept = sum(int(mask.sum()) for _, mask in parts if mask is not None)
            for name in FORMATS:
                size = self.file(name, sparsity, check=True)
                row = {"algorithm": naming.name(self.algo), "seed": self.seed, "format": name, "sparsity": sparsity, "kept": kept}
                found.append({**row, "bytes": size, "times_smaller": dense / size, "break_even": begins[name]})
        return found

    def policies(self, sparsities: tuple[float, ...]) -> list[dict[str, Any]]:
        """A row for every sparsity and format that policies are deployed in."""
        found = []
        for sparsity in sparsities:
            agent, state = self.at(sparsity, compacted=True)
            folder = self.scratch / f"run-{self.algo}-{self.seed}-{sparsity}"
            described = {"criterion": CRITERION.value, "sparsity": sparsity, "seed": self.seed}
            jp.save_run(folder, agent, agent.restart_optimizers(state), described)
            columns = ("format", "bytes", "times_smaller")
            for row in policy_rows(MeasuredRun(folder)):
                names = {"algorithm": naming.name(self.algo), "seed": self.seed, "sparsity": sparsity}
                found.append({**names, **{column: row[column] for column in columns}})
        return found


def pivot(rows: list[dict[str, Any]], sparsities: tuple[float, ...], *, more: bool) -> list[str]:
    """A table of formats by sparsity: times smaller than dense, means over seeds; with `more`, break-even and bytes a kept weight."""
    heads = {"format": "format", **{f"{s}": naming.percent(s) for s in sparsities}}
    heads |= {"each": f"bytes a weight kept, at {naming.percent(CLAIMED)}", "even": "smaller than dense from (over seeds)"} if more else {}
    lines = []
    for algo in dict.fromkeys(row["algorithm"] for row in rows):
        table = []
        for name in dict.fromkeys(row["format"] for row in rows):
            own = [row for row in rows if (row["algorithm"], row["format"]) == (algo, name)]
            line = {"format": name, **{f"{s}": _mean_of(own, s, lambda row: row["times_smaller"]) for s in sparsities}}
            if more:
                line["each"] = _mean_of(own, CLAIMED, lambda row: row["bytes"] / row["kept"])
                even = [row["break_even"] for row in own if row["break_even"] is not None]
                line["even"] = _range(even, lambda value: naming.percent(round(value, 3))) if even else ""
            table.append(line)
        lines += [f"### {algo}", "", *markdown_table(heads, table, lambda value: value if isinstance(value, str) else ""), ""]
    return lines


def _mean_of(rows: list[dict[str, Any]], sparsity: float, value: Any) -> str:
    found = [value(row) for row in rows if row["sparsity"] == sparsity]
    return f"{np.mean(found):.3g}" if found else ""


def _range(values: list[float], text: Any) -> str:
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"


def verdicts(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence for every claim."""
    at = [row for row in rows if row["sparsity"] == CLAIMED]
    published = [row["times_smaller"] for row in at if row["format"] == PUBLISHED]
    even = sorted({round(row["break_even"], 3) for row in rows if row["format"] == PUBLISHED})
    cases = f"{', '.join(dict.fromkeys(row['algorithm'] for row in rows))}; {counted(len({row['seed'] for row in rows}), 'seed')}"
    found = []
    if published:
        outcome = judge_numbers(published, low=FACTOR * (1 - WITHIN), high=FACTOR * (1 + WITHIN))
        claim = f"Sparse tensors take {FACTOR:g} times less memory at {naming.percent(CLAIMED)} without compression"
        found.append(
            f"{claim}: files with two 64-bit indices a weight **{outcome}** ({_range(published, '{:.2f}'.format)} times; {cases})."
        )
        exact = [name for name, how in FORMATS.items() if how.exact and not how.zipped]
        best = max(exact, key=lambda name: float(np.mean([row["times_smaller"] for row in at if row["format"] == name])))
        ratios = [row["times_smaller"] for row in at if row["format"] == best]
        outcome = judge_numbers(ratios, low=FACTOR * (1 + WITHIN), high=np.inf)
        claim = f"Other storage, lossless and without compression too, saves more than {FACTOR:g} times at {naming.percent(CLAIMED)}"
        found.append(f"{claim}: our files **{outcome}** ({best}: {_range(ratios, '{:.2f}'.format)} times; {cases}).")
    outcome = judge_numbers(even, low=BREAK_EVEN * (1 - WITHIN), high=BREAK_EVEN * (1 + WITHIN))
    claim = f"With 64-bit indices, sparse storage pays from {naming.percent(BREAK_EVEN)} on (20 bytes a weight kept, 4 a dense one)"
    found.append(f"{claim}: our files **{outcome}** (from {_range(even, naming.percent)} on; {cases}).")
    return found


def figure(rows: list[dict[str, Any]], path: pathlib.Path) -> None:
    """File sizes over that of the dense file against sparsity, a panel for each algorithm."""
    from matplotlib.figure import Figure

    algos = list(dict.fromkeys(row["algorithm"] for row in rows))
    names = [name for name in FORMATS if name != DENSE]
    looks = [*SLOTS, (INK, "*", "dotted", ""), (FAINT, "h", (0, (5, 1.6)), "")]
    sparsities = sorted({row["sparsity"] for row in rows})
    places = dict(zip(sparsities, sparsity_positions(sparsities), strict=True))
    with drawing():
        drawn = Figure(figsize=(3.4 * len(algos) + 3.0, 4.2), layout="constrained")
        for axes, algo in zip(drawn.subplots(1, len(algos), squeeze=False, sharey=True)[0], algos, strict=True):
            for name, (color, marker, line, _) in zip(names, looks, strict=True):
                points = []
                for sparsity in sparsities:
                    own = [r for r in rows if (r["algorithm"], r["format"], r["sparsity"]) == (algo, name, sparsity)]
                    points.append((places[sparsity], float(np.mean([100 / row["times_smaller"] for row in own]))))
                marks: dict[str, Any] = dict(marker=marker, markersize=5, markeredgecolor=PAPER, markeredgewidth=0.7)
                axes.plot(*zip(*points, strict=True), color=color, linestyle=line, label=name, linewidth=1.5, **marks)
            axes.axhline(100, color=INK, linewidth=1.2, zorder=1)
            axes.axhline(100 / FACTOR, color=FAINT, linestyle=(0, (4, 3)), linewidth=1.0, zorder=1)
            axes.annotate("dense", (places[sparsities[-1]], 100), xytext=(0, 3), textcoords="offset points", ha="right", fontsize=8)
            axes.annotate(f"1/{FACTOR:g}", (places[sparsities[0]], 100 / FACTOR), xytext=(0, 3), textcoords="offset points", fontsize=8)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
            axes.set_xticks(list(places.values()), [naming.percent(sparsity).replace(" ", "") for sparsity in sparsities], fontsize=8)
            axes.set_title(algo)
            axes.set_xlabel("Sparsity (log scale of what is kept)")
            axes.grid(axis="y")
        drawn.axes[0].set_ylabel("Bytes on disk, % of the dense file")
        drawn.legend(*drawn.axes[0].get_legend_handles_labels(), loc="outside right center", handlelength=2.8)
        drawn.savefig(path, dpi=130)


def main():
    sparsities = numbers_of("sparsities", SPARSITIES.value, float)
    algos, seeds = (["bc", "bcq", "td3_bc", "iql"], 5) if FULL.value else (ALGOS.value, SEEDS.value)
    if CRITERION.value not in jp.CRITERIA:
        raise ValueError(f"--criterion={CRITERION.value}: expected one of {', '.join(sorted(jp.CRITERIA))}")
    jp.SweepConfig(DATASET.value, algos=tuple(algos), criteria=(CRITERION.value,), sparsities=sparsities)
    data, output, began = jp.data.load(DATASET.value), pathlib.Path(OUTPUT.value), time.time()
    settings = {"data": fingerprint(data), "criterion": CRITERION.value, "sparsities": sparsities, "exports": EXPORTS.value}
    kept = KeptRows(pathlib.Path(WORK.value) / "rows.jsonl", settings)
    with tempfile.TemporaryDirectory(prefix="jaxprune-memory-") as scratch:
        seconds = 0.0
        for algo in algos:
            first = Pruned(algo, 0, data, pathlib.Path(scratch))
            first.file(PUBLISHED, 0.5)
            start = time.perf_counter()
            for name in FORMATS:
                first.file(name, 0.5, check=True)
            # A search halves 1,000 steps ten times.
            seconds += seeds * (time.perf_counter() - start) * (len(sparsities) + 10)
        more = ", and the exports, of which each takes seconds" if EXPORTS.value else ""
        print(
            f"{counted(len(algos) * seeds, 'agent')}, {len(FORMATS)} formats: about {naming.duration(seconds)} on this machine{more}",
            flush=True,
        )
        output.mkdir(parents=True, exist_ok=True)
        jobs = [(algo, seed) for algo in algos for seed in range(seeds)]
        for algo, seed in tqdm(jobs, disable=None):
            if f"{algo} {seed}" not in kept.rows:
                pruned = Pruned(algo, seed, data, pathlib.Path(scratch))
                exported = pruned.policies(sparsities) if EXPORTS.value and not seed else []
                kept.add(f"{algo} {seed}", {"files": pruned.rows(sparsities), "policies": exported})
    found = [kept.rows[f"{algo} {seed}"] for algo, seed in jobs]
    rows, policies = [row for each in found for row in each["files"]], [row for each in found for row in each["policies"]]
    figure(rows, output / "bytes.png")
    lines = ["# Memory at a sparsity", "", "![Bytes on disk against sparsity](bytes.png)", ""]
    lines += [
        f"Times smaller than the dense file, means over {counted(seeds, 'seed')}. Every network of an agent, pruned by "
        f"{naming.name(CRITERION.value)} before training, is written to one safetensors file, header and float32 biases included; each "
        "file is read back, and holds the same bits but for int8. Compacted: units off live paths have left the arrays, at the same "
        "function.",
        "",
        *pivot(rows, sparsities, more=True),
        *bullets(verdicts(rows)),
        "",
        f"Rule: sizes have no noise to speak of, so a claim is supported where every algorithm and seed is within "
        f"{naming.percent(WITHIN)} of the published figure, contradicted where none is; else the files cannot tell.",
        "",
    ]
    if policies:
        lines += [
            "## Policies as they are deployed",
            "",
            "What acting needs alone, compacted, times smaller than its dense float32 arrays (seed 0; a file counts whole, description and "
            "program included, C by its constants).",
            "",
            *pivot([row for row in policies if not row["format"].startswith("C source")], sparsities, more=False),
        ]
    lines.append(made_by(command_line(), time.time() - began))
    write_page(output, lines, {"table": rows, "policies": policies})


if __name__ == "__main__":
    launch(main)
