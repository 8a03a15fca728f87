"""A fit as a file: its approximation, how the solver came there, and draws; but not its model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ArgumentError, require_count
from vicheck.model import Model, double_precision
from vicheck.results.archive import Arrays
from vicheck.results.fit import Fit, KeptDraws, Optimum, Solution
from vicheck.results.fit_archive import FIT_FORMAT, FitDescription
from vicheck.runtime.computation import text_of
from vicheck.vi.families.family import Family
from vicheck.vi.families.registry import family_names, kind_of
from vicheck.vi.unsaved import UnsavedProgram

__all__ = ["described_fit", "fit_from", "load_fit", "save_fit", "with_model"]

Floats = NDArray[np.float64]

_POINTS = 4
"""Draws at which the log density is kept, to know the model again by."""
_SAME_DENSITY = 1e-6
"""Relative difference of log densities that rounding on another machine may make."""
_TRACES = {"elbo_trace": 1, "gradient_trace": 1, "iterates": 2}
"""Arrays of a solution, and how many dimensions they have."""
_OF_SOLUTION = (
    "status", "elbo", "num_evaluations", "gradient_norm", "sampling_error", "num_draws", "search",
    "settings",
)  # fmt: skip
_PLAIN = (bool, int, float, str, type(None))


def save_fit(fit: Fit, path: str | Path, num_draws: int) -> None:
    """Write a fit to a file, whole or not at all."""
    FIT_FORMAT.save(path, *described_fit(fit, num_draws))


def load_fit(path: str | Path, model: Model | None) -> Fit:
    """Read what `save_fit` has written, and give it its model again where there is one."""
    fit = FIT_FORMAT.load(path, fit_from)
    return fit if model is None else with_model(fit, model)


def described_fit(fit: Fit, num_draws: int) -> tuple[FitDescription, Arrays]:
    """Return what is kept of a fit."""
    require_count("num_draws", num_draws, 0)
    solution, model = fit.solution, fit.model
    template = kind_of(fit.family, model.dim, fit.options.get("rank")).shapes(model.dim)
    wanted: Any = jax.tree.structure(template)
    if wanted != jax.tree.structure(fit.q):
        raise TypeError(f"a fit of family {fit.family!r} with another q cannot be saved")
    kept = fit.kept or _kept(fit, num_draws)
    arrays: Arrays = {name: np.asarray(getattr(solution, name), float) for name in _TRACES}
    arrays |= {"points": kept.points, "log_p": kept.log_p}
    for number, member in enumerate((fit.q, *(other.q for other in solution.others))):
        for place, leaf in enumerate(jax.tree.leaves(member)):
            arrays[f"q.{number}.{place}"] = np.asarray(leaf, np.float64)
    for number, array in enumerate(kept.draws.values()):
        arrays[f"draws.{number}"] = np.asarray(array[:num_draws], np.float64)
    description = FitDescription(
        family=fit.family,
        solver=fit.solver,
        seed=fit.seed,
        options={name: _plain(value) for name, value in fit.options.items()},
        name=fit.name,
        model=model.name,
        shapes=dict(model.program.layout),
        coordinates=model.coordinates,
        indexing=model.indexing,
        drawn=tuple(kept.draws),
        other_elbos=tuple(float(other.elbo) for other in solution.others),
        **{name: getattr(solution, name) for name in _OF_SOLUTION},
    )
    return description, arrays


def _kept(fit: Fit, num_draws: int) -> KeptDraws:
    """Draw from q, and evaluate the density at the first draws."""
    with double_precision():
        z, _ = fit.q.sample_and_log_prob(jax.random.key(0), max(num_draws, _POINTS))
    points = np.asarray(z[:_POINTS])
    draws = fit.model.constrain(z[:num_draws]) if num_draws else {}
    return KeptDraws(draws, points, np.asarray(fit.model.log_density(points)))


def _plain(value: Any) -> Any:
    """Return an option as JSON can hold it: what is no number and no name becomes text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, _PLAIN) else text_of(value)


