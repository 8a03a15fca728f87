"""Figures of checks, calibrations and rescues, and the numbers they show.

Each function returns a Matplotlib figure, drawn from what the function of the same name with
``_data`` at its end returns.
"""

from vicheck.plots.calibration_data import datasets_data, ecdf_difference_data, histograms_data
from vicheck.plots.calibrations import datasets, ecdf_difference, histograms
from vicheck.plots.check_data import (
    khat_growth_data,
    khat_scale_data,
    pairs_data,
    solver_data,
    tail_data,
)
from vicheck.plots.checks import khat_growth, khat_scale, pairs, solver, tail
from vicheck.plots.rescue_data import rescue_trail_data
from vicheck.plots.rescues import rescue_trail

__all__ = [
    "datasets",
    "datasets_data",
    "ecdf_difference",
    "ecdf_difference_data",
    "histograms",
    "histograms_data",
    "khat_growth",
    "khat_growth_data",
    "khat_scale",
    "khat_scale_data",
    "pairs",
    "pairs_data",
    "rescue_trail",
    "rescue_trail_data",
    "solver",
    "solver_data",
    "tail",
    "tail_data",
]
