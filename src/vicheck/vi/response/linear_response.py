"""`linear_response`: sds and covariances of a fit by the Hessian of its objective.

Giordano, Broderick and Jordan (2018), on the fixed draws of a deterministic objective as in
Giordano, Ingram and Broderick (2024).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ArgumentError, require_count
from vicheck.model import double_precision
from vicheck.quantities import Quantities, Spec, reported_quantities
from vicheck.results.convergence import GradientTest
from vicheck.results.linear_response import LinearResponse, ResponseStatus
from vicheck.vi.gradient_test import gradient_test
from vicheck.vi.response.derivatives import (
    of_coordinates,
    of_quantities_by_differences,
    of_quantities_by_jax,
)
from vicheck.vi.response.hessian import Hessian
from vicheck.vi.response.solving import Solved, by_conjugate_gradients, by_factoring
from vicheck.vi.solvers.deterministic.noise import make_noise, standardised

if TYPE_CHECKING:
    from vicheck.results.fit import Fit
    from vicheck.vi.families.family import Family

__all__ = ["MOST_FACTORED", "default_draws", "linear_response", "response_of"]

Floats = NDArray[np.float64]

MOST_FACTORED = 512
"""Variational parameters up to which the Hessian is built and factored."""
_DRAWS, _FEW_DRAWS = 256, 64
"""Fixed draws where the Hessian is factored, and where each product takes all of them again."""
_MOST_SOLVED = 256
"""Quantities for which equations are solved by conjugate gradients."""
_TOLERANCE, _MOST_ITERATIONS = 1e-6, 1000
"""Of conjugate gradients: the relative size of a residual, and how many products for each."""
_REJECTED_BELOW = 0.01
"""p-value of the gradient test below which a fit is not at an optimum, as in a verdict."""


def linear_response(
    fit: Fit, quantities: Spec | None = None, *, num_draws: int | None = None
) -> LinearResponse:
    """Return what `Fit.linear_response` does."""
    if num_draws is None:
        num_draws = default_draws(fit.q)
    elif require_count("num_draws", num_draws, 2) % 2:
        raise ArgumentError("num_draws", f"must be even, got {num_draws}")
    with double_precision():
        now = fit.model.snapshot()
        gradient = gradient_test(now, fit.q, seed=fit.seed)
        response = response_of(
            replace(fit, model=now), reported_quantities(now, quantities), num_draws, gradient
        )
    return replace(response, fit=fit)


def default_draws(q: Family) -> int:
    """Return how many fixed draws the objective is averaged over."""
    fewest = _DRAWS if q.step_dim <= MOST_FACTORED else _FEW_DRAWS
    # With as many as the family asks for the draws span its noise.
    return max(fewest, 2 ** math.ceil(math.log2(q.num_fixed_draws)))


def response_of(
    fit: Fit, reported: Quantities, num_draws: int, gradient: GradientTest
) -> LinearResponse:
    """Return the linear response of a fit whose model is a snapshot, in double precision.

    ``gradient`` says whether it is an optimum.
    """
    model, q = fit.model, fit.q
    is_factored = q.step_dim <= MOST_FACTORED
    if not is_factored and reported.num_values > _MOST_SOLVED:
        raise ArgumentError(
            "quantities",
            f"must be at most {_MOST_SOLVED} for a fit of {q.step_dim} variational parameters, "
            f"got {reported.num_values}",
            hint="name those that you need",
        )
    half = _noise(q, num_draws, fit.seed)
    hessian = Hessian(model, q, half)
    unknown = np.full((reported.num_values, hessian.size), np.nan)
    of_z = np.full((model.dim, model.dim), np.nan) if is_factored else np.empty((0, 0))
    derivatives, solved = unknown, Solved(unknown, _status_of(gradient))
    if solved.status is ResponseStatus.OK:
        by_jax = not is_factored and model.program.density_on_host(model.data) is None
        differentiate = of_quantities_by_jax if by_jax else of_quantities_by_differences
        derivatives = differentiate(model, hessian.chart, reported, half)
        if is_factored:
            of_means = of_coordinates(hessian.chart)
            solved = by_factoring(hessian.dense(), np.concatenate([derivatives, of_means]))
            of_z = of_means @ solved.x[len(derivatives) :].T
            solved = solved._replace(x=solved.x[: len(derivatives)])
        else:
            solved = _by_conjugate_gradients(hessian, derivatives)
    return LinearResponse(
        fit=fit,
        status=solved.status,
        names=reported.drawn_names,
        derivatives=derivatives,
        responses=solved.x,
        coordinate_covariance=0.5 * (of_z + of_z.T),
        gradient=gradient,
        num_draws=num_draws,
        num_evaluations=hessian.num_evaluations,
        num_iterations=solved.num_iterations,
    )


def _noise(q: Family, num_draws: int, seed: int) -> Floats:
    """Return the noise of half the draws, of which a deterministic fit has used the first."""
    noise = make_noise(num_draws, q.noise_dim, np.array([seed]))
    return standardised(noise, q.is_dense(q.dim))[0]


def _status_of(gradient: GradientTest) -> ResponseStatus:
    if np.isnan(gradient.p_value):
        return ResponseStatus.NOT_FINITE
    rejected = gradient.p_value < _REJECTED_BELOW
    return ResponseStatus.NOT_AT_OPTIMUM if rejected else ResponseStatus.OK


def _by_conjugate_gradients(hessian: Hessian, derivatives: Floats) -> Solved:
    known = np.isfinite(derivatives).all(axis=1)
    solved = by_conjugate_gradients(hessian.times, derivatives[known], _TOLERANCE, _MOST_ITERATIONS)
    x = np.full_like(derivatives, np.nan)
    x[known] = solved.x
    return solved._replace(x=x)
