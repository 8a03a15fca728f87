"""`vsbc`: simulate datasets, fit each, and see whether the truth lies where q says it does."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

from vicheck import __version__
from vicheck.calibration.execution import compute_chunks
from vicheck.calibration.fingerprint import fingerprint_of_code, fingerprint_of_model
from vicheck.calibration.store import Store
from vicheck.calibration.work import Arrays, Work
from vicheck.errors import ArgumentError, OtherMachineWarning
from vicheck.model import Data, Model, double_precision
from vicheck.quantities import Spec, choose_quantities
from vicheck.results.calibration import Calibration
from vicheck.results.provenance import versions_of
from vicheck.runtime.interrupts import between_pieces
from vicheck.runtime.processor import made_on
from vicheck.vi.families.registry import kind_of, richer_than
from vicheck.vi.fitting import fit as fit_model
from vicheck.vi.solvers.deterministic.solver import Deterministic
from vicheck.vi.solvers.registry import make_solver

__all__ = ["vsbc"]

Progress = bool | Callable[[int, int, float], None]

_DEFAULTS = {
    "num_starts": 1,
    "sampling_tolerance": 0.1,
    "tolerance": 0.01,
}
"""Options of the default solver where they differ from those of a single fit: the errors of its
draws are independent between datasets, so a tenth of a sd in one fit does not bias the whole, and
the gradient need not be much smaller than they are."""
_MAX_DRAWS = 1024
"""Draws of a fit at most, and more where a family of this dimension begins with more."""
_CHUNK_BYTES = 2**24
"""Memory for the draws of a chunk's fits; a chunk is also what is lost when a run is killed."""
_LONGEST_CHUNK = 64
_LEAST_CHUNKS = 8
"""A run is cut into this many chunks at least, so that many cores have something to do."""
_ROOM = 512
"""Numbers of the solver for each parameter, roughly: its fixed draws."""


