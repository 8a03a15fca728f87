"""Sites of Pyro's traces: what they are, their densities and their supports."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

__all__ = [
    "is_delta",
    "latent_sites",
    "log_density_of",
    "num_unconstrained",
    "outside_support",
    "random_sites",
    "reported_sites",
    "rounding_of",
    "samples_of",
    "samples_of_both",
    "support_of",
]

Site = Any  # a dictionary, which Pyro calls Message


def log_density_of(site: Site) -> Any:
    """Sum in double precision: in single, a million terms lose a tenth of a nat and more."""
    import torch

    return torch.as_tensor(site["log_prob"]).double().sum()


def rounding_of(site: Site) -> Any:
    """Estimate the variance of the site's log density by rounding of its terms."""
    import torch

    terms = torch.as_tensor(site["log_prob"])
    epsilon = torch.finfo(terms.dtype).eps if terms.is_floating_point() else 0.0
    return (epsilon * terms.double()).square().sum()


def outside_support(
    guide_sites: Mapping[str, Site], model_sites: Mapping[str, Site]
) -> dict[str, Any]:
    """Tell which values are outside the model's support: its densities need not be zero there.

    A density that Pyro does not validate can be any number outside its support. Values that the
    guide computes (``Delta``) were mapped into the support; a simplex drawn as a simplex is one,
    whatever its last digit.
    """
    outside = {}
    for name, site in latent_sites(model_sites).items():
        drawn = guide_sites.get(name)
        if drawn is None or is_delta(drawn) or (support := support_of(site)) is None:
            continue
        if support.event_dim and type(support) is type(support_of(drawn)):
            continue
        outside[name] = ~support.check(site["value"]).all()
    return outside


def samples_of(trace: Any) -> dict[str, Site]:
    """Return all sample statements, observed ones too, without the indices of plates."""
    from pyro.poutine.util import site_is_subsample

    return {
        name: site
        for name, site in trace.nodes.items()
        if site["type"] == "sample" and not site_is_subsample(site)
    }


def samples_of_both(guide_trace: Any, model_trace: Any) -> tuple[dict[str, Site], dict[str, Site]]:
    """Return the sites of guide and model; observations are the model's.

    A guide that runs the model itself (``AutoMessenger``) has its observations in the trace.
    """
    model_sites = samples_of(model_trace)
    guide_sites = {
        name: site
        for name, site in samples_of(guide_trace).items()
        if not (site["is_observed"] and name in model_sites)
    }
    return guide_sites, model_sites


def latent_sites(sites: Mapping[str, Site]) -> dict[str, Site]:
    """Return the sites that are not observed."""
    return {name: site for name, site in sites.items() if not site["is_observed"]}


def reported_sites(sites: Mapping[str, Site]) -> dict[str, Site]:
    """Return the latent and the deterministic sites."""
    return {
        name: site
        for name, site in sites.items()
        if not site["is_observed"] or site["infer"].get("_deterministic")
    }


def random_sites(sites: Mapping[str, Site]) -> dict[str, Site]:
    """Return the latent sites that are not a function of others."""
    return {name: site for name, site in latent_sites(sites).items() if not is_delta(site)}


def is_delta(site: Site) -> bool:
    """Whether all of a distribution lies at one point."""
    from pyro.distributions import Delta

    law = site["fn"]
    while not isinstance(law, Delta) and hasattr(law, "base_dist"):
        law = law.base_dist
    return isinstance(law, Delta)


def support_of(site: Site) -> Any:
    """Return the constraint on the innermost events; None if the site does not tell."""
    try:
        support = site["fn"].support
        while hasattr(support, "base_constraint"):
            support = support.base_constraint
        return support if isinstance(support.event_dim, int) else None
    except (AttributeError, NotImplementedError):
        return None


def num_unconstrained(sites: Mapping[str, Site]) -> int:
    """Count the real numbers that all values amount to: a simplex of three is two."""
    from torch.distributions import biject_to

    count = 0
    for site in sites.values():
        shape = site["value"].shape
        # Without a bijection the number of entries is as good: the guide can have none either.
        with suppress(AttributeError, NotImplementedError):
            shape = biject_to(site["fn"].support).inverse_shape(shape)
        count += int(np.prod(shape))
    return count
