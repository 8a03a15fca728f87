"""Smooth functions through values at scattered points."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Interpolation"]

Floats = NDArray[np.float64]

_FARTHEST = 2.0
"""How many times as far as the farthest point a function still changes."""


class Interpolation(NamedTuple):
    """Several functions of a few coordinates, through the same points.

    Sums of cubed distances from the points and a linear function: in one dimension the natural
    cubic spline. Beyond the points they go on about linearly, and very far out not at all. All is
    written so that the arrays may be of NumPy or of JAX.
    """

    points: Any
    """Where values are known, shape ``(n, k)``."""
    cubes: Any
    """What the cubed distance from each point counts, shape ``(n, f)``."""
    slopes: Any
    offsets: Any
    reach: Any
    """Distance of the farthest point from zero."""

    @classmethod
    def through(cls, points: Floats, values: Floats) -> Self:
        """Return the functions with some values, shape ``(n, f)``, at different points.

        Raises
        ------
        numpy.linalg.LinAlgError
            When the points are too few or lie in a plane, or some of them are the same.
        """
        count, dim = points.shape
        if count <= dim:
            raise np.linalg.LinAlgError(f"{count} points in {dim} dimensions lie in a plane")
        linear = np.column_stack([points, np.ones(count)])
        system = np.zeros((count + dim + 1, count + dim + 1))
        system[:count, :count] = _cubes(points, points)
        system[:count, count:], system[count:, :count] = linear, linear.T
        wanted = np.concatenate([values, np.zeros((dim + 1, values.shape[1]))])
        solved = np.linalg.solve(system, wanted)
        reach = np.linalg.norm(points, axis=1).max()
        return cls(points, solved[:count], solved[count:-1], solved[-1], reach)

    def at(self, x: Any) -> Any:
        """Return the values at x, whose last axis has its coordinates."""
        length = (x * x).sum(-1, keepdims=True) ** 0.5
        farthest = _FARTHEST * self.reach
        near = x * (farthest / length.clip(farthest))
        return _cubes(near, self.points) @ self.cubes + near @ self.slopes + self.offsets


def _cubes(x: Any, points: Any) -> Any:
    apart = x[..., None, :] - points
    return (apart * apart).sum(-1) ** 1.5
