"""The log density and its gradient at many points: all that solvers compile of a model.

Everything else that a fit does runs on the host, in NumPy. So compiled code is small, it holds the
density once, and it serves the search for modes, the curvature, the fit and the test of its
gradient. A model whose density is computed on the host anyway, such as one of Stan's, compiles
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import jax
import numpy as np
from jax import lax
from numpy.typing import NDArray

from vicheck.model import Data, Program
from vicheck.runtime.compiling import compiled, is_large, size_of
from vicheck.runtime.in_one_piece import in_one_piece
from vicheck.runtime.interrupts import check_interrupt
from vicheck.runtime.tally import count

__all__ = ["ROWS", "Density"]

Floats = NDArray[np.float64]
Lanes = NDArray[np.intp]

_FEW_ROWS, ROWS = 8, 32
"""Points of a large model that compiled code evaluates together where there are many sets of data;
fewer are filled up."""
_ROWS_OF_ONE = 16
"""The same for one set of data: its numbers are read once for all points, which takes about as
long for 8 of them."""
_MOST_ROWS, _MANY = 128, 1024
"""The same for one set of data, of the smallest models, and where there are very many."""
_WORK = 2**13
"""Numbers that points of a small model read in the time that a call takes, roughly: fewer are
filled up to as many as do that."""
_FEW_TOGETHER, _TOGETHER = 2, 64
"""Sets of data in one call of compiled code, where there are many, of large and small models."""
_ROWS_OF_MANY = 16
"""Points of a small model for each of them."""


class Density:
    """Log density and gradient of one program, given one set of data or many.

    Parameters
    ----------
    program
        The program.
    shared
        Data that are the same in all sets.
    own
        Arrays with a leading axis over the sets of data, of which each has one entry.
    num_lanes
        How many sets of data there are. A *lane* is one of them, with the fit to it.
    """

    def __init__(self, program: Program, shared: Data, own: Data, num_lanes: int = 1) -> None:
        self.program, self.num_lanes = program, num_lanes
        self.dim = program.dim
        self.num_evaluations = np.zeros(num_lanes, np.int64)
        """Points evaluated so far, by lane."""
        self._shared, self._own = shared, jax.tree.map(np.asarray, own)
        one = self._data_of(0)
        if num_lanes == 1:
            self._shared, self._own = one, {}
        self._on_host = program.density_on_host(one)
        # Where the density itself is work for several cores, one set of data fills them.
        self._is_large = is_large(program, one)
        self._rows = _ROWS_OF_ONE
        if not self._is_large:
            work = _WORK // size_of(program, one)
            self._rows = int(np.clip(1 << work.bit_length() >> 1, ROWS, _MOST_ROWS))
        if self._on_host is None:
            # Arrays on the device are not copied again at each call.
            self._shared = jax.device_put(self._shared)
        self._together = 1
        if num_lanes > 1:
            self._together = _FEW_TOGETHER if self._is_large else _TOGETHER
        self._prepared: dict[int, Any] = {}

    def __call__(self, lanes: Lanes, z: Floats) -> tuple[Floats, Floats]:
        """Return log densities and gradients.

        Parameters
        ----------
        lanes
            Which sets of data, shape ``(l,)``; one may come several times.
        z
            Points for each of them, shape ``(l, n, d)``.

        Returns
        -------
        tuple
            Values, shape ``(l, n)``, and gradients, shape ``(l, n, d)``.
        """
        check_interrupt()
        if self.num_lanes == 1:
            self.num_evaluations += len(lanes) * z.shape[1]
        else:
            np.add.at(self.num_evaluations, lanes, z.shape[1])
        count(gradients=len(lanes) * z.shape[1])
        if self._on_host is not None:
            return self._by_host(lanes, z)
        if self.num_lanes == 1:
            values, gradients = self._of_one(z.reshape(-1, self.dim))
            return values.reshape(z.shape[:2]), gradients.reshape(z.shape)
        num_lanes, num_rows, dim = z.shape
        size, together = self._size(num_rows), self._together
        blocks = -(-num_rows // size)
        units = num_lanes * blocks
        padded = together * -(-units // together)
        points = np.empty((num_lanes, blocks * size, dim))
        points[:, :num_rows], points[:, num_rows:] = z, z[:, -1:]
        points, where = points.reshape(units, size, dim), np.repeat(lanes, blocks)
        if padded > units:
            rows = np.minimum(np.arange(padded), units - 1)
            points, where = points[rows], where[rows]
        outputs = []
        for start in range(0, padded, together):
            some = slice(start, start + together)
            args = (points[some], *self.data_of(where[some]))
            # JAX returns before the numbers are there: calls overlap.
            outputs.append(self._code(size, args)(*args))
        values, gradients = (_joined(part) for part in zip(*outputs, strict=True))
        return (
            values[:units].reshape(num_lanes, blocks * size)[:, :num_rows],
            gradients[:units].reshape(num_lanes, blocks * size, dim)[:, :num_rows],
        )

    def _of_one(self, z: Floats) -> tuple[Floats, Floats]:
        """Return the same at points of shape ``(n, d)``, where there is one set of data."""
        total = len(z)
        # Each size is compiled: few models are asked for so many points that a second one pays.
        size = _MANY if total >= _MANY and not self._is_large else self._rows
        outputs = []
        for start in range(0, total, size):
            points = np.empty((1, size, self.dim))
            some = z[start : start + size]
            points[0, : len(some)], points[0, len(some) :] = some, z[-1]
            args: tuple[Any, Data, Data] = (points, {}, self._shared)
            # JAX returns before the numbers are there: calls overlap.
            outputs.append(self._code(size, args)(*args))
        values, gradients = (
            [np.asarray(part)[0] for part in each] for each in zip(*outputs, strict=True)
        )
        if len(outputs) == 1:
            return values[0][:total], gradients[0][:total]
        return np.concatenate(values)[:total], np.concatenate(gradients)[:total]

    def _size(self, num_rows: int) -> int:
        """Return how many points of a set of data, of many, one call of compiled code evaluates."""
        if not self._is_large:
            return _ROWS_OF_MANY
        return _FEW_ROWS if num_rows <= _FEW_ROWS else ROWS

    def _code(self, size: int, args: Any) -> Any:
        """Return compiled code for so many points, looked up once."""
        if size not in self._prepared:
            self._prepared[size] = _evaluate.prepared(self.program, *args)  # type: ignore[attr-defined]
        return self._prepared[size]

    def _by_host(self, lanes: Lanes, z: Floats) -> tuple[Floats, Floats]:
        values, gradients = np.empty(z.shape[:2]), np.empty(z.shape)
        for i, (lane, rows) in enumerate(zip(lanes, z, strict=True)):
            check_interrupt()
            evaluate = self._on_host
            if self._own:  # built anew, or taken from the last ones that were built
                evaluate = self.program.density_on_host(self._data_of(lane))
            assert evaluate is not None
            values[i], gradients[i] = evaluate(rows)
        return values, gradients

    def _data_of(self, lane: Any) -> Data:
        return self._shared | jax.tree.map(lambda leaf: leaf[lane], self._own)

    @property
    def is_compiled(self) -> bool:
        """Whether compiled code computes it, and not a function on the host."""
        return self._on_host is None

    @property
    def is_cheap(self) -> bool:
        """Whether compiled code computes it, and its points are less work than a call."""
        return self.is_compiled and not self._is_large

    def data_of(self, lanes: Lanes) -> tuple[Data, Data]:
        """Return the own data of some lanes, in arrays with a leading axis, and the shared."""
        own = {name: jax.tree.map(itemgetter(lanes), a) for name, a in self._own.items()}
        return own, self._shared

    def compile(self) -> None:
        """Compile what evaluations need, and evaluate nothing that counts."""
        counted = self.num_evaluations.copy()
        for rows in (1, ROWS):
            self(np.zeros(1, np.intp), np.zeros((1, rows, self.dim)))
        self.num_evaluations = counted


@compiled("log_density")
def _evaluate(program: Program, z: Any, own: Data, shared: Data) -> tuple[jax.Array, jax.Array]:
    """Return values and gradients at z, shape ``(units, points, d)``."""

    def of_unit(rows: jax.Array, its_own: Data) -> tuple[jax.Array, jax.Array]:
        data = shared | its_own
        return jax.vmap(jax.value_and_grad(program.log_density), (0, None))(rows, data)

    if own and is_large(program, shared | jax.tree.map(lambda leaf: leaf[0], own)):
        return jax.vmap(of_unit)(z, own)
    if own:  # one after the other, which is compiled and runs faster: all fits into a small cache
        one_by_one = partial(lax.map, lambda unit: of_unit(*unit))
        return in_one_piece(one_by_one, (z, own))
    rows, together = z.reshape(-1, z.shape[-1]), partial(of_unit, its_own={})
    if size_of(program, shared) <= _WORK // _MOST_ROWS and len(rows) <= _MOST_ROWS:
        # A point of so small a model is less work than to begin each of its operations.
        each = jax.value_and_grad(program.log_density)
        row_by_row = partial(lax.map, lambda row: each(row, shared))
        values, gradients = in_one_piece(row_by_row, rows, otherwise=together)
    else:
        values, gradients = together(rows)
    return values.reshape(z.shape[:2]), gradients.reshape(z.shape)


def _joined(parts: Sequence[Any]) -> Floats:
    arrays = [np.asarray(part) for part in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