def fit_from(description: FitDescription, arrays: Arrays) -> Fit:
    """Return a fit without its model, or raise `ValueError` where its parts do not fit."""
    dim = sum(map(math.prod, description.shapes.values()))
    if not 0 < dim == len(description.coordinates) or any(
        size < 0 for shape in description.shapes.values() for size in shape
    ):
        raise ValueError("its coordinates are not those of its parameters")
    if description.family not in family_names():
        raise ValueError(f"it is of the family {description.family!r}: register that first")
    wanted = kind_of(description.family, dim, description.options.get("rank")).shapes(dim)
    count = len(jax.tree.leaves(wanted))
    elbos = (description.elbo, *description.other_elbos)
    names = {f"q.{number}.{place}" for number in range(len(elbos)) for place in range(count)}
    names |= {f"draws.{number}" for number in range(len(description.drawn))}
    if names | {*_TRACES, "points", "log_p"} != arrays.keys():
        raise ValueError("its arrays are not those of its description")
    if any(array.dtype != np.float64 for array in arrays.values()):
        raise ValueError("its arrays are not all in float64")
    if any(arrays[name].ndim != ndim for name, ndim in _TRACES.items()):
        raise ValueError("its traces have other dimensions")
    if arrays["points"].shape != (len(arrays["log_p"]), dim) or arrays["log_p"].ndim != 1:
        raise ValueError("its points and log densities are not those of one model")
    draws = {name: arrays[f"draws.{number}"] for number, name in enumerate(description.drawn)}
    if len({array.shape[:1] for array in draws.values()} - {()}) > 1:
        raise ValueError("it has different numbers of draws")
    first, *others = (_member(wanted, arrays, number) for number in range(len(elbos)))
    traces: dict[str, Any] = {name: arrays[name] for name in _TRACES}
    known = {name: getattr(description, name) for name in _OF_SOLUTION}
    optima = tuple(map(Optimum, others, description.other_elbos))
    solution = Solution(q=first, others=optima, **traces, **known)
    program = UnsavedProgram(
        tuple(description.shapes.items()), description.coordinates, description.indexing
    )
    return Fit(
        Model(program, {}, name=description.model),
        description.family,
        description.solver,
        description.seed,
        solution,
        math.nan,
        description.options,
        name=description.name,
        kept=KeptDraws(draws, arrays["points"], arrays["log_p"]),
    )


def _member(wanted: Family, arrays: Arrays, number: int) -> Family:
    leaves, structure = jax.tree.flatten(wanted)
    values = [arrays[f"q.{number}.{place}"] for place in range(len(leaves))]
    if any(value.shape != leaf.shape for value, leaf in zip(values, leaves, strict=True)):
        raise ValueError("its q is none of its family")
    with double_precision():
        member: Family = jax.tree.unflatten(structure, map(jnp.asarray, values))
    return member


def with_model(fit: Fit, model: Model) -> Fit:
    """Return a loaded fit with the model it was fitted to.

    Raises
    ------
    ArgumentError
        When that is another model, or has other data: its log density is another one.
    """
    if not isinstance(model, Model):
        raise TypeError(f"model must be a vicheck Model, got {type(model).__name__}")
    if fit.kept is None:
        return replace(fit, model=model)
    model.require_data()
    mine, theirs = model.coordinates, fit.model.coordinates
    if mine != theirs:
        problem = "must be the model that was fitted, with the parameters {}, got one with {}"
        raise ArgumentError("model", problem.format(_listed(theirs), _listed(mine)))
    now, before = np.asarray(model.log_density(fit.kept.points)), fit.kept.log_p
    if not np.allclose(now, before, rtol=_SAME_DENSITY, atol=_SAME_DENSITY, equal_nan=True):
        raise ArgumentError(
            "model",
            f"must be the model that was fitted, with its data: at a draw of q its log density is "
            f"{now[0]:.6g}, and was {before[0]:.6g}",
        )
    with double_precision():
        snapshot = model.snapshot()
        computed = snapshot.program.computation("log_density", snapshot.data)
    return replace(fit, model=model, computed=computed, kept=None)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
