"""Which arguments of a NumPyro function are observed, found from what reaches ``obs=``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from vicheck.adapters.numpyro.dependencies import Look, Path, look_at, put
from vicheck.adapters.numpyro.refusals import (
    Refusal,
    Target,
    refuse_doubts,
    refuse_names,
    refuse_priors,
    refuse_redrawing,
    refuse_what_stays,
)
from vicheck.errors import ModelError
from vicheck.model import Data

__all__ = ["Chosen", "Wiring", "find_missing", "find_numbers", "find_wiring"]

Chosen = Mapping[str, str | None] | None
"""Arguments that the user has named, with their sites where given; None where nothing is named."""

SitesOf = Callable[[Data], dict[str, Any]]
"""Traces a model with such data at z = 0."""


@dataclass(frozen=True)
class Wiring:
    """What a model observes, and how it is drawn."""

    targets: tuple[Target, ...] = ()
    redraws: bool = False
    """Whether observed sites have to be redrawn; otherwise the model draws what is None."""
    refusal: Refusal | None = None
    """Why a draw would not be one of the model."""


def find_missing(
    function: Callable[..., Any],
    sites_of: SitesOf,
    fixed: Data,
    data: Data,
    absent: tuple[str, ...],
    chosen: Chosen,
) -> Data:
    """Return zeros for arguments without a value that the model would observe, if they had one.

    The model is traced without them, and again with an array for each: what was a parameter and
    is then observed was waiting for data.
    """
    sites = sites_of(data | dict.fromkeys(absent))
    latent = {
        name: site
        for name, site in sites.items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    zeros: Data = {}
    for name in absent:
        given = None if chosen is None else chosen[name]
        site = given or _site_waiting_for(function, fixed, data, absent, name, latent)
        if site is None and chosen is None:
            continue
        if site not in latent:
            raise ModelError(
                f"the model has no site {site or name!r} to draw {name!r} at",
                hint=f"give {name!r}, or say where it goes: observed={{{name!r}: 'site'}}",
            )
        zeros[name] = _zeros(latent[site])
    return zeros


def find_numbers(
    function: Callable[..., Any], sites_of: SitesOf, fixed: Data, data: Data
) -> dict[str, Any]:
    """Return the numbers among the fixed arguments that are observed: they are data too."""
    numbers = {
        name: value
        for name, value in fixed.items()
        if isinstance(value, int | float | np.number) and not isinstance(value, bool)
    }
    if not numbers:
        return {}
    sites = [site for site in sites_of(data).values() if site["type"] == "sample"]
    seen = [site["value"] for site in sites if site["is_observed"]]
    observed: dict[str, Any] = {}
    for name, number in numbers.items():
        if not any(value is number for value in seen):
            continue
        rest = {k: v for k, v in fixed.items() if k not in {name, *observed}}
        try:  # equal numbers may be one object: see where this one goes
            look = look_at(function, rest, data | observed | {name: np.asarray(number)})
        except Exception:  # whatever a function raises that wants a number here
            continue
        if any(look.path_of(site) == (name,) for site in look.observed):
            observed[name] = np.asarray(number)
    return observed


def find_wiring(
    function: Callable[..., Any],
    sites_of: SitesOf,
    fixed: Data,
    data: Data,
    missing: Iterable[str],
    chosen: Chosen,
    parameters: tuple[str, ...],
) -> Wiring:
    """Return what a model observes, and whether and how it can be drawn.

    ``data`` has something for all arguments, ``missing`` names those that have been left out.
    """
    if chosen is not None and not chosen:
        return Wiring(refusal=Refusal("nothing is observed, by observed=()"))
    look = look_at(function, fixed, data)
    where = {site: look.path_of(site) for site in look.observed}
    targets = _targets(where, chosen)
    refusal = (
        refuse_names(look, targets, chosen or ())
        or refuse_what_stays(look, where, targets)
        or refuse_priors(look, targets)
        or (refuse_doubts(look, targets, missing) if chosen is None else None)
    )
    if refusal is not None:
        return Wiring(targets, refusal=refusal)
    if _draws_what_is_none(look, sites_of, data, targets, parameters):
        return Wiring(targets)
    refusal = refuse_redrawing(function, fixed, data, targets)
    return Wiring(targets, redraws=True, refusal=refusal)


def _site_waiting_for(
    function: Callable[..., Any],
    fixed: Data,
    data: Data,
    absent: tuple[str, ...],
    name: str,
    latent: Mapping[str, Any],
) -> str | None:
    """Return the parameter that is observed once an argument has a value."""
    order = sorted(latent, key=lambda site: (site != name, -_size(latent[site])))
    examples = {(z.shape, z.dtype.str): z for z in map(_zeros, (latent[site] for site in order))}
    for example in examples.values():
        try:
            look = look_at(function, fixed, data | dict.fromkeys(absent) | {name: example})
        except Exception:  # whatever a function raises that wants something else here
            continue
        hits = [s for s in look.observed if s in latent and (name,) in look.sources(s, "value")[1]]
        return hits[0] if hits else None
    return None


def _targets(where: Mapping[str, Path | None], chosen: Chosen) -> tuple[Target, ...]:
    """Return where observed arguments go: as the trace shows, or as the user says."""
    named = {} if chosen is None else {name: site for name, site in chosen.items() if site}
    seen = [Target(path, site) for site, path in where.items() if path is not None]
    if chosen is not None:
        seen = [each for each in seen if each.path[0] in chosen and each.path[0] not in named]
    return (*seen, *(Target((name,), site) for name, site in named.items()))


def _draws_what_is_none(
    look: Look,
    sites_of: SitesOf,
    data: Data,
    targets: tuple[Target, ...],
    parameters: tuple[str, ...],
) -> bool:
    """Whether the model itself draws what it observes, in the same shapes, when that is None."""
    for target in targets:
        data = put(data, target.path, None)
    try:
        sites = sites_of(data)
    except ModelError:
        return False
    return all(
        name in sites and jnp.shape(sites[name]["value"]) == jnp.shape(look.sites[name]["value"])
        for name in parameters
    ) and all(
        target.site in sites
        and not sites[target.site]["is_observed"]
        and _shape(sites[target.site]) == jnp.shape(look.sites[target.site]["value"])
        for target in targets
    )


def _zeros(site: Any) -> np.ndarray:
    return np.zeros(_shape(site), np.int64 if site["fn"].support.is_discrete else np.float64)


def _shape(site: Any) -> tuple[int, ...]:
    return (*site["kwargs"].get("sample_shape", ()), *site["fn"].shape())


def _size(site: Any) -> int:
    return int(np.prod(_shape(site)))
