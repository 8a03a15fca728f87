"""`LinearResponse`: sds and covariances of a fit by the Hessian of its objective."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from vicheck.results.convergence import GradientTest
from vicheck.results.record import Floats
from vicheck.runtime.jax_settings import double_precision
from vicheck.runtime.seeds import Seed, as_seed

if TYPE_CHECKING:
    import pandas as pd

    from vicheck.results.fit import Fit
    from vicheck.vi.families.family import Family

__all__ = ["LinearResponse", "ResponseStatus"]


class ResponseStatus(Enum):
    """Whether there is a linear response."""

    OK = "the fit is an optimum, and the equations of its response are solved"
    NOT_AT_OPTIMUM = "the gradient at the fit is not zero: it does not respond as an optimum would"
    NOT_POSITIVE = "the Hessian at the fit is not positive definite: it is not an optimum"
    NOT_FINITE = "the density or its gradient is not finite at a draw of q"
    NOT_SOLVED = "conjugate gradients have not converged within their iterations"

    def __repr__(self) -> str:
        return f"ResponseStatus.{self.name}"


@dataclass(frozen=True, eq=False, repr=False)
class LinearResponse:
    """Covariances of the posterior as a fit's optimum implies them, not as q has them.

    Tilting the posterior by a factor ``exp(t g)`` moves the posterior mean of h, at first, by ``t
    Cov(h, g)``. Linear response takes the same derivative of the mean of h under the best
    approximation: ``dE_q[h]/dm' H^-1 dE_q[g]/dm``, with m the parameters of q and H the Hessian of
    the objective. All numbers are NaN unless ``status`` is OK. So is a quantity that does not
    change with q at most draws, such as an indicator.
    """

    fit: Fit
    status: ResponseStatus
    names: tuple[str, ...]
    """Names of the quantities."""
    derivatives: Floats
    """Derivatives of the mean of each quantity by steps of q, in its sds, shape ``(Q, p)``."""
    responses: Floats
    """Steps of q in response to a tilt by each quantity: the derivatives times the inverse."""
    gradient: GradientTest
    """Whether q is an optimum, on fresh draws."""
    coordinate_covariance: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """Covariance of the unconstrained parameters; empty if the Hessian was too large to factor."""
    num_draws: int = 0
    """Fixed draws that the objective is averaged over."""
    num_evaluations: int = 0
    """Number of evaluations of the density with its gradient."""
    num_iterations: int = 0
    """Iterations of conjugate gradients; 0 if the Hessian was factored."""

    @property
    def sd(self) -> pd.Series:
        """Standard deviation of each quantity, by name."""
        import pandas as pd

        return pd.Series(self.sd_by_name, dtype=np.float64)

    @property
    def sd_by_name(self) -> dict[str, float]:
        """The same as a dictionary."""
        sds = _root(np.einsum("qp,qp->q", self.derivatives, self.responses))
        return dict(zip(self.names, sds.tolist(), strict=True))

    @property
    def covariance(self) -> pd.DataFrame:
        """Covariance matrix of the quantities, by name."""
        import pandas as pd

        product = self.derivatives @ self.responses.T
        return pd.DataFrame(0.5 * (product + product.T), self.names, self.names)

    @property
    def coordinates(self) -> pd.Series:
        """Standard deviations on the unconstrained scale, by the name of the coordinate."""
        import pandas as pd

        names = self.fit.model.coordinates if len(self.coordinate_covariance) else ()
        return pd.Series(_root(np.diagonal(self.coordinate_covariance)), names, np.float64)

    def approximation(self) -> Family:
        """Return the normal with q's mean and the covariance from linear response.

        It is on the unconstrained scale, a member of the family ``"full_rank"``.

        Raises
        ------
        ValueError
            When there is no linear response, or its covariance was not computed.
        """
        from vicheck.vi.families.moments import normal_of

        if self.status is not ResponseStatus.OK:
            raise ValueError(f"there is no linear response: {self.status.value}")
        if not len(self.coordinate_covariance):
            raise ValueError(
                f"the covariance of all {self.fit.model.dim} parameters was not computed: there "
                "are too many variational parameters to factor their Hessian"
            )
        with double_precision():
            return normal_of(self.fit.mean, self.coordinate_covariance)

    def sample(self, num_draws: int = 1000, seed: Seed = 0) -> dict[str, Floats]:
        """Draw named parameters from `approximation`, on their own scale, as `Fit.sample` does.

        Such draws can be handed to `vicheck.vsbc`, to test whether the corrected sds are right.
        """
        dim = self.approximation().dim  # or it says why there is none
        noise = np.random.default_rng(as_seed(seed)).standard_normal((num_draws, dim))
        z = self.fit.mean + noise @ np.linalg.cholesky(self.coordinate_covariance).T
        return self.fit.model.constrain(z)

    def to_dict(self) -> dict[str, Any]:
        """Return status, sds and counts as plain values."""
        return {
            "status": self.status.name,
            "sd": self.sd_by_name,
            "coordinates": self.coordinates.to_dict(),
            "gradient": self.gradient.to_dict(),
            "num_draws": self.num_draws,
            "num_evaluations": self.num_evaluations,
            "num_iterations": self.num_iterations,
        }

    def __repr__(self) -> str:
        return (
            f"LinearResponse({self.status.name}, {len(self.names)} quantities, "
            f"{self.num_draws} draws, {self.num_evaluations} evaluations)"
        )


def _root(variance: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.sqrt(np.maximum(variance, 0.0))
