"""Draws with both log densities from what PyMC and pymc-extras fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray
from pymc.variational import opvi
from pymc.variational.approximations import FullRankGroup, MeanFieldGroup

from vicheck.adapters.pymc.compiling import run_quickly
from vicheck.adapters.pymc.program import model_of
from vicheck.draws import Approximation, Draws
from vicheck.errors import refuse_unused
from vicheck.evaluation import chunk_size, evaluate_in_chunks, kept_draws, rows_in_chunks
from vicheck.model import Model, double_precision
from vicheck.vi.families.family import Family

__all__ = ["draws_of_group_approximation", "draws_of_result"]

Floats = NDArray[np.float64]

_NUM_DRAWS = 100_000
"""Draws by default."""
_MINIBATCHES = "Log densities are of all the data, whatever part of it each step of the fit saw."
_NO_DENSITY = "which holds draws but neither log densities nor what they could be computed from"


@dataclass(frozen=True, eq=False)
class _Gaussian:
    """A normal distribution of some of the value variables, flat and one after the other."""

    names: tuple[str, ...]
    """Value variables, in the order in which the distribution has them."""
    mean: Floats
    scale: Floats
    """Standard deviations, or the Cholesky factor of the covariance."""

    def draw(self, rng: np.random.Generator, num_draws: int) -> tuple[Floats, Floats]:
        """Return draws and their log densities."""
        noise = rng.standard_normal((num_draws, len(self.mean)))
        if self.scale.ndim == 1:
            z, diagonal = self.mean + noise * self.scale, self.scale
        else:
            z, diagonal = self.mean + noise @ self.scale.T, np.diagonal(self.scale)
        constant = len(self.mean) * np.log(2.0 * np.pi) / 2.0 + np.log(diagonal).sum()
        return z, -(noise**2).sum(axis=1) / 2.0 - constant


@dataclass(frozen=True, eq=False)
class _Fitted(Approximation):
    """Normal distributions of all value variables of a model."""

    target: Model
    parts: tuple[_Gaussian, ...]
    title: str

    def draws(self, num_draws: int | None, seed: int | None = 0) -> Draws:
        num_draws = _NUM_DRAWS if num_draws is None else num_draws
        rng = np.random.default_rng(seed or 0)
        columns: dict[str, Floats] = {}
        log_q = np.zeros(num_draws)
        for part in self.parts:
            _check_finite(part)
            z, log_density = part.draw(rng, num_draws)
            columns |= _columns(self.target, part.names, z)
            log_q += log_density
        return replace(_evaluated(self.target, columns, log_q, self.title, ()), q=self)

    def family(self) -> Family:
        with double_precision():
            return self._as_family()

    def _as_family(self) -> Family:
        size = self.target.dim
        loc, covariance = np.zeros(size), np.zeros((size, size))
        columns: dict[str, Floats] = {}
        start = 0
        for part in self.parts:
            there = slice(start, start + len(part.mean))
            root = np.diag(part.scale) if part.scale.ndim == 1 else part.scale
            loc[there], covariance[there, there] = part.mean, root @ root.T
            columns |= _columns(self.target, part.names, np.arange(size, dtype=float)[None, there])
            start = there.stop
        order = _joined(self.target, columns)[0].astype(int)
        loc, covariance = loc[order], covariance[np.ix_(order, order)]
        if all(part.scale.ndim == 1 for part in self.parts):
            log_sd = np.log(np.diagonal(covariance)) / 2.0
            return _member("mean_field", loc, log_sd)
        return _member("full_rank", loc, _root(covariance))


def _member(name: str, *parameters: Floats) -> Family:
    """Return a member of one of vicheck's own families."""
    from vicheck.vi.families.registry import entry_of

    family: Any = entry_of(name).load()
    member: Family = family(*map(jnp.asarray, parameters))
    return member


