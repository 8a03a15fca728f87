"""A NumPyro model as a prior and a sum over rows of data: what can be evaluated in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr
from numpy.typing import NDArray
from numpyro import handlers
from numpyro.infer.util import potential_energy
from numpyro.primitives import Messenger

from vicheck.adapters.numpyro.dependencies import look_at
from vicheck.adapters.numpyro.models import from_numpyro
from vicheck.adapters.numpyro.parameters import find_parameters
from vicheck.adapters.numpyro.program import NumpyroProgram
from vicheck.adapters.numpyro.traces import WholePlates, sites_at_zero, tracing
from vicheck.errors import ModelError
from vicheck.model import Data, unravel
from vicheck.runtime.compiling import Traced, compiled

__all__ = ["RowModel", "priors", "row_model", "sums_over_rows"]

Floats = NDArray[np.float64]
Rows = Mapping[str, NDArray[Any]]

_FEW, _MANY = 4, 32
"""Points that compiled code evaluates together."""
_CLOSE = 1e-8
"""Relative difference up to which two ways to add up the same numbers agree."""


@dataclass(frozen=True)
class RowModel(Traced):
    """A model whose log density is a prior and a sum over rows, with everything but its arrays."""

    program: NumpyroProgram
    likelihood: tuple[tuple[str, int | None], ...]
    """Sites that are summed over rows, and the axis of their log densities that is over rows."""
    derived: tuple[str, ...]
    """Quantities that the model derives from its parameters alone."""

    @property
    def dim(self) -> int:
        """Length of z: how large the model is."""
        return self.program.dim

    @property
    def can_fill(self) -> bool:
        """Whether rows can be left out of the sum, so that blocks of rows can be filled up."""
        return all(axis is not None for _, axis in self.likelihood)

    def traces(self, use: str, data: Data) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        z = jax.ShapeDtypeStruct((self.dim,), np.float64)  # type: ignore[no-untyped-call]
        return getattr(self, use), (z, data)

    def prior(self, z: jax.Array, data: Data) -> jax.Array:
        """Log density of all that does not belong to the rows, Jacobians included."""
        function = handlers.block(
            WholePlates(self.program.function), hide=[name for name, _ in self.likelihood]
        )
        parts = unravel(z, self.program.layout)
        with tracing():
            return -potential_energy(function, (), self.program.arguments(data), parts)

    def rows(self, z: jax.Array, data: Data) -> jax.Array:
        """Log likelihood of rows: of the first ``count``, where blocks can be filled up."""
        arrays = {**data["shared"], **data["rows"]}
        total = jnp.zeros(())
        densities = self.densities(z, arrays)
        for name, axis in self.likelihood:
            each = densities[name]
            if axis is not None:
                each = jnp.moveaxis(each, axis, -1)
                each = jnp.where(jnp.arange(each.shape[-1]) < data["count"], each, 0.0)
            total += jnp.sum(each)
        return total

    def densities(self, z: jax.Array, arrays: Data) -> dict[str, jax.Array]:
        """Return the log densities of each site that belongs to the rows."""
        theta = self.program.constrain(z, arrays)
        known = {name: theta[name] for name, _ in self.program.layout}
        function = handlers.substitute(WholePlates(self.program.function), data=known)
        with tracing():
            sites = handlers.trace(function).get_trace(**self.program.arguments(arrays))
        found = {}
        for name, _ in self.likelihood:
            site = sites[name]
            each = jnp.asarray(site["fn"].log_prob(site["value"]))
            found[name] = each if site["scale"] is None else site["scale"] * each
        return found


@compiled("prior")
def _priors(model: RowModel, z: Any, data: Data) -> tuple[jax.Array, jax.Array]:
    return jax.vmap(jax.value_and_grad(model.prior), (0, None))(z, data)


@compiled("rows")
def _values(model: RowModel, z: Any, data: Data) -> tuple[jax.Array]:
    return (jax.vmap(model.rows, (0, None))(z, data),)


@compiled("rows")
def _values_and_gradients(model: RowModel, z: Any, data: Data) -> tuple[jax.Array, jax.Array]:
    return jax.vmap(jax.value_and_grad(model.rows), (0, None))(z, data)


def priors(model: RowModel, z: Floats, data: Data) -> tuple[Floats, Floats]:
    """Return the log density of the prior at points z, shape ``(n, d)``, and its gradients."""
    values, gradients = _at_points(_priors, model, z, data)
    return values, gradients


def sums_over_rows(
    model: RowModel, z: Floats, shared: Data, rows: Rows, count: int, *, gradients: bool
) -> tuple[Floats, ...]:
    """Return the log likelihood of a block of rows at points z, shape ``(n, d)``.

    Parameters
    ----------
    model
        The model; one that is traced once, where there are many blocks.
    z
        The points.
    shared, rows
        The data, in the types that are computed with.
    count
        How many of the rows count.
    gradients
        Whether gradients are wanted too.

    Returns
    -------
    tuple
        Values, shape ``(n,)``, and gradients, shape ``(n, d)``, where they are wanted.
    """
    data = jax.device_put({"rows": dict(rows), "shared": shared, "count": np.int64(count)})
    return _at_points(_values_and_gradients if gradients else _values, model, z, data)


def _at_points(evaluate: Any, model: RowModel, z: Floats, data: Any) -> tuple[Floats, ...]:
    """Evaluate points a few or many at a time, for which code is compiled."""
    outputs, start = [], 0
    while start < len(z):
        size = _MANY if len(z) - start > _MANY // 2 else _FEW
        points = z[np.minimum(np.arange(start, start + size), len(z) - 1)]
        outputs.append(evaluate(model, points, data))  # which returns before the numbers are there
        start += size
    return tuple(
        np.concatenate([np.asarray(part) for part in parts])[: len(z)]
        for parts in zip(*outputs, strict=True)
    )


def row_model(
    function: Callable[..., Any], shared: Mapping[str, Any], rows: Callable[[int], Data]
) -> tuple[RowModel, Data]:
    """Return a model that can be evaluated in parts, and the data that all parts share.

    Parameters
    ----------
    function
        The function with ``numpyro.sample`` statements, for any number of rows.
    shared
        Its arguments that do not have rows.
    rows
        Returns its other arguments with so many rows.

    Raises
    ------
    ModelError
        Where prior and rows cannot be told apart, or the log likelihood is no sum over rows.
    """
    two, three, five = rows(2), rows(3), rows(5)
    _refuse_subsampling(function, dict(shared), two)
    model = from_numpyro(function, **shared, **two)
    program = model.program
    assert isinstance(program, NumpyroProgram)
    if model.missing:
        raise ModelError(
            f"shards have no {', '.join(model.missing)}, which the model observes",
            hint="give it in each shard; what all shards share is given by name",
        )
    common = {name: value for name, value in model.data.items() if name not in two}
    sites = [sites_at_zero(function, dict(program.fixed), common | some) for some in (two, three)]
    _refuse_rows_of_parameters(*(find_parameters(each).constrained for each in sites))
    program.check_data(common | three)
    names = _sites_of_rows(program, common, two, three)
    model_of_rows = RowModel(program, tuple((name, None) for name in names), ())
    z = jnp.asarray(np.random.default_rng(0).uniform(-0.5, 0.5, program.dim))
    shapes = [
        {name: np.shape(each) for name, each in model_of_rows.densities(z, common | some).items()}
        for some in (two, three)
    ]
    axes = tuple((name, _axis(shapes[0][name], shapes[1][name])) for name in names)
    derived = _derived(program, common, two, three, z)
    found = RowModel(program, axes, derived)
    _refuse_priors(found, common, two, three, z)
    _refuse_other_sums(found, common, five, z)
    return found, common


class _NoSubsampling(Messenger):  # type: ignore[misc]
    """Refuse plates that see a part of the data."""

    def process_message(self, msg: Any) -> None:
        if msg["type"] != "plate":
            return
        size, asked = msg["args"]
        if asked not in (None, size):
            raise ModelError(
                f"plate {msg['name']!r} has a subsample_size, but the rows of a shard are all "
                "there",
                hint="give the plate the number of rows of the data alone",
            )


def _refuse_subsampling(function: Callable[..., Any], shared: Data, rows: Data) -> None:
    def run(key: jax.Array, rows: Data) -> None:
        handlers.seed(_NoSubsampling(function), key)(**shared, **rows)

    try:
        with tracing():
            jax.eval_shape(run, jax.random.key(0), rows)
    except ModelError:
        raise
    except Exception:  # whatever else is wrong is said better elsewhere
        return


def _refuse_rows_of_parameters(two: Any, three: Any) -> None:
    others = dict(three)
    for name, shape in two:
        if others.get(name) != shape:
            raise ModelError(
                f"parameter {name!r} has an entry for each row of the data (shape {shape} with 2 "
                f"rows, {others.get(name)} with 3), so the rows cannot be looked at in parts",
                hint="marginalise it out, or put its group into an argument that all shards share",
            )


def _sites_of_rows(program: NumpyroProgram, common: Data, two: Data, three: Data) -> list[str]:
    """Return the observed sites that have anything to do with the rows."""
    look = look_at(program.function, dict(program.fixed), common | two)
    other = look_at(program.function, dict(program.fixed), common | three)
    names = []
    for name, site in look.sites.items():
        kinds = ("value", "law", "density") if site["is_observed"] else ("law",)
        _, paths = look.sources(name, *kinds)
        of_rows = any(path[0] in two for path in paths)
        if of_rows and not site["is_observed"]:
            raise ModelError(
                f"the prior of {name!r} depends on {paths[0][0]!r}, of which each shard has a part",
                hint="compute what the prior needs beforehand, and give it by name",
            )
        grows = jnp.shape(site["value"]) != jnp.shape(other.sites[name]["value"])
        if site["is_observed"] and (of_rows or grows):
            names.append(name)
    if not names:
        raise ModelError("no site of the model observes anything that shards have")
    return names


def _axis(two: tuple[int, ...], three: tuple[int, ...]) -> int | None:
    """Return the axis over rows of an array that has two, and one that has three of them."""
    if len(two) != len(three):
        return None
    differ = [axis for axis, sizes in enumerate(zip(two, three, strict=True)) if len({*sizes}) > 1]
    return differ[0] if len(differ) == 1 and two[differ[0]] == 2 else None


def _derived(
    program: NumpyroProgram, common: Data, two: Data, three: Data, z: jax.Array
) -> tuple[str, ...]:
    """Return what the model derives from parameters without a look at the rows."""
    latent = {name for name, _ in program.layout}
    names: list[str] = []

    def run(rows: Data) -> list[Any]:
        values = program.constrain(z, common | rows)
        names[:] = [name for name in values if name not in latent]
        return [values[name] for name in names]

    code = jax.make_jaxpr(run)(two).jaxpr
    kept = []
    for place, (name, first, second) in enumerate(zip(names, run(two), run(three), strict=True)):
        used = dce_jaxpr(code, [each == place for each in range(len(names))])[1]
        if not any(used) and np.array_equal(first, second):
            kept.append(name)
    return tuple(kept)


def _refuse_priors(model: RowModel, common: Data, two: Data, three: Data, z: jax.Array) -> None:
    first, second = (float(model.prior(z, common | some)) for some in (two, three))
    if not _agree(first, second):
        raise ModelError(
            "the prior depends on the number of rows, of which each shard has a part",
            hint="give the number of all rows by name",
        )


def _refuse_other_sums(model: RowModel, common: Data, five: Data, z: jax.Array) -> None:
    """Refuse a likelihood of which parts of the data do not add up to the whole."""
    whole, first, last = (
        {
            name: float(jnp.sum(each))
            for name, each in model.densities(
                z, common | {name: array[some] for name, array in five.items()}
            ).items()
        }
        for some in (slice(5), slice(2), slice(2, 5))
    )
    for name, value in whole.items():
        if not _agree(value, first[name] + last[name]):
            raise ModelError(
                f"the log density of site {name!r} is not a sum over rows: of 5 rows it is "
                f"{value:.6g}, and of 2 and 3 of them {first[name] + last[name]:.6g} together",
                hint="what needs all rows, such as their mean, is computed beforehand and given "
                "by name",
            )


def _agree(one: float, other: float) -> bool:
    """Whether two numbers are the same; what is not finite says nothing."""
    if not (np.isfinite(one) and np.isfinite(other)):
        return True
    return abs(one - other) <= _CLOSE * max(1.0, abs(one), abs(other))
