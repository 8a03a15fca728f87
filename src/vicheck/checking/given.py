"""Checks of draws that already exist, and quantities of such draws."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vicheck.results.check import Check
from vicheck.results.provenance import Provenance, fingerprint_of_arrays, versions_of
from vicheck.stats.growth import khat_growth
from vicheck.stats.tail_lengths import judged_psis

if TYPE_CHECKING:
    from vicheck.checking.chained import Chains
    from vicheck.draws import Draws
    from vicheck.indexing import Indexing
    from vicheck.model import Model
    from vicheck.quantities import Spec

__all__ = ["check_given", "nan_notes", "quantities_of_draws"]

Floats = NDArray[np.float64]


def check_given(
    draws: Draws,
    quantities: Spec | None,
    *,
    chains: Chains = False,
    num_starts: int | None = 1,
    seed: int = 0,
    budget: float = np.inf,
    chains_below: float = np.inf,
) -> Check:
    """Check draws that already exist.

    Where their model is known, modes that they do not reach are searched for, and short chains may
    be run from them: both at length only where khat is below a cut-off, if there is one.
    """
    from vicheck.checking.chained import chains_of_draws
    from vicheck.checking.modes import search_beside, weights_allow
    from vicheck.quantities import unique_labels

    start = time.perf_counter()
    arrays = quantities_of_draws(draws.values, quantities, draws.indexing, draws.model)
    size = len(next(iter(arrays.values())))
    shapes = {name: array.shape[1:] for name, array in arrays.items()}
    names = unique_labels(shapes, draws.indexing)
    values = np.concatenate([array.reshape(size, -1) for array in arrays.values()], axis=1)
    with np.errstate(invalid="ignore"):
        log_ratios = draws.log_p - draws.log_q
    smoothed = judged_psis(log_ratios)
    if chains_below < np.inf and not smoothed.khat < chains_below:
        chains, num_starts = False, 1
    search, pooled, unsearched = search_beside(draws, num_starts, seed, weights_allow(smoothed))
    short, left_out = chains_of_draws(
        draws, values, names, quantities, smoothed, seed, budget, chains
    )
    return Check(
        log_p=draws.log_p,
        log_q=draws.log_q,
        values=values,
        shapes=shapes,
        names=names,
        psis=smoothed,
        khat_growth=khat_growth(log_ratios, smoothed).to_dict(),
        convergence=draws.convergence,
        pooled=pooled,
        modes=search,
        chains=short,
        title=draws.title,
        notes=(*draws.notes, *left_out, *unsearched, *nan_notes(values, names)),
        unnormalized=draws.unnormalized,
        elbo_trace=draws.elbo_trace,
        provenance=Provenance(
            settings={"draws": draws.num_draws},
            subject="draws",
            fingerprint=fingerprint_of_arrays({"log_p": draws.log_p, "log_q": draws.log_q}),
            versions=versions_of("numpy", "scipy"),
        ),
        seconds=time.perf_counter() - start,
        dims={} if draws.model is None else dict(draws.model.dims),
        coords={} if draws.model is None else dict(draws.model.coords),
        indexing=draws.indexing,
        model=draws.model,
        q=draws.q,
    )


def nan_notes(values: Floats, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a sentence on quantities that are NaN at some draws: nothing is known of them."""
    if not np.isnan(np.min(values, initial=0.0)):
        return ()
    counts = np.isnan(values).sum(axis=0)
    worst = int(counts.argmax())
    others = int(np.count_nonzero(counts)) - 1
    rest = f", and so are {others} more quantities at some" if others else ""
    return (
        f"{names[worst]} is NaN at {counts[worst]} of {len(values)} draws{rest}: "
        f"{'their' if others else 'its'} estimates are unknown.",
    )


