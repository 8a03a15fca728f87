"""One dataset at a time: fits that are not ours, that may fail, and that may never end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.calibration.assessment import assess, probabilities_of_draws
from vicheck.calibration.quantities import LIKELIHOOD, Quantities
from vicheck.model import Data, Model, double_precision, labels
from vicheck.records import FitStatus
from vicheck.vi.fit import Fit

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

    A fit may return a `vicheck.Fit`, named draws, or an object with a method ``marginal_cdf``.
    """
    size = len(quantities.names)
    try:
        found = _within(run, time_limit)
    except TimeoutError:
        return failed(
            size, FitStatus.TIMED_OUT, f"the fit took longer than its limit of {time_limit:g} s"
        )
    except Exception as error:  # whatever a foreign fit can raise
        return failed(size, FitStatus.FAILED, f"{type(error).__name__}: {error}")
    if isinstance(found, Fit):
        return _of_fit(found, model, quantities, truth, own, seed, num_draws)
    if hasattr(found, "marginal_cdf"):
        return Outcome(_of_cdf(found, model, quantities, truth), FitStatus.CONVERGED)
    if isinstance(found, Mapping):
        return Outcome(_of_draws(found, model, quantities, truth, seed), FitStatus.CONVERGED)
    raise TypeError(
        "fit must return named draws (a dictionary of arrays, draws first), a vicheck.Fit or an "
        f"object with a method marginal_cdf, got {type(found).__name__}"
    )


def _within(run: Callable[[], Any], time_limit: float | None) -> Any:
    """Run a function, and leave it to itself when it takes too long.

    A thread cannot be stopped from outside: what hangs goes on hanging, but nobody waits for it.
    """
    if time_limit is None:
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
        raise TimeoutError
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
    found = assess(
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
        found.probability[0],
        fitted.status,
        khat=float(found.khat[0]),
        symmetric_kl=float(found.symmetric_kl[0]),
        num_evaluations=float(solution.num_evaluations),
        gradient_norm=solution.gradient_norm,
        sampling_error=solution.sampling_error,
    )


def _of_cdf(found: Any, model: Model, quantities: Quantities, truth: Floats) -> Floats:
    """Ask for the marginal distribution functions at the true parameters, on their own scale."""
    theta = model.constrain(truth)
    at = {name: theta[name] for name, _ in model.program.layout}
    values = _flat(found.marginal_cdf(at), "marginal_cdf", draws=False)
    return np.array([_pick(values, name, "marginal_cdf") for name in quantities.names])


def _of_draws(
    draws: Mapping[str, Any], model: Model, quantities: Quantities, truth: Floats, seed: int
) -> Floats:
    """Rank the truth among named draws, on the parameters' own scale."""
    values = _flat(draws, "fit", draws=True)
    theta = model.constrain(truth)
    true = _flat({name: theta[name] for name in theta}, "the model", draws=False)
    if quantities.functions or LIKELIHOOD in quantities.drawn_names:
        values, true = _derived(draws, model, quantities, truth, values, true)
    names = quantities.names
    columns = np.stack([_pick(values, name, "fit") for name in names], axis=-1)
    at = np.array([_pick(true, name, "the model") for name in names])
    # Ranks on the scale of the parameter itself: nothing falls where something else rises.
    return probabilities_of_draws(columns, at, seed)


def _derived(
    draws: Mapping[str, Any],
    model: Model,
    quantities: Quantities,
    truth: Floats,
    values: dict[str, Any],
    true: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Add what is computed from all parameters of a draw: functions, the log likelihood."""
    absent = [name for name, _ in model.program.layout if name not in draws]
    if absent:
        raise ValueError(
            f"fit returned no draws of {', '.join(absent)}, which the quantities "
            f"{', '.join(quantities.drawn_names)} need"
        )
    theta = {name: jnp.asarray(draws[name], float) for name, _ in model.program.layout}
    z = jax.vmap(lambda one: model.program.unconstrain(one, model.data))(theta)
    rows = jax.vmap(lambda one: quantities.drawn(model.program, one, model.data))(z)
    at = quantities.drawn(model.program, jnp.asarray(truth), model.data)
    columns = np.asarray(rows).T
    return (
        values | dict(zip(quantities.drawn_names, columns, strict=True)),
        true | dict(zip(quantities.drawn_names, np.asarray(at), strict=True)),
    )


def _flat(arrays: Mapping[str, Any], source: str, *, draws: bool) -> dict[str, Any]:
    """Return the elements of named arrays by their labels."""
    found: dict[str, Any] = {}
    for name, value in arrays.items():
        array = np.asarray(value, float)
        if draws and array.ndim == 0:
            raise ValueError(f"{source} returned {name!r} without an axis of draws")
        shape = array.shape[1:] if draws else array.shape
        flat = array.reshape(len(array), -1).T if draws else array.ravel()
        found |= dict(zip(labels({name: shape}), flat, strict=True))
    return found


def _pick(values: Mapping[str, Any], name: str, source: str) -> Any:
    if name not in values:
        raise ValueError(
            f"{source} returned nothing for the quantity {name!r}; it returned: "
            f"{', '.join(list(values)[:20]) or 'nothing'}"
        )
    return values[name]
