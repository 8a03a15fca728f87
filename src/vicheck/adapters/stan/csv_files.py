"""Stan CSV files of ADVI, Pathfinder and Laplace, by CmdStan, rstan or anything on top of them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.stan.names import StanArray, arrays_of
from vicheck.draws import Draws
from vicheck.errors import InputFileError
from vicheck.stats.constraint_search import Columns, recover_from_columns
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

_WORD = re.compile(r"\w+")
_INDICES = re.compile(r"\[[^\[\]]*\]")
"""Brackets, whose commas are not between names."""

_FULL_PRECISION = 15
"""Significant digits from which on a number is as good as not rounded."""
_DIGITS_FROM = 200
"""Draws in which the digits are counted; zeros at the end are not printed, so not in one alone."""
_CELLS_SEEN = 100_000
"""At most, of the numbers in these draws."""
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
        ``output file`` of CmdStan. Every run has an approximation of its own, so several are
        checked one by one.

    Returns
    -------
    Draws
        Parameters, transformed parameters and generated quantities as named arrays (indices from
        zero), with both log densities. The first row of ADVI's output, the mean of q, is not
        among them.

    Raises
    ------
    OSError
        If the file cannot be opened.
    InputFileError
        If it holds something else, or draws whose ratios say nothing about the approximation:
        Pathfinder with several paths, or without ``lp__``; Laplace without the Jacobian.

    Notes
    -----
    ADVI and Laplace leave the constant out of log q. It is restored by finding the Gaussian that
    explains the printed densities at the printed draws, where there is exactly one; otherwise
    ``unnormalized`` says why not, and khat, which needs no constant, is all the same. The ``log_p``
    of ADVI and Pathfinder has all constants of the model; that of Laplace lacks those that ``~``
    leaves out.
    """
    path = _only(paths)
    return draws_of_stan_csv(Path(path).read_bytes(), os.fspath(path))


def draws_of_stan_csv(content: bytes, name: str) -> Draws:
    """Do the same as `read_stan_csv` with what was read already; ``name`` is for messages."""
    table = _parsed(content, name)
    kind = _kind(table)
    if kind == _PATHFINDER:
        _refuse_pathfinder(table)
    if kind == _LAPLACE:
        _refuse_laplace(table)
    mean = None
    if kind == _ADVI:
        table, mean = _without_mean(table)
    if not len(table.numbers):
        raise InputFileError(
            f"{name} holds no draws" + (" after q's mean" if kind == _ADVI else "")
        )
    log_p, log_q = (table.column(column) for column in kind)
    notes = _count_notes(table, kind)
    unnormalized = ""
    if kind != _PATHFINDER:
        log_q, unnormalized, restored = _restored(table, mean, kind)
        notes += restored
    notes += _rounding_notes(table, kind)
    values, left_out = _values(table)
    return Draws(
        values=values,
        log_p=log_p,
        log_q=log_q,
        title=_title(table, kind),
        notes=tuple(notes + left_out),
        unnormalized=unnormalized,
    )


@dataclass(frozen=True, eq=False)
class _Table:
    """A CSV file, its settings and where its rows stood."""

    file: str
    settings: dict[str, str]
    comments: str
    names: list[str]
    numbers: Floats
    lines: list[int]
    digits: int
    """Significant digits of the numbers."""
    cut: bool
    """Whether the last line has no end."""

    def column(self, name: str) -> Floats:
        return self.numbers[:, self.names.index(name)]

    def says_no(self, setting: str) -> bool:
        return self.settings.get(setting, "").lower() in {"0", "false"}

    def rows(self, chosen: slice) -> _Table:
        return replace(self, numbers=self.numbers[chosen], lines=self.lines[chosen])


def _only(paths: StrPath | Sequence[StrPath]) -> StrPath:
    if isinstance(paths, str | os.PathLike):
        return paths
    if len(paths) != 1:
        raise ValueError(
            f"paths must name one file, got {len(paths)}: every run has an approximation of its "
            "own, so read and check each by itself"
        )
    return paths[0]


