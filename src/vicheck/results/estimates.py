"""Numbers with their Monte Carlo errors: moments, quantiles, divergences, predictive densities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicheck.results.record import Record

__all__ = ["Divergences", "Estimate", "Measure", "Predictive", "QuantileEstimate"]


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Record):
    """Mean and standard deviation of quantities, with Monte Carlo standard errors."""

    mean: Any
    sd: Any
    mcse: Any
    """Monte Carlo standard error of the mean."""
    mcse_sd: Any
    """Monte Carlo standard error of the standard deviation."""
    ess: Any
    """Number of independent posterior draws that would estimate the mean as well."""


@dataclass(frozen=True, eq=False, repr=False)
class QuantileEstimate(Record):
    """Quantiles with Monte Carlo standard errors; the dimension of probabilities comes first."""

    value: Any
    mcse: Any


@dataclass(frozen=True, eq=False, repr=False)
class Measure(Record):
    """A number with its Monte Carlo standard error, or NaN (or infinity) with the reason."""

    value: float
    mcse: float
    reason: str = ""
    """Why there is no value, or no error."""
    caution: str = ""
    """Why the error may be larger than stated."""

    def __float__(self) -> float:
        return float(self.value)

    @property
    def in_brief(self) -> str:
        """The number and its error, without the reason."""
        error = "" if np.isnan(self.mcse) else f" +- {self.mcse:.2g}"
        return f"{self.value:.4g}{error}"

    def __repr__(self) -> str:
        return f"Measure({self})"

    def __str__(self) -> str:
        if self.reason:
            return f"{self.value:.4g} ({self.reason})"
        caution = f" ({self.caution})" if self.caution else ""
        return f"{self.value:.4g} +- {self.mcse:.2g}{caution}"


@dataclass(frozen=True, eq=False, repr=False)
class Divergences(Record):
    """How far q is from p, in nats."""

    elbo: Measure
    log_evidence: Measure
    kl_q_p: Measure
    """KL(q, p), what variational inference minimises."""
    kl_p_q: Measure
    """KL(p, q) = E_p log(p / q)."""
    chi_square: Measure
    """E_q (p / q)^2 - 1."""
    renyi: dict[float, Measure]
    """D_alpha(p || q) by order alpha."""

    def __repr__(self) -> str:
        names = ("elbo", "log_evidence", "kl_q_p", "kl_p_q", "chi_square")
        parts = [f"{name}={getattr(self, name).in_brief}" for name in names]
        orders = ", ".join(f"{order:g}: {each.in_brief}" for order, each in self.renyi.items())
        return f"Divergences({', '.join(parts)}, renyi={{{orders}}})"


@dataclass(frozen=True, eq=False, repr=False)
class Predictive(Record):
    """Log density of held-out data, summed over its points.

    It does not tell whether variational inference worked: a worse posterior can predict better
    (the paper's section 4.2). Only the difference between the two numbers says something.
    """

    vi: Measure
    psis: Measure
    num_points: int