def draws_of_group_approximation(
    approx: opvi.Approximation, num_draws: int | None, seed: int | None
) -> Draws:
    """Draw from what ``pymc.fit`` returned."""
    kinds = []
    for group in approx.groups:
        if not isinstance(group, MeanFieldGroup | FullRankGroup):
            raise TypeError(
                f"approx must be a mean-field or full-rank approximation, got "
                f"{type(approx).__name__}, a set of points without a density (as SVGD returns it): "
                "fit with pm.fit(method='advi') or method='fullrank_advi'"
            )
        kinds.append("mean-field" if isinstance(group, MeanFieldGroup) else "full-rank")
    parts = [_of_group(group) for group in approx.groups]
    kind = " and ".join(dict.fromkeys(kinds))
    draws = _fitted(approx.model, parts, f"{kind} fit", "PyMC").draws(num_draws, seed)
    losses = np.asarray(getattr(approx, "hist", ()), np.float64)  # pm.fit puts them there
    return replace(draws, elbo_trace=-losses)


def draws_of_result(result: Any, num_draws: int | None, seed: int | None) -> Draws:
    """Draw from what pymc-extras returned; the model is the one in whose context this is called."""
    groups = _groups_of(result)
    if "fit" in groups and "covariance_matrix" in groups["fit"]:
        fitted = groups["fit"]
        names = _owners(fitted["rows"].values)
        covariance = np.asarray(fitted["covariance_matrix"].values, float)
        part = _Gaussian(names, np.asarray(fitted["mean_vector"].values, float), _root(covariance))
        laplace = _fitted(_context(), [part], "Laplace approximation", "pymc-extras")
        return laplace.draws(num_draws, seed)
    if "optimizer_result" in groups and _is_dadvi(groups["optimizer_result"]):
        optimum = groups["optimizer_result"]["x"]
        means, log_sds = np.split(np.asarray(optimum.values, float), 2)
        names = _owners(optimum["variables"].values[: len(means)])
        part = _Gaussian(names, means, np.exp(log_sds))
        dadvi = _fitted(_context(), [part], "mean-field fit", "DADVI of pymc-extras")
        return dadvi.draws(num_draws, seed)
    if "sample_stats" in groups and "paths_lbfgs_niter" in groups["sample_stats"]:
        what = "a result of Pathfinder, which holds its own draws and not what they come from"
        refuse_unused({"num_draws": num_draws, "seed": seed}, what)
        return _of_paths(groups["sample_stats"])
    raise TypeError(
        f"approx must be a fit whose density is known, got a result with the groups "
        f"{', '.join(groups)}, {_NO_DENSITY}: give what pm.fit returned, or a result of "
        "pymc_extras.fit with method 'dadvi', 'laplace' or 'pathfinder' (there with "
        "importance_sampling=None, store_diagnostics=True)"
    )


def _fitted(model: Any, parts: Sequence[_Gaussian], what: str, who: str) -> _Fitted:
    target = model_of(model)
    return _Fitted(target, tuple(parts), f"{what} of {target.dim} parameters ({who})")


def _of_group(group: Any) -> _Gaussian:
    scale = group.std if isinstance(group, MeanFieldGroup) else group.L
    mean, spread = run_quickly([], [group.mean, scale])()
    names = tuple(name for name, *_ in group.ordering.values())
    return _Gaussian(names, np.asarray(mean, float), np.asarray(spread, float))


def _of_paths(stats: Any) -> Draws:
    """Take Pathfinder's own draws: its normal distributions themselves are not kept."""
    if "diagnostics_samples_full" not in stats or "diagnostics_logQ_full" not in stats:
        raise TypeError(
            f"approx is a result of Pathfinder {_NO_DENSITY}: fit with pymc_extras.fit_pathfinder("
            "..., importance_sampling=None, store_diagnostics=True)"
        )
    samples = np.asarray(stats["diagnostics_samples_full"].values, float)
    log_q = np.asarray(stats["diagnostics_logQ_full"].values, float).ravel()
    carried = np.asarray(stats["diagnostics_logP_full"].values, float).ravel()
    num_paths, _, dim = samples.shape
    target = model_of(_context())
    names = _owners(stats["param"].values)
    columns = _columns(target, names, samples.reshape(-1, dim))
    notes = [f"These are Pathfinder's own {len(log_q)} draws."]
    if num_paths > 1:
        notes.append("The log density of a draw under q is that of its own path.")
    title = f"Pathfinder fit of {target.dim} parameters ({num_paths} paths, pymc-extras)"
    draws = _evaluated(target, columns, log_q, title, tuple(notes))
    both = np.isfinite(carried) & np.isfinite(draws.log_p)
    if not np.allclose(carried[both], draws.log_p[both], rtol=1e-4, atol=1e-4):
        raise ValueError(
            "approx carries other log densities than the model in this context has at its draws: "
            "call this in the context of the model that was fitted"
        )
    return draws