def _parsed(content: bytes, name: str) -> _Table:
    if not content.strip():
        raise InputFileError(f"{name} is empty")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputFileError(
            f"{name} is no Stan CSV file: it starts with {content[:8]!r}"
        ) from None
    comments, numbered = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#"):
            comments.append(line.strip())
        elif line.strip():
            numbered.append((number, line))
    if not numbered:
        raise InputFileError(f"{name} holds no data, only comments")
    joined = _INDICES.sub(lambda found: found[0].replace(",", "\0"), numbered[0][1])
    names = [cell.strip(' "').replace("\0", ",") for cell in joined.split(",")]
    rows = numbered[1:]
    settings: dict[str, str] = {}
    for comment in comments:
        key, equals, value = (part.strip() for part in comment[1:].partition("="))
        if equals and _WORD.fullmatch(key):
            settings.setdefault(key, value.removesuffix("(Default)").rstrip())
    return _Table(
        file=name,
        settings=settings,
        comments="\n".join(comments),
        names=names,
        numbers=_numbers(rows, names, name),
        lines=[number for number, _ in rows],
        digits=_significant_digits(line for _, line in rows[:_DIGITS_FROM]),
        cut=not text.endswith(("\n", "\r")),
    )


def _numbers(rows: list[tuple[int, str]], names: list[str], name: str) -> Floats:
    """Return all numbers, or say where something else stands."""
    for position, (number, line) in enumerate(rows):
        width = line.count(",") + 1
        if width != len(names):
            last = position == len(rows) - 1 and width < len(names)
            raise InputFileError(
                f"{name}, line {number}: expected {len(names)} values, got {width}"
                + (": the file is cut off in the middle of a line" if last else "")
            )
    if not rows:
        return np.empty((0, len(names)))
    try:
        return np.loadtxt([line for _, line in rows], delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        for number, line in rows:
            for column, cell in enumerate(line.split(",")):
                if not _is_number(cell):
                    raise InputFileError(
                        f"{name}, line {number}, column {column + 1} ({names[column]}): "
                        f"{cell.strip()!r} is not a number"
                    ) from None
        raise InputFileError(f"{name}: {error}") from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _significant_digits(lines: Iterable[str]) -> int:
    """Count the digits of the number that has most of them."""
    cells = islice((cell for line in lines for cell in line.split(",")), _CELLS_SEEN)
    mantissas = (re.split("[eE]", cell)[0] for cell in cells)
    digits = (re.sub(r"\D", "", mantissa).lstrip("0") for mantissa in mantissas)
    return min(max(map(len, digits), default=0), _FULL_PRECISION)


def _kind(table: _Table) -> tuple[str, str]:
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
            f"{file} holds draws by MCMC, which need no such check",
            hint="look at R-hat and the effective sample size instead",
        )
    if method == "optimize" or "Point Estimate" in table.comments:
        raise InputFileError(
            f"{file} holds the result of an optimisation, a point and no draws",
            hint="run Stan's Laplace method at it, or ADVI or Pathfinder",
        )
    if _ADVI_DIAGNOSTICS in table.comments:
        raise InputFileError(
            f"{file} is ADVI's diagnostic file, the ELBO on the way",
            hint="the draws are in the output file",
        )
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    raise InputFileError(
        f"{file} has neither log_p__ and log_g__ (ADVI), nor lp__ and lp_approx__ (Pathfinder), "
        f"nor log_p__ and log_q__ (Laplace), but {shown}",
        hint="a table of data goes with --data, after a model; Stan before 2019 did not write "
        "these columns for ADVI, a later version does",
    )


