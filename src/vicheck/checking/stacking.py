"""Modes of a posterior stacked by how well they predict: Yao, Vehtari and Gelman (2022)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.checking.modes import pooled_modes
from vicheck.errors import ArgumentError, ModelError, not_in_jax, require_count
from vicheck.evaluation import evaluate_draws_of
from vicheck.model import double_precision
from vicheck.quantities import call_on_draw, reported_quantities
from vicheck.results.stacking import Stacking, StackingStatus
from vicheck.runtime.seeds import Seed, as_seed
from vicheck.runtime.tracing import Traced, abstract_vector
from vicheck.stats.psis import psis_quietly
from vicheck.stats.stacking import Loo, khat_is_high, psis_loo, stacking_weights
from vicheck.vi.families.moments import mean_of

if TYPE_CHECKING:
    from vicheck.model import Model
    from vicheck.results.fit import Fit
    from vicheck.results.psis import PsisResult
    from vicheck.vi.families.family import Family

__all__ = ["stack_modes"]

Floats = NDArray[np.float64]
LogLikelihood = Callable[..., Any]

_HINT = (
    "give log_likelihood=, a function in JAX of the parameters of one draw that returns the log "
    "likelihood of each observation as a vector"
)


def stack_modes(
    fit: Fit, log_likelihood: LogLikelihood | None, num_draws: int, seed: Seed
) -> Stacking:
    """Return what `Fit.stack_modes` does."""
    import pandas as pd

    require_count("num_draws", num_draws, 100)
    if log_likelihood is not None and not callable(log_likelihood):
        raise TypeError(
            f"log_likelihood must be a function, got {type(log_likelihood).__name__}: {_HINT}"
        )
    model, seed = fit.model.snapshot(), as_seed(seed)
    others = fit.solution.others
    members = [fit.q, *(other.q for other in others)]
    with double_precision():
        terms = _terms(model, log_likelihood)
        # The same noise at each mode, so that their differences owe less to chance.
        modes = [_predicted(model, q, terms, num_draws, seed) for q in members]
        locations = [np.asarray(mean_of(q)) for q in members]
        mass = np.ones(1)
        if len(members) > 1:
            reported = reported_quantities(model, None)
            elbos = [fit.elbo, *(other.elbo for other in others)]
            mass = pooled_modes(model, members, elbos, reported, num_draws, seed, True).masses
    labels = pd.Index(["fit", *(f"other {i}" for i in range(1, len(modes)))], name="mode")
    elpd = np.stack([mode.loo.elpd for mode in modes], axis=1)
    num_high = np.array([mode.loo.is_high.sum() for mode in modes])
    notes = _notes_on_modes(fit)
    kept = len(modes[0].z)
    if kept < num_draws:
        notes.append(f"{len(elpd)} observations are many: only {kept} draws of each mode are used.")
    status = StackingStatus.ONE_MODE if len(modes) == 1 else StackingStatus.OK
    unfit, limit = sum(mode.is_high for mode in modes), modes[0].smoothed.threshold
    if num_high.any() or unfit:
        status = StackingStatus.HIGH_KHAT
        uncertain = ", so the masses are uncertain too" if unfit and len(modes) > 1 else ""
        notes.append(
            f"khat of {num_high.sum()} of {elpd.size} predictions, and of the draws of {unfit} of "
            f"{len(modes)} modes, is {limit:.2f} or more{uncertain}: more draws, or a richer "
            "family, may mend that."
        )
    khat, khat_loo = np.array([mode.smoothed.khat for mode in modes]), [m.loo.khat for m in modes]
    if np.sum(~(np.column_stack([khat, khat_loo]) < limit)) > num_high.sum() + unfit:
        notes.append(
            f"Where a khat of {limit:.2f} or more is not counted, no ratio is more than ten times "
            "their mean: that is no heavy tail, whatever khat is."
        )
    undefined = np.flatnonzero(~np.isfinite(elpd.max(axis=1)))  # which is NaN where any is
    if undefined.size:
        status = StackingStatus.UNDEFINED
        notes.append(f"The predictive density of {terms.labels[undefined[0]]} is undefined.")
    return Stacking(
        fit=fit,
        status=status,
        weight=stacking_weights(elpd),
        mass=mass,
        khat=khat,
        pointwise=pd.DataFrame(elpd, pd.Index(terms.labels, name="observation"), labels),
        khat_loo=np.stack(khat_loo),
        num_high=num_high,
        locations=pd.DataFrame(np.stack(locations), labels, model.coordinates),
        z=np.stack([mode.z for mode in modes]),
        log_weights=np.stack([mode.smoothed.log_weights for mode in modes]),
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class _Terms(Traced):
    """The log likelihood of each observation at a draw, and then the draw itself."""

    function: LogLikelihood | None
    labels: tuple[str, ...]
    dim: int

    @property
    def num_values(self) -> int:
        return len(self.labels) + self.dim

    def traces(self, use: str, data: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        program, given = data
        return partial(self.at, program, None), program.traces("constrain", given)[1]

    def at(self, program: Any, q: Any, z: Any, data: Any) -> Any:
        if self.function is not None:
            theta = program.constrain(z, data)
            each = jnp.asarray(call_on_draw(self.function, theta, data), z.dtype)
        else:
            sites = program.log_likelihood(z, data).values()
            each = jnp.concatenate([jnp.ravel(site) for site in sites])
        return jnp.concatenate([each, z])


def _terms(model: Model, function: LogLikelihood | None) -> _Terms:
    """Find the observations, or say what to give."""
    program, data, z = model.program, model.data, abstract_vector(model.dim)
    if function is None:
        model.require_data()
        try:
            factors = program.factors(data)
            sites = jax.eval_shape(program.log_likelihood, z, data)
        except ModelError as error:
            raise ModelError(
                "modes cannot be stacked: this model does not offer the log likelihood of single "
                "observations",
                hint=_HINT,
            ) from error
        if factors:
            raise ModelError(
                f"modes cannot be stacked: numpyro.factor {factors[0]!r} may belong to the prior "
                "or to the likelihood",
                hint=_HINT,
            )
        shapes = {name: site.shape for name, site in sites.items()}
        if sum(map(math.prod, shapes.values())) < 2:
            raise ModelError(
                "modes cannot be stacked: each observation is predicted from the others, and the "
                "model has fewer than two",
                hint=_HINT,
            )
    else:

        def value(z: Any, data: Any) -> Any:
            return jnp.asarray(call_on_draw(function, program.constrain(z, data), data))

        try:
            found = jax.eval_shape(value, z, data)
        except jax.errors.JAXTypeError as error:
            raise ValueError(not_in_jax("log_likelihood", error)) from error
        except Exception as error:  # whatever a user's function can raise
            raise ValueError(
                "log_likelihood fails on the parameters of one draw: "
                f"{type(error).__name__}: {error}"
            ) from error
        if found.ndim != 1 or found.dtype.kind not in "iuf" or found.size < 2:
            raise ArgumentError(
                "log_likelihood",
                "must return a vector of numbers, one for each of at least two observations, got "
                f"an array of type {found.dtype} and shape {found.shape}",
            )
        shapes = {"log_likelihood": found.shape}
    return _Terms(function, model.indexing.labels(shapes), model.dim)


class _Predicted(NamedTuple):
    """What one mode predicts, and its draws."""

    loo: Loo
    smoothed: PsisResult
    is_high: bool
    z: Floats


def _predicted(model: Model, q: Family, terms: _Terms, num_draws: int, seed: int) -> _Predicted:
    drawn = evaluate_draws_of(model, q, terms, num_draws, seed)
    each, z = np.split(drawn.values, [len(terms.labels)], axis=1)
    with np.errstate(invalid="ignore"):
        log_ratios = (drawn.log_p - drawn.log_q)[: len(z)]
    bad = np.isnan(each[np.isfinite(log_ratios)]).any(axis=0)
    if bad.any():
        raise ArgumentError(
            "log_likelihood",
            f"must be known at each draw, got NaN for {terms.labels[int(bad.argmax())]}",
        )
    smoothed = psis_quietly(log_ratios)
    is_high = bool(khat_is_high(log_ratios, smoothed))
    return _Predicted(psis_loo(log_ratios, each), smoothed, is_high, z)


def _notes_on_modes(fit: Fit) -> list[str]:
    """Say which modes there are to be stacked."""
    search, count = fit.solution.search, len(fit.solution.others)
    if search is None:
        return ["Other modes were not searched for."]
    notes = [] if count else ["The search has left no other mode to be fitted."]
    missing = int((~search.is_negligible[search.num_reached :]).sum()) - count
    if missing > 0:
        notes.append(f"Modes that the search found and that were not fitted: {missing}.")
    if search.symmetry and count:
        notes.append(
            f"Some modes are copies ({search.symmetry}): these predict alike, so how a weight is "
            "shared among them is arbitrary."
        )
    return notes
