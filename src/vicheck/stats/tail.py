"""The largest values of a vector, without sorting the rest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Tail", "log_exceedances", "select_tail"]

Floats = NDArray[np.float64]


class Tail(NamedTuple):
    """The largest values of vectors in ascending order, and their positions.

    Of a single vector, or of the rows of a matrix: then every field has an axis over them.
    """

    cutoff: Floats
    """Largest value outside the tail."""
    values: Floats
    indices: NDArray[np.intp]


def select_tail(values: Floats, tail_length: int) -> Tail:
    """Return the ``tail_length`` largest values of a vector, or of each row; there is no NaN.

    Equal values keep the order of their positions. Where values tie at the cut-off, the later
    positions belong to the tail, as they would after a stable ascending sort of the whole vector.

    Examples
    --------
    >>> import numpy as np
    >>> select_tail(np.array([3.0, 9.0, 1.0, 9.0, 5.0]), 3)
    Tail(cutoff=np.float64(3.0), values=array([5., 9., 9.]), indices=array([4, 1, 3]))
    """
    rows = np.atleast_2d(values)
    split = rows.shape[1] - tail_length
    cutoff = np.partition(rows, split - 1, axis=1)[:, split - 1]
    inside = rows > cutoff[:, None]
    missing = tail_length - inside.sum(axis=1)
    for row in np.flatnonzero(missing):
        at_cutoff = np.flatnonzero(rows[row] == cutoff[row])
        inside[row, at_cutoff[at_cutoff.size - missing[row] :]] = True
    indices = np.nonzero(inside)[1].reshape(-1, tail_length)
    largest = np.take_along_axis(rows, indices, 1)
    order = np.argsort(largest, axis=1, kind="stable")
    tail = Tail(
        cutoff, np.take_along_axis(largest, order, 1), np.take_along_axis(indices, order, 1)
    )
    return tail if values.ndim > 1 else Tail._make(field[0] for field in tail)


def log_exceedances(tail: Tail) -> Floats:
    """Return log(exp(value - cutoff) - 1) of each value, -inf where it equals the cut-off.

    These are the exceedances exp(value) - exp(cutoff) in units of exp(cutoff). No two exponentials
    are subtracted: ratios that differ in their last digits only have exceedances with all digits,
    and ratios thousands of nats apart have some too.

    Examples
    --------
    >>> import numpy as np
    >>> log_exceedances(Tail(np.array(0.0), np.array([1e-12, 1.0, 1e5]), np.arange(3)))
    array([-2.76310211e+01,  5.41324855e-01,  1.00000000e+05])
    """
    gaps = tail.values - tail.cutoff[..., None]
    with np.errstate(divide="ignore", under="ignore"):
        return np.asarray(gaps + np.log(-np.expm1(-gaps)))
