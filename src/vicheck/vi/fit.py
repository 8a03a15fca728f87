"""Fit one model: choose family and solver, and keep what came out with what went in."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, Protocol

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.interrupts import between_pieces
from vicheck.model import Model, double_precision
from vicheck.records import FitStatus
from vicheck.vi.family import Family
from vicheck.vi.kinds import Kind, kind_of
from vicheck.vi.solution import Report, Solution, silent

__all__ = ["Fit", "fit", "make_solver"]


class Solver(Protocol):
    """What a solver is: options, and a way to use them."""

    def solve(self, model: Model, kind: Kind, seed: int, report: Report) -> Solution:
        """Fit a family to a model."""
        ...


# Where each solver lives: loaded when it is chosen, because Optax takes a while.
_SOLVERS = {
    "deterministic": ("vicheck.vi.deterministic", "Deterministic"),
    "stochastic": ("vicheck.vi.stochastic", "Stochastic"),
    "stan_advi": ("vicheck.vi.stan_advi", "StanAdvi"),
}


@dataclass(frozen=True, eq=False)
class Fit:
    """An approximation q of a posterior, with the model and data it belongs to."""

    model: Model
    family: str
    solver: str
    seed: int
    solution: Solution
    seconds: float
    """Wall time, with compiling when the model was new."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options that were given, the rank and those of the solver."""
    computed: Hashable = None
    """What the model computed when it was fitted; None where that is not known."""

    @property
    def q(self) -> Family:
        """The approximation, on the flat unconstrained vector, for use inside JAX.

        It is in float64: use it within `vicheck.model.double_precision`, or take ``mean``, ``sd``,
        ``covariance`` and ``sample``, which need no such care.
        """
        return self.solution.q

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of q, on the unconstrained scale, in the order of ``model.coordinates``."""
        return np.asarray(self.q.loc)

    @property
    def sd(self) -> NDArray[np.float64]:
        """Standard deviations of q, on the unconstrained scale."""
        with double_precision():
            return np.asarray(self.q.sd)

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Covariance matrix of q, on the unconstrained scale."""
        with double_precision():
            return np.asarray(self.q.covariance())

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

    def sample(self, num_draws: int = 1000, seed: int = 0) -> dict[str, NDArray[np.float64]]:
        """Draw named parameters from q, on their own scale, and what the model derives from them.

        Returns
        -------
        dict
            Arrays of shape ``(num_draws, ...)`` by name.
        """
        with double_precision():
            z, _ = self.q.sample_and_log_prob(jax.random.key(seed), num_draws)
        return self.model.constrain(z)

    def __repr__(self) -> str:
        count = "parameter" if self.model.dim == 1 else "parameters"
        elbo = "" if np.isnan(self.elbo) else f", ELBO {self.elbo:.2f}"
        return (
            f"Fit({self.family}, {self.model.dim} {count}, {self.solver}: {self.status.name}{elbo})"
        )


@between_pieces()
def fit(
    model: Model,
    data: Mapping[str, Any] | None = None,
    *,
    family: str = "mean_field",
    rank: int | None = None,
    solver: str = "deterministic",
    seed: int = 0,
    progress: Report | None = None,
    **options: Any,
) -> Fit:
    """Fit an approximation to the posterior of a model.

    Parameters
    ----------
    model
        From `vicheck.from_numpyro` or `vicheck.from_log_density`.
    data
        Named arrays that replace the model's own; of the same shapes, nothing is compiled again.
    family
        ``"mean_field"``, ``"full_rank"`` or ``"low_rank"`` (low rank plus diagonal).
    rank
        Rank of ``"low_rank"``; 5 by default.
    solver
        ``"deterministic"`` (fixed draws, run to convergence), ``"stochastic"`` (Optax, minibatches)
        or ``"stan_advi"`` (Stan's algorithm).
    seed
        The same seed gives the same bits.
    progress
        Called now and then with a sentence on what is going on.
    **options
        Options of the solver: see `vicheck.vi.deterministic.Deterministic`,
        `vicheck.vi.stochastic.Stochastic`, `vicheck.vi.stan_advi.StanAdvi`.

    Returns
    -------
    Fit
        With a status; a fit that failed is a value, not an exception. An interrupted one
        (Ctrl-C) is returned as far as it got; a second Ctrl-C does not wait.

    Raises
    ------
    ModelError
        When the model or data cannot be used at all, such as a density that is nowhere finite.

    Examples
    --------
    >>> from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred
    >>> model = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
    >>> vicheck.fit(model)
    Fit(mean_field, 10 parameters, deterministic: CONVERGED, ELBO -31.54)
    """
    if not isinstance(model, Model):
        raise TypeError(
            f"model must be a vicheck Model, got {type(model).__name__}: "
            "make one with vicheck.from_numpyro or vicheck.from_log_density"
        )
    chosen = make_solver(solver, options)
    model = model.given(data)
    model.require_data()
    kind = kind_of(family, model.dim, rank)
    start = time.perf_counter()
    with double_precision():
        now = model.snapshot()
        solution = chosen.solve(now, kind, seed, progress or silent)
        computed = now.program.computation("log_density", now.data)
    seconds = time.perf_counter() - start
    given = options if rank is None else {"rank": rank} | options
    return Fit(model, family, solver, seed, solution, seconds, given, computed)


def make_solver(name: str, options: dict[str, Any]) -> Solver:
    """Return a solver with its options, or say what there is."""
    if name not in _SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(_SOLVERS)}, got {name!r}")
    module, kind = _SOLVERS[name]
    make = getattr(import_module(module), kind)
    known = [each.name for each in fields(make)]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise TypeError(
            f"fit got the option {', '.join(unknown)}, but those of solver={name!r} are: "
            f"{', '.join(known)}"
        )
    chosen: Solver = make(**options)
    return chosen
