"""Which coordinates the widths of others depend on, read off gradients at draws of a normal.

In a hierarchical model a few coordinates (scales of groups, noise) decide how far others spread,
and given these few the others are nearly normal. Here they are found whatever they are called, and
with them axes for the others along which only widths and locations change with the few.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["axes_after", "find_drivers"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_LEAST_ERRORS = 4.0
"""Standard errors by which a change of curvature has to differ from zero to count."""
_LEAST_PART = 0.1
"""Of what the strongest driver does: what does less is none."""
_MOST_DRIVERS = 8
_MOSTLY = 0.9
"""Part of all changes of curvature, squared, with which those on the diagonal are most of it."""
_LARGEST = 5.0
"""A gradient differs by no more than so many units from that of the normal, so that no draw far out
decides alone."""


def find_drivers(z: Floats, gradients: Floats, mean: Floats, covariance: Floats) -> Ints:
    """Return the coordinates by which the curvature along others changes, the strongest first.

    The mean over a normal of the derivative of the curvature along a, with respect to b, is by
    Stein's lemma that of ``(g_a + v_a) v_a v_b``, where v is the gradient of the normal with
    its sign changed (up to a term that vanishes where the normal is optimal). A driver is a b that
    changes many, or some by much; a is measured by its conditional sd and b by its marginal one.
    What changes a driver counts no longer: given the driver, the other follows it. Where a scale
    multiplies a vector, as that of the steps of a random walk does, the curvature along the scale
    changes with each of the vector, and the scale alone has to be a driver.

    Parameters
    ----------
    z, gradients
        Draws of the normal, shape ``(n, d)``, and gradients of the log density there.
    mean, covariance
        Of the normal.
    """
    precision = np.linalg.inv(covariance)
    curvature, sd = np.sqrt(np.diagonal(precision)), np.sqrt(np.diagonal(covariance))
    v = (z - mean) @ precision
    along = np.clip((gradients + v) / curvature, -_LARGEST, _LARGEST) * (v / curvature)
    across = v * sd
    changes = along.T @ across / len(z)
    spread = np.square(along).T @ np.square(across) / len(z) - np.square(changes)
    errors = np.sqrt(np.maximum(spread, 0.0) / len(z))
    left = np.square(np.where(np.abs(changes) > _LEAST_ERRORS * errors, changes, 0.0))
    np.fill_diagonal(left, 0.0)
    found: list[int] = []
    least = max(_LEAST_PART * float(left.sum(axis=0).max()), np.finfo(float).tiny)
    while len(found) < min(_MOST_DRIVERS, len(mean) - 1):
        strength = left.sum(axis=0)
        strongest = int(np.argmax(strength))
        if strength[strongest] < least:
            break
        found.append(strongest)
        left[strongest, :] = left[:, strongest] = 0.0
    return np.array(found, dtype=np.intp)


def axes_after(
    drivers: Ints, z: Floats, gradients: Floats, mean: Floats, covariance: Floats
) -> Floats:
    """Return a root of the covariance whose first columns belong to the drivers.

    ``z = mean + root @ x`` with x of unit covariance; drivers depend on the first entries of x
    only, in their order. Where the curvature that changes with the drivers is far from diagonal,
    the other columns are turned to where it is. Changes by several drivers are weighted unequally,
    so that the axes are common to all of them if there are such. Elsewhere the axes stay those of
    the coordinates, which may each be skewed.
    """
    dim, count = len(mean), len(drivers)
    order = np.concatenate([drivers, np.setdiff1d(np.arange(dim), drivers)])
    ordered = np.linalg.cholesky(covariance[np.ix_(order, order)])
    x = np.asarray(np.linalg.solve(ordered, (z - mean)[:, order].T).T, np.float64)
    away = np.clip(gradients[:, order] @ ordered + x, -_LARGEST, _LARGEST)[:, count:]
    change, seen = np.zeros((2, dim - count, dim - count))
    for each, (one, error) in enumerate(_changes(x, away, count)):
        seen += np.square(np.where(np.abs(one) > _LEAST_ERRORS * error, one, 0.0))
        change += (1.0 + 0.37 * each) * (one + one.T)
    if np.trace(seen) >= _MOSTLY * seen.sum():
        change = np.diag(np.arange(dim - count, dtype=float))  # whose axes are the coordinates'
    turned = ordered.copy()
    turned[:, count:] = ordered[:, count:] @ np.linalg.eigh(change)[1]
    root = np.empty_like(turned)
    root[order] = turned
    return root


def _changes(x: Floats, away: Floats, count: int) -> list[tuple[Floats, Floats]]:
    """Return how each of the first axes changes the curvature along the others, with errors.

    Gradients are regressed on products of the axes. The plain means of these products, which have
    the same expectation, are several times as noisy: all else that a gradient depends on adds to
    them.
    """
    first, others = x[:, :count], x[:, count:]
    rows, columns = np.tril_indices(count)
    terms = [np.ones((len(x), 1)), x, first[:, rows] * first[:, columns]]
    before = sum(each.shape[1] for each in terms)
    terms += [first[:, [each]] * others for each in range(count)]
    basis, root = np.linalg.qr(np.concatenate(terms, axis=1))
    inverse = np.linalg.inv(root)
    along = basis.T @ away
    rest = np.square(away - basis @ along).sum(axis=0) / (len(x) - len(root))
    slopes, sds = inverse @ along, np.sqrt(np.square(inverse).sum(axis=1)[:, None] * rest)
    blocks = [slice(at, at + others.shape[1]) for at in range(before, len(root), others.shape[1])]
    return [(slopes[block].T, sds[block].T) for block in blocks]
