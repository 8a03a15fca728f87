"""Location-scale sites of NumPyro models: centred, non-centred or anything in between.

A site theta ~ F(loc, scale) is drawn as theta_decentered ~ F(degree loc, scale**degree), and theta
is loc + scale**(1 - degree) (theta_decentered - degree loc): degree 1 is centred, 0 non-centred.
The posterior is the same in other coordinates, and the degree with which a family fits it best is
learned with the ELBO (Gorinova, Moore and Hoffman 2020).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpyro import handlers
from numpyro.infer.reparam import LocScaleReparam

from vicheck.adapters.numpyro.dependencies import look_at
from vicheck.adapters.numpyro.location_scale import other_parameters
from vicheck.adapters.numpyro.program import NumpyroProgram
from vicheck.errors import ArgumentError, require_count
from vicheck.model import Data, Model, double_precision
from vicheck.results.fit import Fit
from vicheck.runtime.interrupts import between_pieces, presses
from vicheck.runtime.seeds import Seed, as_seed
from vicheck.vi.fitting import fit
from vicheck.vi.tuning import Trial, Tuning

__all__ = ["Reparametrised", "code_for", "learn_degrees", "location_scale_sites", "with_degrees"]

Sites = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of sites, each with the names of its parameters besides loc and scale."""


@dataclass(frozen=True, eq=False)
class Reparametrised:
    """A model in the coordinates that suit a family best, and the fit to it."""

    model: Model
    """The model in the new coordinates; the original if these gain nothing."""
    fit: Fit
    degrees: dict[str, float]
    """Degree of each location-scale site, with two digits: 1 is centred, 0 non-centred."""
    code: str
    """Lines of Python that do the same to the model's function; empty if nothing changes."""
    num_evaluations: int
    """Evaluations of the log density in all fits."""
    trials: tuple[Trial, ...]
    """Degrees that were tried, in the order of ``degrees``, with their ELBOs."""


def location_scale_sites(model: Model) -> tuple[str, ...]:
    """Return the sites that `with_degrees` can put into other coordinates to some effect.

    These are parameters of a location-scale family on the real line whose location or scale
    depends on other parameters. Models of other libraries have none, and those of a model
    that `with_degrees` has returned are those of the original.
    """
    return tuple(name for name, _ in _sites_of(_original(model)))


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
    model = _original(model)
    known = _sites_of(model)
    _require_degrees(degrees, [name for name, _ in known])
    sites = tuple(each for each in known if each[0] in degrees)
    if not sites:
        return model
    program = model.program
    assert isinstance(program, NumpyroProgram)
    ours = {_degree_of(name): np.float64(degrees[name]) for name, _ in sites}
    with double_precision():
        moved = replace(
            program,
            function=_PartlyCentred(program, sites),
            stand_ins=tuple((f"{name}_decentered", name) for name, _ in sites),
        ).with_parameters(_filled(model) | ours)
    return replace(model, program=moved, data=model.data | ours)


