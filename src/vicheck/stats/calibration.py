"""Calibration probabilities: how they are computed, and the bias and spread of q that they show.

A calibration probability is Pr_q(quantity < true value): small when q sits too high.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Bias",
    "Dispersion",
    "MeanInterval",
    "as_probabilities",
    "bias",
    "check_level",
    "column_blocks",
    "dispersion",
    "mean_bias",
    "mean_with_interval",
    "num_columns",
    "randomised_probability",
    "ranked_probability",
    "shaped",
    "symmetric_kl_terms",
]

Floats = NDArray[np.float64]

_BLOCK = 2**20  # numbers handled at once: a few arrays of this size stay in memory
_SMALLEST = 2.0**-53  # next to 1 a double has no finer steps


class Bias(NamedTuple):
    """How far q sits from the truth; each a number, or an array with one entry per quantity."""

    median: Any
    """Median of the calibration probabilities: 1/2 without bias, small when q sits too high."""
    sds: Any
    """The same in sds of q: positive when q sits too high."""
    low: Any
    """Lower end of an interval for ``sds``."""
    high: Any
    """Upper end."""


class Dispersion(NamedTuple):
    """Whether q is too narrow; each a number, or an array with one entry per quantity."""

    factor: Any
    """What q's sd would have to be multiplied by: above 1 when q is too narrow."""
    low: Any
    """Lower end of an interval for ``factor``."""
    high: Any
    """Upper end."""
    p_value: Any
    """Sign test of ``factor`` = 1, two-sided."""


class MeanInterval(NamedTuple):
    """A mean and its interval; each a number, or an array with one entry per column."""

    mean: Any
    low: Any
    high: Any


def randomised_probability(draws: ArrayLike, truth: ArrayLike, rng: np.random.Generator) -> Any:
    """Return the calibration probability from draws of q instead of its distribution function.

    (number of draws below the truth + U (1 + number equal to it)) / (S + 1), with U uniform. If
    truth and draws are exchangeable this is exactly uniform on (0, 1), for any S and with ties;
    it is never 0 or 1.

    Parameters
    ----------
    draws
        Draws of the quantities from q, shape ``(S, ...)``.
    truth
        The values that the data was simulated with, shape ``(...)``.
    rng
        Draws U, one for each number in ``truth``.

    Returns
    -------
    float or array
        In the shape of ``truth``; `nan` where the truth or one of the draws is.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> p = randomised_probability([0.3, 0.1, 0.8], 0.5, rng)          # two of three lie below
    >>> 2 / 4 < p < 3 / 4
    True
    """
    true = np.asarray(truth, np.float64)
    p = ranked_probability(draws, true, 1.0 - rng.random(true.shape))
    return p if p.ndim else p.item()


def ranked_probability(draws: ArrayLike, truth: ArrayLike, uniform: ArrayLike) -> Floats:
    """Return the same as `randomised_probability`, with the U in (0, 1] given."""
    values, true = np.asarray(draws, np.float64), np.asarray(truth, np.float64)
    if values.ndim == 0 or values.shape[1:] != true.shape or not len(values):
        raise ValueError(
            f"draws must have shape (S, ...) with ... the shape {true.shape} of truth and S at "
            f"least 1, got {values.shape}"
        )
    below = np.count_nonzero(values < true, axis=0)
    equal = np.count_nonzero(values == true, axis=0)
    p = (below + np.asarray(uniform) * (1 + equal)) / (len(values) + 1)
    p = np.minimum(p, np.nextafter(1.0, 0.0))
    return np.asarray(np.where(np.isnan(values).any(axis=0) | np.isnan(true), np.nan, p))


def bias(probabilities: ArrayLike, level: float = 0.95) -> Bias:
    """Return the bias of q: the median of p, and the same in sds of q.

    Parameters
    ----------
    probabilities
        Calibration probabilities, shape ``(M,)`` or ``(M, Q)``.
    level
        Of the interval, which holds for any distribution of p: its ends are order statistics,
        chosen by the binomial law, so that it covers with at least this probability. It is
        infinite when M is too small for the level.

    Notes
    -----
    ``sds`` is -Phi^-1(median p). For a normal q this is the median over datasets of
    (mean of q - true value) / sd of q. Where half of the p are 0 or 1 it is infinite.

    Examples
    --------
    >>> p = np.linspace(0.01, 0.61, 101)                               # mostly below 1/2
    >>> estimate = bias(p)
    >>> round(estimate.median, 2), round(estimate.sds, 2)
    (0.31, 0.5)
    >>> print(f"{estimate.low:.2f} to {estimate.high:.2f}")
    0.33 to 0.67
    """
    from scipy.special import ndtri

    p = as_probabilities(probabilities)
    low, middle, high = _median_and_interval(p, level, floor=0.0, ceiling=1.0)
    return Bias(*(shaped(each, p) for each in (middle, -ndtri(middle), -ndtri(high), -ndtri(low))))


