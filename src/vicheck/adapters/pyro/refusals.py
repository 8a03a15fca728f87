"""Models and guides that cannot be checked, and what to note about those that can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.pyro.sites import (
    Site,
    is_delta,
    latent_sites,
    num_unconstrained,
    random_sites,
    support_of,
)
from vicheck.errors import ModelError

__all__ = [
    "check_density",
    "check_names",
    "check_parameters",
    "check_plates",
    "check_shapes",
    "check_was_run",
    "parameter_notes",
    "rounding_note",
    "scale_notes",
]

Floats = NDArray[np.float64]

_LARGEST_ROUNDING = 0.01
"""Nats of rounding in log p - log q above which a note says so."""


def check_was_run(guide: Any) -> None:
    """Refuse an automatic guide that was never run."""
    from pyro.infer.autoguide import AutoGuide, AutoMessenger

    is_new = isinstance(guide, AutoGuide) and guide.prototype_trace is None
    if is_new or (isinstance(guide, AutoMessenger) and not list(guide.parameters())):
        raise ModelError(f"the guide {type(guide).__name__} has never been run: fit it by SVI")


def check_parameters(role: str, program: Any, trace: Any, known: frozenset[str]) -> None:
    """Refuse parameters that the trace has just created: they are not what SVI found."""
    import torch

    if isinstance(program, torch.nn.Module):
        return  # it brings its own
    for name in trace.param_nodes:
        if name not in known and "$$$" not in name:  # so pyro.module names what a module brings
            raise ModelError(
                f"parameter '{name}' of the {role} is not in Pyro's parameter store, so it would "
                "have its initial value: fit by SVI first, or load the store; if the initial "
                f"values are meant, call the {role} once"
            )


def check_plates(role: str, trace: Any) -> None:
    """Refuse plates that take a subsample."""
    from pyro.poutine.util import site_is_subsample

    for name, site in trace.nodes.items():
        if site_is_subsample(site) and len(site["value"]) != site["fn"].size:
            raise ModelError(
                f"plate '{name}' of the {role} takes a subsample of {len(site['value'])} of "
                f"{site['fn'].size}, so the log density is a noisy estimate: run the check on all "
                "data, for example with the subsample_size as an argument that is None here (an "
                "automatic guide with variables in the plate needs it in create_plates too)"
            )


def check_names(guide_sites: Mapping[str, Site], model_sites: Mapping[str, Site]) -> None:
    """Refuse a guide that does not draw exactly the model's latent variables."""
    latent, drawn = latent_sites(model_sites), latent_sites(guide_sites)
    for role, sites in (("model", latent), ("guide", drawn)):
        for name, site in sites.items():
            if getattr(support_of(site), "is_discrete", False):
                raise ModelError(
                    f"site '{name}' of the {role} is a discrete latent variable, which khat cannot "
                    "be computed with: marginalise it out, for example with dist.MixtureSameFamily"
                )
    if not latent:
        raise ModelError("the model has no latent variables: are all sites observed?")
    missing = [name for name in latent if name not in drawn]
    if missing:
        raise ModelError(
            f"the guide does not draw the model's latent site '{missing[0]}': it draws "
            f"{', '.join(drawn) or 'nothing'}"
        )
    for name, site in drawn.items():
        if name not in latent and not site["infer"].get("is_auxiliary"):
            raise ModelError(
                f"the guide draws site '{name}', which is not a latent variable of the model; the "
                f"model has {', '.join(latent)} (a site that only serves to compute others needs "
                "infer={'is_auxiliary': True})"
            )


def check_shapes(guide_sites: Mapping[str, Site], model_sites: Mapping[str, Site]) -> None:
    """Refuse values that the model would broadcast: it would count them more than once."""
    import torch

    for name, site in latent_sites(model_sites).items():
        expected, came = tuple(site["fn"].shape()), tuple(site["value"].shape)
        if expected != came:
            raise ModelError(
                f"site '{name}' has shape {expected} in the model, but the guide draws {came}"
            )
    for name, site in guide_sites.items():
        if not bool(torch.all(torch.as_tensor(site["scale"]) == 1)):
            raise ModelError(
                f"site '{name}' of the guide is scaled by {site['scale']}, so it is not "
                "a density: check model and guide without poutine.scale"
            )


def check_density(guide: Any, guide_sites: Mapping[str, Site], latent: Mapping[str, Site]) -> None:
    """Compare dimensions: as many real numbers must be drawn as the model's variables have."""
    from pyro.poutine.util import site_is_factor

    drawn, needed = num_unconstrained(random_sites(guide_sites)), num_unconstrained(latent)
    has_factors = any(map(site_is_factor, guide_sites.values()))
    if drawn == needed or (has_factors and drawn < needed):
        return  # factors can hold the rest of the density
    if drawn > needed:
        extra = [name for name in random_sites(guide_sites) if name not in latent]
        raise ModelError(
            f"the guide draws {drawn} numbers for {needed} parameters, so the sum of its log "
            "densities is not that of the parameters alone: integrate out the auxiliary "
            f"{', '.join(extra) or 'variables'}"
        )
    if type(guide).__name__ == "AutoLaplaceApproximation":
        raise ModelError(
            "AutoLaplaceApproximation is a point as long as it is being fitted: check what "
            "guide.laplace_approximation(...) returns"
        )
    points = [name for name, site in guide_sites.items() if is_delta(site)]
    raise ModelError(
        f"the guide draws {drawn} numbers for {needed} parameters: it is a point (Delta) in some "
        f"direction at {', '.join(points)}, and a point has no density to compare with the "
        "posterior's"
    )


def scale_notes(model_sites: Mapping[str, Site]) -> Iterator[str]:
    """Tell of sites whose density the model scales."""
    import torch

    for name, site in model_sites.items():
        if not bool(torch.all(torch.as_tensor(site["scale"]) == 1)):
            yield (
                f"Site '{name}' of the model is scaled by {site['scale']} "
                "(poutine.scale): the check is of the posterior with that power."
            )


def parameter_notes(model_trace: Any) -> Iterator[str]:
    """Tell of parameters that the model itself has."""
    names = model_trace.param_nodes
    if names:
        listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield (
            f"The model has parameters of its own ({listed}): the check is of the posterior given "
            "their values."
        )


def rounding_note(log_p: Floats, rounding: Floats) -> Iterator[str]:
    """Tell of log densities that float32 leaves uncertain."""
    known = rounding[np.isfinite(rounding)]
    if known.size and (typical := float(np.median(known))) > _LARGEST_ROUNDING:
        size = float(np.median(log_p[np.isfinite(rounding)]))
        yield (
            f"Log densities near {size:.3g} are known to about {typical:.2g} nats only, because "
            "they were computed in single precision, and khat can be wrong: call "
            "torch.set_default_dtype(torch.float64) before building model, guide and data."
        )
