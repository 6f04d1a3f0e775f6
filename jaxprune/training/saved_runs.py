"""What a report tells of the saved runs: layers from their descriptions, masks and bytes of the policy from their states."""

from __future__ import annotations

import logging
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.compact import expand
from jaxprune.export.policy import read_policy
from jaxprune.export.sizes import policy_bytes
from jaxprune.files import read_json
from jaxprune.parameters import prunable_leaves
from jaxprune.reporting.layers import WHOLE
from jaxprune.reporting.verdict import USUAL_SPARSITY
from jaxprune.training.checkpoint import load_run
from jaxprune.training.progress import progress_bar

log = logging.getLogger("jaxprune")

MOST_PICTURES = 8

Rows = list[dict[str, Any]]


class ReportInputs(NamedTuple):
    """Rows for `jaxprune.reporting.write_report`, which says what they hold."""

    layers: Rows
    sizes: Rows
    masks: Rows


def report_inputs(folder: pathlib.Path, records: Sequence[Mapping[str, Any]], *, states: bool, progress: bool = True) -> ReportInputs:
    """What a report tells beside the records.

    Args:
      folder: of the sweep.
      records: of all its runs.
      states: also read the state of the first saved seed of every setting, for its bytes, and of one seed near 95 % sparsity for the masks.
      progress: show a bar where standard error is a terminal.
    """
    last = {record["run_id"]: record for record in records}
    saved = {run: row for run, row in last.items() if (folder / "runs" / run / "agent.json").exists()}
    rows = ReportInputs([], [], [])
    for run in saved:
        rows.layers.extend(_layer_rows(read_json(folder / "runs" / run / "agent.json")))
    if not states:
        return rows
    first: dict[tuple[Any, ...], str] = {}
    for run, row in sorted(saved.items(), key=lambda item: item[1]["seed"]):
        if row["status"] == "ok" and _readable(folder / "runs" / run):
            first.setdefault((row["algo"], row["criterion"], row["sparsity"]), run)
    chosen = [run for run in last if run in first.values()]
    pictured = _pictured([saved[run] for run in chosen])
    with progress_bar(len(chosen), "report", unit="run", disable=not progress) as bar:
        for run in chosen:
            try:
                agent, state = expand(*load_run(folder / "runs" / run))
                if run in pictured:
                    rows.masks.append({"run_id": run, "kernels": end_kernels(agent, state)})
                rows.sizes.append({"run_id": run, **_sizes(agent, state)})
            except (OSError, ValueError) as error:  # an agent of one's own that cannot be made again or exported
                log.warning("%s is left out of the report's bytes or masks: %s", run, str(error).splitlines()[0])
            bar.update(1)
    return rows


def end_kernels(agent: Agent, state: AgentState) -> dict[str, np.ndarray]:
    """{"network/kernel": mask} of the first and the last kernel of every perceptron."""
    found = {}
    for name, network in agent.networks.items():
        masks = prunable_leaves(state.masks[name])
        for chain in network.chains:
            own = sorted((path for path in masks if path.startswith(f"{chain}/" if chain else "")), key=_natural)
            for path in dict.fromkeys([own[0], own[-1]] if own else []):
                found[f"{name}/{path}"] = np.asarray(masks[path])
    return found


def _pictured(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Runs whose masks are drawn: of each algorithm, the pruned ones at the sparsity nearest to 95 %, of the first seed there."""
    found: set[str] = set()
    for algo in dict.fromkeys(row["algo"] for row in rows):
        pruned = [row for row in rows if row["algo"] == algo and row["criterion"] not in WHOLE]
        if pruned:
            at = min((row["sparsity"] for row in pruned), key=lambda sparsity: abs(sparsity - USUAL_SPARSITY))
            here = [row for row in pruned if row["sparsity"] == at]
            seed = min(row["seed"] for row in here)
            found |= set([row["run_id"] for row in here if row["seed"] == seed][:MOST_PICTURES])
    return found


def _sizes(agent: Agent, state: AgentState) -> dict[str, int]:
    policy, whole = read_policy(agent, state), read_policy(agent, state, compact=False)
    layers = [layer for net in whole.perceptrons.values() for layer in net.layers]
    dense = sum(4 * (layer.weight.size + layer.bias.size) for layer in layers)
    return {"dense_bytes": dense, "stored_bytes": policy_bytes(policy, "float32"), "int8_bytes": policy_bytes(policy, "int8")}


def _layer_rows(about: dict[str, Any]) -> Rows:
    run = {name: about[name] for name in ("algo", "criterion", "sparsity", "seed")}
    return [{**run, "layer": name, "kept": kept, "total": total} for name, (kept, total) in about["layers"].items()]


def _readable(run: pathlib.Path) -> bool:
    """Whether this process may read the state by itself: of several, what Orbax wrote is read by all of them together or not at all."""
    return jax.process_count() == 1 or (run / "state.npz").exists()


def _natural(path: str) -> list[Any]:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)]