@between_pieces()
def vsbc(
    model: Model,
    *,
    num_datasets: int = 1000,
    quantities: Spec | None = None,
    family: str = "mean_field",
    rank: int | None = None,
    solver: str = "deterministic",
    fit: Callable[[Data, int], Any] | None = None,
    posterior: bool = False,
    num_draws: int = 1000,
    executor: Executor | None = None,
    store: str | Path | None = None,
    chunk_size: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Progress = True,
    **options: Any,
) -> Calibration:
    """Find out in which quantities variational inference is biased, on average over datasets.

    Variational simulation-based calibration (Yao et al. 2018, Algorithm 2): parameters are drawn
    from the prior and data from the model given them; every dataset is fitted; the calibration
    probability of a quantity is Pr_q(quantity < true value), small when q sits too high. If q is
    right on average these probabilities are symmetric around 1/2.

    Parameters
    ----------
    model
        From `vicheck.from_numpyro`, `vicheck.from_pymc` or `vicheck.from_stan`. What it conditions
        on stays as it is; what it observes, ``model.observed``, is simulated, so it may be missing.
    num_datasets
        Datasets to simulate and fit.
    quantities
        What to look at. By default every parameter, for arrays every element, and
        ``log_likelihood``, the joint log likelihood. A list of names picks some, or values that the
        model derives; a dictionary of functions, each of the dictionary of parameters of one draw,
        or of parameters and data, makes others.
    family, rank, solver, **options
        How to fit, as for `vicheck.fit`, but by default from one start, on at most 1024 draws (or
        four times those that the family begins with), with ``sampling_tolerance=0.1`` and
        ``tolerance=0.01``: the errors of the draws are independent between datasets.
    fit
        Any other way to fit: a function of the data, a dictionary of arrays, and a seed. It returns
        named draws (a dictionary of arrays, draws first, on the parameters' own scale),
        `vicheck.Draws` (which give a khat for each dataset too), an object with a method
        ``marginal_cdf(theta)`` that returns the probability below each parameter by name, or a
        `vicheck.Fit`. What it raises is the status of one fit, not the end of the run.
    posterior
        Calibrate at the data that was observed: parameters are drawn from a fit to it, data are
        replicated from them, and fits are made to both. A bad first fit contaminates this.
    num_draws
        Draws from each q, for its khat and for quantities without an exact distribution function.
    executor
        Anything with the interface of `concurrent.futures.Executor`, such as a
        ``ProcessPoolExecutor`` or a Dask client's ``get_executor()``; by default all cores of this
        machine are used, in this process. Results are the same bits wherever chunks are computed.
    store
        A directory that keeps every chunk when it is finished: the same call goes on from there
        after an interruption, and several processes may share it.
    chunk_size
        Datasets that are computed together. Results are the same up to rounding.
    time_limit
        Seconds that a single fit may take. Fits are then made one at a time.
    seed
        The same seed gives the same bits.
    progress
        Show a bar on standard error when that is a terminal, or a function to call with the number
        of fits done, the number of all and the seconds since the start.

    Returns
    -------
    Calibration
        With tests of symmetry, direction and size of biases, and a verdict.

    Raises
    ------
    ModelError
        When the model cannot simulate data, or not all that it observes.
    StoreError
        When the store belongs to another run, or cannot be written.

    Examples
    --------
    >>> from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred
    >>> model = vicheck.from_numpyro(eight_schools_centred, sigma=EIGHT_SCHOOLS["sigma"])
    >>> calibration = vicheck.vsbc(model, num_datasets=200, quantities=["theta", "tau"])
    >>> calibration.tests.loc["tau", "direction"]      # VI has tau too large
    'over'
    >>> calibration.tests.loc["theta[0]", "direction"]
    'none'
    """
    _check_arguments(
        model, num_datasets, num_draws, chunk_size, time_limit, seed, fit, executor, options
    )
    kind = kind_of(family, model.dim, rank)
    if fit is None and solver == "deterministic":
        most = max(_MAX_DRAWS, 4 * kind.num_draws(model.dim))
        options = _DEFAULTS | {"max_draws": most} | options
    made = make_solver(solver, options)
    if isinstance(made, Deterministic):
        made.first_draws(kind, model.dim)
    start = time.perf_counter()
    with double_precision():
        work = _work_of(
            model,
            quantities,
            posterior,
            family=family,
            rank=rank,
            solver=solver,
            options=options,
            fit=fit,
            num_draws=int(num_draws),  # NumPy's integers are none to JSON
            num_datasets=int(num_datasets),
            time_limit=time_limit,
            seed=int(seed),
        )
        work = replace(work, chunk_size=int(chunk_size or _chunk_size(work)))
        described = _described(work)
    kept = None if store is None else Store.open(store, described, here=made_on())
    if kept is not None and len(kept.finished()) < work.num_chunks:
        _warn_of_another(kept.begun_on, made_on())
    counts = [
        min(work.chunk_size, num_datasets - index * work.chunk_size)
        for index in range(work.num_chunks)
    ]
    with _shown(progress) as show:
        done = 0

        def tell(index: int) -> None:
            nonlocal done
            done += counts[index]
            show(done, num_datasets, time.perf_counter() - start)

        chunks = compute_chunks(work, kept, executor, tell)
    calibration = _calibration(work, chunks, described)
    if quantities is not None:
        functions = isinstance(quantities, Mapping)
        chosen = "quantities" if functions else repr(list(quantities))
        calibration = replace(calibration, data=calibration.data.assign_attrs(chosen=chosen))
    return replace(calibration, seconds=time.perf_counter() - start)


def _check_arguments(
    model: Any,
    num_datasets: Any,
    num_draws: Any,
    chunk_size: Any,
    time_limit: Any,
    seed: Any,
    fit: Any,
    executor: Any,
    options: dict[str, Any],
) -> None:
    if not isinstance(model, Model):
        raise TypeError(
            f"model must be a vicheck Model, got {type(model).__name__}: make one with "
            "vicheck.from_numpyro"
        )
    for name, value, least in (
        ("num_datasets", num_datasets, 1),
        ("num_draws", num_draws, 1),
        ("chunk_size", 1 if chunk_size is None else chunk_size, 1),
        ("seed", seed, 0),
    ):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ArgumentError(name, f"must be an integer from {least} on, got {value!r}")
    if time_limit is not None and not time_limit > 0.0:
        problem = f"must be a positive number of seconds, got {time_limit!r}"
        raise ArgumentError("time_limit", problem)
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise TypeError(
            "executor must be an Executor of concurrent.futures, or have its methods, got "
            f"{type(executor).__name__}"
        )
    if fit is not None and not callable(fit):
        raise TypeError(f"fit must be a function of data and seed, got {type(fit).__name__}")
    if fit is not None and options:
        raise TypeError(f"vsbc got the option {', '.join(options)}, which fit= would not see")