def _evaluated(
    target: Model,
    columns: Mapping[str, Floats],
    log_q: Floats,
    title: str,
    notes: tuple[str, ...],
) -> Draws:
    """Add log p at the same draws, and what the model derives from them."""
    graphs = target.program.graphs  # type: ignore[attr-defined]
    if graphs.in_minibatches:
        notes = (*notes, _MINIBATCHES)
    z = _joined(target, columns)
    num_values = sum(np.size(value) for value in target.constrain(z[0]).values())
    size = chunk_size(len(z), target.dim)
    (log_p,), values = evaluate_in_chunks(
        rows_in_chunks(z, len(z), size),
        lambda rows, keep: ((target.log_density(rows),), target.constrain(rows) if keep else {}),
        len(z),
        size,
        kept_draws(len(z), num_values),
    )
    return Draws(values, log_p, log_q, title, notes, model=target)


def _joined(target: Model, columns: Mapping[str, Floats]) -> Floats:
    """Put the columns of all value variables in the order of the model's z."""
    graphs = target.program.graphs  # type: ignore[attr-defined]
    return np.concatenate([columns[graphs.values[rv].name] for rv in graphs.free], axis=1)


def _columns(target: Model, names: tuple[str, ...], z: Floats) -> dict[str, Floats]:
    """Cut flat draws into those of each value variable."""
    program: Any = target.program
    shapes = dict(program.layout)
    sizes = {program.graphs.values[rv].name: shapes[rv.name] for rv in program.graphs.free}
    widths = {name: int(np.prod(shape)) for name, shape in sizes.items()}
    unknown = [name for name in names if name not in widths]
    if unknown or sum(widths[name] for name in names) != z.shape[1]:
        raise ValueError(
            f"approx has {z.shape[1]} values of {', '.join(names)}, but the model's parameters "
            f"are {', '.join(f'{name} {shape}' for name, shape in sizes.items())}: call this in "
            "the context of the model that was fitted"
        )
    ends = np.cumsum([widths[name] for name in names])[:-1]
    return dict(zip(names, np.split(z, ends, axis=1), strict=True))


def _check_finite(part: _Gaussian) -> None:
    if not (np.isfinite(part.mean).all() and np.isfinite(part.scale).all()):
        raise ValueError("approx has means or scales that are not finite: the fit has failed")


def _root(covariance: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.cholesky(covariance), np.float64)
    except np.linalg.LinAlgError:
        raise ValueError(
            "approx has a covariance matrix that is not positive definite: it is not a distribution"
        ) from None


def _groups_of(result: Any) -> dict[str, Any]:
    """Return the datasets of an InferenceData or DataTree by the names of their groups."""
    if isinstance(result, xr.DataTree):
        return {name: child.to_dataset() for name, child in result.children.items()}
    return {name: result[name] for name in result.groups()}


def _is_dadvi(optimum: Any) -> bool:
    """Whether an optimum holds each parameter twice: means, and logarithms of sds."""
    if "x" not in optimum or "variables" not in optimum["x"].coords:
        return False
    labels = list(optimum["variables"].values)
    half = len(labels) // 2
    return bool(labels) and labels[:half] == labels[half:]


def _owners(labels: Any) -> tuple[str, ...]:
    """Return the variables that labels such as ``theta[3]`` belong to, in their order."""
    return tuple(dict.fromkeys(str(label).split("[", 1)[0] for label in labels))


def _context() -> Any:
    try:
        return pm.modelcontext(None)
    except TypeError:
        raise TypeError(
            "approx does not hold its model: call this in the model's context, "
            "`with model: vicheck.check(approx)`"
        ) from None
