"""A measurement's rows as CSV, Markdown and figures."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from jaxprune.export.figures import against_sparsity, return_against_bytes
from jaxprune.reporting.naming import percent
from jaxprune.reporting.tables import csv_text, markdown_table

Rows = list[dict[str, Any]]
CALLS = (
    "PyTorch dense",
    "ONNX Runtime dense",
    "ONNX Runtime compacted",
    "JAX policy",
    "C, ctypes",
    "C int8, ctypes",
    "C, C loop",
    "C int8, C loop",
)
FORMATS = ("dense float32 in memory", "stablehlo file", "onnx file", "safetensors file", "C constants, float32", "C constants, int8")
EVALUATED = {"C constants, float32": "C float32", "C constants, int8": "C int8"}
COLUMNS = {
    "networks": (
        "run",
        "network",
        "representation",
        "kept",
        "effective",
        "memory_bytes",
        "disk_bytes",
        "times_smaller",
        "macs_dense",
        "macs_sparse",
        "macs_executed",
    ),
    "policies": ("run", "sparsity", "format", "bytes", "times_smaller", "macs", "difference"),
    "latency": ("run", "sparsity", "call", "batch", "p50_us", "p99_us", "calls"),
    "returns": ("run", "sparsity", "policy", "return_mean", "standard_error", "episodes"),
    "training": (
        "run",
        "arrays",
        "peak_bytes",
        "temporary_bytes",
        "ms_per_update",
        "run_updates",
        "run_seconds",
        "run_stack",
        "joules_per_update",
        "mg_co2_per_update",
        "sensors",
    ),
}


def write_tables(folder: pathlib.Path, tables: Mapping[str, Rows], heading: Sequence[str]) -> None:
    """Write NAME.csv for every table that has rows, and tables.md with the heading and all of them."""
    lines = [*heading, ""]
    for name, rows in tables.items():
        if rows:
            (folder / f"{name}.csv").write_text(csv_text(rows))
            told = [{**row, "sparsity": percent(row["sparsity"])} for row in rows]
            columns = [column for column in COLUMNS[name] if any(row.get(column, "") != "" for row in rows)]
            lines += [f"## {name}", "", *markdown_table(columns, told, _text), ""]
    if tables.get("latency"):
        lines += ["## one observation, C against dense peers (medians)", "", *speedups(tables["latency"]), ""]
    (folder / "tables.md").write_text("\n".join(lines))


def _text(value: Any) -> str:
    if isinstance(value, float):
        if value == 0 or 1e-3 <= abs(value) < 1e6:
            return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
        return f"{value:.2e}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def speedups(latency: Rows) -> list[str]:
    """How many times faster one observation is in C than in its dense peers, from medians of one run."""
    lines = []
    for run in dict.fromkeys(row["run"] for row in latency):
        p50 = {row["call"]: row["p50_us"] for row in latency if row["run"] == run and row["batch"] == 1}
        for ours in (call for call in ("C, C loop", "C, ctypes", "C int8, C loop", "C int8, ctypes") if call in p50):
            peers = [f"{p50[peer] / p50[ours]:.1f} × {peer}" for peer in ("PyTorch dense", "ONNX Runtime dense") if peer in p50]
            lines.append(f"- {run}, {ours} ({p50[ours]:.2f} µs): " + ", ".join(peers))
    return lines


def draw(folder: pathlib.Path, tables: Mapping[str, Rows]) -> None:
    """Write bytes_ALGO.png, latency_ALGO.png and return_ALGO.png, of the tables that have rows."""
    for algo in dict.fromkeys(row["algo"] for row in tables["policies"]):
        title = f"{algo.upper()}, policies as exported"
        rows = _figure_rows(tables["policies"], algo, "format", "bytes", FORMATS)
        if rows:
            against_sparsity(rows, label="Bytes", title=title).savefig(folder / f"bytes_{algo}.png", dpi=130)
        single = _figure_rows([row for row in tables["latency"] if row["batch"] == 1], algo, "call", "p50_us", CALLS)
        if single:
            label = "Microseconds for one observation (median)"
            against_sparsity(single, label=label, title=title).savefig(folder / f"latency_{algo}.png", dpi=130)
        if points := _over_seeds(tables, algo):
            return_against_bytes(points, title=title).savefig(folder / f"return_{algo}.png", dpi=130)


def _over_seeds(tables: Mapping[str, Rows], algo: str) -> Rows:
    """Bytes and return of an algorithm's kinds of runs: means over seeds, and the range of the returns."""
    returns = {(row["run"], row["policy"]): row["return_mean"] for row in tables["returns"]}
    grouped: dict[tuple, list[tuple[float, float]]] = {}
    for row in tables["policies"]:
        found = returns.get((row["run"], EVALUATED.get(row["format"])))
        if row["algo"] == algo and found is not None:
            units = ", units" if row["structure"] != "weights" else ""
            grouped.setdefault((row["format"] + units, row["sparsity"]), []).append((row["bytes"], found))
    points = []
    for (name, sparsity), pairs in grouped.items():
        sizes, values = zip(*pairs, strict=True)
        mean = {"bytes": sum(sizes) / len(sizes), "return": sum(values) / len(values)}
        points.append({"format": name, "sparsity": sparsity, **mean, "low": min(values), "high": max(values)})
    return points


def _figure_rows(rows: Rows, algo: str, name: str, value: str, formats: Sequence[str]) -> Rows:
    """Of an algorithm's runs pruned by weights (and dense): what the figures take."""
    chosen = [row for row in rows if row["algo"] == algo and row["structure"] == "weights" and row[name] in formats]
    return sorted(
        ({"format": row[name], "sparsity": row["sparsity"], "value": row[value]} for row in chosen),
        key=lambda r: formats.index(r["format"]),
    )
