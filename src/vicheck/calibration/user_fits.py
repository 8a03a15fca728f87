"""One dataset at a time: fits by a user's function, which may fail and may never end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.calibration.assessment import assess, probabilities_of_draws
from vicheck.draws import Draws
from vicheck.evaluation import values_of_draws
from vicheck.indexing import Indexing
from vicheck.model import Data, Model, Program, double_precision
from vicheck.quantities import Quantities
from vicheck.results.fit import Fit
from vicheck.results.status import FitStatus
from vicheck.runtime.compiling import compiled
from vicheck.runtime.interrupts import at_once, check_interrupt
from vicheck.stats.psis import psis_quietly

__all__ = ["Outcome", "failed", "outcome_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of the fit of one dataset."""

    probability: Floats
    status: FitStatus
    message: str = ""
    khat: float = np.nan
    symmetric_kl: float = np.nan
    num_evaluations: float = np.nan
    gradient_norm: float = np.nan
    sampling_error: float = np.nan


@runtime_checkable
class HasMarginals(Protocol):
    """What a user's function may return: an approximation that knows its marginals exactly."""

    def marginal_cdf(self, theta: dict[str, Floats]) -> Mapping[str, Any]:
        """Return the probability that each parameter lies below a value, on its own scale."""
        ...


def failed(num_quantities: int, status: FitStatus, message: str) -> Outcome:
    """Return the outcome of a fit that gave nothing."""
    return Outcome(np.full(num_quantities, np.nan), status, message)


def outcome_of(
    run: Callable[[], Any],
    model: Model,
    quantities: Quantities,
    truth: Floats,
    own: Data,
    seed: int,
    num_draws: int,
    time_limit: float | None,
) -> Outcome:
    """Run a fit and compare it with the truth; whatever goes wrong with it is an outcome too.

    A fit may return a `vicheck.Fit`, `vicheck.Draws`, named draws, or an object with a method
    ``marginal_cdf``.
    """
    size = len(quantities.names)
    try:
        result = _within(run, time_limit)
    except _TooLateError:
        return failed(
            size, FitStatus.TIMED_OUT, f"the fit took longer than its limit of {time_limit:g} s"
        )
    except Exception as error:  # whatever a foreign fit can raise
        check_interrupt()  # which may have become that error on its way
        return failed(size, FitStatus.FAILED, _describe(error))
    check_interrupt()
    if isinstance(result, Fit):
        if result.status is FitStatus.INTERRUPTED:  # it has caught what was meant for all
            raise KeyboardInterrupt
        return _of_fit(result, model, quantities, truth, own, seed, num_draws)
    if isinstance(result, HasMarginals):
        return _of_cdf(result, model, quantities, truth)
    if isinstance(result, Draws):
        return _of_weighted_draws(result, model, quantities, truth, seed)
    if isinstance(result, Mapping):
        return _of_draws(result, model, quantities, truth, seed)
    raise TypeError(
        "fit must return named draws (a dictionary of arrays, draws first), vicheck.Draws, a "
        f"vicheck.Fit or an object with a method marginal_cdf, got {type(result).__name__}"
    )