def mean_bias(probabilities: ArrayLike, level: float = 0.95) -> MeanInterval:
    """Return the mean of -Phi^-1(p): for a normal q, by how many of its sds its mean is off.

    That is the average over datasets of (mean of q - true value) / sd of q. A shift of q moves it
    as much as the median, which `bias` is made of; a skewed posterior moves the median only, if q
    has the right mean. Numbers beyond 8.2 sds, which p cannot tell apart, count as that. The
    interval is Student's; of a single dataset it is infinite.

    Examples
    --------
    >>> from scipy.stats import gamma, norm
    >>> theta = gamma(5).ppf((np.arange(10_000) + 0.5) / 10_000)       # skewed
    >>> p = norm.cdf(theta, 5.0, 5.0**0.5)                             # q with its mean and sd
    >>> print(f"{bias(p).sds:.2f} {abs(mean_bias(p).mean):.2f}")
    0.15 0.00
    """
    from scipy.special import ndtri, stdtrit

    p = as_probabilities(probabilities)
    count = len(p)
    mean, error = np.empty(num_columns(p)), np.full(num_columns(p), np.inf)
    for where, block in column_blocks(p):
        off = -ndtri(np.clip(block, _SMALLEST, 1.0 - _SMALLEST))
        mean[where] = off.mean(axis=1)
        if count > 1:
            error[where] = off.std(axis=1, ddof=1) / np.sqrt(count)
    reach = stdtrit(max(1, count - 1), 0.5 * (1.0 + level)) * error
    return MeanInterval(*(shaped(each, p) for each in (mean, mean - reach, mean + reach)))


def dispersion(probabilities: ArrayLike, level: float = 0.95) -> Dispersion:
    """Return how much too narrow or too wide q is, by a measure that outliers do not move.

    Parameters
    ----------
    probabilities
        Calibration probabilities, shape ``(M,)`` or ``(M, Q)``.
    level
        Of the interval, from order statistics as in `bias`.

    Notes
    -----
    ``factor`` is median |Phi^-1(p)| / Phi^-1(3/4): above 1 for a U-shaped histogram of p (q too
    narrow), below 1 for a hump (q too wide). A bias of q widens the histogram too, so read it
    with `bias`. The p-value is that of the exact sign test that |2p - 1|, uniform when q is
    calibrated, has median 1/2; p of exactly 1/4 or 3/4 carry no information and are left out.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> z = norm.ppf((np.arange(100) + 0.5) / 100)
    >>> estimate = dispersion(norm.cdf(2 * z))                         # q has half the sd it needs
    >>> round(estimate.factor, 2), estimate.p_value < 0.001
    (2.0, True)
    """
    from scipy.special import ndtri

    p = as_probabilities(probabilities)
    outside, counted = np.empty(num_columns(p)), np.empty(num_columns(p))
    for where, block in column_blocks(p):
        distance = np.minimum(block, 1.0 - block)
        outside[where] = np.count_nonzero(distance < 0.25, axis=1)
        counted[where] = np.count_nonzero(distance != 0.25, axis=1)
    # |Phi^-1(p)| falls in min(p, 1 - p), so order statistics of one are those of the other.
    wide, middle, narrow = _median_and_interval(p, level, floor=0.0, ceiling=0.5, fold=True)
    unit = ndtri(0.75)
    # Adding 0.0 turns -0.0 into 0.0.
    factors = (-ndtri(each) / unit + 0.0 for each in (middle, narrow, wide))
    return Dispersion(*(shaped(each, p) for each in (*factors, _sign_test(outside, counted))))


def mean_with_interval(values: ArrayLike, level: float = 0.95) -> MeanInterval:
    """Return the mean over datasets with its Student t interval.

    Parameters
    ----------
    values
        One for each dataset, shape ``(M,)``, or for each dataset and column, ``(M, Q)``.
    level
        Of the interval.

    Returns
    -------
    MeanInterval
        ``mean``, ``low`` and ``high``. `nan` among the values makes all three `nan`: nothing is
        dropped. An infinite value makes the mean infinite (`nan` if both signs occur), and the
        interval `nan`, as it is for a single dataset: there is no standard error.

    Examples
    --------
    >>> mean, low, high = mean_with_interval([1.0, 2.0, 3.0, 6.0])
    >>> print(f"{mean:.2f}, {low:.2f} to {high:.2f}")
    3.00, -0.44 to 6.44
    """
    from scipy.special import stdtrit

    check_level(level)
    x = _as_columns(values, "values")
    num = len(x)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = x.mean(axis=0, dtype=np.float64)
        if num > 1:
            error = x.std(axis=0, ddof=1, dtype=np.float64) / np.sqrt(num)
            reach = stdtrit(num - 1, 0.5 + 0.5 * level) * error
        else:
            reach = np.full(x.shape[1:], np.nan)
        low, high = mean - reach, mean + reach
    if x.ndim == 1:
        return MeanInterval(float(mean), float(low), float(high))
    return MeanInterval(mean, low, high)