def _refuse_pathfinder(table: _Table) -> None:
    """Refuse draws that are not from one approximation with its own density at each."""
    num_paths = _count(table.settings.get("num_paths", "1"))
    if _ONE_PATH in table.comments:
        num_paths = 1
    if num_paths > 1 and not (table.says_no("psis_resample") or table.says_no("calculate_lp")):
        raise InputFileError(
            f"{table.file} holds draws of {num_paths} paths after importance resampling, whose "
            "ratios tell nothing about the approximation any more",
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


def _refuse_laplace(table: _Table) -> None:
    if table.says_no("jacobian"):
        raise InputFileError(
            f"{table.file}: with jacobian=0 log_p__ lacks the Jacobian of the constraints, so it "
            "is not the density that log_q__ approximates on the same scale",
            hint="run optimize and laplace with jacobian=1",
        )
    _refuse_missing_densities(table)


def _refuse_missing_densities(table: _Table) -> None:
    if table.says_no("calculate_lp"):
        raise InputFileError(
            f"{table.file}: with calculate_lp=0 the log densities of the model are missing, and "
            "there are no ratios without them",
            hint="run with calculate_lp=1",
        )


def _without_mean(table: _Table) -> tuple[_Table, Floats | None]:
    """Take q's mean, which has zeros for its densities, from the head of ADVI's output.

    Where it was removed by hand, the first row is a draw like the others: a draw has a log_g__ of
    exactly zero with probability zero.
    """
    means = np.flatnonzero((table.column("log_p__") == 0.0) & (table.column("log_g__") == 0.0))
    if means.size and means[-1] > 0:
        raise InputFileError(
            f"{table.file}, line {table.lines[means[-1]]}: another mean of q among the draws, so "
            "the file holds several runs, each with an approximation of its own: split it there"
        )
    if not means.size:
        return table, None
    return table.rows(slice(1, None)), table.numbers[0]


def _count_notes(table: _Table, kind: tuple[str, str]) -> list[str]:
    """Compare the number of draws with the one announced."""
    expected = _count(table.settings.get(_ANNOUNCED[kind], ""))
    if len(table.numbers) >= expected:
        return []
    if table.cut:
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


def _restored(
    table: _Table, mean: Floats | None, kind: tuple[str, str]
) -> tuple[Floats, str, list[str]]:
    """Return log q with its constant, or why it is without, and notes."""
    column = kind[1]
    log_q = table.column(column)
    notes = []
    if kind == _LAPLACE:
        notes.append(
            "Stan's Laplace method leaves the constants of ~ statements out of log_p__ (target += "
            "keeps them): ELBO and log evidence lack them too."
        )
    variables = []
    for array in _variables(table.names).values():
        at = list(array.places)
        draws, centre = table.numbers[:, at], None if mean is None else mean[at]
        variables.append(
            Columns(
                draws,
                _rounding(draws, table.digits),
                centre,
                None if centre is None else _rounding(centre, table.digits),
            )
        )
    full = kind == _LAPLACE or table.settings.get("algorithm") == "fullrank"
    rounding = _rounding(log_q, table.digits)
    found = recover_from_columns(variables, log_q, full=full, log_q_rounding=rounding)
    if found.gaussian is None:
        lost = f"{column} lacks a constant, which could not be restored because {found.reason}"
        return log_q, lost, notes
    size = found.gaussian.mean.size
    restored = (
        f"The constant that {column} lacks was restored: a Gaussian of "
        f"{size} parameter{'s' if size > 1 else ''} explains every value of it to within "
        f"{found.gaussian.misfit:.0e}, which is the rounding of {table.digits} digits."
    )
    return log_q + found.gaussian.constant, "", [restored, *notes]


def _rounding(numbers: Floats, digits: int) -> Floats:
    """Return half a unit in the last of so many significant digits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = np.floor(np.log10(np.abs(numbers)))
    exponents = np.where(np.isfinite(exponents), exponents, -np.inf)
    return np.asarray(0.5 * 10.0 ** (exponents - digits + 1))


def _rounding_notes(table: _Table, kind: tuple[str, str]) -> list[str]:
    """Say so when khat hangs on digits that were not printed."""
    densities = np.stack([table.column(column) for column in kind])
    rounding = _rounding(densities, table.digits)
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
        "(CmdStan: output sig_figs=18)."
    ]


def _values(table: _Table) -> tuple[dict[str, Floats], list[str]]:
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


def _title(table: _Table, kind: tuple[str, str]) -> str:
    settings = table.settings
    method = {_ADVI: "ADVI", _LAPLACE: "Laplace approximation", _PATHFINDER: "Pathfinder"}[kind]
    if kind == _ADVI and "algorithm" in settings:
        method = f"{settings['algorithm']} {method}"
    parts = (settings.get(f"stan_version_{part}") for part in ("major", "minor", "patch"))
    by = " ".join(["Stan", ".".join(filter(None, parts))]).strip()
    model = f" of {settings['model']}" if settings.get("model") else ""
    return f"{method}{model} by {by} ({Path(table.file).name})"
