"""Results from tables of records: statistics over seeds, figures, and the report of a sweep."""

from jaxprune.reporting.figures import learning_curves, return_against_sparsity
from jaxprune.reporting.layers import layer_fractions
from jaxprune.reporting.report import write_report
from jaxprune.reporting.statistics import interquartile_mean, pooled_spread, ratio_of_means, spread
from jaxprune.reporting.summary import cells_of, pooled_cells, runs_of
from jaxprune.reporting.svg import to_svg
from jaxprune.reporting.tables import text_table

__all__ = [
    "cells_of",
    "interquartile_mean",
    "layer_fractions",
    "learning_curves",
    "pooled_cells",
    "pooled_spread",
    "ratio_of_means",
    "return_against_sparsity",
    "runs_of",
    "spread",
    "text_table",
    "to_svg",
    "write_report",
]
