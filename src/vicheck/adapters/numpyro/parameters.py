"""The parameters of a NumPyro model: names, shapes and constraints, read from a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from numpyro.distributions import biject_to, constraints
from numpyro.distributions.transforms import IndependentTransform

from vicheck.errors import ModelError
from vicheck.model import Layout

__all__ = ["Parameters", "find_parameters", "unconstrained_shape"]

_BOUNDED_ABOVE = (type(constraints.less_than(0.0)), type(constraints.less_than_eq(0.0)))
_INDEPENDENT = type(constraints.independent(constraints.real, 1))
_HINT_DISCRETE = "marginalise it out, for example with dist.MixtureSameFamily"


class Parameters(NamedTuple):
    """What `NumpyroProgram` has to know about its parameters, by the names of its fields."""

    layout: Layout
    constrained: Layout
    subsampled: tuple[str, ...]
    joint: tuple[str, ...]
    decreasing: tuple[str, ...]


def find_parameters(sites: Mapping[str, Any]) -> Parameters:
    """Return the parameters among the sites of a trace.

    Raises
    ------
    ModelError
        For discrete latent variables, ``numpyro.param`` sites, latent variables in subsampled
        plates, and models without parameters.
    """
    subsampled = tuple(
        name
        for name, site in sites.items()
        if site["type"] == "plate" and site["infer"]["subsampled"]
    )
    latent = {}
    for name, site in sites.items():
        if site["type"] == "param":
            raise ModelError(
                f"site {name!r} is a numpyro.param, which has no prior density",
                hint="make it a numpyro.sample, or fix its value",
            )
        if site["type"] == "sample" and not site["is_observed"]:
            _refuse_latent(name, site, subsampled)
            latent[name] = site
    if not latent:
        raise ModelError("the model has no parameters: every site is observed")
    supports = {name: site["fn"].support for name, site in latent.items()}
    return Parameters(
        layout=tuple((name, unconstrained_shape(site)) for name, site in latent.items()),
        constrained=tuple((name, tuple(site["fn"].shape())) for name, site in latent.items()),
        subsampled=subsampled,
        joint=tuple(
            name
            for name, support in supports.items()
            if _base(biject_to(support)).codomain.event_dim
        ),
        decreasing=tuple(
            name
            for name, support in supports.items()
            if isinstance(_base_constraint(support), _BOUNDED_ABOVE)
        ),
    )


def unconstrained_shape(site: Any) -> tuple[int, ...]:
    """Return the shape that a parameter has on the unconstrained scale."""
    return tuple(biject_to(site["fn"].support).inverse_shape(site["fn"].shape()))


def _refuse_latent(name: str, site: Any, subsampled: tuple[str, ...]) -> None:
    if site["fn"].support.is_discrete:
        raise ModelError(f"site {name!r} is a discrete latent variable", hint=_HINT_DISCRETE)
    if any(frame.name in subsampled for frame in site["cond_indep_stack"]):
        raise ModelError(f"site {name!r} is a latent variable in a subsampled plate")


def _base(transform: Any) -> Any:
    """Return the transform of single entries inside one of independent entries."""
    while isinstance(transform, IndependentTransform):
        transform = transform.base_transform
    return transform


def _base_constraint(constraint: Any) -> Any:
    """Return the constraint of single entries inside one of independent entries."""
    while isinstance(constraint, _INDEPENDENT):
        constraint = constraint.base_constraint
    return constraint
