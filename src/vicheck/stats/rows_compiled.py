"""PSIS of each row of a matrix, compiled by Numba: for long vectors and for batches.

Same function and formulas as `rows_numpy`, to which the tests hold this file. What differs is the
cost: a sample of the row tells which values cannot be in its tail, one logarithm serves dozens of
factors, and the exponential is a polynomial that the compiler turns into vector instructions.
"""

# Over 400 lines: Numba's cache on disk follows this file alone. With parts of it in other files, it
# would go on serving old code after a change of theirs.

# Types are Numba's to infer here; the signature is that of rows_numpy.smooth_rows.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numba import config, njit, types

from vicheck.runtime.cache import cache_directory, is_safe

__all__ = [
    "compare_rows",
    "select_moments",
    "select_products",
    "smooth_rows",
    "weigh_rows",
]

# Numba's cache on disk follows this file alone, so what is defined in gpd, smoothing and PsisStatus
# stands here again; a test compares them.
PRIOR_SHAPE = 0.5
PRIOR_WEIGHT = 10.0
MAX_LOG_SPREAD = 38.0
ROUNDING = 64.0 * 2.0**-52
OK, CONSTANT, TIED_AT_MAXIMUM, TIED_AT_CUTOFF, TOO_FEW_POSITIVE, NOT_FINITE = 0, 1, 2, 3, 5, 7

# Factors 1 - theta x lie between 1 / (12 grid points) and sqrt(grid points) times the largest x. As
# many of them are multiplied as cannot take a product beyond exp of this, up or down.
_LARGEST_LOG = 640.0
_BLOCK = 4096
_PIECE = 1024

# exp(x) = 2^n exp(r). The two parts of log 2 keep r exact; adding _SHIFT to an integer leaves the
# integer in the low bits of the double, from where it moves into the exponent.
_LOG2_E = 1.4426950408889634
_LOG_2_HIGH = 6.93145751953125e-1
_LOG_2_LOW = 1.42860682030941723212e-6
_SHIFT = 6755399441055744.0
_BIAS = 1023 << 52
_WITHOUT_SIGN = (1 << 63) - 1


