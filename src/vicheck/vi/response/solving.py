"""Linear equations with a Hessian: by factoring it, or by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from vicheck.results.linear_response import ResponseStatus

__all__ = ["Solved", "by_conjugate_gradients", "by_factoring"]

Floats = NDArray[np.float64]


class Solved(NamedTuple):
    """Solutions, one in each row, and how the equations were solved."""

    x: Floats
    """NaN where the status says that there is none."""
    status: ResponseStatus
    num_iterations: int = 0


def by_factoring(matrix: Floats, right: Floats) -> Solved:
    """Solve for each row of the right-hand sides, shape ``(m, p)``, unless it is not positive."""
    unknown = np.full_like(right, np.nan)
    if not np.isfinite(matrix).all():
        return Solved(unknown, ResponseStatus.NOT_FINITE)
    try:
        factor = cho_factor(matrix, lower=True)
    except LinAlgError:
        return Solved(unknown, ResponseStatus.NOT_POSITIVE)
    # A row with NaN has no solution, and the others do not mind.
    return Solved(cho_solve(factor, right.T, check_finite=False).T, ResponseStatus.OK)


def by_conjugate_gradients(
    times: Callable[[Floats], Floats], right: Floats, tolerance: float, max_iterations: int
) -> Solved:
    """Do the same with products alone, all right-hand sides together.

    There is no preconditioner: in sds of q the diagonal of a Hessian is about 1 already. A
    right-hand side is done when its residual is below ``tolerance`` times its own size.
    """
    x, residual = np.zeros_like(right), right.copy()
    direction, square = right.copy(), np.square(right).sum(axis=1)
    goal = tolerance**2 * square
    going = np.flatnonzero(square > goal)
    for iteration in range(max_iterations):
        if not len(going):
            return Solved(x, ResponseStatus.OK, iteration)
        ahead = direction[going]
        product = times(ahead)
        curvature = np.einsum("ij,ij->i", ahead, product)
        unknown = np.full_like(right, np.nan)
        if not np.isfinite(curvature).all():
            return Solved(unknown, ResponseStatus.NOT_FINITE, iteration + 1)
        if not (curvature > 0.0).all():
            return Solved(unknown, ResponseStatus.NOT_POSITIVE, iteration + 1)
        length = (square[going] / curvature)[:, None]
        x[going] += length * ahead
        residual[going] -= length * product
        new = np.square(residual[going]).sum(axis=1)
        direction[going] = residual[going] + (new / square[going])[:, None] * ahead
        square[going] = new
        going = going[new > goal[going]]
    x[going] = np.nan
    status = ResponseStatus.NOT_SOLVED if len(going) else ResponseStatus.OK
    return Solved(x, status, max_iterations)
