"""The Gaussian behind log densities at its draws: its mean, scales and missing constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

__all__ = ["NOT_GAUSSIAN", "RecoveredGaussian", "recover_gaussian"]

Floats = NDArray[np.float64]

_MAX_COEFFICIENTS = 1000
"""A search with more would take minutes."""
_SPARE_DRAWS = 10
"""Draws beyond the number of coefficients: what checks the fit, where it cannot adapt itself."""
_SLACK = 2.0
"""Rounding errors add up to the bound at most to first order; squares of them come on top."""
_LOOSEST_BOUND = 0.05
"""One parameter moves the log density by 0.7 (the sd of eta^2 / 2): a bound near that checks
nothing."""
_LARGEST_ERROR = 0.01
"""Of the constant; below what Monte Carlo leaves of an ELBO from some thousand draws."""
_DENSITY_ERROR, _DRAW_ERROR = 1e-10, 1e-15
"""Relative errors of log densities and of draws that were computed in double precision."""
_COARSE = "the draws are rounded too coarsely, or collinear"
NOT_GAUSSIAN = "no Gaussian has these log densities at these draws"


@dataclass(frozen=True, eq=False)
class RecoveredGaussian:
    """A Gaussian fitted to its own log density, and whether the fit is exact."""

    mean: Floats
    """Shape ``(d,)``; NaN when nothing could be fitted, as the other numbers then."""
    precision: Floats
    """Inverse covariance: the diagonal, shape ``(d,)``, or the matrix, shape ``(d, d)``."""
    constant: float
    """What to add to the given log densities so that they are normalised."""
    constant_error: float
    """How far rounding may have moved it: a standard deviation, on the safe side."""
    misfit: float
    """Largest distance between a given log density and the fitted one."""
    misfit_ratio: float
    """Largest such distance in units of what rounding explains; below 2 when exact."""
    reason: str
    """Why the fit is not to be used, as a clause; empty when it is exact."""

    @property
    def exact(self) -> bool:
        """Whether the log densities are those of this Gaussian, up to their rounding."""
        return not self.reason

    @property
    def scales(self) -> Floats:
        """Standard deviations, shape ``(d,)``."""
        if self.precision.ndim == 1:
            return np.asarray(1.0 / np.sqrt(self.precision))
        return np.asarray(np.sqrt(np.diag(np.linalg.inv(self.precision))))


def recover_gaussian(
    z: ArrayLike,
    log_q: ArrayLike,
    *,
    full: bool,
    mean: ArrayLike | None = None,
    peak: float | None = None,
    z_rounding: ArrayLike = 0.0,
    mean_rounding: ArrayLike = 0.0,
    log_q_rounding: ArrayLike = 0.0,
) -> RecoveredGaussian:
    """Find the Gaussian whose log density, up to a constant, is ``log_q`` at the draws ``z``.

    Parameters
    ----------
    z
        Draws, shape ``(S, d)``; they need not be from the Gaussian, only not collinear.
    log_q
        Log densities of the draws, shape ``(S,)``, all off by the same unknown constant.
    full
        Whether the Gaussian may have correlations; otherwise the components are independent.
    mean
        Its mean, shape ``(d,)``, when known: saves d coefficients.
    peak
        ``log_q`` at the mean, when that is known too: 0 where only the quadratic form was kept.
    z_rounding, mean_rounding, log_q_rounding
        Largest rounding errors of the numbers given, of their shapes or to be broadcast to them.

    Returns
    -------
    RecoveredGaussian
        With ``exact`` or the ``reason`` why not. It is exact when it reproduces every log density
        as far as rounding allows, with at least ten more draws than coefficients, and rounding
        leaves its constant no more uncertain than 0.01.

    Notes
    -----
    A Gaussian log density is linear in the precisions: -2 log q = (z - m)' P (z - m) + constant.
    Least squares finds them, and its residuals say whether that was the form of the density. The
    constant that is missing is log det(P) / 2 - d log(2 pi) / 2 - peak.

    Examples
    --------
    >>> import numpy as np
    >>> z = 3.0 + 0.5 * np.random.default_rng(1).normal(size=(100, 1))
    >>> found = recover_gaussian(z, -2.0 * (z[:, 0] - 3.0) ** 2, full=False)
    >>> found.exact, bool(np.isclose(found.constant, -np.log(0.5 * np.sqrt(2 * np.pi))))
    (True, True)
    >>> recover_gaussian(z, -np.abs(z[:, 0]), full=False).exact
    False
    """
    draws, density = np.asarray(z, float), np.asarray(log_q, float)
    if draws.ndim != 2 or density.shape != draws.shape[:1]:
        raise ValueError(
            "z must have shape (S, d) and log_q shape (S,), "
            f"got shapes {draws.shape} and {density.shape}"
        )
    known_mean = None if mean is None else np.asarray(mean, float)
    if known_mean is not None and known_mean.shape != draws.shape[1:]:
        raise ValueError(f"mean must have shape {draws.shape[1:]}, got shape {known_mean.shape}")
    if peak is not None and known_mean is None:
        raise ValueError(f"peak goes with mean: got peak {peak} and no mean")
    scale = draws.std(axis=0)
    rounding = np.broadcast_to(np.asarray(z_rounding, float), draws.shape)
    rounding = np.maximum(rounding, _DRAW_ERROR * np.abs(draws)) + np.asarray(mean_rounding, float)
    refusal = _refusal(draws, density, scale, rounding)
    centre = draws.mean(axis=0) if known_mean is None else known_mean
    with np.errstate(divide="ignore", invalid="ignore"):
        problem = _Problem(
            u=(draws - centre) / scale,
            density=density,
            u_rounding=rounding / scale,
            density_rounding=np.broadcast_to(np.asarray(log_q_rounding, float), density.shape),
            full=full,
            mean_known=known_mean is not None,
            peak=peak,
        )
    refusal = refusal or problem.refusal()
    form = None if refusal else problem.solve()
    if form is None:
        return _nothing(draws.shape[1], full, refusal or NOT_GAUSSIAN)
    return _judged(problem, form, centre, scale)


@dataclass(frozen=True, eq=False)
class _Form:
    """A log density in standardised units: peak - (u - mean)' precision (u - mean) / 2."""

    mean: Floats
    precision: Floats
    peak: float
    log_det: float
    error: float
    """Of log_det / 2 - peak, when each residual is as large as one over its weight."""

    def compared(self, problem: _Problem) -> tuple[Floats, Floats]:
        """Return what it leaves unexplained of each log density, and what rounding explains."""
        diagonal = self.precision.ndim == 1
        deviation = problem.u - self.mean
        slope = deviation * self.precision if diagonal else deviation @ self.precision
        curvature = self.precision if diagonal else np.diag(self.precision)
        residual = problem.density - self.peak + (slope * deviation).sum(axis=1) / 2.0
        moved = (np.sqrt(curvature) * problem.u_rounding).sum(axis=1)
        bound = problem.density_rounding + _DENSITY_ERROR * (1.0 + np.abs(problem.density))
        return residual, bound + (np.abs(slope) * problem.u_rounding).sum(axis=1) + moved**2 / 2.0


