"""Location-scale sites of NumPyro models: centred, non-centred or anything in between.

A site theta ~ F(loc, scale) is drawn as theta_decentered ~ F(degree loc, scale**degree), and theta
is loc + scale**(1 - degree) (theta_decentered - degree loc): degree 1 is centred, 0 non-centred
(Gorinova, Moore and Hoffman 2020). The posterior is the same in other coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.infer.reparam import LocScaleReparam

from vicheck.adapters.numpyro.dependencies import base_of, look_at
from vicheck.adapters.numpyro.program import NumpyroProgram
from vicheck.errors import ArgumentError
from vicheck.model import Model, double_precision

__all__ = ["location_scale_sites", "with_degrees"]

_SHAPE_NAMES: dict[type, tuple[str, ...]] = {
    dist.Normal: (),
    dist.StudentT: ("df",),
    dist.Cauchy: (),
    dist.Laplace: (),
    dist.SoftLaplace: (),
    dist.AsymmetricLaplace: ("asymmetry",),
    dist.AsymmetricLaplaceQuantile: ("quantile",),
    dist.Logistic: (),
    dist.Gumbel: (),
}
"""Location-scale families on the real line, with the names of their other parameters."""


@dataclass(frozen=True)
class PartlyCentred:
    """A NumPyro function with some of its sites in other coordinates.

    How far each is centred is an argument, called as `degree_of` says.
    """

    function: Callable[..., Any]
    sites: tuple[tuple[str, tuple[str, ...]], ...]
    """Names of the sites, each with the names of its parameters besides loc and scale."""

    def __call__(self, **arguments: Any) -> Any:
        config = {
            site: LocScaleReparam(arguments.pop(degree_of(site)), shape_params)
            for site, shape_params in self.sites
        }
        return handlers.reparam(self.function, config=config)(**arguments)


def degree_of(site: str) -> str:
    """Return what the degree of a site is called among the data: not like any argument."""
    return f"degree of {site}"


def location_scale_sites(model: Model) -> tuple[str, ...]:
    """Return the sites that `with_degrees` can put into other coordinates, and with an effect.

    These are parameters of a location-scale family on the real line whose location or scale
    depends on other parameters. Models of other libraries have none.
    """
    model = original_of(model)
    if not isinstance(model.program, NumpyroProgram):
        return ()
    return tuple(_shape_names_by_site(model))


def with_degrees(model: Model, degrees: Mapping[str, float]) -> Model:
    """Return the same posterior in other coordinates.

    Parameters
    ----------
    model
        From `vicheck.from_numpyro`, or returned by this function: then its degrees are replaced.
    degrees
        For sites among `location_scale_sites`: 1 is centred, 0 non-centred. They are data of the
        new model, so that one compiled density serves them all. Other sites stay as they are.

    Returns
    -------
    Model
        Where it has the parameter ``theta_decentered`` in place of ``theta``, it derives ``theta``,
        and reports are about ``theta``.

    Raises
    ------
    ArgumentError
        For names of other sites, and degrees that are not within 0 and 1.
    """
    model = original_of(model)
    known = location_scale_sites(model)
    for site, degree in degrees.items():
        if site not in known:
            listed = ", ".join(known) or "none"
            raise ArgumentError(
                "degrees", f"has {site!r}, but the model's location-scale sites are: {listed}"
            )
        if not isinstance(degree, Real) or not 0.0 <= float(degree) <= 1.0:
            raise ArgumentError("degrees", f"must lie within 0 and 1, got {degree!r} for {site!r}")
    chosen = tuple(site for site in known if site in degrees)
    if not chosen:
        return model
    program = model.program
    assert isinstance(program, NumpyroProgram)
    shapes = _shape_names_by_site(model)
    function = PartlyCentred(program.function, tuple((site, shapes[site]) for site in chosen))
    data = model.data | {degree_of(site): np.float64(degrees[site]) for site in chosen}
    with double_precision():
        example = program.example(model.data, model.missing)
        moved = replace(
            program,
            function=function,
            stand_ins=tuple((f"{site}_decentered", site) for site in chosen),
        ).with_parameters(data | example)
    return replace(model, program=moved, data=data)


def original_of(model: Model) -> Model:
    """Return the model that `with_degrees` was given, or the model itself."""
    program = model.program
    if not isinstance(program, NumpyroProgram) or not isinstance(program.function, PartlyCentred):
        return model
    ours = {degree_of(site) for site, _ in program.function.sites}
    data = {name: value for name, value in model.data.items() if name not in ours}
    with double_precision():
        example = program.example(model.data, model.missing)
        back = replace(program, function=program.function.function, stand_ins=()).with_parameters(
            {name: value for name, value in example.items() if name not in ours}
        )
    return replace(model, program=back, data=data)


def _shape_names_by_site(model: Model) -> dict[str, tuple[str, ...]]:
    program = model.program
    assert isinstance(program, NumpyroProgram)
    with double_precision():
        example = program.example(model.data, model.missing)
        look = look_at(program.function, dict(program.fixed), example)
    return {
        name: _SHAPE_NAMES[type(base_of(site["fn"]))]
        for name, site in look.sites.items()
        if not site["is_observed"]
        and type(base_of(site["fn"])) in _SHAPE_NAMES
        and look.sources(name, "place")[0]
    }
