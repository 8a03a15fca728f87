"""`check` and `check_draws`: from a fit, or from arrays, to a `Check`."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.checking.fitted import convergence_of, pooled_modes, provenance_of
from vicheck.draws import Draws
from vicheck.results.check import Check
from vicheck.results.estimates import Predictive
from vicheck.results.provenance import Provenance, fingerprint_of_arrays, versions_of
from vicheck.results.psis import PsisResult
from vicheck.runtime.interrupts import between_pieces
from vicheck.stats.psis import as_vector, psis_khat, psis_quietly

if TYPE_CHECKING:
    from vicheck.evaluation import Derivation, Evaluator
    from vicheck.model import Model
    from vicheck.results.fit import Fit
    from vicheck.results.reference import Reference

__all__ = ["check", "check_draws"]

Floats = NDArray[np.float64]
Quantities = Mapping[str, Callable[..., Any]] | Sequence[str]

_KEPT_BYTES = 2**30
"""Quantities are kept for as many draws as fit into this."""
_GROWTH_FROM = 1000
_SEEN, _MOST_COLUMNS = 2000, 40
"""Draws, and parameters at most, with which the scale of log_q is looked at."""


@between_pieces()
def check(
    fit: Fit | Draws,
    *,
    num_draws: int = 100_000,
    quantities: Quantities | None = None,
    reference: Reference | None = None,
    test_data: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Check:
    """Find out whether a fit can be trusted.

    Parameters
    ----------
    fit
        From `vicheck.fit`, or `vicheck.Draws` of a fit made elsewhere, such as
        `vicheck.read_stan_csv` reads; the options below but ``quantities`` are for the former.
    num_draws
        Draws from q. Memory stays bounded: when quantities at all draws need more than 1 GiB,
        ``moments`` rest on the first draws that fit, and khat on all of them.
    quantities
        What to report on. By default every parameter on its own scale and everything the model
        derives from them; a list of names picks some of these; a dictionary of functions, each
        from the dictionary of parameters of one draw to a scalar or array, makes others (define
        them once: code is compiled for each function).
    reference
        Draws by NUTS from `vicheck.reference`: adds true errors to ``moments``.
    test_data
        Held-out data with the same names as the model's: adds its log predictive density.
    seed
        The same seed gives the same bits.

    Returns
    -------
    Check
        With khat and its uncertainty, verdict and findings, moments and divergences.

    Examples
    --------
    >>> from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred
    >>> model = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
    >>> checked = vicheck.check(vicheck.fit(model), num_draws=20_000)
    >>> checked.verdict.level
    'usable'
    >>> bool(checked.moments.loc["tau", "shift"] > 0.1)     # VI has tau too small
    True
    """
    from vicheck.evaluation import Evaluator
    from vicheck.model import double_precision
    from vicheck.results.fit import Fit

    if isinstance(fit, Draws):
        if reference is not None or test_data is not None:
            raise TypeError("reference and test_data go with fits of vicheck's own, not with draws")
        return _check_given(fit, quantities)
    if not isinstance(fit, Fit):
        raise TypeError(
            f"fit must come from vicheck.fit, got {type(fit).__name__}; fits made elsewhere have "
            "functions of their own (check_numpyro, check_pymc, check_pyro, check_blackjax, "
            "read_stan_csv), and arrays check_draws"
        )
    if not isinstance(num_draws, int) or num_draws < 1:
        raise ValueError(f"num_draws must be a positive integer, got {num_draws!r}")
    if quantities is not None and not len(quantities):
        raise ValueError("quantities must hold at least one name or function, got none")
    fit = replace(fit, model=fit.model.snapshot())
    derive = None if quantities is None else _derivation(quantities, fit.model)
    start = time.perf_counter()
    with double_precision():
        evaluator = Evaluator(fit.model, (fit.q,), derive, num_draws, seed)
        log_p, log_q, values = _evaluated(evaluator, _KEPT_BYTES)
        convergence = convergence_of(fit, seed)
        pooled = pooled_modes(fit, log_q, seed)
    smoothed, growth = _smoothed(log_p, log_q)
    checked = Check(
        log_p=log_p,
        log_q=log_q,
        values=values,
        shapes=evaluator.shapes,
        names=evaluator.labels,
        psis=smoothed,
        khat_growth=growth,
        convergence=convergence,
        pooled=pooled,
        predictive=None if test_data is None else _predictive(fit, test_data, seed),
        title=f"{fit.family} fit of {fit.model.dim} parameters ({fit.solver})",
        elbo_trace=fit.solution.elbo_trace,
        provenance=provenance_of(fit, num_draws, seed, _told(quantities, reference, test_data)),
        notes=_notes_on(fit),
        seconds=fit.seconds + time.perf_counter() - start,
    )
    if reference is None:
        return checked
    from vicheck.checking.truth import errors_against

    notes = [
        *checked.notes,
        "Marginal khat can be small although the marginal is wrong (the paper, section 2.4).",
    ]
    if reference.caution:
        notes.append(f"The reference itself is doubtful: {reference.caution}.")
    return replace(checked, extra=errors_against(reference, checked, fit), notes=tuple(notes))


def check_draws(
    draws: ArrayLike | Mapping[str, ArrayLike],
    log_p: ArrayLike,
    log_q: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    quantities: Mapping[str, Callable[..., Any]] | None = None,
) -> Check:
    """Check draws that any algorithm, in any language, has made.

    Parameters
    ----------
    draws
        An array of shape ``(S, d)``, or a dictionary of named arrays of shape ``(S, ...)``.
    log_p
        Log joint density of each draw on the unconstrained scale, with the Jacobian if parameters
        were transformed.
    log_q
        Log density of the approximation at the same draws, on the same scale, normalised.
    names
        Names of the columns of an array; by default ``x[0]``, ``x[1]`` and so on.
    quantities
        Functions to report on instead, each from all draws, in the form they were given, to an
        array of shape ``(S, ...)``.

    Returns
    -------
    Check
        As from `vicheck.check`; there are no findings on convergence.

    Examples
    --------
    >>> import numpy as np
    >>> z = 0.8 * np.random.default_rng(1).normal(size=(10_000, 1))
    >>> normal = lambda z, sd: (-(z**2) / (2 * sd**2) - np.log(sd * np.sqrt(2 * np.pi))).sum(axis=1)
    >>> checked = vicheck.check_draws(z, log_p=normal(z, 1.0), log_q=normal(z, 0.8))
    >>> print(checked.verdict)
    The approximation is good: khat 0.33 (90% interval 0.20 to 0.45) is below 0.5.
    """
    p, q = as_vector(log_p), as_vector(log_q)
    if p.size != q.size:
        raise ValueError(f"log_p and log_q must have one value a draw, got {p.size} and {q.size}")
    arrays = _named(draws, names, p.size)
    if quantities is not None:
        arrays = {name: np.asarray(of(draws), float) for name, of in quantities.items()}
    _require_rows(arrays, p.size)
    return check(Draws(arrays, p, q, notes=_scale_notes(arrays, q)))


def _notes_on(fit: Fit) -> tuple[str, ...]:
    """Say so when the model is no longer what was fitted."""
    from vicheck.model import double_precision

    with double_precision():
        now = fit.model.program.computation("log_density", fit.model.data)
    if fit.computed is None or fit.computed == now:
        return ()
    return (
        "The model has changed since it was fitted: a value that it reads is another one now. The "
        "fit is held against the model as it is now; fit it again.",
    )


def _told(quantities: Quantities | None, reference: Any, test_data: Any) -> dict[str, str]:
    """Return further arguments of a check as they would be typed."""
    told = {"reference": "reference"} if reference is not None else {}
    if test_data is not None:
        told["test_data"] = "test_data"
    if quantities is not None:
        named = not isinstance(quantities, Mapping)
        told["quantities"] = repr(list(quantities)) if named else "quantities"
    return told


def _require_rows(arrays: Mapping[str, Floats], num_draws: int) -> None:
    """Raise unless there is a row for every draw: functions may have been written for one."""
    for name, array in arrays.items():
        if np.ndim(array) == 0 or len(array) != num_draws:
            raise ValueError(
                f"{name} must have one row for each of the {num_draws} draws, got shape "
                f"{np.shape(array)}"
            )


def _scale_notes(arrays: Mapping[str, Floats], log_q: Floats) -> tuple[str, ...]:
    """Say so when log_q is seen to be a density of parameters on their own scale."""
    from vicheck.stats.density_scale import columns_on_their_own_scale

    size = sum(array[0].size for array in arrays.values())
    if size > _MOST_COLUMNS or not len(log_q):
        return ()
    columns = np.concatenate([a[:_SEEN].reshape(len(a[:_SEEN]), -1) for a in arrays.values()], 1)
    found = columns_on_their_own_scale(columns, log_q[:_SEEN])
    if not found:
        return ()
    names = _labels({name: array.shape[1:] for name, array in arrays.items()})
    told = ", ".join(names[column] for column in found)
    return (
        f"log_q is a density of {told} as they are, not on the unconstrained scale: with a log_p "
        "that includes the Jacobian add it to log_q too (for a positive x that is log x).",
    )


def _check_given(draws: Draws, quantities: Quantities | None) -> Check:
    """Check draws that are there already."""
    start = time.perf_counter()
    arrays = _chosen(draws.values, quantities)
    size = len(next(iter(arrays.values())))
    shapes = {name: array.shape[1:] for name, array in arrays.items()}
    smoothed, growth = _smoothed(draws.log_p, draws.log_q)
    return Check(
        log_p=draws.log_p,
        log_q=draws.log_q,
        values=np.concatenate([array.reshape(size, -1) for array in arrays.values()], axis=1),
        shapes=shapes,
        names=_labels(shapes),
        psis=smoothed,
        khat_growth=growth,
        title=draws.title,
        notes=draws.notes,
        unnormalized=draws.unnormalized,
        elbo_trace=draws.elbo_trace,
        provenance=Provenance(
            settings={"draws": draws.num_draws},
            subject="draws",
            fingerprint=fingerprint_of_arrays({"log_p": draws.log_p, "log_q": draws.log_q}),
            versions=versions_of("numpy", "scipy"),
        ),
        seconds=time.perf_counter() - start,
    )


def _chosen(values: Mapping[str, Floats], quantities: Quantities | None) -> dict[str, Floats]:
    """Return the draws of everything, of what is named, or of what functions make of them."""
    if quantities is None:
        return dict(values)
    if isinstance(quantities, str):
        raise TypeError(f"quantities must be a list of names, got the string {quantities!r}")
    if not len(quantities):
        raise ValueError("quantities must hold at least one name or function, got none")
    if isinstance(quantities, Mapping):
        arrays = {name: np.asarray(of(values), float) for name, of in quantities.items()}
        _require_rows(arrays, len(next(iter(values.values()))))
        return arrays
    unknown = [name for name in quantities if name not in values]
    if unknown:
        raise ValueError(
            f"quantities has {', '.join(unknown)}, but the draws have: {', '.join(values)}"
        )
    return {name: values[name] for name in quantities}


def _named(
    draws: ArrayLike | Mapping[str, ArrayLike], names: Sequence[str] | None, num_draws: int
) -> dict[str, Floats]:
    if isinstance(draws, Mapping):
        if names is not None:
            raise ValueError("names go with an array; a dictionary of draws has its own")
        if not draws:
            raise ValueError("draws must hold at least one array, got an empty dictionary")
        return {name: np.asarray(array, float) for name, array in draws.items()}
    array = np.asarray(draws, float)
    if array.ndim == 2 and not array.shape[1]:
        raise ValueError(f"draws must have at least one column, got shape {array.shape}")
    if array.ndim != 2 or len(array) != num_draws:
        raise ValueError(
            f"draws must have shape ({num_draws}, d), one row for each value of log_p, "
            f"got shape {array.shape}"
        )
    if names is None:
        return {"x": array}
    if len(names) != array.shape[1] or len(set(names)) != len(names):
        raise ValueError(
            f"names must hold {array.shape[1]} different names, one for each column, got "
            f"{list(names)}"
        )
    return {name: array[:, column] for column, name in enumerate(names)}


def _labels(shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
    labels = tuple(
        name if not index else f"{name}[{', '.join(map(str, index))}]"
        for name, shape in shapes.items()
        for index in np.ndindex(*shape)
    )
    if len(set(labels)) != len(labels):
        twice = Counter(labels).most_common(1)[0][0]
        raise ValueError(f"quantities must have different names, got {twice!r} twice")
    return labels


def _derivation(quantities: Quantities, model: Model) -> Derivation:
    from vicheck.evaluation import Derivation

    if isinstance(quantities, str):
        raise TypeError(f"quantities must be a list of names, got the string {quantities!r}")
    if isinstance(quantities, Mapping):
        return Derivation(functions=tuple(quantities.items()))
    known = model.constrain(np.zeros(model.dim))
    unknown = [name for name in quantities if name not in known]
    if unknown:
        raise ValueError(
            f"quantities has {', '.join(unknown)}, but the model has: {', '.join(known)}"
        )
    return Derivation(picked=tuple(quantities))


def _evaluated(evaluator: Evaluator, max_bytes: int) -> tuple[Floats, Floats, Floats]:
    size, width = evaluator.num_draws, len(evaluator.labels)
    kept = min(size, max_bytes // (8 * width))
    log_p, log_q, values = np.empty(size), np.empty(size), np.empty((kept, width))
    start = 0
    for chunk in evaluator.chunks(num_values=kept):
        rows = slice(start, start + len(chunk.log_p))
        log_p[rows], log_q[rows] = chunk.log_p, chunk.log_q
        if start < kept:
            values[rows] = chunk.values[: kept - start]
        start = rows.stop
    return log_p, log_q, values


def _smoothed(log_p: Floats, log_q: Floats) -> tuple[PsisResult, dict[int, float]]:
    with np.errstate(invalid="ignore"):
        log_ratios = log_p - log_q
    sizes = []
    size = len(log_ratios) // 4
    while size >= _GROWTH_FROM:
        sizes.append(size)
        size //= 4
    smoothed = psis_quietly(log_ratios)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the verdict says what is wrong, once
        growth = {n: float(psis_khat(log_ratios[:n])) for n in reversed(sizes)}
    return smoothed, growth | {len(log_ratios): float(smoothed.khat)}


def _predictive(fit: Fit, test_data: Mapping[str, Any], seed: int) -> Predictive:
    from vicheck.checking.prediction import predictive_density

    return predictive_density(fit.model, fit.q, test_data, seed=seed)
