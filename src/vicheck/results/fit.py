"""`Fit`: an approximation of a posterior, and how the solver found it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from vicheck.errors import ArgumentError, NotConvergedWarning
from vicheck.results.modes import ModeSearch
from vicheck.results.record import Floats
from vicheck.results.status import FitStatus
from vicheck.runtime.jax_settings import double_precision
from vicheck.runtime.seeds import Seed, as_seed

if TYPE_CHECKING:
    from vicheck.model import Model
    from vicheck.quantities import Spec
    from vicheck.results.linear_response import LinearResponse
    from vicheck.results.stacking import Stacking
    from vicheck.vi.families.family import Family

__all__ = ["Fit", "KeptDraws", "Optimum", "Solution"]


@dataclass(frozen=True, eq=False)
class Optimum:
    """A member of the family that a solver has settled on."""

    q: Family
    elbo: float


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """A member of the family, and how the solver got there."""

    q: Family
    status: FitStatus
    elbo: float
    """The solver's own estimate, NaN for a fit that has run away: on the draws it was fitted to, no
    number is too high. A check estimates it again from fresh draws."""
    num_evaluations: int
    """Number of evaluations of the log density, with its gradient or without."""
    gradient_norm: float = np.nan
    """Largest entry of the gradient in units of standard deviations, on the solver's own draws."""
    sampling_error: float = np.nan
    """Largest error of a mean or log sd, in sds, that comes from the solver's finite draws."""
    num_draws: int = 0
    """Draws in the objective: in all, or per step."""
    others: tuple[Optimum, ...] = ()
    """Optima at other modes, which the search has found."""
    search: ModeSearch | None = None
    """How other modes were searched for; None if they were not."""
    elbo_trace: Floats = field(default_factory=lambda: np.empty(0))
    """ELBO in the course of the optimisation."""
    gradient_trace: Floats = field(default_factory=lambda: np.empty(0))
    """Largest entry of the gradient, in sds, after each round of the deterministic solver."""
    iterates: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """Means and log sds during the last part of a stochastic run, one row for each step kept."""
    settings: dict[str, float] = field(default_factory=dict)
    """What the solver chose itself, such as Stan's step size."""

    def __repr__(self) -> str:
        q = type(self.q).__name__
        return f"Solution({q}, {self.status.name}, ELBO {self.elbo:.2f}, {len(self.others)} others)"


@dataclass(frozen=True, eq=False)
class KeptDraws:
    """What the file of a fit holds instead of its model."""

    draws: dict[str, Floats]
    """Draws from q, on the parameters' own scale."""
    points: Floats
    """A few draws on the unconstrained scale."""
    log_p: Floats
    """Log density of the model there, to know it again by."""

    def sample(self, num_draws: int, seed: int) -> dict[str, Floats]:
        """Return some of the draws, without repeats."""
        size = len(next(iter(self.draws.values()), ()))
        if num_draws > size:
            raise ArgumentError(
                "num_draws",
                f"must be at most the {size} draws in the file, because the fit was loaded without "
                f"its model, got {num_draws}",
                hint="more can be had with it: vicheck.load(path, model=model)",
            )
        rows = np.random.default_rng(seed).permutation(size)[:num_draws]
        return {name: array[rows] for name, array in self.draws.items()}