@between_pieces()
def learn_degrees(
    model: Model,
    *,
    family: str = "mean_field",
    rank: int | None = None,
    seed: Seed = 0,
    max_fits: int = 40,
) -> Reparametrised:
    """Find the degrees of a model's location-scale sites with which a family fits it best.

    These are the degrees with the highest ELBO, to within 0.01 nats. The search starts from the
    best of centred, non-centred and half-way, and follows the slopes of the ELBO; a site stays
    centred if nothing else gains anything.

    Parameters
    ----------
    model
        The model, from `vicheck.from_numpyro`.
    family, rank, seed
        As in `vicheck.fit`.
    max_fits
        Fits that the search may take, not counting the last, which also searches for other modes.

    Returns
    -------
    Reparametrised
        The model that has been chosen, its fit with the usual settings, and lines of code.
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
    require_count("max_fits", max_fits)
    model.require_data()
    original = _original(model)
    options: dict[str, Any] = {"family": family, "rank": rank, "seed": as_seed(seed)}
    sites = location_scale_sites(original)
    if not sites:
        fitted = fit(original, **options)
        return Reparametrised(original, fitted, {}, "", fitted.solution.num_evaluations, ())
    centred = with_degrees(original, dict.fromkeys(sites, 1.0))
    search = Tuning(centred, tuple(map(_degree_of, sites)), max_fits=max_fits, **options)
    best = search.run()
    degrees = dict(zip(sites, best.values, strict=True))
    code = code_for(original, degrees)
    chosen = with_degrees(original, degrees) if code else original
    num_evaluations = search.num_evaluations
    if presses() and best.fit is not None:
        fitted, chosen = best.fit, best.fit.model
    else:
        fitted = fit(chosen, **options)
        num_evaluations += fitted.solution.num_evaluations
    return Reparametrised(chosen, fitted, degrees, code, num_evaluations, tuple(search.trials))


def code_for(model: Model, degrees: Mapping[str, float]) -> str:
    """Return lines of Python that do to a model's function what `with_degrees` does to the model.

    They use only NumPyro, and call the result ``reparametrised``. Degrees are written with
    two digits; sites of degree 1 need no line, and without any others the code is empty.
    """
    model = _original(model)
    others = dict(_sites_of(model))
    _require_degrees(degrees, list(others))
    rounded = {name: round(float(degree), 2) for name, degree in degrees.items()}
    config = ", ".join(
        f"{json.dumps(name, ensure_ascii=False)}: LocScaleReparam({degree:g}"
        + (f", shape_params={others[name]!r})" if others[name] else ")")
        for name, degree in rounded.items()
        if degree < 1.0
    )
    if not config:
        return ""
    function = getattr(getattr(model.program, "function", None), "__name__", "")
    return (
        "import numpyro\n"
        "from numpyro.infer.reparam import LocScaleReparam\n"
        f"config = {{{config}}}\n"
        "reparametrised = numpyro.handlers.reparam("
        f"{function if function.isidentifier() else 'model_fn'}, config=config)"
    )


@dataclass(frozen=True)
class _PartlyCentred:
    """The function of a program with some of its sites in other coordinates.

    How far each is centred is an argument, called as `_degree_of` says.
    """

    program: NumpyroProgram
    sites: Sites

    def __call__(self, **arguments: Any) -> Any:
        config = {
            name: LocScaleReparam(arguments.pop(_degree_of(name)), others)
            for name, others in self.sites
        }
        return handlers.reparam(self.program.function, config=config)(**arguments)


def _degree_of(site: str) -> str:
    """Return what the degree of a site is called among the data: as no argument of a function."""
    return f"degree of {site}"


def _original(model: Model) -> Model:
    """Return the model that `with_degrees` was given, or the model itself."""
    function = getattr(model.program, "function", None)
    if not isinstance(function, _PartlyCentred):
        return model
    ours = {_degree_of(name) for name, _ in function.sites}
    data = {name: value for name, value in model.data.items() if name not in ours}
    return replace(model, program=function.program, data=data)


def _filled(model: Model) -> Data:
    """Return data of the right shapes, with zeros for what is observed if some of it is missing."""
    return model.program.without_observations(model.data) if model.missing else model.data


def _sites_of(model: Model) -> Sites:
    """Return the sites that other coordinates are possible and useful for."""
    program = model.program
    if not isinstance(program, NumpyroProgram):
        return ()
    with double_precision():
        look = look_at(program.function, dict(program.fixed), _filled(model))
    sites = []
    for name, site in look.sites.items():
        others = other_parameters(site["fn"])
        if site["is_observed"] or others is None or not look.sources(name, "loc and scale")[0]:
            continue
        # What NumPyro's handler cannot do: loops, and draws of more than one value.
        possible = not site.get("_control_flow_done") and not site["kwargs"].get("sample_shape")
        if possible and f"{name}_decentered" not in look.sites:
            sites.append((name, others))
    return tuple(sites)


def _require_degrees(degrees: Mapping[str, float], known: list[str]) -> None:
    for name, degree in degrees.items():
        if name not in known:
            listed = ", ".join(known) or "none"
            raise ArgumentError(
                "degrees", f"has {name!r}, but the model's location-scale sites are: {listed}"
            )
        if not isinstance(degree, Real) or not 0.0 <= float(degree) <= 1.0:
            raise ArgumentError("degrees", f"must lie within 0 and 1, got {degree!r} for {name!r}")
