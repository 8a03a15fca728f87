"""What Figures 5, 6 and I share: eight schools in two parametrizations under three priors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy.stats import halfcauchy, halfnorm

import vicheck
from vicheck.paper import models
from vicheck.paper.exact import EightSchools, eight_schools

__all__ = ["FIG6_SCRIPT", "PRINTED", "SUPPLEMENT", "WAYS", "Prior"]

WAYS = {"centred": models.eight_schools_centred, "noncentred": models.eight_schools_noncentred}
_LAWS = {"half_cauchy": halfcauchy, "half_normal": halfnorm}


@dataclass(frozen=True)
class Prior:
    """Priors of mu, a normal, and of tau."""

    mu_scale: float
    tau_prior: str
    tau_scale: float

    def __str__(self) -> str:
        tau = {"half_cauchy": "half-Cauchy", "half_normal": "N+"}[self.tau_prior]
        return f"mu ~ N(0, {self.mu_scale:g}), tau ~ {tau}(0, {self.tau_scale:g})"

    def model(self, way: str, *, observed: bool = True) -> vicheck.Model:
        """Return the model in one parametrization, with the data or without."""
        data: dict[str, Any] = dict(models.EIGHT_SCHOOLS)
        if not observed:
            del data["y"]
        return vicheck.from_numpyro(
            WAYS[way],
            **data,
            mu_scale=self.mu_scale,
            tau_scale=self.tau_scale,
            tau_prior=self.tau_prior,
        )

    def exact(self) -> EightSchools:
        """Return the posterior by quadrature."""
        data, law = models.EIGHT_SCHOOLS, _LAWS[self.tau_prior](scale=self.tau_scale)
        return eight_schools(data["y"], data["sigma"], self.mu_scale, law.logpdf)


PRINTED = Prior(5.0, "half_cauchy", 5.0)
SUPPLEMENT = Prior(50.0, "half_normal", 25.0)
"""Those of the supplement's figure, and of the script of Figure 5."""
FIG6_SCRIPT = Prior(50.0, "half_cauchy", 25.0)