def symmetric_kl_terms(log_ratios_true: ArrayLike, log_ratios_draws: ArrayLike) -> Floats:
    """Return each dataset's term of the symmetric KL divergence between q and the posterior.

    Domke (2021): with the truth drawn from the prior and data from the model, the expectation
    of log w(true value) - log w(draw from q), where log w = log_p - log_q, is the average over
    datasets of KL(p || q) + KL(q || p); unknown evidence cancels. `mean_with_interval` of the
    terms estimates it.

    Parameters
    ----------
    log_ratios_true
        ``log_p - log_q`` at the values that the data was simulated with, shape ``(M,)``.
    log_ratios_draws
        ``log_p - log_q`` at draws from q, shape ``(M, S)``.

    Examples
    --------
    >>> symmetric_kl_terms([-1.0, -2.0], [[-1.5, -1.7], [-2.5, -2.1]])
    array([0.6, 0.3])
    """
    true = np.asarray(log_ratios_true, np.float64)
    drawn = np.asarray(log_ratios_draws, np.float64)
    if true.ndim != 1 or drawn.ndim != 2 or len(drawn) != len(true) or not drawn.size:
        raise ValueError(
            "log_ratios_true must have shape (M,) and log_ratios_draws (M, S), got "
            f"{true.shape} and {drawn.shape}"
        )
    with np.errstate(invalid="ignore"):  # inf - inf is nan, and stays
        return np.asarray(true - drawn.mean(axis=1))


def as_probabilities(probabilities: ArrayLike) -> NDArray[Any]:
    """Return calibration probabilities, ``(M,)`` or ``(M, Q)``, or raise and say what is wrong.

    Float32 stays float32: it saves memory, and its type tells how many digits are right.
    """
    p = _as_columns(probabilities, "probabilities")
    lowest, highest = p.min(), p.max()
    if np.isnan(lowest):
        bad = np.flatnonzero(np.isnan(p).reshape(len(p), -1).any(axis=1))
        raise ValueError(
            f"probabilities must not hold NaN, got it in {bad.size} of {len(p)} datasets, the "
            f"first at row {bad[0]}: drop the rows of the fits that failed"
        )
    if lowest < 0.0 or highest > 1.0:
        raise ValueError(
            f"probabilities must lie between 0 and 1, got values from {lowest:g} to {highest:g}"
        )
    return p


def column_blocks(p: NDArray[Any]) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of columns, each turned into rows in float64, with their place."""
    columns = p.reshape(len(p), -1)
    step = max(1, _BLOCK // len(p))
    for start in range(0, columns.shape[1], step):
        where = slice(start, min(start + step, columns.shape[1]))
        yield where, np.array(columns[:, where].T, dtype=np.float64, order="C")


def num_columns(p: NDArray[Any]) -> int:
    """Return the number of quantities."""
    return 1 if p.ndim == 1 else p.shape[1]


def shaped(values: NDArray[Any], p: NDArray[Any]) -> Any:
    """Return a number for one quantity given as a vector, an array otherwise."""
    return values[0].item() if p.ndim == 1 else values


def check_level(level: float) -> None:
    """Raise unless a level lies between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}")


def _as_columns(values: ArrayLike, name: str) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array: drop the masked datasets")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array, got rows of unequal length ({error})") from None
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be real numbers, got dtype {array.dtype}")
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(
            f"{name} must have shape (M,) or (M, Q), datasets first, and not be empty, "
            f"got shape {array.shape}"
        )
    return array if array.dtype == np.float32 else np.asarray(array, dtype=np.float64)


def _median_and_interval(
    p: NDArray[Any], level: float, floor: float, ceiling: float, *, fold: bool = False
) -> tuple[Floats, Floats, Floats]:
    """Return the median of each column with the order statistics that enclose it."""
    check_level(level)
    num = len(p)
    rank = _median_interval_rank(num, level)
    places = [(num - 1) // 2, num // 2]
    if rank:
        places += [rank - 1, num - rank]
    low, high = np.full(num_columns(p), floor), np.full(num_columns(p), ceiling)
    middle = np.empty(num_columns(p))
    for where, block in column_blocks(p):
        rows = np.minimum(block, 1.0 - block) if fold else block
        rows.partition(sorted(set(places)), axis=1)
        middle[where] = 0.5 * (rows[:, places[0]] + rows[:, places[1]])
        if rank:
            low[where], high[where] = rows[:, places[2]], rows[:, places[3]]
    return low, middle, high


def _median_interval_rank(num: int, level: float) -> int:
    """Return r such that the r-th smallest and r-th largest of ``num`` enclose the median.

    The largest r with Pr(B < r) <= (1 - level) / 2, B ~ Binomial(num, 1/2); 0 if there is none.
    """
    from scipy.special import bdtr

    tail = 0.5 * (1.0 - level)
    return bisect_right(range((num + 1) // 2), tail, key=lambda k: float(bdtr(k, num, 0.5)))


def _sign_test(successes: Floats, trials: Floats) -> Floats:
    """Return two-sided exact p-values of Binomial(trials, 1/2)."""
    from scipy.special import betainc

    fewer = np.minimum(successes, trials - successes)
    # Pr(B <= k) = I_{1/2}(n - k, k + 1), which for n = 0 is the limit 1.
    return np.asarray(np.minimum(1.0, 2.0 * betainc(trials - fewer, fewer + 1.0, 0.5)))
