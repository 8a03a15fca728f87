"""The loop over chunks of draws, and draws that already exist."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.errors import described, not_in_jax
from vicheck.evaluation.sizes import FEWEST, SEPARATE_CHUNKS, chunk_size
from vicheck.model import Data, Program
from vicheck.quantities import Quantities
from vicheck.runtime.compiling import compiled
from vicheck.runtime.interrupts import check_interrupt
from vicheck.runtime.jax_settings import double_precision
from vicheck.runtime.progress import advance
from vicheck.runtime.tally import count

__all__ = [
    "Rows",
    "evaluate_in_chunks",
    "log_densities",
    "log_p_at",
    "log_p_through",
    "one_ahead",
    "rows_in_chunks",
    "unconstrained",
    "values_at",
    "values_of_draws",
]

Floats = NDArray[np.float64]


def evaluate_in_chunks(
    draw: Callable[[int], Any],
    evaluate: Callable[[Any, bool], tuple[Any, Any]],
    num_draws: int,
    size: int,
    kept: int,
) -> tuple[Any, Any]:
    """Evaluate draws chunk by chunk, with a look for Ctrl-C between them, and join the chunks.

    Parameters
    ----------
    draw
        Returns what the draws of a chunk are made of, by the chunk's number.
    evaluate
        Returns, from that, a tree of arrays wanted for all draws and a tree of arrays wanted for
        those that are kept, draws first. The second argument says whether the latter are wanted
        for this chunk. It may return before the numbers are there, as JAX does. Rows beyond the
        last draw are cut off.
    num_draws, size, kept
        Draws in all, in each chunk, and to keep.

    Returns
    -------
    tuple
        Both trees, with arrays of ``num_draws`` and of ``kept`` rows.
    """
    of_all, of_kept = Rows(num_draws), Rows(kept)
    starts = range(0, num_draws, size)
    for chunk in one_ahead(draw, lambda index, x: evaluate(x, starts[index] < kept), len(starts)):
        of_all.add(chunk[0])
        of_kept.add(chunk[1])
    return of_all.tree, of_kept.tree


def one_ahead(
    draw: Callable[[int], Any], evaluate: Callable[[int, Any], Any], stop: int, first: int = 0
) -> Iterator[Any]:
    """Yield what becomes of chunks: JAX evaluates one while the next is drawn, and no more."""
    waiting = None
    for index in range(first, stop):
        check_interrupt()
        advance(index - first, stop - first)
        noise = draw(index)
        if waiting is not None:
            yield waiting
        waiting = evaluate(index, noise)
    if waiting is not None:
        yield waiting


@contextmanager
def drawn_ahead(
    draw: Callable[[int], Any], chunks: range, ahead: int
) -> Iterator[Callable[[int], Any]]:
    """Draw in a thread, some chunks ahead: NumPy needs no lock for that, and JAX may be tracing.

    The chunks must be asked for in order; each is drawn once.
    """

    def in_thread(index: int) -> Any:
        with double_precision():
            return draw(index)

    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(in_thread, index) for index in chunks[:ahead])
        later = iter(chunks[ahead:])

        def drawn(index: int) -> Any:
            following = next(later, None)
            if following is not None:
                waiting.append(thread.submit(in_thread, following))
            return waiting.popleft().result()

        try:
            yield drawn
        finally:
            thread.shutdown(cancel_futures=True)


class Rows:
    """Trees of arrays, joined along their first axis up to a number of rows.

    ``filled`` is how many there are, ``tree`` the arrays.
    """

    def __init__(self, num_rows: int) -> None:
        self.num_rows, self.filled = num_rows, 0
        self.tree: Any = None

    def add(self, tree: Any) -> None:
        """Join more rows; those beyond the number are left out."""
        parts = jax.tree.map(np.asarray, tree)
        leaves = jax.tree.leaves(parts)
        count = min(self.num_rows - self.filled, len(leaves[0])) if leaves else 0
        if self.tree is None:
            whole = jax.tree.map(
                lambda part: np.empty((self.num_rows, *part.shape[1:]), part.dtype), parts
            )
            # JAX sorts names; ours come in the order of the model.
            self.tree = {name: whole[name] for name in tree} if isinstance(tree, dict) else whole
        if not count:
            return
        rows = slice(self.filled, self.filled + count)
        for whole, part in zip(jax.tree.leaves(self.tree), leaves, strict=True):
            whole[rows] = part[:count]
        self.filled += count


def log_densities(log_density: Callable[[Any], Any], draws: Any, num_draws: int) -> Floats:
    """Return a log density, written in JAX for one draw, at each of the draws, a tree of arrays."""
    one = jax.tree.map(lambda leaf: leaf[0], draws)
    try:
        output = jax.eval_shape(log_density, one)
    except jax.errors.JAXTypeError as error:
        raise TypeError(not_in_jax("log_density", error)) from error
    if getattr(output, "shape", None) != ():
        raise ValueError(f"log_density must return one number per draw, got {described(output)}")
    vectorised = jax.jit(jax.vmap(log_density))
    size = chunk_size(num_draws, _numbers_in(one), SEPARATE_CHUNKS)
    (log_p,), _ = evaluate_in_chunks(
        rows_in_chunks(draws, num_draws, size),
        lambda rows, _: ((vectorised(rows),), ()),
        num_draws,
        size,
        0,
    )
    return np.asarray(log_p, np.float64)


def rows_in_chunks(draws: Any, num_draws: int, size: int) -> Callable[[int], Any]:
    """Return the chunks of draws, a tree of arrays, by number.

    The last is filled up by its last row: compiled code is for one length.
    """

    def chunk(index: int) -> Any:
        rows = np.minimum(np.arange(index * size, (index + 1) * size), num_draws - 1)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], draws)

    return chunk


def _numbers_in(tree: Any) -> int:
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(tree))


def values_of_draws(
    program: Program, quantities: Quantities, theta: Mapping[str, Any], data: Data
) -> Floats:
    """Return quantities, shape ``(n, Q)``, at named draws of all parameters of a program."""
    num_draws = len(next(iter(theta.values())))
    width = sum(np.size(array) for array in theta.values()) // num_draws
    return _at_rows(
        dict(theta), num_draws, width, lambda rows: _values_of((program, quantities), rows, data)
    )


@compiled()
def _values_of(what: tuple[Program, Quantities], theta: Mapping[str, Any], data: Data) -> jax.Array:
    program, quantities = what

    def of_draw(one: Mapping[str, Any]) -> jax.Array:
        return quantities.at(program, None, program.unconstrain(one, data), data)

    return jax.vmap(of_draw)(theta)


def values_at(program: Program, quantities: Quantities, z: Floats, data: Data) -> Floats:
    """Return quantities, shape ``(n, Q)``, at points, shape ``(n, d)``."""
    return _at_rows(
        z, len(z), program.dim, lambda rows: _values_at((program, quantities), rows, data)
    )


@compiled("log_density", rarely=True)
def _values_at(what: tuple[Program, Quantities], z: Any, data: Data) -> jax.Array:
    program, quantities = what
    return jax.vmap(lambda one: quantities.at(program, None, one, data))(z)


def log_p_at(program: Program, z: Floats, data: Data) -> Floats:
    """Return the log density of a program, without its gradient, at points, shape ``(n, d)``."""
    count(densities=len(z))
    size = min(FEWEST, chunk_size(FEWEST, program.dim))
    (found,), _ = evaluate_in_chunks(
        rows_in_chunks(z, len(z), size),
        lambda rows, _: ((_log_p_at(program, rows, data),), ()),
        len(z),
        size,
        0,
    )
    return np.asarray(found, np.float64)


@compiled("log_density")
def _log_p_at(program: Program, z: Any, data: Data) -> jax.Array:
    return jax.vmap(program.log_density, (0, None))(z, data)


def log_p_through(program: Program, q: Any, u: Floats, data: Data) -> Floats:
    """Return the log density of u, shape ``(n, d)``, where ``q.mapped`` makes a z of each row.

    That of the z, and the log of by how much volumes grow on the way to it.
    """
    count(densities=len(u))
    return _at_rows(
        u, len(u), program.dim, lambda rows: _log_p_through(program, q, rows, data)[:, None]
    )[:, 0]


@compiled("log_density")
def _log_p_through(program: Program, q: Any, u: Any, data: Data) -> jax.Array:
    def at(one: jax.Array) -> jax.Array:
        z, log_det = q.mapped(one)
        return program.log_density(z, data) + log_det

    return jax.vmap(at)(u)


def unconstrained(program: Program, theta: Mapping[str, Any], data: Data) -> Floats:
    """Return the z, shape ``(n, d)``, of named draws of all parameters of a program."""
    count = len(next(iter(theta.values())))
    return _at_rows(
        dict(theta), count, program.dim, lambda rows: _unconstrained(program, rows, data)
    )


@compiled(rarely=True)
def _unconstrained(program: Program, theta: Mapping[str, Any], data: Data) -> jax.Array:
    return jax.vmap(lambda one: program.unconstrain(one, data))(theta)


def _at_rows(draws: Any, num_draws: int, width: int, evaluate: Callable[[Any], Any]) -> Floats:
    """Return what is computed for each row of a tree of arrays."""
    size = chunk_size(num_draws, width)
    chunks = rows_in_chunks(draws, num_draws, size)
    _, found = evaluate_in_chunks(
        chunks, lambda rows, _: ((), evaluate(rows)), num_draws, size, num_draws
    )
    return np.asarray(found, np.float64)
