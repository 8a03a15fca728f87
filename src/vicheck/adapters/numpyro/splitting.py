"""How a NumPyro model is split into a prior and a sum over rows, or why it cannot be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr
from numpyro import handlers
from numpyro.primitives import Messenger

from vicheck.adapters.numpyro.by_rows import RowModel
from vicheck.adapters.numpyro.dependencies import look_at
from vicheck.adapters.numpyro.models import from_numpyro
from vicheck.adapters.numpyro.parameters import find_parameters
from vicheck.adapters.numpyro.program import NumpyroProgram
from vicheck.adapters.numpyro.traces import sites_at_zero, tracing
from vicheck.errors import ModelError
from vicheck.model import Data

__all__ = ["NUM_ROWS", "split_by_rows"]

NUM_ROWS = 5
"""Rows that a model is looked at with: two of them, the other three, and all."""
_CLOSE = 1e-8
"""Relative difference up to which two ways to add up the same numbers agree."""


def split_by_rows(
    function: Callable[..., Any], shared: Mapping[str, Any], rows: Data
) -> tuple[RowModel, Data]:
    """Return a model that can be evaluated in parts, and the data that all parts share.

    Parameters
    ----------
    function
        The function with ``numpyro.sample`` statements, for any number of rows.
    shared
        Its arguments that do not have rows.
    rows
        Its other arguments, with `NUM_ROWS` rows.

    Raises
    ------
    ModelError
        Where prior and rows cannot be told apart, or the log likelihood is no sum over rows.
    """
    two, three = ({k: v[some] for k, v in rows.items()} for some in (slice(2), slice(2, NUM_ROWS)))
    _refuse_subsampling(function, dict(shared), two)
    model = from_numpyro(function, **shared, **two)
    program = model.program
    assert isinstance(program, NumpyroProgram)
    if model.missing:
        raise ModelError(
            f"shards have no {', '.join(model.missing)}, which the model observes",
            hint="give it in each shard; what all shards share is given by name",
        )
    common = {name: value for name, value in model.data.items() if name not in rows}
    _refuse_parameters_of_rows(program, common | two, common | three)
    program.check_data(common | three)
    names = _sites_of_rows(program, common, two, three)
    draft = RowModel(program, tuple((name, None) for name in names), ())
    z = np.random.default_rng(0).uniform(-0.5, 0.5, program.dim)
    looks = [_look(draft, z, common | some) for some in (two, three, rows)]
    _refuse_priors(*looks)
    axes = {
        name: _axis(*(look.densities[name].shape for look in looks[:2]))  # filled up along these
        for name in names
    }
    for name, axis in axes.items():
        _refuse_other_sums(name, axis, *(look.densities[name] for look in looks))
    return RowModel(program, tuple(axes.items()), _derived(draft, common, two, z, *looks)), common


class _Look(NamedTuple):
    """What a model computes from some rows, at one point."""

    prior: float
    densities: dict[str, Any]
    """Log densities of the sites of rows."""
    derived: dict[str, Any]


def _look(model: RowModel, z: Any, data: Data) -> _Look:
    def run(z: jax.Array, data: Data) -> tuple[Any, Any, Any]:
        return model.prior(z, data), model.densities(z, data), model.program.constrain(z, data)

    prior, densities, values = jax.device_get(jax.jit(run)(z, data))
    latent = dict(model.program.layout)
    derived = {name: value for name, value in values.items() if name not in latent}
    return _Look(float(prior), densities, derived)


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
                hint="give the plate only the number of rows of the data",
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


def _refuse_parameters_of_rows(program: NumpyroProgram, two: Data, three: Data) -> None:
    shapes, others = (
        dict(
            find_parameters(sites_at_zero(program.function, dict(program.fixed), each)).constrained
        )
        for each in (two, three)
    )
    for name, shape in shapes.items():
        if others.get(name) != shape:
            raise ModelError(
                f"parameter {name!r} has an entry for each row of the data (shape {shape} with 2 "
                f"rows, {others.get(name)} with 3), so the rows cannot be looked at in parts",
                hint="marginalise it out",
            )


def _sites_of_rows(program: NumpyroProgram, common: Data, two: Data, three: Data) -> list[str]:
    """Return the observed sites that have anything to do with the rows."""
    look, other = (
        look_at(program.function, dict(program.fixed), common | some) for some in (two, three)
    )
    names = []
    for name, site in look.sites.items():
        kinds = ("value", "law", "density") if site["is_observed"] else ("law",)
        arguments = [path[0] for path in look.sources(name, *kinds)[1] if path[0] in two]
        if arguments and not site["is_observed"]:
            raise ModelError(
                f"the prior of {name!r} depends on {arguments[0]!r}, of which each shard has a "
                "part",
                hint="compute what the prior needs beforehand, and give it by name",
            )
        grows = jnp.shape(site["value"]) != jnp.shape(other.sites[name]["value"])
        if site["is_observed"] and (arguments or grows):
            names.append(name)
    if not names:
        raise ModelError("no site of the model observes anything that the shards hold")
    return names


def _refuse_priors(two: _Look, three: _Look, _: _Look) -> None:
    if not _agree(two.prior, three.prior):
        raise ModelError(
            "the prior depends on the number of rows, of which each shard has a part",
            hint="give the number of all rows by name",
        )


def _refuse_other_sums(name: str, axis: int | None, two: Any, three: Any, whole: Any) -> None:
    """Refuse a likelihood of which parts of the data do not add up to the whole.

    Where there is an axis over rows, each entry has to be that of its row alone: to leave out rows
    would change others.
    """
    if axis is None:
        together, whole = np.sum(two) + np.sum(three), np.sum(whole)
    else:
        together = np.concatenate([two, three], axis)
    if not _agree(together, whole):
        raise ModelError(
            f"the log density of site {name!r} is not a sum over rows: of {NUM_ROWS} rows it is "
            f"{np.sum(whole):.6g}, and with two parts of them one at a time "
            f"{'other numbers' if axis is not None else f'{together:.6g} together'}",
            hint="what needs all rows, such as their mean, is computed beforehand and given by "
            "name",
        )


def _agree(one: Any, other: Any) -> bool:
    """Whether numbers are the same; what is not finite says nothing."""
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape:
        return False
    known = np.isfinite(one) & np.isfinite(other)
    one, other = one[known], other[known]
    return bool((np.abs(one - other) <= _CLOSE * np.maximum(1.0, np.abs(other))).all())


def _axis(two: tuple[int, ...], three: tuple[int, ...]) -> int | None:
    """Return the axis over rows of an array that has two, and one that has three of them."""
    if len(two) != len(three):
        return None
    differ = [axis for axis, sizes in enumerate(zip(two, three, strict=True)) if len({*sizes}) > 1]
    return differ[0] if len(differ) == 1 and two[differ[0]] == 2 else None


def _derived(
    model: RowModel, common: Data, rows: Data, z: Any, two: _Look, three: _Look, _: _Look
) -> tuple[str, ...]:
    """Return what the model derives from parameters without a look at the rows."""
    names = list(two.derived)

    def run(rows: Data) -> list[Any]:
        values = model.program.constrain(jnp.asarray(z), common | rows)
        return [values[name] for name in names]

    code = jax.make_jaxpr(run)(rows).jaxpr
    return tuple(
        name
        for name in names
        if np.array_equal(two.derived[name], three.derived[name])
        and not any(dce_jaxpr(code, [each == name for each in names])[1])
    )
