"""`vsbc`: simulate datasets, fit each, and see whether the truth lies where q says it does."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

from vicheck.calibration.execution import compute_chunks
from vicheck.calibration.fingerprint import fingerprint_of_code, fingerprint_of_model
from vicheck.calibration.planning import (
    OwnFits,
    choose_chunk_size,
    plan_fits,
    refuse_unsuitable,
)
from vicheck.calibration.store import Store
from vicheck.calibration.work import Arrays, Work
from vicheck.errors import ModelError, OtherMachineWarning
from vicheck.model import Data, Model, double_precision
from vicheck.quantities import Spec, choose_quantities
from vicheck.results.calibration import Calibration
from vicheck.results.provenance import versions_of
from vicheck.results.run_settings import RunSettings
from vicheck.runtime.computation import text_of
from vicheck.runtime.interrupts import between_pieces
from vicheck.runtime.processor import made_on
from vicheck.runtime.progress import showing
from vicheck.runtime.seeds import Seed, as_seed
from vicheck.runtime.sources import digest_of_sources
from vicheck.vi.fitting import fit as fit_model

__all__ = ["vsbc"]

Progress = bool | Callable[[int, int, float], None]

_PLAIN = (bool, int, float, str, type(None))
"""Types of options that a store can tell apart and a file can hold."""


@between_pieces()
def vsbc(
    model: Model,
    *,
    num_datasets: int = 1000,
    quantities: Spec | None = None,
    family: str | None = None,
    rank: int | None = None,
    solver: str | None = None,
    fit: Callable[[Data, int], Any] | None = None,
    posterior: bool = False,
    num_draws: int = 1000,
    executor: Executor | None = None,
    store: str | Path | None = None,
    chunk_size: int | None = None,
    time_limit: float | None = None,
    seed: Seed = 0,
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
        ``log_likelihood``, the joint log likelihood. A list of names selects some of them, or
        values that the model derives; a dictionary of functions defines others, each a function of
        the dictionary of parameters of one draw, or of parameters and data.
    family, rank, solver, **options
        How to fit, as for `vicheck.fit`: ``"mean_field"`` and ``"deterministic"`` by default, but
        from one start, on at most 1024 draws (or four times as many as the family begins with),
        with ``sampling_tolerance=0.1`` and ``tolerance=0.01``: the errors of the draws are
        independent between datasets.
    fit
        Any other way to fit: a function of the data, a dictionary of arrays, and a seed. It
        returns named draws (a dictionary of arrays, draws first, on the parameters' own scale),
        `vicheck.Draws` (which give a khat for each dataset too), an object with a method
        ``marginal_cdf(theta)`` that returns the probability below each parameter by name, or a
        `vicheck.Fit`. An exception in it becomes the status of that fit and does not end the run.
        It takes the place of ``family``, ``rank``, ``solver`` and options, which are then refused.
    posterior
        Calibrate at the observed data: parameters are drawn from a fit to these, data are
        replicated from them, and fits are made to both. A bad first fit contaminates the result,
        so it is made as by `vicheck.fit`, with its defaults and the options given here.
    num_draws
        Draws from each q, for its khat and for quantities without an exact distribution function.
    executor
        Anything with the interface of `concurrent.futures.Executor`, such as a
        ``ProcessPoolExecutor`` or a Dask client's ``get_executor()``; by default all cores of this
        machine are used, in this process. Results have the same bits wherever chunks are computed.
    store
        A directory in which every finished chunk is kept: the same call resumes from there after
        an interruption, and several processes may share it. Chunks of other settings, or made by
        other versions of vicheck's code, are refused.
    chunk_size
        Datasets that are computed together. Results are the same up to rounding.
    time_limit
        Seconds that a single fit may take. Fits are then made one at a time.
    seed
        An integer or a JAX key; the same seed gives the same bits.
    progress
        Whether to show a progress bar on standard error, in a terminal only; or a function to be
        called with the number of fits done, their total and the seconds since the start.

    Returns
    -------
    Calibration
        It has tests of symmetry, the direction and size of biases, and a verdict.

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
    seed = as_seed(seed)
    named = {"family": family, "rank": rank, "solver": solver}
    refuse_unsuitable(
        model=model,
        num_datasets=num_datasets,
        num_draws=num_draws,
        chunk_size=chunk_size,
        time_limit=time_limit,
        fit=fit,
        posterior=posterior,
        executor=executor,
        of_own_fits=[name for name, value in named.items() if value is not None] + [*options],
    )
    own = None if fit is not None else plan_fits(model, family, rank, solver, options)
    start = time.perf_counter()
    with double_precision():
        model = model.snapshot()
        program = model.program
        unseen = program.without_observations(model.data)
        exact = own is None or own.has_marginals
        chosen = choose_quantities(model, unseen, quantities, exact=exact)
        centre = _fit_to_observed(model, own, seed) if own and posterior else None
        conditioned = Model(program, unseen if centre is None else dict(model.data))
        settings = RunSettings(
            model=fingerprint_of_model(conditioned, chosen),
            observed=tuple(conditioned.observed),
            quantities=chosen.names,
            indexing=chosen.indexing,
            num_draws=int(num_draws),  # JSON cannot hold NumPy's integers
            num_datasets=int(num_datasets),
            seeds=(seed,),
            kind="prior" if centre is None else "posterior",
            family=own and own.family,
            rank=own and own.rank,
            solver=own and own.solver,
            options=_described(own.options) if own else {},
            centre_options=_described(own.given) if own and posterior else None,
            richer=own and own.richer,
            fit=None if fit is None else fingerprint_of_code(fit),
            chosen=_as_typed(quantities),
            chunk_size=int(
                chunk_size
                or choose_chunk_size(
                    conditioned,
                    chosen,
                    num_draws,
                    num_datasets,
                    in_batches=own is not None
                    and own.solver == "deterministic"
                    and time_limit is None,
                )
            ),
            time_limit=None if time_limit is None else float(time_limit),
            sources=digest_of_sources(),
            versions=versions_of("numpy", "scipy", "jax", "numpyro"),
        )
    work = Work(
        model=conditioned,
        quantities=chosen,
        settings=settings,
        options=own.options if own else {},
        fit=fit,
        centre=jax.tree.map(np.asarray, centre),
    )
    opened = None if store is None else _open_store(store, work)
    with _shown(progress) as show, showing(False, ""):  # fits within have no line of their own
        done = 0

        def advance(index: int) -> None:
            nonlocal done
            done += len(work.rows(index))
            show(done, num_datasets, time.perf_counter() - start)

        chunks = compute_chunks(work, opened, executor, advance)
    return _calibration(work, chunks, time.perf_counter() - start)


def _fit_to_observed(model: Model, own: OwnFits, seed: int) -> Any:
    """Return the q whose draws are the truths of all datasets, fitted as a single fit is."""
    if model.missing:
        raise ModelError(
            "posterior=True needs the data that were observed, and the model has none for "
            f"{', '.join(model.missing)}",
            hint="give them to the model: vicheck.from_numpyro(function, ..., "
            + ", ".join(f"{name}={name}" for name in model.missing)
            + ")",
        )
    return fit_model(
        model, family=own.family, rank=own.rank, solver=own.solver, seed=seed, **own.given
    ).q


def _described(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as values that JSON can hold; others, such as an optimiser, become text."""
    return {
        name: value if isinstance(value, _PLAIN) else text_of(value)
        for name, value in _as_python(options).items()
    }


