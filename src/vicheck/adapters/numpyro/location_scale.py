"""Which distributions of NumPyro's are location-scale families on the real line."""

from __future__ import annotations

import numpyro.distributions as dist

__all__ = ["base_of", "other_parameters"]

_OTHER_PARAMETERS: dict[type, tuple[str, ...]] = {
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


def base_of(fn: dist.Distribution) -> dist.Distribution:
    """Return the distribution of single entries inside one of independent entries."""
    while isinstance(fn, dist.ExpandedDistribution | dist.Independent):
        fn = fn.base_dist
    return fn


def other_parameters(fn: dist.Distribution) -> tuple[str, ...] | None:
    """Return the names of the parameters besides ``loc`` and ``scale``; None for other families.

    Classes derived from these families may have other densities: they do not count.
    """
    return _OTHER_PARAMETERS.get(type(base_of(fn)))
