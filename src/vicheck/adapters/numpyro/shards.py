"""Models written in NumPyro whose data lie in shards, evaluated one at a time or by workers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.host_calls import call_on_host
from vicheck.adapters.numpyro.by_rows import Evaluator, RowModel
from vicheck.adapters.numpyro.splitting import NUM_ROWS, split_by_rows
from vicheck.adapters.shard_data import (
    Columns,
    Shard,
    first_rows,
    in_blocks,
    require_alike,
    shards_of,
)
from vicheck.errors import ModelError
from vicheck.model import Data, Layout, Model, Program, double_precision, name_of
from vicheck.runtime.interrupts import between_pieces, check_interrupt
from vicheck.runtime.remote import results_of
from vicheck.runtime.workers import packed, require_executor

__all__ = ["from_shards"]

Floats = NDArray[np.float64]

_MOST_ROWS = 2**14
"""Rows that compiled code evaluates together: some megabytes for 32 points."""
_SENT_TOGETHER = 8
"""Shards that are on their way to workers at a time, where arrays have to be sent."""


@between_pieces()
def from_shards(
    model_fn: Callable[..., Any],
    shards: Sequence[Any],
    *,
    executor: Executor | None = None,
    **shared: Any,
) -> Model:
    """Take a model written in NumPyro whose data do not fit into memory, or lie in many places.

    The log density is that of the prior, counted once, and the sum over all shards of their log
    likelihoods. Shards are read one after the other, in blocks of rows, in float64; with an
    executor its workers do this, and the sum is formed here, in order, so the bits are the same.

    Parameters
    ----------
    model_fn
        The function with ``numpyro.sample`` statements, for any number of rows of data: a plate
        over the data has as many entries as the array that it is given.
    shards
        One entry for each shard: a dictionary of arrays, or of paths of ``.npy`` files, which are
        mapped into memory when they are needed; or a function without arguments that returns such
        a dictionary. The names are arguments of the model, and the first axis of each array is
        over rows. Numbers may be of any type; they are converted block by block.
    executor
        Anything with the interface of `concurrent.futures.Executor`. Workers read files and call
        functions themselves, and keep what functions have returned and arrays that were sent, up to
        512 MiB each. What a lost worker was computing is computed again.
    **shared
        Arguments of the model that all shards share, such as the number of groups.

    Returns
    -------
    Model
        For `vicheck.fit` and `vicheck.check`. It cannot simulate data. What the model derives from
        rows is left out of its quantities.

    Raises
    ------
    ModelError
        When shards do not fit together, have NaN or are empty; for parameters with an entry for
        each row, plates with a ``subsample_size``, priors that depend on the rows, and likelihoods
        that are not a sum over rows. The message names the shard or the site.

    Examples
    --------
    >>> import numpy as np, numpyro, numpyro.distributions as dist
    >>> def coin(y):
    ...     p = numpyro.sample("p", dist.Beta(1, 1))
    ...     with numpyro.plate("tosses", len(y)):
    ...         numpyro.sample("y", dist.Bernoulli(p), obs=y)
    >>> tosses = np.array([1, 1, 0, 1, 0])
    >>> model = vicheck.from_shards(coin, [{"y": tosses[:3]}, {"y": tosses[3:]}])
    >>> whole = vicheck.from_numpyro(coin, y=tosses)
    >>> bool(np.isclose(model.log_density([0.3]), whole.log_density([0.3])))
    True
    """
    require_executor(executor)
    given = Shards(shards_of(shards), executor)
    columns = given.look()
    require_alike(given.entries, columns)
    both = [name for name in columns[0].shapes if name in shared]
    if both:
        raise ModelError(f"{', '.join(both)} must be in shards or given by name, not both")
    first = given.entries[0].read()
    assert first is not None
    with double_precision():
        model, common = split_by_rows(model_fn, shared, first_rows(first, NUM_ROWS))
    program = ShardedProgram(model.program.layout, model, given, first_rows(first, 2))
    return Model(program, common, name=name_of(model_fn))


@dataclass(frozen=True, eq=False)
class Work:
    """What is computed for each shard; it goes to workers as it is."""

    model: RowModel
    data: Data

    @cached_property
    def evaluator(self) -> Evaluator:
        """Which computes it here."""
        return Evaluator(self.model, self.data)

    @cached_property
    def packed(self) -> bytes:
        """The same as bytes."""
        return packed((self.model, jax.tree.map(np.asarray, self.data)), "model_fn")

    def of_shard(self, shard: Shard, z: Floats, gradients: bool) -> tuple[Floats, ...] | None:
        """Return the log likelihood of a shard at points z, and its gradients if wanted.

        None if its arrays are not in this process.
        """
        arrays = shard.read()
        if arrays is None:
            return None
        size = _block_size(len(next(iter(arrays.values()))), exact=not self.model.can_fill)
        total = _zeros(z, gradients)
        with double_precision():
            for rows, count in in_blocks(arrays, size, fill=self.model.can_fill):
                check_interrupt()
                part = self.evaluator.sums(z, rows, count, gradients=gradients)
                total = _added(total, part)
        return total


def _zeros(z: Floats, gradients: bool) -> tuple[Floats, ...]:
    return (np.zeros(len(z)), np.zeros(z.shape))[: 1 + gradients]


def _added(total: tuple[Floats, ...], part: tuple[Floats, ...]) -> tuple[Floats, ...]:
    return tuple(whole + more for whole, more in zip(total, part, strict=True))


def _block_size(num_rows: int, *, exact: bool) -> int:
    """Return how many rows are evaluated together.

    Shards of about the same length have blocks of the same size, for which code is compiled: three
    digits in base 2 after the first. That is at most an eighth more rows than there are.
    """
    size = -(-num_rows // -(-num_rows // _MOST_ROWS))
    grain = 1 if exact else 1 << max(0, size.bit_length() - 4)
    return -(-size // grain) * grain


@dataclass(frozen=True, eq=False)
class Shards:
    """All shards, and who evaluates them."""

    entries: tuple[Shard, ...]
    executor: Executor | None = None

    def __getstate__(self) -> dict[str, Any]:
        # On a worker there are no further workers.
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"executor": None}

    def look(self) -> list[Columns]:
        """Read all shards once."""
        found: list[Any] = []
        # Arrays that are here are looked at here.
        if self.executor is not None and all(shard.is_light for shard in self.entries):
            found = list(results_of(self.executor, _look, [(each,) for each in self._packed]))
        for shard in self.entries[len(found) :]:
            check_interrupt()
            found.append(shard.look())
        return found

    def sums(self, work: Work, z: Floats, *, gradients: bool) -> Iterator[tuple[Floats, ...]]:
        """Yield the log likelihood of each shard at points z, in order, and gradients if wanted."""
        if self.executor is None:
            for shard in self.entries:
                part = work.of_shard(shard, z, gradients)
                assert part is not None
                yield part
            return
        more = (work.packed, z, gradients)
        results = results_of(self.executor, _sum, [(each, *more) for each in self._packed])
        if all(shard.is_light for shard in self.entries):
            yield from results
            return
        found = list(results)
        absent = [index for index, result in enumerate(found) if result is None]
        for start in range(0, len(absent), _SENT_TOGETHER):
            some = absent[start : start + _SENT_TOGETHER]
            calls = [(packed(self.entries[i], self.entries[i].name), *more) for i in some]
            for index, result in zip(some, results_of(self.executor, _sum, calls), strict=True):
                found[index] = result
        yield from found

    def total(self, work: Work, z: Floats, *, gradients: bool) -> tuple[Floats, ...]:
        """Return the sum over all shards, added up in their order."""
        total = _zeros(z, gradients)
        for part in self.sums(work, z, gradients=gradients):
            total = _added(total, part)
        return total

    @cached_property
    def _packed(self) -> list[bytes]:
        """What workers are sent that may hold arrays already."""
        return [packed(shard.without_arrays(), shard.name) for shard in self.entries]


def _look(shard: bytes) -> Columns | None:
    found: Shard = pickle.loads(shard)
    return found.look()


def _sum(shard: bytes, work: bytes, z: Floats, gradients: bool) -> tuple[Floats, ...] | None:
    sent: Shard = pickle.loads(shard)
    sent.hold()
    return _unpacked(work).of_shard(sent, z, gradients)


@lru_cache(maxsize=2)
def _unpacked(work: bytes) -> Work:
    # Cached, so that what it computes is traced only once.
    return Work(*pickle.loads(work))


@dataclass(frozen=True)
class ShardedProgram(Program):
    """The program of a model whose data lie in shards: JAX asks the host for their likelihood."""

    layout: Layout
    model: RowModel
    shards: Shards
    example: Data = field(compare=False)
    """Two rows, for all that does not depend on them: names, shapes and the prior."""

    @property
    def elsewhere(self) -> tuple[str, ...]:
        return tuple(self.example)

    @property
    def identity(self) -> str:
        return self.shards.entries[0].key[0]

    def log_density(self, z: jax.Array, data: Data) -> jax.Array:
        return self.model.prior(z, self._filled(data)) + _log_likelihood(self, z, data)

    def density_on_host(self, data: Data) -> Callable[[Any], tuple[Any, Any]]:
        work = Work(self.model, data)

        def evaluate(z: Floats) -> tuple[Floats, Floats]:
            with double_precision():
                prior = work.evaluator.prior(z, self.example)
            values, gradients = _added(prior, self.shards.total(work, z, gradients=True))
            return values, gradients

        return evaluate

    def constrain(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        values = self.model.program.constrain(z, self._filled(data))
        names = [*(name for name, _ in self.layout), *self.model.derived]
        return {name: values[name] for name in names}

    def unconstrain(self, theta: Mapping[str, Any], data: Data) -> jax.Array:
        return self.model.program.unconstrain(theta, self._filled(data))

    def locate_trouble(self, z: jax.Array, data: Data) -> str:
        if not np.isfinite(self.model.prior(jnp.asarray(z), self._filled(data))):
            return "the prior"
        work, point = Work(self.model, data), np.asarray(z, np.float64)[None]
        sums = self.shards.sums(work, point, gradients=True)
        bad = [
            shard.name
            for shard, part in zip(self.shards.entries, sums, strict=True)
            if not all(np.isfinite(array).all() for array in part)
        ]
        return f"the likelihood of {', '.join(bad)}" if bad else "the gradient of the prior"

    def check_data(self, data: Data) -> None:
        self.model.program.check_data(self._filled(data))

    def is_elementwise(self, name: str) -> bool:
        return self.model.program.is_elementwise(name)

    def is_decreasing(self, name: str) -> bool:
        return self.model.program.is_decreasing(name)

    def log_likelihood(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        raise ModelError("the log likelihood of single rows is not kept where data lie in shards")

    def require_simulation(self) -> None:
        raise ModelError("this model cannot simulate data: its data lie in shards")

    def _filled(self, data: Data) -> Data:
        return self.example | data


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _log_likelihood(program: ShardedProgram, z: jax.Array, data: Data) -> jax.Array:
    """Log likelihood of all rows at z, or at each row of a batch, with gradients by the host."""
    (value,) = _on_host(program, z, data, gradients=False)
    return value


@_log_likelihood.defjvp
def _(program: ShardedProgram, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    value, gradient = _on_host(program, *primals, gradients=True)
    return value, gradient @ tangents[0]


def _on_host(
    program: ShardedProgram, z: jax.Array, data: Data, *, gradients: bool
) -> list[jax.Array]:
    shapes: list[tuple[int, ...]] = [(), (program.dim,)][: 1 + gradients]
    ranks = jax.tree.map(jnp.ndim, data)

    def host(points: Floats, arrays: Data) -> list[Floats]:
        # One set of data: the axes that `vmap` has put in front have one entry each.
        shared = jax.tree.map(
            lambda array, rank: array.reshape(array.shape[array.ndim - rank :]), arrays, ranks
        )
        flat = np.array(points).reshape(-1, program.dim)
        work = Work(program.model, shared)
        found = program.shards.total(work, flat, gradients=gradients)
        return [
            array.reshape((*points.shape[:-1], *shape))
            for array, shape in zip(found, shapes, strict=True)
        ]

    results = [(shape, np.float64) for shape in shapes]
    return call_on_host(host, results, z, data, vmap_method="expand_dims")
