"""How finely log densities are written down: in single precision, or with a few digits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

__all__ = ["resolution_of"]

Floats = NDArray[np.float64]

_DECIMALS = range(4, -7, -1)
"""Powers of ten that numbers may have been rounded to, the coarsest first."""
_LEAST_DIGITS = 1e-4
"""Numbers rounded to more than this part of their size are whole numbers of something else."""
_SPACINGS = 64.0
"""Spacings of double precision below which no number can be told from a rounded one."""
_SAMPLE = 256


def resolution_of(log_density: Floats) -> float:
    """Return the distance between neighbouring numbers of the kind that these are.

    It is that of double precision, unless every number is one of single precision, or has few
    decimals: then that of these. Zero for fewer than two different numbers.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(1).normal(size=1000) - 1e6
    >>> resolution_of(x), resolution_of(x.astype(np.float32)), resolution_of(x.round(1))
    (1.1641532182693481e-10, 0.0625, 0.1)
    """
    x = np.asarray(log_density, np.float64)
    x = x[np.isfinite(x)]
    if x.size < 2 or x.min() == x.max():
        return 0.0
    size = np.abs(x).max()
    found = float(np.spacing(size))
    if _all_of(x, _is_single):
        found = float(np.spacing(np.float32(size)))
    for power in _DECIMALS:
        step = 10.0**power
        clear = _SPACINGS * np.spacing(size) < step <= _LEAST_DIGITS * size
        if clear and step > found and _all_of(x, partial(_is_multiple, power=power)):
            return step
    return found


def _all_of(x: Floats, holds: Callable[[Floats], bool]) -> bool:
    """Whether something holds of all numbers; a few of them tell where it does not."""
    return holds(x[:_SAMPLE]) and holds(x)


def _is_single(x: Floats) -> bool:
    with np.errstate(over="ignore", under="ignore"):
        return bool((x.astype(np.float32) == x).all())


def _is_multiple(x: Floats, power: int) -> bool:
    """Whether all numbers are multiples of a power of ten, up to rounding in double precision."""
    scaled = x / 10.0**power if power >= 0 else x * 10.0**-power
    rounding = 4.0 * np.finfo(np.float64).eps * np.abs(scaled)
    return bool((np.abs(scaled - np.rint(scaled)) <= rounding).all())