def _can_cache() -> bool:
    """Say whether Numba finds a directory for compiled code to which nobody else can write.

    A read-only system has none. Beside this file code is as safe as the file itself, and whoever
    has set ``NUMBA_CACHE_DIR`` is obeyed; a file of settings in the working directory is not.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR", "")
    if getattr(config, "CACHE_DIR", "") != chosen:
        return False
    if not chosen and cache_directory() is None:
        return False  # Numba would make a directory called ~ where the program runs
    try:
        place = Path(str(njit(cache=True)(lambda: None).stats.cache_path))
    except RuntimeError:
        return False
    return bool(chosen) or place.parent == Path(__file__).parent or is_safe(place)


_options: dict[str, Any] = {"cache": _can_cache(), "nogil": True, "error_model": "numpy"}
# Called by compiled code only: without a way in from Python they take less time to compile.
_inner: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_jit = njit(**_options, **_inner)
# Sums may be reordered and products fused, or the loops could not be vectorised; NaN and infinity
# keep their meaning.
_fast: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}}
_jit_vectorized = njit(**_fast, **_options, **_inner)

# One signature, or else a read-only array would be compiled for once more.
_matrix = types.Array(types.float64, 2, "C")
_signature = types.void(
    types.Array(types.float64, 2, "C", readonly=True),
    types.Array(types.float64, 1, "C", readonly=True),
    types.int64,
    types.Array(types.int64, 1, "C"),
    _matrix,
    types.Array(types.float64, 3, "C"),
    _matrix,
)


@_jit
def _select_tail(values, tail, indices):
    """Fill tail, in any order, and indices; return the cut-off (see `tail.select_tail`)."""
    length = values.size
    tail_length = tail.size
    guess = -np.inf
    if length > 4 * tail_length:
        stride = max(1, length // max(256, int(6.0 * np.sqrt(length))))
        sample = values[::stride].copy()
        expected = sample.size * tail_length / length
        rank = int(1.2 * expected + 4.0 * np.sqrt(expected) + 5.0)
        if rank < sample.size:
            guess = _nth_smallest(sample, sample.size - rank)
    positions = np.empty(length if guess == -np.inf else length // 2, np.int64)
    count = _find_at_least(values, guess, positions)
    if count <= tail_length or count > positions.size:  # a bad guess only costs time
        positions = np.empty(length, np.int64)
        count = _find_at_least(values, -np.inf, positions)

    candidates = np.empty(count)
    for i in range(count):
        candidates[i] = values[positions[i]]
    cutoff = _nth_smallest(candidates, count - tail_length - 1)
    num_tied = tail_length
    for i in range(count):
        if values[positions[i]] > cutoff:
            num_tied -= 1
    last = tail_length
    for i in range(count - 1, -1, -1):  # from the end: of ties at the cut-off the last are taken
        value = values[positions[i]]
        if value > cutoff or (value == cutoff and num_tied > 0):
            if value == cutoff:
                num_tied -= 1
            last -= 1
            tail[last] = value
            indices[last] = positions[i]
    return cutoff


@_jit
def _find_at_least(values, guess, positions):
    """Fill positions with those of values at or above a guess; return their number.

    A number above the room there is means that the search was given up.
    """
    count = 0
    for i in range(values.size):
        if values[i] >= guess:
            if count == positions.size:
                return count + 1
            positions[count] = i
            count += 1
    return count


@_jit
def _nth_smallest(values, n):
    """Return the value at position n of the sorted values, which are rearranged (Hoare 1961)."""
    if n == 0:
        place = 0
        for i in range(1, values.size):
            place = i if values[i] < values[place] else place
        values[0], values[place] = values[place], values[0]
        return values[0]
    low = 0
    high = values.size - 1
    while low < high:
        first, middle, last = values[low], values[(low + high) // 2], values[high]
        pivot = max(min(first, middle), min(max(first, middle), last))
        i = low
        j = high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if n <= j:
            high = j
        elif n >= i:
            low = i
        else:
            break
    return values[n]


@_jit
def _sort_stably(values, indices):
    """Sort values ascending and indices with them, by merging runs of doubling length."""
    size = values.size
    run = 8
    for start in range(0, size, run):
        for i in range(start + 1, min(start + run, size)):
            value, index = values[i], indices[i]
            j = i - 1
            while j >= start and values[j] > value:
                values[j + 1], indices[j + 1] = values[j], indices[j]
                j -= 1
            values[j + 1], indices[j + 1] = value, index
    merged_values = np.empty(size)
    merged_indices = np.empty(size, np.int64)
    while run < size:
        for start in range(0, size, 2 * run):
            middle = min(start + run, size)
            stop = min(start + 2 * run, size)
            left = start
            right = middle
            for k in range(start, stop):
                if right >= stop or (left < middle and values[left] <= values[right]):
                    merged_values[k], merged_indices[k] = values[left], indices[left]
                    left += 1
                else:
                    merged_values[k], merged_indices[k] = values[right], indices[right]
                    right += 1
        for k in range(size):
            values[k], indices[k] = merged_values[k], merged_indices[k]
        run *= 2


@_jit
def _quartile_index(size):
    return int(size / 4 + 0.5) - 1


@_jit
def _status_of(cutoff, smallest, quartile, largest):
    """Return the status of a tail with these values."""
    if cutoff == -np.inf:
        return TOO_FEW_POSITIVE
    if smallest == largest:
        return TIED_AT_MAXIMUM
    return TIED_AT_CUTOFF if quartile == cutoff else OK


@_jit
def _log_exceedance(gap):
    """Return log(exp(gap) - 1)."""
    return gap + np.log(-np.expm1(-gap))


@_jit
def _fit_gpd(tail, cutoff, quartile, largest, k_grid, weights):
    """Return the shrunk k and log sigma of a tail in any order (see `gpd.fit_gpd`)."""
    size = tail.size
    num_grid = k_grid.size
    log_unit = _log_exceedance(quartile - cutoff)
    log_largest = _log_exceedance(largest - cutoff) - log_unit
    # Exceedances in units of the first quartile; of a wide tail their logarithms.
    wide = log_largest >= MAX_LOG_SPREAD
    x = np.empty(size)
    if not wide and largest - cutoff < MAX_LOG_SPREAD:
        per_unit = 1.0 / np.expm1(quartile - cutoff)
        for i in range(size):
            x[i] = np.expm1(tail[i] - cutoff) * per_unit
    else:
        for i in range(size):
            log_x = _log_exceedance(tail[i] - cutoff) - log_unit
            x[i] = log_x if wide else np.exp(log_x)
    theta_grid = np.empty(num_grid)
    for j in range(num_grid):
        theta_grid[j] = np.exp(-log_largest) - (np.sqrt(num_grid / (j + 0.5)) - 1.0) / 3.0
    bound = max(log_largest + 0.5 * np.log(num_grid), np.log(12.0 * num_grid))
    group = int(_LARGEST_LOG / bound)

    _mean_log1p(x, wide, log_largest, group, theta_grid, k_grid)
    largest = -np.inf
    for j in range(num_grid):
        weights[j] = _log_rate(theta_grid[j], k_grid[j], x) - k_grid[j]
        largest = max(largest, weights[j])
    total = 0.0
    for j in range(num_grid):
        weights[j] = np.exp(size * (weights[j] - largest))
        total += weights[j]
    theta = 0.0
    for j in range(num_grid):
        weights[j] /= total
        theta += weights[j] * theta_grid[j]

    mean = np.empty(1)
    theta_grid[0] = theta
    _mean_log1p(x, wide, log_largest, group, theta_grid[:1], mean)
    k = mean[0]
    log_sigma = log_unit - _log_rate(theta, k, x)
    prior = PRIOR_WEIGHT / (size + PRIOR_WEIGHT)
    return k * (1.0 - prior) + PRIOR_SHAPE * prior, log_sigma


@_jit
def _log_rate(theta, k, x):
    """Return log(-theta / k), which tends to -log mean(x) as theta tends to 0."""
    if k != 0.0:
        return np.log(-theta / k)
    total = 0.0
    for i in range(x.size):
        total += x[i]
    return -np.log(total / x.size)


@_jit
def _mean_log1p(x, wide, log_largest, group, thetas, means):
    """Fill means with mean_i log(1 - theta_j x_i), from the logarithms of x where it is wide.

    By logarithms of products of so many factors, where no digits are lost.
    """
    size = x.size
    for j in range(thetas.size):
        means[j] = 0.0
    if wide:
        for j in range(thetas.size):
            shift = np.log(-thetas[j])  # so wide a tail has theta < 0
            for i in range(size):
                exponent = shift + x[i]
                means[j] += (max(exponent, 0.0) + np.log1p(np.exp(-abs(exponent)))) / size
        return
    products = np.ones(thetas.size)
    for start in range(0, size, group):
        _multiply(products, thetas, x[start : start + group])
        for j in range(thetas.size):
            means[j] += np.log(products[j])
            products[j] = 1.0
    largest = np.exp(log_largest)
    for j in range(thetas.size):
        means[j] /= size
        if abs(thetas[j]) * largest < 1e-3:  # factors next to one have lost their digits
            means[j] = 0.0
            for i in range(size):
                means[j] += np.log1p(-thetas[j] * x[i])
            means[j] /= size


@_jit_vectorized
def _multiply(products, thetas, x):
    """Multiply products with 1 - theta_j x_i for all i, four at a time."""
    fours = x.size - x.size % 4
    for i in range(0, fours, 4):
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(products.size):
            theta = thetas[j]
            first = (1.0 - theta * x0) * (1.0 - theta * x1)
            products[j] *= first * ((1.0 - theta * x2) * (1.0 - theta * x3))
    for i in range(fours, x.size):
        for j in range(products.size):
            products[j] *= 1.0 - thetas[j] * x[i]


@_jit
def _smooth(hazard, k, log_sigma, cutoff, tail):
    """Fill tail with its expected order statistics below the peak (see `gpd.log_quantiles`).

    The cut-off is relative to the peak, the quantiles are relative to the cut-off.
    """
    magnitude = abs(k)
    exponential = magnitude * hazard[-1] < 1e-12
    for i in range(hazard.size):
        if exponential:
            log_quantile = log_sigma + np.log(hazard[i])
        else:
            power = magnitude * hazard[i]
            log_quantile = log_sigma + np.log(-np.expm1(-power) / magnitude)
            if k > 0.0:
                log_quantile += power
        raised = max(log_quantile, 0.0) + np.log1p(np.exp(-abs(log_quantile)))
        tail[i] = min(cutoff + raised, 0.0)


@_jit
def _normalize(values, peak, largest, indices, replacements, log_weights):
    """Write normalised log weights; return their log-sum-exp and effective sample size.

    The replacements, of which ``largest`` is the largest, are relative to the peak.
    """
    if not np.isfinite(peak):
        for i in range(values.size):
            log_weights[i] = np.nan
        return np.nan, np.nan
    # One after the other, so that a large peak costs no digits; _jit keeps this order.
    for i in range(values.size):
        log_weights[i] = (values[i] - peak) - largest
    for i in range(indices.size):
        log_weights[indices[i]] = replacements[i] - largest
    total = 0.0
    total_square = 0.0
    for start in range(0, values.size, _BLOCK):  # by blocks, so that rounding errors stay small
        block_total, block_square = _exp_sums(log_weights[start : start + _BLOCK])
        total += block_total
        total_square += block_square
    log_total = np.log(total)
    for i in range(values.size):
        log_weights[i] -= log_total
    return peak + (largest + log_total), total * total / total_square


@njit(**_fast, **_options)  # tests call it
def _exp_sums(values):
    """Return the sums of exp(v) and of its square for v <= 0; each exp is right to 1e-13."""
    total = 0.0
    total_square = 0.0
    for i in range(values.size):
        x = max(values[i], -708.0)  # smaller ones add nothing to a sum that is at least one
        n = np.floor(x * _LOG2_E + 0.5)
        r = x - n * _LOG_2_HIGH
        r = r - n * _LOG_2_LOW
        p = 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        bits = np.float64(n + _SHIFT).view(np.int64) << 52
        exponential = p * np.int64(bits + _BIAS).view(np.float64)
        total += exponential
        total_square += exponential * exponential
    return total, total_square


@njit(_signature, **_options)
def smooth_rows(rows, peaks, tail_length, codes, numbers, grid, log_weights):
    """Smooth and normalise each row; fill the arrays from ``codes`` on."""
    num_rows = rows.shape[0]
    with_weights = log_weights.shape[1] > 0
    tail = np.empty(tail_length)
    indices = np.empty(tail_length, np.int64)
    hazard = np.empty(tail_length)
    for i in range(tail_length):
        hazard[i] = -np.log1p(-(i + 0.5) / tail_length)
    for row in range(num_rows):
        num_replaced = 0
        largest = 0.0
        peak = peaks[row]
        if codes[row] == OK:
            cutoff = _select_tail(rows[row], tail, indices)
            # Khat needs no order but that of a few; elsewhere it has the same bits as with weights.
            if with_weights or rows.shape[1] > tail_length + 1:
                _sort_stably(tail, indices)
            quartile = _nth_smallest(tail, _quartile_index(tail_length))
            smallest = largest_value = quartile
            for i in range(tail_length):
                smallest = min(smallest, tail[i])
                largest_value = max(largest_value, tail[i])
            codes[row] = _status_of(cutoff, smallest, quartile, largest_value)
            if codes[row] == OK:
                k, log_sigma = _fit_gpd(
                    tail, cutoff, quartile, largest_value, grid[row, 0], grid[row, 1]
                )
                numbers[row, 0] = k
                if with_weights:
                    _smooth(hazard, k, log_sigma, cutoff - peak, tail)
                    num_replaced = tail_length
                    largest = tail[-1]
        if with_weights:
            numbers[row, 1], numbers[row, 2] = _normalize(
                rows[row], peak, largest, indices[:num_replaced], tail, log_weights[row]
            )


@njit(**_options)
def weigh_rows(rows, weights, sums):
    """Fill sums, shape (rows, weightings, 4), with sum w h, sum w d^2, sum w^2 d^2 and imbalance.

    d = h - sum w h, and the imbalance is max w d - max -w d. Draws of weight zero count for
    nothing, whatever their value.
    """
    size = rows.shape[1]
    for row in range(rows.shape[0]):
        for way in range(weights.shape[0]):
            mean = 0.0
            spread = 0.0
            error = 0.0
            above = np.int64(0)
            below = np.int64(0)
            for start in range(0, size, _BLOCK):  # by blocks, so that rounding errors stay small
                stop = min(start + _BLOCK, size)
                mean += _weighted_sum(rows[row, start:stop], weights[way, start:stop])
            for start in range(0, size, _BLOCK):
                stop = min(start + _BLOCK, size)
                part = _weighted_squares(rows[row, start:stop], weights[way, start:stop], mean)
                spread += part[0]
                error += part[1]
                above = max(above, part[2])
                below = max(below, part[3])
            sums[row, way, 0] = mean
            sums[row, way, 1] = spread
            sums[row, way, 2] = error
            sums[row, way, 3] = np.int64(above).view(np.float64) - np.int64(below).view(np.float64)


@_jit_vectorized
def _weighted_sum(values, weights):
    total = 0.0
    for i in range(values.size):
        value = values[i]
        if weights[i] == 0.0:
            value = 0.0
        total += weights[i] * value
    return total


@_jit_vectorized
def _weighted_squares(values, weights, mean):
    """Return sum w d^2, sum w^2 d^2 and the bits of max w d and of max -w d."""
    total = 0.0
    total_weighted = 0.0
    above = np.int64(0)
    below = np.int64(0)
    for i in range(values.size):
        deviation = values[i] - mean
        if weights[i] == 0.0:
            deviation = 0.0
        product = weights[i] * deviation
        square = product * deviation
        total += square
        total_weighted += weights[i] * square
        # The bits of positive numbers are in the order of the numbers, and NaN lies above them.
        above = max(above, np.float64(product).view(np.int64))
        below = max(below, np.float64(-product).view(np.int64))
    return total, total_weighted, above, below


@njit(**_options)
def compare_rows(rows, weights, sums, errors):
    """Fill errors, shape (rows, 2), with the squared errors of shift and growth (`differences`).

    ``sums`` are those of `weigh_rows` by equal weights and by these.
    """
    size = rows.shape[1]
    for row in range(rows.shape[0]):
        shift_error = 0.0
        growth_error = 0.0
        for start in range(0, size, _BLOCK):
            stop = min(start + _BLOCK, size)
            part = _compared(rows[row, start:stop], weights[start:stop], 1.0 / size, sums[row])
            shift_error += part[0]
            growth_error += part[1]
        errors[row, 0] = shift_error
        errors[row, 1] = growth_error


@_jit_vectorized
def _compared(values, weights, equal, sums):
    """Return what some draws contribute to the squared errors."""
    plain_mean, mean = sums[0, 0], sums[1, 0]
    per_plain_variance, per_variance = 1.0 / sums[0, 1], 1.0 / sums[1, 1]
    per_sd = np.sqrt(per_variance)
    shift = (mean - plain_mean) * per_sd
    total_shift = 0.0
    total_growth = 0.0
    for i in range(values.size):
        plain = values[i] - plain_mean
        weighted = values[i] - mean
        if weights[i] == 0.0:
            weighted = 0.0
        of_sd = 0.5 * weights[i] * (weighted * weighted * per_variance - 1.0)
        of_growth = of_sd - 0.5 * equal * (plain * plain * per_plain_variance - 1.0)
        of_shift = (weights[i] * weighted - plain * equal) * per_sd - shift * of_sd
        total_shift += of_shift * of_shift
        total_growth += of_growth * of_growth
    return total_shift, total_growth


@njit(**_options)
def select_products(rows, centers, log_ratios, ratios, tails, codes):
    """Find the largest products (h - center) r of either sign, for each row h.

    Fill codes, shape (rows, 2), with OK and tails, shape (rows, 2, M + 1), with the logarithms of
    the largest, in any order; or codes with TOO_FEW_POSITIVE and tails with the largest products
    themselves. Codes are CONSTANT where h or the products are, and NOT_FINITE where one is not or h
    varies only where ratios are zero.

    ``ratios`` are exp(log_ratios - max). Products of these tell which draws may be among the
    largest; of those logarithms are taken, which can span more than a double does.
    """
    size = rows.shape[1]
    num_largest = tails.shape[2]
    peak = -np.inf
    for i in range(size):
        peak = max(peak, log_ratios[i])
    slack = 1e-9 + 1e-13 * abs(peak)  # more than rounding moves the logarithm of a product
    products = np.empty(size)
    found = np.empty(size)
    for row in range(rows.shape[0]):
        values = rows[row]
        center = centers[row]
        largest = _largest(values, log_ratios)
        rounding = ROUNDING * largest
        widest = _deviate(values, center, rounding, log_ratios, ratios, products)
        # Below the least a product, or its ratio, has lost digits.
        least = 1e-290 * max(1.0, widest) if slack < 0.25 else np.inf
        if not (largest < np.inf and 0.0 < widest < np.inf):
            constant = largest < np.inf and _are_within(values, center, rounding)
            codes[row, 0] = codes[row, 1] = CONSTANT if constant else NOT_FINITE
            continue
        sample = products[:: _stride(size)].copy()
        for side in range(2):
            sign = 1.0 - 2.0 * side
            cutoff = _guess_cutoff(sample, size, sign, num_largest, least)
            guess = (1.0 - 2.0 * slack) * cutoff
            while True:
                count = _find_large(
                    values, center, rounding, log_ratios, products, sign, guess, found
                )
                cutoff = -np.inf
                if count >= num_largest:
                    cutoff = _nth_smallest(found[:count], count - num_largest)
                if guess == 0.0 or cutoff > peak + np.log(guess) + slack:
                    break
                guess = 0.0  # a bad guess only costs time
            codes[row, side] = OK
            if count == size and _are_equal(found):
                codes[row, side] = CONSTANT
            elif count < num_largest:
                codes[row, side] = TOO_FEW_POSITIVE
                count = size
                _scale(products, sign, found)
                _nth_smallest(found, count - num_largest)
            for i in range(num_largest):
                tails[row, side, i] = found[count - num_largest + i]


@_jit
def _are_within(values, center, distance):
    within = True
    for i in range(values.size):
        within = within and abs(values[i] - center) <= distance
    return within


@_jit
def _are_equal(values):
    """Whether values are the same up to rounding (see `smoothing._classify`)."""
    low = np.inf
    high = -np.inf
    for i in range(values.size):
        low = min(low, values[i])
        high = max(high, values[i])
    return high - low <= ROUNDING * max(1.0, abs(high))


@_jit
def _scale(values, factor, scaled):
    for i in range(values.size):
        scaled[i] = factor * values[i]


@_jit_vectorized
def _largest(values, log_ratios):
    """Return the largest absolute value where the ratio is positive: NaN if there is one."""
    largest = np.int64(0)
    for i in range(values.size):
        # Without their sign, the bits are in the order of the numbers.
        bits = np.float64(values[i]).view(np.int64) & _WITHOUT_SIGN
        if log_ratios[i] == -np.inf:
            bits = np.int64(0)
        largest = max(largest, bits)
    return np.int64(largest).view(np.float64)


@_jit_vectorized
def _deviate(values, center, rounding, log_ratios, ratios, products):
    """Fill products with deviation * ratio; return the largest absolute deviation, or NaN.

    Deviations within the rounding are zero, and so are those where the ratio is.
    """
    largest = np.int64(0)
    for i in range(values.size):
        deviation = values[i] - center
        if abs(deviation) <= rounding:
            deviation = 0.0
        if log_ratios[i] == -np.inf:
            deviation = 0.0
        products[i] = deviation * ratios[i]
        largest = max(largest, np.float64(deviation).view(np.int64) & _WITHOUT_SIGN)
    return np.int64(largest).view(np.float64)


@_jit
def _stride(length):
    """Return the distance of draws in a sample that tells which others may be in a tail."""
    return max(1, length // max(256, int(6.0 * np.sqrt(length))))


@_jit
def _guess_cutoff(sample, length, sign, num_largest, least):
    """Return what most likely lies below the largest; zero if that is less than the least.

    The sample, of so many products, is rearranged.
    """
    expected = sample.size * num_largest / length
    rank = int(expected + 3.0 * np.sqrt(expected) + 4.0)
    if rank >= sample.size:
        return 0.0
    guess = sign * _nth_smallest(sample, sample.size - rank if sign > 0.0 else rank - 1)
    return guess if guess > least else 0.0


@_jit
def _find_large(values, center, rounding, log_ratios, products, sign, guess, found):
    """Put log |(h - center) r| of products from a guess on into found; return their number.

    A guess of zero stands for all that are positive, even if rounded to zero.
    """
    count = 0
    for i in range(values.size):
        if sign * products[i] >= guess:
            deviation = sign * (values[i] - center)
            if deviation > rounding and log_ratios[i] > -np.inf:
                found[count] = np.log(deviation) + log_ratios[i]
                count += 1
    return count


@njit(**_options)
def select_moments(rows, means, variances, log_ratios, ratios, tails, certain):
    """Do what `select_products` does for mean and variance of each row, where nothing is unusual.

    Fill tails, shape (rows, 4, M + 1), with the logarithms of the largest products (h - mean) r of
    either sign, and of ((h - mean)^2 - variance) r; and certain with whether they are there. All
    four are found in one pass, which keeps nothing but what may be among the largest.
    """
    size = rows.shape[1]
    num_largest = tails.shape[2]
    peak = -np.inf
    least_log = np.inf
    for i in range(size):
        peak = max(peak, log_ratios[i])
        least_log = min(least_log, log_ratios[i])
    slack = 1e-9 + 1e-13 * abs(peak)
    room = size // 8 + _PIECE  # a piece is counted when it has been looked at
    found = np.empty((4, room))
    places = np.empty((4, room), np.int64)
    counts = np.empty(4, np.int64)
    guesses = np.empty(4)
    stride = _stride(size)
    samples = np.empty((2, -(-size // stride)))
    for row in range(rows.shape[0]):
        certain[row] = False
        values = rows[row]
        mean, variance = means[row], variances[row]
        largest, widest = _extent(values, mean)
        square = widest * widest
        rounding = ROUNDING * largest
        # Draws without weight, numbers that are not finite and constants are for the other.
        if not (least_log > -np.inf and slack < 0.25 and rounding < widest and square < np.inf):
            continue
        rounding_square = ROUNDING * square
        for i in range(samples.shape[1]):
            deviation = values[i * stride] - mean
            samples[0, i] = deviation * ratios[i * stride]
            samples[1, i] = (deviation * deviation - variance) * ratios[i * stride]
        known = True
        for tail in range(4):
            furthest = widest if tail < 2 else square
            guesses[tail] = (1.0 - 2.0 * slack) * _guess_cutoff(
                samples[tail // 2],
                size,
                1.0 - 2.0 * (tail % 2),
                num_largest,
                1e-290 * max(1.0, furthest),
            )
            known = known and guesses[tail] > 0.0
        if not known or not _find_largest(
            values,
            mean,
            variance,
            rounding,
            rounding_square,
            ratios,
            guesses,
            found,
            places,
            counts,
        ):
            continue
        for tail in range(4):
            count = counts[tail]
            if count < num_largest:
                known = False
                break
            count = _take_logs(
                values,
                mean,
                variance,
                tail,
                log_ratios,
                slack,
                num_largest,
                found[tail],
                places[tail, :count],
            )
            cutoff = _nth_smallest(found[tail, :count], count - num_largest)
            if not cutoff > peak + np.log(guesses[tail]) + slack:
                known = False
                break
            for i in range(num_largest):
                tails[row, tail, i] = found[tail, count - num_largest + i]
        certain[row] = known


@_jit_vectorized
def _extent(values, mean):
    """Return the largest absolute value and deviation: NaN or infinite if there is one."""
    largest = np.int64(0)
    widest = np.int64(0)
    for i in range(values.size):
        # Without their sign, the bits are in the order of the numbers.
        largest = max(largest, np.float64(values[i]).view(np.int64) & _WITHOUT_SIGN)
        widest = max(widest, np.float64(values[i] - mean).view(np.int64) & _WITHOUT_SIGN)
    return np.int64(largest).view(np.float64), np.int64(widest).view(np.float64)


@_jit
def _find_largest(
    values, mean, variance, rounding, rounding_square, ratios, guesses, found, places, counts
):
    """Fill found and places with products from the guesses on; return whether all fit in."""
    room = found.shape[1] - _PIECE
    counts[:] = 0
    hits = np.empty(_PIECE, np.uint8)
    positions = np.empty(_PIECE + 1, np.int64)
    for start in range(0, values.size, _PIECE):
        stop = min(start + _PIECE, values.size)
        some, its_ratios = values[start:stop], ratios[start:stop]
        _mark(some, its_ratios, mean, variance, guesses, hits)
        for k in range(_places(hits[: stop - start], positions)):
            deviation = some[positions[k]] - mean
            excess = deviation * deviation - variance
            ratio, place = its_ratios[positions[k]], start + positions[k]
            # Written in any case and counted if large: no branch has to be guessed.
            tail = int(not deviation > 0.0)
            found[tail, counts[tail]] = product = abs(deviation) * ratio
            places[tail, counts[tail]] = place
            counts[tail] += (product >= guesses[tail]) & (abs(deviation) > rounding)
            tail = 2 + int(not excess > 0.0)
            found[tail, counts[tail]] = product = abs(excess) * ratio
            places[tail, counts[tail]] = place
            counts[tail] += (product >= guesses[tail]) & (abs(excess) > rounding_square)
        if max(counts[0], counts[1], counts[2], counts[3]) > room:
            return False
    return True


@_jit
def _take_logs(values, mean, variance, tail, log_ratios, slack, num_largest, found, places):
    """Replace the largest of products, which were found at these places, by their logarithms.

    Return how many: those that rounding may have put in another order are among them.
    """
    products = found[: places.size].copy()
    least = (1.0 - 2.0 * slack) * _nth_smallest(products, places.size - num_largest)
    count = 0
    for i in range(places.size):
        if found[i] >= least:
            deviation = values[places[i]] - mean
            if tail >= 2:
                deviation = deviation * deviation - variance
            found[count] = np.log(abs(deviation)) + log_ratios[places[i]]
            count += 1
    return count


@_jit
def _mark(values, ratios, mean, variance, guesses, hits):
    """Mark the draws of which a product may be among the largest, by vector instructions."""
    above, below, wide, narrow = guesses[0], -guesses[1], guesses[2], -guesses[3]
    for i in range(values.size):
        deviation = values[i] - mean
        product = deviation * ratios[i]
        excess = (deviation * deviation - variance) * ratios[i]
        hits[i] = (product >= above) | (product <= below) | (excess >= wide) | (excess <= narrow)


@_jit
def _places(hits, positions):
    """Fill positions with those of all hits; return their number. No branch has to be guessed."""
    count = 0
    for i in range(hits.size):
        positions[count] = i
        count += hits[i]
    return count
