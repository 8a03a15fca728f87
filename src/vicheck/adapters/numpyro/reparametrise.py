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
from vicheck.errors import ArgumentError, require_count
from vicheck.model import Model, double_precision
from vicheck.results.fit import Fit
from vicheck.results.status import FitStatus
from vicheck.runtime.interrupts import between_pieces, presses
from vicheck.vi.fitting import fit
from vicheck.vi.tuning import Trial, Tuning

__all__ = ["Reparametrised", "learn_degrees", "location_scale_sites", "with_degrees"]

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


_STARTS = (1.0, 0.0, 0.5)
"""Where the search for degrees starts: the model as it is, if another is not better."""


@dataclass(frozen=True, eq=False)
class Reparametrised:
    """A model in the coordinates that suit a family best, and the fit to it."""

    model: Model
    """In the new coordinates; the model that was given where these gain nothing."""
    fit: Fit
    degrees: dict[str, float]
    """Of each location-scale site, with two digits: 1 is centred, 0 non-centred."""
    code: str
    """Lines of Python that do the same to the model's function; empty where nothing changes."""
    num_evaluations: int
    """Of the log density, in all fits."""
    trials: tuple[Trial, ...]
    """Degrees that were tried, in the order of ``degrees``, with their ELBOs."""


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


@between_pieces()
def learn_degrees(
    model: Model,
    *,
    family: str = "mean_field",
    rank: int | None = None,
    seed: int = 0,
    max_fits: int = 40,
) -> Reparametrised:
    """Find the degrees of a model's location-scale sites with which a family fits it best.

    That is: with the highest ELBO, up to 0.01 nats. The search starts from the best of centred,
    non-centred and half-way, and follows the slopes of the ELBO; a site stays centred where
    anything else gains nothing.

    Parameters
    ----------
    model
        The model, from `vicheck.from_numpyro`.
    family, rank, seed
        As in `vicheck.fit`.
    max_fits
        Fits that the search may take; the last one, with the search for other modes, comes on top.

    Returns
    -------
    Reparametrised
        The model that has been chosen, its fit with all usual settings, and lines of code.
        Interrupted (Ctrl-C), the best so far. A model without such sites is only fitted.

    Examples
    --------
    >>> from vicheck.adapters.numpyro.reparametrise import learn_degrees
    >>> from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred
    >>> model = vicheck.from_numpyro(eight_schools_centred, **EIGHT_SCHOOLS)
    >>> better = learn_degrees(model)
    >>> better.degrees["theta"] < 0.1
    True
    """
    require_count("max_fits", max_fits, len(_STARTS))
    model.require_data()
    sites = location_scale_sites(model)
    options: dict[str, Any] = {"family": family, "rank": rank, "seed": seed}
    if not sites:
        fitted = fit(model, **options)
        return Reparametrised(model, fitted, {}, "", fitted.solution.num_evaluations, ())
    original = original_of(model)
    moved = with_degrees(original, dict.fromkeys(sites, 1.0))
    search = Tuning(moved, tuple(map(degree_of, sites)), max_fits=max_fits, **options)
    best = search.run(_STARTS)
    degrees = dict(zip(sites, best.values, strict=True))
    changed = {site: degree for site, degree in degrees.items() if degree < 1.0}
    chosen = with_degrees(original, degrees) if changed else original
    fitted, num_evaluations = best.fit, search.num_evaluations
    if fitted is None or not presses():
        fitted = fit(chosen, **options)
        num_evaluations += fitted.solution.num_evaluations
    code = _code(original, changed)
    return Reparametrised(chosen, fitted, degrees, code, num_evaluations, tuple(search.trials))


def _code(model: Model, degrees: Mapping[str, float]) -> str:
    """Return lines that make the model's function partly centred by NumPyro's own means."""
    if not degrees:
        return ""
    program = model.program
    assert isinstance(program, NumpyroProgram)
    name = getattr(program.function, "__name__", "")
    shapes = _shape_names_by_site(model)
    config = ", ".join(
        f"{site!r}: LocScaleReparam({degree:g}{_written_shape_names(shapes[site])})"
        for site, degree in degrees.items()
    )
    return (
        "import numpyro\n"
        "from numpyro.infer.reparam import LocScaleReparam\n"
        f"config = {{{config}}}\n"
        f"reparametrised = numpyro.handlers.reparam({name if name.isidentifier() else 'model_fn'}, "
        "config=config)"
    )


def _written_shape_names(names: tuple[str, ...]) -> str:
    return f", shape_params={names!r}" if names else ""


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
        and not site.get("_control_flow_done", False)  # NumPyro cannot do it within a loop
        and type(base_of(site["fn"])) in _SHAPE_NAMES
        and look.sources(name, "place")[0]
    }
