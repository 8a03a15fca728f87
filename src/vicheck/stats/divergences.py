"""ELBO, evidence and divergences between q and p from the same draws, gated by khat."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.results.estimates import Divergences, Measure
from vicheck.results.psis import PsisResult
from vicheck.stats.psis import as_vector, psis_quietly, warn_undefined
from vicheck.stats.reliability import GOOD_BELOW
from vicheck.stats.unseen import error_with_tail

__all__ = ["divergences"]

Floats = NDArray[np.float64]

# Orders so close to 1 that the quotient would lose its digits: the limit, KL(p, q), is closer.
_NEXT_TO_ONE = 1e-6


def divergences(
    log_ratios: ArrayLike,
    *,
    orders: ArrayLike = (0.5, 2.0),
    smoothed: PsisResult | None = None,
) -> Divergences:
    """Estimate ELBO, log evidence and divergences from log ratios at draws from q.

    Parameters
    ----------
    log_ratios
        ``log_p - log_q`` at draws from q, shape ``(S,)``. The ELBO and the evidence need both
        densities with their constants; the divergences do not.
    orders
        Orders alpha of the Renyi divergences D_alpha(p || q): real numbers or +inf.
    smoothed
        ``psis(log_ratios)``, if it has been computed already.

    Returns
    -------
    Divergences
        ``elbo``, ``log_evidence``, ``kl_q_p``, ``kl_p_q``, ``chi_square`` and ``renyi``, a
        dictionary by order. Each is a `Measure` with ``value``, ``mcse`` and ``reason``.

    Notes
    -----
    With u = p(theta | y) / q(theta), estimated by S times the smoothed weights: log evidence
    log mean(r); KL(q, p) = log evidence - ELBO; KL(p, q) = mean(u log u); chi-square
    mean(u^2) - 1; Renyi log(mean(u^alpha)) / (alpha - 1). The mean of u^alpha is finite only if
    alpha k < 1, and estimable from S draws only if alpha k is below the threshold: beyond it the
    value is `nan` and ``reason`` says why. Errors are by the delta method, with an allowance for
    what lies beyond the largest ratio (`vicheck.stats.unseen`); from alpha k = 1/2 on the ratios
    may have no variance, and ``caution`` says so.

    Examples
    --------
    >>> import numpy as np
    >>> theta = 0.9 * np.random.default_rng(1).normal(size=100_000)    # q = N(0, 0.9^2)
    >>> log_ratios = -theta**2 / 2 + theta**2 / (2 * 0.9**2) + np.log(0.9)
    >>> d = divergences(log_ratios)
    >>> print(d.kl_q_p)                                    # exactly 0.01036
    0.01035 +- 0.00016
    """
    log_r = as_vector(log_ratios)
    alphas = np.atleast_1d(np.asarray(orders, dtype=np.float64)).tolist()
    for alpha in alphas:
        if not alpha > -np.inf:
            raise ValueError(f"orders must be real numbers or +inf, got {alpha}")
    result = psis_quietly(log_r) if smoothed is None else smoothed
    if smoothed is None:
        warn_undefined(result)
    if result.log_weights.shape != log_r.shape:
        raise ValueError(
            f"smoothed must be psis(log_ratios): expected log weights of shape {log_r.shape}, "
            f"got {result.log_weights.shape}"
        )
    elbo = _elbo(log_r, result)
    return Divergences(
        elbo=elbo,
        log_evidence=_log_evidence(result),
        kl_q_p=_kl_q_p(log_r, elbo, result),
        kl_p_q=_kl_p_q(log_r, result),
        chi_square=_chi_square(result),
        renyi={alpha: _renyi(alpha, log_r, result) for alpha in alphas},
    )


def _elbo(log_r: Floats, result: PsisResult) -> Measure:
    if result.num_invalid:
        return Measure(np.nan, np.nan, result.message)
    if result.num_zero:
        return Measure(-np.inf, np.nan, f"{result.num_zero} draws lie where p is zero")
    return Measure(float(log_r.mean()), _standard_error(log_r))


def _log_evidence(result: PsisResult) -> Measure:
    reason = _gate(1.0, result)
    if reason:
        return Measure(np.nan, np.nan, reason)
    return _measured(_log_mean_ratio(result), _relative_weights(result), 1.0, result)


def _kl_q_p(log_r: Floats, elbo: Measure, result: PsisResult) -> Measure:
    reason = _gate(1.0, result)
    if reason:
        return Measure(np.nan, np.nan, reason)
    value = _log_mean_ratio(result) - elbo.value
    if elbo.reason:
        return Measure(float(value), np.nan, elbo.reason)
    return _measured(float(value), _relative_weights(result) - log_r, 1.0, result)


def _kl_p_q(log_r: Floats, result: PsisResult) -> Measure:
    reason = _gate(1.0, result)
    if reason:
        return Measure(np.nan, np.nan, reason)
    u = _relative_weights(result)
    log_u = np.where(u > 0.0, result.log_weights + np.log(result.num_draws), 0.0)
    value = float((u * log_u).mean())
    return _measured(value, u * (log_u - value) - u, 1.0, result)


def _chi_square(result: PsisResult) -> Measure:
    reason = _gate(2.0, result)
    if reason:
        return Measure(np.nan, np.nan, reason)
    u = _relative_weights(result)
    second = float((u**2).mean())
    return _measured(second - 1.0, u**2 - 2.0 * second * u, 2.0, result)


def _renyi(alpha: float, log_r: Floats, result: PsisResult) -> Measure:
    if abs(alpha - 1.0) < _NEXT_TO_ONE:
        return _kl_p_q(log_r, result)
    if alpha == np.inf:
        return _renyi_infinite(result)
    if alpha == 0.0:
        return _renyi_zero(result)
    if alpha < 0.0:
        return _renyi_negative(alpha, log_r, result)
    reason = _gate(max(alpha, 1.0), result)  # the evidence itself is a moment of order 1
    if reason:
        return Measure(np.nan, np.nan, reason)
    log_powers = alpha * (result.log_weights + np.log(result.num_draws))
    return _from_log_powers(alpha, log_powers, max(alpha, 1.0), result)


def _renyi_zero(result: PsisResult) -> Measure:
    """-log Pr_q(p > 0)."""
    if result.num_invalid:
        return Measure(np.nan, np.nan, result.message)
    share = 1.0 - result.num_zero / result.num_draws
    if share == 0.0:
        return Measure(np.inf, np.nan, result.message)
    return Measure(
        abs(float(np.log(share))), float(np.sqrt((1.0 - share) / (share * result.num_draws)))
    )


def _renyi_infinite(result: PsisResult) -> Measure:
    """Log of the largest p / q, which a negative khat says is finite."""
    if not result.khat <= 0.0:
        return Measure(
            np.nan, np.nan, _undefined(result) or "khat is above 0: the ratios seem unbounded"
        )
    value = result.log_weights.max() + np.log(result.num_draws)
    return Measure(float(value), np.nan)


def _renyi_negative(alpha: float, log_r: Floats, result: PsisResult) -> Measure:
    """Moments of negative order depend on the left tail of the ratios, which has its own khat."""
    reason = _gate(1.0, result)
    if reason or result.num_zero:
        return Measure(np.nan, np.nan, reason or f"{result.num_zero} draws lie where p is zero")
    powers = psis_quietly(alpha * log_r)
    if not powers.khat < powers.threshold:
        return Measure(
            np.nan, np.nan, f"khat of r^{alpha:g} is {powers.khat:.2f}: its mean is not estimable"
        )
    log_powers = powers.log_weights + powers.log_normalizer - alpha * _log_mean_ratio(result)
    # Its own khat is below the threshold too; that of the ratios stands for both.
    return _from_log_powers(alpha, log_powers, 1.0, result)


def _from_log_powers(alpha: float, log_powers: Floats, order: float, result: PsisResult) -> Measure:
    """Return log(mean(u^alpha)) / (alpha - 1) from the logarithms of the powers."""
    peak = log_powers.max()
    with np.errstate(under="ignore"):
        powers = np.exp(log_powers - peak)
    mean = powers.mean()
    value = (peak + np.log(mean)) / (alpha - 1.0)
    influence = (powers / mean - alpha * _relative_weights(result)) / (alpha - 1.0)
    return _measured(float(value) + 0.0, influence, order, result)  # + 0.0 turns -0.0 into 0.0


def _measured(value: float, influence: Floats, order: float, result: PsisResult) -> Measure:
    """Return an estimate with its error, from what each draw contributes to it.

    Its tail is that of the ratios to the power ``order``.
    """
    khat = order * result.weights_khat
    contributions = (influence - influence.mean()) / influence.size
    imbalance = contributions.max() + contributions.min()
    length = result.weights_tail_length
    error = error_with_tail(_standard_error(influence), imbalance, khat, length)
    caution = ""
    if khat >= GOOD_BELOW:
        caution = f"with khat {khat:.2f} the ratios may have no variance"
        if order != 1.0:
            caution = f"with {order:g} times khat equal to {khat:.2f} there may be no variance"
    return Measure(value, float(error), caution=caution)


def _gate(order: float, result: PsisResult) -> str:
    """Say why a moment of this order of the ratios cannot be estimated; empty if it can."""
    undefined = _undefined(result)
    if undefined:
        return undefined
    khat = result.weights_khat
    if np.isnan(khat):
        return f"khat {result.khat:.2f} is not that of a Pareto tail: take more draws"
    effective = order * khat
    if effective < result.threshold:
        return ""
    limit = f"above the threshold {result.threshold:.2f} for {result.num_draws} draws"
    if order == 1.0:
        return f"khat {khat:.2f} is {limit}"
    name = f"{order:g} times khat {khat:.2f} is {effective:.2f}"
    if order > 1.0 and effective >= 1.0:
        return f"{name}, so by this estimate the divergence is infinite"
    return f"{name}, {limit}"


def _undefined(result: PsisResult) -> str:
    return f"khat is undefined: {result.message}" if np.isnan(result.khat) else ""


def _log_mean_ratio(result: PsisResult) -> float:
    """Return the log of the mean smoothed ratio, an estimate of the log evidence."""
    return float(result.log_normalizer - np.log(result.num_draws))


def _relative_weights(result: PsisResult) -> Floats:
    """Return the estimates of p(theta | y) / q(theta) at the draws."""
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(result.log_weights + np.log(result.num_draws)))


def _standard_error(values: Floats) -> float:
    if values.size < 2:
        return np.nan
    return float(values.std(ddof=1) / np.sqrt(values.size))
