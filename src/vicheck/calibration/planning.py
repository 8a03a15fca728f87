"""How a run is planned: its arguments, the options of its fits, and how it is cut into chunks."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vicheck.errors import ArgumentError
from vicheck.model import Model
from vicheck.quantities import Quantities
from vicheck.runtime.compiling import size_of
from vicheck.runtime.workers import require_executor
from vicheck.vi.families.registry import family_names, kind_of, richer_than
from vicheck.vi.solvers.deterministic.solver import Deterministic
from vicheck.vi.solvers.registry import make_solver, solver_names

__all__ = ["OwnFits", "choose_chunk_size", "plan_fits", "refuse_unsuitable"]

_LOOSE = {
    "num_restarts": 0,
    "sampling_tolerance": 0.1,
    "tolerance": 0.01,
}
"""Options of the default solver where they differ from those of a single fit: the errors of its
draws are independent between datasets, so a tenth of a sd in one fit does not bias the whole, and
the gradient need not be much smaller than they are."""
_MAX_DRAWS = 1024
"""Draws of a fit at most, and more where a family of this dimension begins with more."""
_CHUNK_BYTES = 2**25
"""Memory for the draws of a chunk's fits; a chunk is also what is lost when a run is killed.

The horseshoe of 14,261 parameters has one dataset in a chunk: two, which share each pass over the
design matrix, took as much processor time (26.0 s for four fits and compiling, not 24.6) and 1.5 GB
in place of 1.0. Eight points of one dataset share a pass already; another eight save a tenth to a
fifth of the density, and that is less than half of a fit."""
_LONGEST_CHUNK = 256
"""Fits of a chunk are carried on together: in short ones that costs more than they do."""
_LEAST_CHUNKS, _FEW_CHUNKS = 8, 4
"""A run is cut into this many chunks at least, so that many cores have something to do; into the
few if its model is small and vicheck fits all datasets of a chunk together: there a round takes the
interpreter as long as the density."""
_FEWEST_TOGETHER = 50
"""Datasets of a small model in a chunk, if there are as many: fewer are not fitted in the compiled
loop, and 100 in four chunks take four times as long as in two."""
_SMALL = 2**8
"""A model is small if z and the data together have fewer numbers."""
_ROOM = 512
"""Numbers of the solver for each parameter, roughly: its fixed draws."""


class OwnFits(NamedTuple):
    """How vicheck fits the datasets of a run."""

    family: str
    rank: int | None
    solver: str
    options: dict[str, Any]
    """Of the fits to simulated datasets."""
    given: dict[str, Any]
    """Those of them that the user has set; a fit to the observed data takes no others."""
    richer: str | None
    """The family to try next, if there is one."""
    has_marginals: bool
    """Whether the family has exact marginal distribution functions."""


def refuse_unsuitable(
    *,
    model: Any,
    num_datasets: Any,
    num_draws: Any,
    chunk_size: Any,
    time_limit: Any,
    fit: Any,
    posterior: bool,
    executor: Any,
    of_own_fits: Sequence[str],
) -> None:
    """Raise `TypeError` or `ValueError`, naming the argument, unless all of them can be used.

    ``of_own_fits`` names the arguments that were given and that only vicheck's own fits read.
    """
    if not isinstance(model, Model):
        raise TypeError(
            f"model must be a vicheck Model, got {type(model).__name__}: make one with "
            "vicheck.from_numpyro, from_pymc or from_stan"
        )
    for name, value, least in (
        ("num_datasets", num_datasets, 1),
        ("num_draws", num_draws, 1),
        ("chunk_size", 1 if chunk_size is None else chunk_size, 1),
    ):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ArgumentError(name, f"must be an integer from {least} on, got {value!r}")
    if time_limit is not None and not time_limit > 0.0:
        problem = f"must be a positive number of seconds, got {time_limit!r}"
        raise ArgumentError("time_limit", problem)
    require_executor(executor)
    if fit is None:
        return
    if not callable(fit):
        raise TypeError(f"fit must be a function of data and seed, got {type(fit).__name__}")
    _require_two_arguments(fit)
    if of_own_fits:
        raise TypeError(
            f"vsbc got both fit and {', '.join(of_own_fits)}, which a function given as fit= would "
            "not see: leave one or the other out"
        )
    if posterior:
        raise ValueError(
            "posterior=True goes with vicheck's own fits: a function given as fit= knows nothing "
            "of data that come twice"
        )


def _require_two_arguments(fit: Any) -> None:
    """Raise when a function cannot be called with data and a seed: every fit would fail."""
    try:
        signature = inspect.signature(fit)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return
    try:
        signature.bind({}, 0)
    except TypeError as error:
        raise TypeError(
            f"fit must take two arguments, the data and a seed, got a function of {signature}: "
            f"{error}"
        ) from None


def plan_fits(
    model: Model, family: str | None, rank: int | None, solver: str | None, given: dict[str, Any]
) -> OwnFits:
    """Return family, solver and options, defaults in place of what was not given.

    Raises
    ------
    TypeError, ValueError
        If there is no such family, solver or option.
    """
    family, solver = family or family_names()[0], solver or solver_names()[0]
    kind = kind_of(family, model.dim, rank)
    options = given
    if solver == "deterministic":
        most = max(_MAX_DRAWS, 4 * kind.num_draws(model.dim))
        options = _LOOSE | {"max_draws": most} | given
    chosen = make_solver(solver, options)
    if isinstance(chosen, Deterministic):
        chosen.first_draws(kind, model.dim)
    richer = richer_than(kind.name, model.dim) or None
    return OwnFits(kind.name, rank, solver, options, given, richer, kind.has_marginals)


def choose_chunk_size(
    model: Model,
    quantities: Quantities,
    num_draws: int,
    num_datasets: int,
    *,
    in_batches: bool = True,
) -> int:
    """Return how many datasets are computed together: never a matter of the machine.

    ``in_batches`` says whether the fits of a chunk are carried on together.
    """
    drawn = len(quantities.drawn_names)
    noise = model.dim / 2  # in single precision
    width = num_draws * (noise + drawn + 1) + _ROOM * model.dim
    most = max(1, min(_LONGEST_CHUNK, int(_CHUNK_BYTES / (8 * width))))
    small = in_batches and size_of(model.program, model.data) < _SMALL
    enough = num_datasets // _FEWEST_TOGETHER or _FEW_CHUNKS
    least = min(_FEW_CHUNKS, enough) if small else _LEAST_CHUNKS
    num_chunks = max(-(-num_datasets // most), min(least, num_datasets))
    return -(-num_datasets // num_chunks)
