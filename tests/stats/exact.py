"""The tail and its fit in linear scale and many digits, by mpmath."""

import mpmath
import numpy as np

from vicheck.stats.gpd import grid_size, quartile_index


def exact_exceedances(log_ratios, tail_length):
    """Exceedances of the largest ratios over the next one, ascending."""
    cutoff, *largest = [
        mpmath.exp(mpmath.mpf(float(value))) for value in np.sort(log_ratios)[-tail_length - 1 :]
    ]
    return [value - cutoff for value in largest]


def exact_fit(x):
    """Zhang and Stephens' estimator with the weak prior: shape and log scale."""
    size, num_grid = len(x), grid_size(len(x))
    first_quartile, largest = x[quartile_index(size)], x[-1]
    thetas = [
        1 / largest + (1 - mpmath.sqrt(num_grid / (j - mpmath.mpf("0.5")))) / 3 / first_quartile
        for j in range(1, num_grid + 1)
    ]

    def shape(theta):
        return mpmath.fsum(mpmath.log(1 - theta * value) for value in x) / size

    shapes = [shape(theta) for theta in thetas]
    log_density = [
        size * (mpmath.log(-theta / k) - k - 1) for theta, k in zip(thetas, shapes, strict=True)
    ]
    top = max(log_density)
    weights = [mpmath.exp(value - top) for value in log_density]
    theta = mpmath.fsum(w * t for w, t in zip(weights, thetas, strict=True)) / sum(weights)
    k = shape(theta)
    return float((size * k + 5) / (size + 10)), float(mpmath.log(-k / theta))


def exact_khat(log_ratios, tail_length, digits=60):
    """The khat that no rounding has touched."""
    with mpmath.workdps(digits):
        return exact_fit(exact_exceedances(log_ratios, tail_length))[0]