@dataclass(frozen=True, eq=False)
class _Problem:
    """Least squares for the coefficients of a Gaussian log density, in standardised units."""

    u: Floats
    density: Floats
    u_rounding: Floats
    density_rounding: Floats
    full: bool
    mean_known: bool
    peak: float | None

    @property
    def size(self) -> int:
        """How many coefficients there are."""
        dim = self.u.shape[1]
        quadratic = dim * (dim + 1) // 2 if self.full else dim
        return quadratic + dim * (not self.mean_known) + (self.peak is None)

    def refusal(self) -> str:
        if self.size > _MAX_COEFFICIENTS:
            return f"{self.size} coefficients are too many to fit"
        if len(self.u) < self.size + _SPARE_DRAWS:
            return f"{len(self.u)} draws are too few for {self.size} coefficients"
        return ""

    def solve(self) -> _Form | None:
        """Fit twice, the second time with each draw as sure as its rounding lets it be.

        Otherwise the errors of far draws would swamp the exact densities of near ones.
        """
        form = self._fitted(np.ones(len(self.u)))
        return None if form is None else self._fitted(1.0 / form.compared(self)[1])

    def _fitted(self, weights: Floats) -> _Form | None:
        """Fit to as many draws as are needed; None when they determine no Gaussian."""
        dim = self.u.shape[1]
        rows = slice(2 * self.size + 500)
        u, w = self.u[rows], weights[rows, None]
        left, right = np.triu_indices(dim) if self.full else (np.arange(dim), np.arange(dim))
        blocks = [u[:, left] * u[:, right]]
        if not self.mean_known:
            blocks.append(u)
        if self.peak is None:
            blocks.append(np.ones((len(u), 1)))
        q, r = np.linalg.qr(w * np.concatenate(blocks, axis=1))
        pivots = np.abs(np.diag(r))
        if not np.isfinite(r).all() or pivots.min() <= 1e-12 * pivots.max():
            return None
        target = self.density[rows] - (self.peak or 0.0)
        coefficients = linalg.solve_triangular(r, q.T @ (w[:, 0] * target))
        quadratic, rest = np.split(coefficients, [len(left)])
        linear = np.zeros(dim) if self.mean_known else rest[:dim]
        precision = -2.0 * quadratic if not self.full else _symmetric(-quadratic, dim)
        inverse = _inverse(precision)
        if inverse is None:
            return None
        mean = inverse @ linear if self.full else inverse * linear
        # How log_det / 2 - peak changes with each coefficient.
        slopes = -inverse[left, right] if self.full else -inverse
        ends = [[] if self.mean_known else -mean, [-1.0] if self.peak is None else []]
        error = linalg.solve_triangular(r, np.concatenate([slopes, *ends]), trans="T")
        return _Form(
            mean=mean,
            precision=precision,
            peak=float((rest[-1] if self.peak is None else self.peak) + linear @ mean / 2.0),
            log_det=float(
                np.linalg.slogdet(precision)[1] if self.full else np.log(precision).sum()
            ),
            error=float(np.linalg.norm(error)),
        )


