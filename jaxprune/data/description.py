"""What is in a data set, in words."""

from __future__ import annotations

import numpy as np

from jaxprune.data.reference import normalized_score
from jaxprune.data.transitions import Dataset

_SHOWN = 50_000


def describe(dataset: Dataset) -> str:
    """Sizes, episodes, returns with a histogram, actions, coverage and defects, as lines of text."""
    report, spec = dataset.report, dataset.spec
    variances = principal_directions(dataset)[0]
    kind = f"{spec.action_size} discrete actions" if spec.discrete else f"{spec.action_size} action features"
    lines = [
        dataset.name,
        f"space     {spec.observation_size} observation features, {kind}",
        f"env       {dataset.env_id or 'not known; pass env_id to evaluate'}",
        *str(report).splitlines(),
    ]
    score = normalized_score(dataset.reference, report.return_statistics["mean"])
    lines.insert(3, f"score     {'n/a' if score is None else f'{float(score):.1f}'} (mean return; 0 is random, 100 D4RL's expert)")
    if len(variances):
        enough = int(np.searchsorted(np.cumsum(variances), 0.95) + 1)
        lines.append(
            f"coverage  {enough} of {spec.observation_size} principal directions hold 95% of the variance of standardised observations"
        )
    lines.append(f"repeated  {_repeated(dataset):,} rows repeat an earlier observation and action")
    if not spec.discrete:
        lines.append("action    low      high     smallest largest  at bound outside")
        for column, (low, high) in enumerate(zip(spec.low, spec.high, strict=True)):
            at, outside = report.actions_at_bounds[column] / report.rows_kept, report.actions_outside[column] / report.rows_kept
            seen = f"{report.action_low[column]:<8.3g} {report.action_high[column]:<8.3g}"
            lines.append(f"{column:>6}    {low:<8.3g} {high:<8.3g} {seen} {at:>8.1%} {outside:>7.1%}")
    return "\n".join([*lines, "returns", *_text_histogram(report.episode_returns)])


def _text_histogram(values: np.ndarray, bins: int = 10, width: int = 40) -> list[str]:
    counts, edges = np.histogram(values, bins=min(bins, max(len(np.unique(values)), 1)))
    bars = ["#" * int(np.ceil(width * count / counts.max())) for count in counts]
    return [
        f"{low:>10.1f} to {high:>10.1f} {count:>7,} {bar}" for low, high, count, bar in zip(edges, edges[1:], counts, bars, strict=False)
    ]


def sample_rows(dataset: Dataset) -> np.ndarray:
    """Evenly spaced row indices, enough to draw."""
    rows = len(dataset.transitions)
    return np.linspace(0, rows - 1, min(rows, _SHOWN)).astype(np.int64)


def principal_directions(dataset: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(share of variance of each principal direction, directions as columns, standardised observations), of a sample of rows."""
    standardised = (dataset.transitions.observations[sample_rows(dataset)] - dataset.statistics.mean) / dataset.statistics.std
    variances, directions = np.linalg.eigh(np.atleast_2d(standardised.T @ standardised / len(standardised)))
    order = np.argsort(variances)[::-1]
    total = variances.sum()
    return (variances[order] / total if total > 0 else np.zeros(0)), directions[:, order], standardised


def _repeated(dataset: Dataset) -> int:
    rows = dataset.transitions
    joined = np.concatenate([rows.observations, rows.actions.reshape(len(rows), -1).astype(np.float32)], axis=1)
    return len(joined) - len(np.unique(np.ascontiguousarray(joined).view(np.dtype((np.void, joined.strides[0])))))