def quantities_of_draws(
    values: Mapping[str, Floats],
    spec: Spec | None,
    indexing: Indexing,
    model: Model | None = None,
) -> dict[str, Floats]:
    """Return the draws of everything, of what is named, or of what functions make of each draw.

    Parameters
    ----------
    values
        Named draws, shape ``(S, ...)``.
    spec
        Names, or functions of the named parameters of one draw.
    indexing
        How elements of arrays are named.
    model
        Where it is known: for the log likelihood, and for functions that take the data too.
    """
    if spec is None:
        return dict(values)
    from vicheck.quantities import named_quantities, require_spec

    require_spec(spec)
    if isinstance(spec, Mapping):
        data = None if model is None else model.data
        return {name: _of_function(name, each, values, data) for name, each in spec.items()}
    shapes = {name: array.shape[1:] for name, array in values.items()}
    likelihood = _has_likelihood(model, values)
    chosen = named_quantities(spec, shapes, indexing, likelihood, owner="the draws")
    arrays = {}
    for each in chosen:
        if each.is_likelihood:
            assert model is not None
            arrays[each.name] = _log_likelihood(model, values)
        elif each.element is None:
            arrays[each.name] = values[each.array]
        else:
            flat = values[each.array].reshape(len(values[each.array]), -1)
            arrays[each.name] = flat[:, each.element]
    return arrays


def _has_likelihood(model: Model | None, values: Mapping[str, Floats]) -> bool:
    """Whether the joint log likelihood can be computed from the draws."""
    if model is None or any(name not in values for name, _ in model.program.layout):
        return False
    from vicheck.model import double_precision
    from vicheck.quantities import has_likelihood

    with double_precision():
        return has_likelihood(model.program, model.dim, model.data)


def _log_likelihood(model: Model, values: Mapping[str, Floats]) -> Floats:
    from vicheck.evaluation import values_of_draws
    from vicheck.model import double_precision
    from vicheck.quantities import LIKELIHOOD, Quantities, Quantity

    theta = {name: values[name] for name, _ in model.program.layout}
    with double_precision():
        of_likelihood = Quantities((Quantity(LIKELIHOOD, ()),))
        return values_of_draws(model.program.snapshot(), of_likelihood, theta, model.data)[:, 0]


def _of_function(
    name: str, function: Callable[..., Any], values: Mapping[str, Floats], data: Any
) -> Floats:
    """Return what a user's function makes of each draw: by JAX if it can, or else one by one."""
    import jax

    from vicheck.model import double_precision
    from vicheck.quantities import call_on_draw, failed_on_draw, needs_data, require_numbers

    num_draws = len(next(iter(values.values())))
    if data is None and needs_data(function):
        raise ValueError(
            f"quantities[{name!r}] takes the data too, which these draws come without: give it "
            "the parameters alone"
        )

    def of_draw(theta: Mapping[str, Any]) -> Any:
        return call_on_draw(function, theta, data)

    first = {key: array[0] for key, array in values.items()}
    with double_precision():
        try:
            result = jax.eval_shape(lambda theta: jax.numpy.asarray(of_draw(theta)), first)
        except Exception:  # whatever a function does that JAX cannot trace; a loop needs no JAX
            result = None
        if result is not None:
            require_numbers(name, result.dtype.kind, result.dtype, result.shape)
            return _vectorised(of_draw, values, num_draws)
    rows = []
    shape: tuple[int, ...] | None = None
    for index in range(num_draws):
        try:
            row = np.asarray(of_draw({key: array[index] for key, array in values.items()}))
        except Exception as error:  # whatever a user's function can raise
            raise failed_on_draw(name, error) from error
        require_numbers(name, row.dtype.kind, row.dtype, row.shape)
        shape = row.shape if shape is None else shape
        if row.shape != shape:
            raise ValueError(
                f"quantities[{name!r}] must return the same shape for every draw, got {shape} and "
                f"{row.shape}"
            )
        rows.append(row)
    return np.asarray(rows, np.float64)


def _vectorised(
    of_draw: Callable[..., Any], values: Mapping[str, Floats], num_draws: int
) -> Floats:
    import jax

    from vicheck.evaluation import chunk_size, evaluate_in_chunks, rows_in_chunks

    width = sum(array[0].size for array in values.values())
    size = chunk_size(num_draws, width)
    vectorised = jax.jit(jax.vmap(lambda theta: jax.numpy.asarray(of_draw(theta), float)))
    _, result = evaluate_in_chunks(
        rows_in_chunks(dict(values), num_draws, size),
        lambda rows, _: ((), vectorised(rows)),
        num_draws,
        size,
        num_draws,
    )
    return np.asarray(result, np.float64)