def _symmetric(upper: Floats, dim: int) -> Floats:
    """Return the matrix whose quadratic form has these coefficients, halved."""
    matrix = np.zeros((dim, dim))
    matrix[np.triu_indices(dim)] = upper
    return matrix + matrix.T


def _inverse(precision: Floats) -> Floats | None:
    """Invert a diagonal or a matrix; None when it is not positive definite."""
    if precision.ndim == 1:
        return 1.0 / precision if (precision > 0.0).all() else None
    try:
        factor = linalg.cho_factor(precision)
    except linalg.LinAlgError:
        return None
    return np.asarray(linalg.cho_solve(factor, np.eye(len(precision))))


def _refusal(draws: Floats, density: Floats, scale: Floats, rounding: Floats) -> str:
    if not (np.isfinite(draws).all() and np.isfinite(density).all()):
        return "some of the draws or densities are not finite"
    if not (scale > rounding.mean(axis=0)).all():
        return _COARSE
    return ""


def _judged(problem: _Problem, form: _Form, centre: Floats, scale: Floats) -> RecoveredGaussian:
    """Hold the form against all draws, and put it back into their units."""
    residual, bound = form.compared(problem)
    ratio = float(np.max(np.abs(residual) / bound))
    reason = ""
    if np.sqrt(np.mean(bound**2)) > _LOOSEST_BOUND or form.error > _LARGEST_ERROR:
        reason = _COARSE
    elif ratio > _SLACK:
        reason = NOT_GAUSSIAN
    diagonal = form.precision.ndim == 1
    units = np.log(scale).sum() + len(scale) * np.log(2.0 * np.pi) / 2.0
    return RecoveredGaussian(
        mean=centre + scale * form.mean,
        precision=form.precision / (scale**2 if diagonal else np.outer(scale, scale)),
        constant=float(form.log_det / 2.0 - units - form.peak),
        constant_error=form.error,
        misfit=float(np.abs(residual).max()),
        misfit_ratio=ratio,
        reason=reason,
    )


def _nothing(dim: int, full: bool, reason: str) -> RecoveredGaussian:
    return RecoveredGaussian(
        mean=np.full(dim, np.nan),
        precision=np.full((dim, dim) if full else dim, np.nan),
        constant=np.nan,
        constant_error=np.nan,
        misfit=np.nan,
        misfit_ratio=np.nan,
        reason=reason,
    )