def _work_of(
    model: Model, spec: Spec | None, posterior: bool, *, fit: Any, **settings: Any
) -> Work:
    model = model.snapshot()
    program = model.program
    unseen = program.without_observations(model.data)
    kind = kind_of(settings["family"], model.dim, settings["rank"])
    exact = fit is not None or kind.has_marginals
    quantities = choose_quantities(model, unseen, spec, exact=exact)
    centre = None
    if posterior:
        if fit is not None:
            raise ValueError(
                "posterior=True goes with vicheck's own fits: a function given as fit= knows "
                "nothing of data that come twice"
            )
        model.require_data()
        centre = fit_model(
            model,
            family=settings["family"],
            rank=settings["rank"],
            solver=settings["solver"],
            seed=settings["seed"],
            **settings["options"],
        ).q
        conditioned = Model(program, dict(model.data))
    else:
        conditioned = Model(program, unseen)
    return Work(
        model=conditioned,
        quantities=quantities,
        fit=fit,
        centre=jax.tree.map(np.asarray, centre),
        chunk_size=1,
        **settings,
    )


def _chunk_size(work: Work) -> int:
    """Return how many datasets are computed together: never a matter of the machine."""
    drawn = len(work.quantities.drawn_names)
    width = work.num_draws * (work.model.dim + drawn + 1) + _ROOM * work.model.dim
    most = max(1, min(_LONGEST_CHUNK, _CHUNK_BYTES // (8 * width)))
    num_chunks = max(-(-work.num_datasets // most), min(_LEAST_CHUNKS, work.num_datasets))
    return -(-work.num_datasets // num_chunks)


def _described(work: Work) -> dict[str, Any]:
    """Return all that a result depends on, for the store's manifest and the result's attributes."""
    return {
        "model": fingerprint_of_model(work.model, work.quantities),
        "quantities": list(work.quantities.names),
        "kind": "prior" if work.centre is None else "posterior",
        "family": work.family,
        "rank": work.rank,
        "solver": work.solver,
        "options": work.options,
        "fit": None if work.fit is None else fingerprint_of_code(work.fit),
        "num_draws": work.num_draws,
        "num_datasets": work.num_datasets,
        "chunk_size": work.chunk_size,
        "time_limit": work.time_limit,
        "seed": work.seed,
        "versions": {"vicheck": __version__} | {name: version(name) for name in ("jax", "numpyro")},
    }


def _calibration(work: Work, chunks: list[Arrays], described: dict[str, Any]) -> Calibration:
    joined = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    number, probability = joined.pop("dataset"), joined.pop("probability")
    machines = sorted(set(joined.pop("made_on").tolist()))
    names, exact = work.quantities.names, work.quantities.exact_names
    variables = {name: ("dataset", array) for name, array in joined.items()}
    own = work.fit is None
    who = f"{work.family} ({work.solver})" if own else f"fits by {described['fit'].split()[0]}"
    seen = ", ".join(work.model.observed)
    where = "at the observed data" if work.centre is not None else "over the prior"
    data = xr.Dataset(
        variables | {"probability": (("dataset", "quantity"), probability)},
        {
            "dataset": number,
            "quantity": np.array(names),
            "exact": ("quantity", np.isin(names, exact) & own),
        },
        {
            "model": described["model"],
            "kind": described["kind"],
            "family": work.family if own else "",
            "solver": work.solver if own else described["fit"],
            "options": json.dumps(work.options, sort_keys=True, default=str),
            "rank": work.rank or 0,
            "time_limit": work.time_limit or 0.0,
            "num_draws": work.num_draws,
            "num_datasets": work.num_datasets,
            "seed": work.seed,
            "version": described["versions"]["vicheck"],
            "versions": json.dumps(versions_of("numpy", "scipy", "jax", "numpyro")),
            "made_on": json.dumps(machines),
            "richer": richer_than(work.family, work.model.dim),
            "title": f"{who} on {work.num_datasets} simulated datasets ({seen}), {where}",
        },
    )
    return Calibration(data)


def _warn_of_another(begun_on: str, here: str) -> None:
    """Say so when a store is continued on another kind of machine."""
    if begun_on != here:
        warnings.warn(
            f"the store was begun on {begun_on or 'a machine it does not name'}, and this is "
            f"{here}: what is computed here equals what that machine would have computed up to "
            "rounding, which the tolerance of the fits amplifies, not to the last bit",
            OtherMachineWarning,
            stacklevel=3,
        )


def _shown(progress: Progress) -> Any:
    """Return a context whose value is to be told how far the run has come."""
    if callable(progress):
        return nullcontext(progress)
    if not progress:
        return nullcontext(lambda done, total, seconds: None)
    from vicheck.report.progress import bar

    return bar()