class _TooLateError(Exception):
    """The limit of time has passed; a `TimeoutError` may be the fit's own."""


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _within(run: Callable[[], Any], time_limit: float | None) -> Any:
    """Run a function, and abandon it when it takes too long.

    A thread cannot be stopped from outside: what hangs keeps hanging, but nothing waits for it.
    """
    if time_limit is None:
        with at_once():  # somebody else's code looks for no Ctrl-C
            return run()
    results: list[tuple[bool, Any]] = []

    def work() -> None:
        try:
            with double_precision():
                results.append((True, run()))
        except BaseException as error:  # handed to the caller
            results.append((False, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(time_limit)
    if not results:
        raise _TooLateError
    succeeded, value = results[0]
    if not succeeded:
        raise value
    return value


def _of_fit(
    fitted: Fit,
    model: Model,
    quantities: Quantities,
    truth: Floats,
    own: Data,
    seed: int,
    num_draws: int,
) -> Outcome:
    def alone(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: np.asarray(leaf)[None], tree)

    shared = {name: value for name, value in model.data.items() if name not in own}
    assessed = assess(
        model.program,
        quantities,
        alone(fitted.q),
        truth[None],
        alone(own),
        shared,
        np.array([seed]),
        num_draws,
    )
    solution = fitted.solution
    return Outcome(
        assessed.probability[0],
        fitted.status,
        khat=float(assessed.khat[0]),
        symmetric_kl=float(assessed.symmetric_kl[0]),
        num_evaluations=float(solution.num_evaluations),
        gradient_norm=solution.gradient_norm,
        sampling_error=solution.sampling_error,
    )


def _of_cdf(fitted: HasMarginals, model: Model, quantities: Quantities, truth: Floats) -> Outcome:
    """Ask for the marginal distribution functions at the true parameters, on their own scale."""
    theta = model.constrain(truth)
    at = {name: theta[name] for name, _ in model.program.layout}
    try:
        answer = fitted.marginal_cdf(at)
    except Exception as error:  # whatever a foreign fit can raise
        return failed(len(quantities.names), FitStatus.FAILED, _describe(error))
    arrays = {
        name: _numbers(answer, name, at[name].shape, "marginal_cdf")
        for name in at
        if name in answer
    }
    values = _flat(arrays, quantities.indexing)
    p = np.array([_pick(values, name, "marginal_cdf", answer) for name in quantities.names])
    if np.isnan(p).any():
        message = f"marginal_cdf returned NaN for {quantities.names[np.isnan(p).argmax()]}"
        return failed(p.size, FitStatus.FAILED, message)
    if ((p < 0.0) | (p > 1.0)).any():
        raise ValueError(
            f"marginal_cdf must return probabilities between 0 and 1, got {p.min():g} to "
            f"{p.max():g}"
        )
    return Outcome(p, FitStatus.UNKNOWN)


def _of_draws(
    draws: Mapping[str, Any], model: Model, quantities: Quantities, truth: Floats, seed: int
) -> Outcome:
    """Rank the truth among named draws, on the parameters' own scale."""
    theta = model.constrain(truth)
    arrays = {
        name: _numbers(draws, name, theta[name].shape, "fit", draws=True)
        for name in theta
        if name in draws
    }
    if len({len(array) for array in arrays.values()}) > 1:
        counts = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise ValueError(f"fit must return the same number of draws of everything, got {counts}")
    bad = [name for name, array in arrays.items() if np.isnan(array).any()]
    if bad:
        message = f"the fit returned NaN among the draws of {', '.join(bad)}"
        return failed(len(quantities.names), FitStatus.FAILED, message)
    indexing = quantities.indexing
    values, true = _flat(arrays, indexing, draws=True), _flat(theta, indexing)
    if any(name not in values for name in quantities.drawn_names):
        more, at = _derived(arrays, model, quantities, truth)
        values, true = values | more, true | at
    names = quantities.names
    columns = np.stack([_pick(values, name, "fit", draws) for name in names], axis=-1)
    # Ranks on the scale of the parameter itself: nothing falls where something else rises.
    p = probabilities_of_draws(columns, np.array([true[name] for name in names]), seed)
    return Outcome(p, FitStatus.UNKNOWN)


def _of_weighted_draws(
    draws: Draws, model: Model, quantities: Quantities, truth: Floats, seed: int
) -> Outcome:
    """Rank the truth among draws that come with both densities, which give khat."""
    if draws.status is FitStatus.NOT_FINITE:  # no approximation of anything
        return failed(len(quantities.names), draws.status, draws.status.value)
    outcome = _of_draws(draws.values, model, quantities, truth, seed)
    if outcome.status is FitStatus.FAILED:
        return outcome
    with np.errstate(invalid="ignore"):
        smoothed = psis_quietly(draws.log_p - draws.log_q)
    return replace(outcome, status=draws.status, khat=float(smoothed.khat))


def _derived(
    arrays: Mapping[str, Floats], model: Model, quantities: Quantities, truth: Floats
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is computed from all parameters, of the draws and of the truth."""
    absent = [name for name, _ in model.program.layout if name not in arrays]
    if absent:
        raise ValueError(
            f"fit returned no draws of {', '.join(absent)}, which the quantities "
            f"{', '.join(quantities.drawn_names)} need"
        )
    theta = {name: arrays[name] for name, _ in model.program.layout}
    rows = values_of_draws(model.program, quantities, theta, model.data)
    at = _at_truth((model.program, quantities), truth, model.data)
    names = quantities.drawn_names
    return (
        dict(zip(names, rows.T, strict=True)),
        dict(zip(names, np.asarray(at), strict=True)),
    )


@compiled()
def _at_truth(what: tuple[Program, Quantities], truth: Any, data: Data) -> jax.Array:
    program, quantities = what
    return quantities.at(program, None, truth, data)


def _numbers(
    returned: Mapping[str, Any],
    name: str,
    shape: tuple[int, ...],
    source: str,
    *,
    draws: bool = False,
) -> Floats:
    """Return an array that a fit has returned, or say what is wrong with it."""
    try:
        array = np.asarray(returned[name], float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source} must return numbers for {name!r}: {error}") from error
    if draws and not (array.ndim and len(array)):
        raise ValueError(
            f"{source} must return draws of {name!r} along the first axis, got shape {array.shape}"
        )
    came = array.shape[1:] if draws else array.shape
    if came != shape:
        wanted = ", ".join(["draws"] * draws + [str(size) for size in shape])
        raise ValueError(f"{source} must return {name!r} of shape ({wanted}), got {array.shape}")
    return array


def _flat(arrays: Mapping[str, Any], indexing: Indexing, *, draws: bool = False) -> dict[str, Any]:
    """Return the elements of named arrays by their labels."""
    elements: dict[str, Any] = {}
    for name, array in arrays.items():
        shape = array.shape[1:] if draws else array.shape
        flat = array.reshape(len(array), -1).T if draws else array.ravel()
        elements |= dict(zip(indexing.labels({name: shape}), flat, strict=True))
    return elements


def _pick(values: Mapping[str, Any], name: str, source: str, returned: Mapping[str, Any]) -> Any:
    if name not in values:
        raise ValueError(
            f"{source} returned nothing for the quantity {name!r}; it returned: "
            f"{', '.join(map(str, list(returned)[:20])) or 'nothing'}"
        )
    return values[name]
