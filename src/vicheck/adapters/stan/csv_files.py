"""Stan CSV files of ADVI, Pathfinder and Laplace, by CmdStan, rstan or anything on top of them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.stan.csv_tables import StanTable, parse_stan_csv
from vicheck.adapters.stan.names import StanArray, arrays_of
from vicheck.draws import Draws
from vicheck.errors import InputFileError
from vicheck.indexing import Indexing
from vicheck.stats.psis import psis_quietly

__all__ = ["draws_of_stan_csv", "read_stan_csv"]

Floats = NDArray[np.float64]
StrPath = str | os.PathLike[str]

_ADVI = ("log_p__", "log_g__")
_LAPLACE = ("log_p__", "log_q__")
_PATHFINDER = ("lp__", "lp_approx__")
_NO_PARAMETERS = {"lp__", "log_p__", "log_g__", "log_q__", "lp_approx__", "path__"}
_SAMPLER_COLUMNS = {"accept_stat__", "treedepth__", "divergent__", "energy__", "n_leapfrog__"}
_ADVI_DIAGNOSTICS = "iter,time_in_seconds,ELBO"
_ONE_PATH = "seconds (Pathfinder)"
"""How the file of a single path ends, also when there were several."""
_ANNOUNCED = {_ADVI: "output_samples", _LAPLACE: "draws", _PATHFINDER: "num_draws"}
"""The setting with the number of draws."""

_ELSEWHERE = (
    "(Pathfinder's files have them; vicheck.from_stan and vicheck.fit give a fit of the same "
    "program that has them too)"
)
_UNNORMALIZED = {
    _ADVI: f"Stan's ADVI leaves the constants out of log_g__ {_ELSEWHERE}",
    _LAPLACE: "Stan's Laplace method leaves the constants out of log_q__, and those of ~ "
    f"statements out of log_p__ {_ELSEWHERE}",
    _PATHFINDER: "",
}
"""Why there is no ELBO, by method."""

_NUM_PERTURBATIONS = 50
_HARMLESS_ROUNDING = 1e-6
"""Rounding errors of log densities that cannot move khat in its second decimal."""
_LARGEST_SHIFT = 0.25
"""Of khat by rounding, in widths of its 90% interval. The largest of 50 shifts is some 2.3 standard
deviations of them, and a width is 3.3 of khat's own: up to here rounding adds less than a tenth to
the error that khat has anyway."""


def read_stan_csv(paths: StrPath | Sequence[StrPath]) -> Draws:
    """Read the draws of Stan's ADVI, Pathfinder or Laplace approximation.

    Parameters
    ----------
    paths
        The CSV file of one run, or a sequence that holds one: ``sample_file`` of rstan's ``vb``,
        ``output file`` of CmdStan. Every run has an approximation of its own, so check several one
        by one.

    Returns
    -------
    Draws
        Parameters, transformed parameters and generated quantities as named arrays, with both log
        densities. The first row of ADVI's output, the mean of q, is not among them.

    Raises
    ------
    OSError
        If the file cannot be opened.
    InputFileError
        If it holds something else, or draws whose ratios say nothing about the approximation:
        Pathfinder with several paths, or without ``lp__``; Laplace without the Jacobian.

    Notes ----- ADVI and Laplace leave the constants out of log q, and Laplace also those of ``~``
    statements out of log p. khat and the weights need none of them; the ELBO and the evidence do,
    so these are unknown and ``unnormalized`` says why. Pathfinder writes both densities in full.
    """
    path = _only(paths)
    return draws_of_stan_csv(Path(path).read_bytes(), os.fspath(path))


def draws_of_stan_csv(content: bytes, name: str) -> Draws:
    """Do the same as `read_stan_csv` with what was read already; ``name`` is for messages."""
    table = parse_stan_csv(content, name)
    kind = _kind(table)
    if kind == _PATHFINDER:
        _refuse_pathfinder(table)
    if kind == _LAPLACE:
        _refuse_laplace(table)
    if kind == _ADVI:
        table = _without_mean(table)
    if not len(table.numbers):
        raise InputFileError(
            f"{name} holds no draws" + (" after q's mean" if kind == _ADVI else "")
        )
    log_p, log_q = (table.column(column) for column in kind)
    values, left_out = _values(table)
    return Draws(
        values=values,
        log_p=log_p,
        log_q=log_q,
        title=_title(table, kind),
        notes=(*_count_notes(table, kind), *_rounding_notes(table, kind), *left_out),
        unnormalized=_UNNORMALIZED[kind],
        indexing=Indexing.STAN,
    )


def _only(paths: StrPath | Sequence[StrPath]) -> StrPath:
    if isinstance(paths, str | os.PathLike):
        return paths
    if len(paths) != 1:
        raise ValueError(
            f"paths must name one file, got {len(paths)}: every run has an approximation of its "
            "own, so read and check each by itself"
        )
    return paths[0]


def _kind(table: StanTable) -> tuple[str, str]:
    """Return the names of log p and log q, which tell the methods apart, or refuse the file."""
    names, file = table.names, table.file
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputFileError(
            f"{file} has {names.count(repeated[0])} columns called {repeated[0]!r}"
        )
    for kind in (_ADVI, _LAPLACE, _PATHFINDER):
        if set(kind) <= set(names):
            if not set(names) - _NO_PARAMETERS:
                raise InputFileError(f"{file} has no columns of parameters")
            return kind
    method = table.settings.get("method", "")
    if method == "sample" or not _SAMPLER_COLUMNS.isdisjoint(names):
        raise InputFileError(
            f"{file} holds draws by MCMC, which need no check of this kind",
            hint="look at R-hat and the effective sample size instead",
        )
    if method == "optimize" or "Point Estimate" in table.comments:
        raise InputFileError(
            f"{file} holds the result of an optimisation, a point and not draws",
            hint="run Stan's Laplace method at it, or ADVI or Pathfinder",
        )
    if _ADVI_DIAGNOSTICS in table.comments:
        raise InputFileError(
            f"{file} is ADVI's diagnostic file, which holds the ELBO along the run",
            hint="the draws are in the output file",
        )
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    raise InputFileError(
        f"{file} has neither log_p__ and log_g__ (ADVI), nor lp__ and lp_approx__ (Pathfinder), "
        f"nor log_p__ and log_q__ (Laplace), but {shown}",
        hint="a table of data goes with --data, after a model; Stan before 2019 did not write "
        "these columns for ADVI, a later version does",
    )


def _refuse_pathfinder(table: StanTable) -> None:
    """Refuse draws that are not from one approximation with its own density at each."""
    num_paths = _count(table.settings.get("num_paths", "1"))
    if _ONE_PATH in table.comments:
        num_paths = 1
    if num_paths > 1 and not (table.says_no("psis_resample") or table.says_no("calculate_lp")):
        raise InputFileError(
            f"{table.file} holds draws of {num_paths} paths after importance resampling, whose "
            "ratios say nothing about the approximation any more",
            hint="run Pathfinder with num_paths=1, or with save_single_paths=1 and check the file "
            "of each path "
            "(psis_resample=0 alone leaves a mixture, whose density is not in the file)",
        )
    if "path__" in table.names:
        num_paths = len(np.unique(table.column("path__")))
    if num_paths > 1:
        raise InputFileError(
            f"{table.file} holds draws of {num_paths} paths, and lp_approx__ is the density of "
            "each draw's own path, not of their mixture",
            hint="run Pathfinder with num_paths=1, or with save_single_paths=1 and check the file "
            "of each path",
        )
    _refuse_missing_densities(table)


def _refuse_laplace(table: StanTable) -> None:
    if table.says_no("jacobian"):
        raise InputFileError(
            f"{table.file}: with jacobian=0 log_p__ lacks the Jacobian of the constraints, so it "
            "is not the density that log_q__ approximates on the same scale",
            hint="run optimize and laplace with jacobian=1",
        )
    _refuse_missing_densities(table)


def _refuse_missing_densities(table: StanTable) -> None:
    if table.says_no("calculate_lp"):
        raise InputFileError(
            f"{table.file}: with calculate_lp=0 the log densities of the model are missing, and "
            "there are no ratios without them",
            hint="run with calculate_lp=1",
        )


def _without_mean(table: StanTable) -> StanTable:
    """Leave out q's mean, which has zeros for its densities, at the head of ADVI's output.

    Where it was removed by hand, the first row is a draw like the others: a draw has a log_g__ of
    exactly zero with probability zero.
    """
    means = np.flatnonzero((table.column("log_p__") == 0.0) & (table.column("log_g__") == 0.0))
    if means.size and means[-1] > 0:
        raise InputFileError(
            f"{table.file}, line {table.lines[means[-1]]}: another mean of q among the draws, so "
            "the file holds several runs, each with an approximation of its own: split it there"
        )
    return table.rows(slice(1, None)) if means.size else table


def _count_notes(table: StanTable, kind: tuple[str, str]) -> list[str]:
    """Compare the number of draws with the one announced."""
    expected = _count(table.settings.get(_ANNOUNCED[kind], ""))
    if len(table.numbers) >= expected:
        return []
    if table.is_cut:
        raise InputFileError(
            f"{table.file}, line {table.lines[-1]}: the file is cut off in the middle of a line, "
            f"after {len(table.numbers)} of {expected} draws"
        )
    return [
        f"The file announces {expected} draws and holds {len(table.numbers)}: the run was stopped, "
        "or some were removed."
    ]


def _count(setting: str) -> int:
    """Return the number that a setting says, or 0."""
    return int(setting) if re.fullmatch("[0-9]{1,18}", setting) else 0


def _rounding_notes(table: StanTable, kind: tuple[str, str]) -> list[str]:
    """Say so when khat depends on digits that were not printed."""
    densities = np.stack([table.column(column) for column in kind])
    rounding = table.rounding(densities)
    if rounding.max() < _HARMLESS_ROUNDING or not np.isfinite(densities).all():
        return []
    rng = np.random.default_rng(0)
    shifts = rng.uniform(-1.0, 1.0, size=(_NUM_PERTURBATIONS, *densities.shape)) * rounding
    log_p, log_q = np.moveaxis(densities + shifts, 1, 0)
    exact = psis_quietly(densities[0] - densities[1])
    khats = psis_quietly(log_p - log_q, with_weights=False).khat
    low, high = exact.khat_interval()
    if np.abs(khats - exact.khat).max() <= _LARGEST_SHIFT * (high - low):
        return []
    return [
        f"The file gives {table.digits} significant digits, too few for these log densities: "
        f"within their rounding khat goes from {khats.min():.2f} to {khats.max():.2f}. Write more "
        "digits (CmdStan: output sig_figs=18)."
    ]


def _values(table: StanTable) -> tuple[dict[str, Floats], list[str]]:
    """Return draws as named arrays, and notes on those that are not finite."""
    values, notes = {}, []
    for name, array in _variables(table.names).items():
        at = list(array.places)
        broken = np.argwhere(~np.isfinite(table.numbers[:, at]))
        if broken.size:
            row, column = broken[0]
            notes.append(
                f"{name} is left out, because not all its draws are finite: line "
                f"{table.lines[row]}, column {at[column] + 1} is {table.numbers[row, at[column]]}."
            )
            continue
        values[name] = array.take(table.numbers)
    if not values:
        raise InputFileError(f"{table.file}: {notes[0]} No variable remains to report on")
    return values, notes


def _variables(names: list[str]) -> dict[str, StanArray]:
    return {name: array for name, array in arrays_of(names).items() if name not in _NO_PARAMETERS}


def _title(table: StanTable, kind: tuple[str, str]) -> str:
    settings = table.settings
    method = {_ADVI: "ADVI", _LAPLACE: "Laplace approximation", _PATHFINDER: "Pathfinder"}[kind]
    if kind == _ADVI and "algorithm" in settings:
        method = f"{settings['algorithm']} {method}"
    parts = (settings.get(f"stan_version_{part}") for part in ("major", "minor", "patch"))
    by = " ".join(["Stan", ".".join(filter(None, parts))]).strip()
    model = f" of {settings['model']}" if settings.get("model") else ""
    return f"{method}{model} by {by} ({Path(table.file).name})"