def _as_python(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return NumPy's numbers as Python's."""
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in options.items()
    }


def _as_typed(quantities: Spec | None) -> str | None:
    """Return the argument as it would be typed; functions stand for themselves."""
    if quantities is None:
        return None
    return "quantities" if isinstance(quantities, Mapping) else repr(list(quantities))


def _open_store(path: str | Path, work: Work) -> Store:
    options = _as_python(work.options)
    unknown = [name for name, value in options.items() if not isinstance(value, _PLAIN)]
    if unknown:
        raise TypeError(
            f"a store cannot tell apart different values of {', '.join(unknown)}, whose chunks "
            "could then mix: leave store= out, or choose them by numbers and names"
        )
    store = Store.open(path, work.settings.manifest, here=made_on())
    if len(store.finished()) < work.num_chunks:
        _warn_of_another(store.begun_on, made_on())
    return store


def _calibration(work: Work, chunks: list[Arrays], seconds: float) -> Calibration:
    joined = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    number, probability = joined.pop("dataset"), joined.pop("probability")
    machines = tuple(sorted(set(joined.pop("made_on").tolist())))
    names, exact = work.quantities.names, work.quantities.exact_names
    variables = {name: ("dataset", array) for name, array in joined.items()}
    data = xr.Dataset(
        variables | {"probability": (("dataset", "quantity"), probability)},
        {
            "dataset": number,
            "quantity": np.array(names),
            "exact": ("quantity", np.isin(names, exact) & (work.fit is None)),
        },
    )
    return Calibration(data, replace(work.settings, machines=machines), seconds)


def _warn_of_another(begun_on: str, here: str) -> None:
    """Warn when a store is continued on another kind of machine."""
    if begun_on != here:
        warnings.warn(
            f"the store was begun on {begun_on or 'a machine it does not name'}, and this is "
            f"{here}: what is computed here equals what that machine would have computed up to "
            "rounding, which the tolerance of the fits amplifies, not to the last bit",
            OtherMachineWarning,
            stacklevel=4,
        )


def _shown(progress: Progress) -> Any:
    """Return a context whose value is a function to call as the run advances."""
    if callable(progress):
        return nullcontext(progress)
    if not progress:
        return nullcontext(lambda done, total, seconds: None)
    from vicheck.report.progress import bar

    return bar()