@dataclass(frozen=True, eq=False)
class Fit:
    """An approximation q of a posterior, with the model and data it belongs to."""

    model: Model
    family: str
    solver: str
    seed: int
    solution: Solution
    seconds: float
    """Wall time, including compiling if the model was new."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options that were given: the rank, and those of the solver."""
    computed: Hashable = None
    """What the model computed when it was fitted; None if unknown."""
    name: str = ""
    """The title given when it was fitted, if any."""
    kept: KeptDraws | None = None
    """The draws of a fit that was loaded without its model."""

    @property
    def q(self) -> Family:
        """The approximation, a distribution of the flat unconstrained vector, for use inside JAX.

        It is in float64: use it within `vicheck.model.double_precision`, or take ``mean``, ``sd``,
        ``covariance`` and ``sample``, which need no such care.
        """
        return self.solution.q

    @property
    def title(self) -> str:
        """Title of its checks and reports: by default the model, the family and the solver."""
        if self.name:
            return self.name
        count = "1 parameter" if self.model.dim == 1 else f"{self.model.dim} parameters"
        fitted = f"{self.family} fit of {count} ({self.solver})"
        return f"{self.model.name}: {fitted}" if self.model.name else fitted

    @property
    def mean(self) -> Floats:
        """Mean of q, on the unconstrained scale, in the order of ``model.coordinates``.

        Where the family has no formula for its moments, this, ``sd`` and ``covariance`` are
        estimated from 16,384 draws, always the same: errors are about 1% of an sd.
        """
        from vicheck.vi.families.moments import mean_of

        with double_precision():
            return np.asarray(mean_of(self.q))

    @property
    def sd(self) -> Floats:
        """Standard deviations of q, on the unconstrained scale."""
        from vicheck.vi.families.moments import sd_of

        with double_precision():
            return np.asarray(sd_of(self.q))

    @property
    def covariance(self) -> Floats:
        """Covariance matrix of q, on the unconstrained scale."""
        from vicheck.vi.families.moments import covariance_of

        with double_precision():
            return np.asarray(covariance_of(self.q))

    @property
    def status(self) -> FitStatus:
        """How the solver ended."""
        return self.solution.status

    @property
    def converged(self) -> bool:
        """Whether the solver says that it has converged."""
        return self.status is FitStatus.CONVERGED

    @property
    def elbo(self) -> float:
        """The solver's own estimate of the ELBO, in nats; NaN for a fit that has run away."""
        return self.solution.elbo

    def sample(self, num_draws: int = 1000, seed: Seed = 0) -> dict[str, Floats]:
        """Draw named parameters from q, on their own scale, and what the model derives from them.

        Warns if the fit has not converged.

        Returns
        -------
        dict
            Arrays of shape ``(num_draws, ...)`` by name.
        """
        if self.status not in (FitStatus.CONVERGED, FitStatus.SAMPLING_ERROR, FitStatus.UNKNOWN):
            message = f"draws are taken from a fit that cannot be relied on: {self.status.value}"
            warnings.warn(message, NotConvergedWarning, stacklevel=2)
        if self.kept is not None:
            return self.kept.sample(num_draws, as_seed(seed))
        with double_precision():
            z, _ = self.q.sample_and_log_prob(jax.random.key(as_seed(seed)), num_draws)
        return self.model.constrain(z)

    def linear_response(
        self, quantities: Spec | None = None, *, num_draws: int | None = None
    ) -> LinearResponse:
        """Return sds and covariances as the optimum implies them, where those of q are too small.

        Mean field leaves correlations out, and its sds are then too small although its means may
        be right. How the means of q respond to a tilted posterior gives the covariances (Giordano,
        Broderick and Jordan 2018): exactly for a Gaussian posterior and quantities that are linear
        on the unconstrained scale, to first order for others.

        Parameters
        ----------
        quantities
            As for `vicheck.check`; by default every parameter and all that the model derives.
        num_draws
            Fixed draws that the objective is averaged over, an even number: by default 256 for up
            to 512 variational parameters (mean field has two for each of the model's), whose
            Hessian is factored; otherwise 64, and the quantities asked for, at most 256, are
            solved for by conjugate gradients. A family with correlations needs more in many
            dimensions.

        Returns
        -------
        LinearResponse
            It has a status: the numbers are NaN if the fit is not at an optimum. With
            ``"low_rank"`` and a rank above 1 it hardly ever is, because the factor can be rotated.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> def log_density(x):                       # two normals with a correlation of 0.9
        ...     return -(x[0]**2 - 1.8 * x[0] * x[1] + x[1]**2) / (2 * 0.19)
        >>> fitted = vicheck.fit(vicheck.from_log_density(log_density, jnp.zeros(2)))
        >>> fitted.sd.round(3).tolist()
        [0.436, 0.436]
        >>> response = fitted.linear_response()
        >>> response.sd.round(3).tolist()
        [1.0, 1.0]
        >>> float(response.covariance.loc["x[0]", "x[1]"].round(3))
        0.9
        """
        from vicheck.vi.response.linear_response import linear_response

        return linear_response(self, quantities, num_draws=num_draws)

    def stack_modes(
        self,
        log_likelihood: Callable[..., Any] | None = None,
        *,
        num_draws: int = 4000,
        seed: Seed = 0,
    ) -> Stacking:
        """Weight the fit and the fits at other modes by how well they predict together.

        Stacking (Yao, Vehtari and Gelman 2022) chooses the weights of a mixture of the modes that
        maximise the log predictive density of observations, each given all others, by PSIS-LOO.
        Where the model is wrong that can predict far better than the posterior, of which the
        weights are not the masses: for these see `vicheck.rescue`.

        Parameters
        ----------
        log_likelihood
            A function in JAX of the parameters of one draw, a dictionary, with the data as an
            optional second argument, that returns the log likelihood of each observation as a
            vector. Models in NumPyro and PyMC have their own, an entry for each entry of an
            observed site.
        num_draws
            Draws of q at each mode.
        seed
            An integer or a JAX key; the same seed gives the same weights.

        Raises
        ------
        ModelError
            When the model has no log likelihood of single observations and none was given.
        ValueError
            When ``log_likelihood`` returns no vector of at least two numbers, or NaN.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> from jax.scipy.stats import cauchy, norm
        >>> y = jnp.concatenate([jnp.linspace(-9, -7, 8), jnp.linspace(7, 9, 7)])   # two places
        >>> def log_likelihood(theta):                                    # a model of one
        ...     return cauchy.logpdf(y, theta["x"][0])
        >>> def log_density(x):
        ...     return norm.logpdf(x[0], 0, 10) + log_likelihood({"x": x}).sum()
        >>> fitted = vicheck.fit(vicheck.from_log_density(log_density, jnp.zeros(1)))
        >>> stacked = fitted.stack_modes(log_likelihood)
        >>> stacked.weights[["weight", "mass"]].round(2).to_numpy().tolist()
        [[0.53, 0.99], [0.47, 0.01]]
        """
        from vicheck.checking.stacking import stack_modes

        return stack_modes(self, log_likelihood, num_draws, seed)

    def save(self, path: str | Path, *, num_draws: int = 4000) -> None:
        """Write the fit to one file (``.npz``), which `vicheck.load` reads back.

        The approximation, how the solver came there, and draws; not the model, whose code cannot be
        saved. The same content gives the same bits; an old file stays until the new one is
        complete.

        Parameters
        ----------
        path
            The file: ``.npz``, or any name that does not end like a file of another program's.
        num_draws
            Draws that `sample` has to choose from where the fit is loaded without its model.
        """
        from vicheck.vi.saving import save_fit

        save_fit(self, path, num_draws)

    @classmethod
    def load(cls, path: str | Path, model: Model | None = None) -> Fit:
        """Read what `save` has written: see `vicheck.load`."""
        from vicheck.vi.saving import load_fit

        return load_fit(path, model)

    def __repr__(self) -> str:
        count = "parameter" if self.model.dim == 1 else "parameters"
        elbo = "" if np.isnan(self.elbo) else f", ELBO {self.elbo:.2f}"
        return (
            f"Fit({self.family}, {self.model.dim} {count}, {self.solver}: {self.status.name}{elbo})"
        )
