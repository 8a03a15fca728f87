"""Draws from q with both log densities, in chunks that bound the memory: the only place for that.

One loop, `evaluate_in_chunks`, is fed by something that evaluates a chunk: an approximation of
vicheck's own (`evaluate_draws_of`), draws that are there already (`log_densities`,
`values_of_draws`), or an adapter. One piece of compiled code, `densities_and_values`, computes
both densities and the quantities from noise, for checks and for calibrations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.errors import described, not_in_jax
from vicheck.model import Data, Model, Program, double_precision
from vicheck.quantities import Quantities
from vicheck.runtime.compiling import compiled
from vicheck.runtime.interrupts import check_interrupt

if TYPE_CHECKING:
    from vicheck.vi.families.family import Family

__all__ = [
    "BLOCKS",
    "CHUNKS",
    "SEPARATE_CHUNKS",
    "TORCH_BATCHES",
    "Evaluated",
    "Sizes",
    "chunk_size",
    "densities_and_values",
    "evaluate_draws_of",
    "evaluate_in_chunks",
    "kept_draws",
    "log_densities",
    "rows_in_chunks",
    "values_of_draws",
    "width_of",
]

Floats = NDArray[np.float64]

_KEPT_BYTES = 2**30
"""Quantities are kept for as many draws as fit into this; densities for all."""
_CHUNK_BYTES = 2**28
_AHEAD_BYTES = 2**25
"""Noise that waits to be evaluated, unless one chunk is more."""
_COPIES = 6
"""How many arrays of the size of draws and observations an evaluation holds at a time, roughly."""


class Sizes(NamedTuple):
    """How many draws are evaluated together."""

    numbers: int = _CHUNK_BYTES // (8 * _COPIES)
    """Draws times numbers for each draw."""
    largest: int = 8192
    least: int = 1
    even: bool = True
    """Whether all chunks have about the same size, so that few draws are wasted."""


CHUNKS = Sizes()
SEPARATE_CHUNKS = Sizes(largest=4096, even=False)
"""Where random numbers depend on the size of the chunk they are made in: it is always the same."""
TORCH_BATCHES = Sizes(numbers=2**21, largest=2**62, even=False)
BLOCKS = Sizes(numbers=2**18, largest=2**62, least=64)
"""Within compiled code that goes through many fits: some megabytes. Matrix products want rows."""


class _Values(Protocol):
    """What is computed for each draw beside its densities."""

    @property
    def num_values(self) -> int: ...

    def at(self, program: Program, q: Any, z: jax.Array, data: Data) -> jax.Array: ...


class Evaluated(NamedTuple):
    """Draws from q."""

    log_p: Floats
    log_q: Floats
    values: Floats
    """The quantities asked for, shape ``(n, Q)``, of the first draws: as many as are kept."""


def chunk_size(num_draws: int, width: int, sizes: Sizes = CHUNKS) -> int:
    """Return how many draws are evaluated together.

    Parameters
    ----------
    num_draws
        Draws in all.
    width
        Numbers for each draw: parameters, and observations that they are compared with.
    sizes
        The bounds.
    """
    most = max(sizes.least, min(sizes.largest, num_draws, sizes.numbers // max(1, width)))
    if not sizes.even:
        return most
    return -(-num_draws // -(-num_draws // most))


def kept_draws(num_draws: int, num_values: int) -> int:
    """Return for how many draws quantities are kept, of so many numbers each."""
    return min(num_draws, max(1, _KEPT_BYTES // (8 * max(1, num_values))))


def width_of(model: Model) -> int:
    """Return how many numbers the density of one draw needs: parameters, and rows of the data."""
    leaves = jax.tree.leaves(model.data)
    return model.dim + sum(np.shape(leaf)[0] for leaf in leaves if np.ndim(leaf))


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
    of_all, of_kept = _Rows(num_draws), _Rows(kept)
    waiting = None
    for index, start in enumerate(range(0, num_draws, size)):
        check_interrupt()
        noise = draw(index)
        # JAX evaluates the previous chunk while this one is drawn; never more than one at a time.
        if waiting is not None:
            of_all.add(waiting[0])
            of_kept.add(waiting[1])
        waiting = evaluate(noise, start < kept)
    assert waiting is not None
    of_all.add(waiting[0])
    of_kept.add(waiting[1])
    return of_all.tree, of_kept.tree


class _Rows:
    """Trees of arrays, joined along their first axis up to a number of rows."""

    def __init__(self, num_rows: int) -> None:
        self.num_rows, self.filled = num_rows, 0
        self.tree: Any = None

    def add(self, tree: Any) -> None:
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


def evaluate_draws_of(
    model: Model, q: Family, quantities: _Values, num_draws: int, seed: int
) -> Evaluated:
    """Draw from q and evaluate both densities and the quantities, in double precision.

    The same seed gives the same bits.
    """
    size = chunk_size(num_draws, width_of(model))
    kept = kept_draws(num_draws, quantities.num_values)
    data = jax.device_put(model.data)

    def draw(index: int) -> Floats:
        return q.draw_noise(np.random.default_rng((seed, index)), size)

    def evaluate(noise: Floats, keep: bool) -> tuple[Any, Any]:
        what = (model.program, quantities if keep else _NOTHING)
        log_p, log_q, values = _evaluate(what, q, noise, data)
        return (log_p, log_q), values

    ahead = max(1, _AHEAD_BYTES // (8 * size * max(1, q.noise_dim)))
    with _drawn_ahead(draw, -(-num_draws // size), ahead) as drawn:
        (log_p, log_q), values = evaluate_in_chunks(drawn, evaluate, num_draws, size, kept)
    return Evaluated(log_p, log_q, values)


@contextmanager
def _drawn_ahead(
    draw: Callable[[int], Floats], num_chunks: int, ahead: int
) -> Iterator[Callable[[int], Floats]]:
    """Draw in a thread, some chunks ahead: NumPy needs no lock for that, and JAX may be tracing.

    The chunks must be asked for in order; each is drawn once.
    """

    def in_thread(index: int) -> Floats:
        with double_precision():
            return draw(index)

    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(in_thread, index) for index in range(min(ahead, num_chunks)))

        def drawn(index: int) -> Floats:
            if index + ahead < num_chunks:
                waiting.append(thread.submit(in_thread, index + ahead))
            return waiting.popleft().result()

        try:
            yield drawn
        finally:
            thread.shutdown(cancel_futures=True)


_NOTHING = Quantities()


@compiled("log_density")
def _evaluate(
    what: tuple[Program, _Values], q: Family, noise: Any, data: Data
) -> tuple[jax.Array, jax.Array, jax.Array]:
    program, quantities = what
    return densities_and_values(program, quantities, q, noise, data)


def densities_and_values(
    program: Program,
    quantities: _Values,
    q: Family,
    noise: jax.Array,
    data: Data,
    truth: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return log p, log q and the quantities at draws made of noise; for use in compiled code.

    A true z, where there is one, comes before the draws: so compiled code holds the model once.
    """
    z, log_q = jax.vmap(q.transform_and_log_prob)(noise)
    if truth is not None:
        z = jnp.concatenate([truth[None], z])
        log_q = jnp.concatenate([q.log_prob(truth)[None], log_q])
    log_p = jax.vmap(program.log_density, (0, None))(z, data)
    return log_p, log_q, jax.vmap(lambda z: quantities.at(program, q, z, data))(z)


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
    size = chunk_size(num_draws, width)
    _, values = evaluate_in_chunks(
        rows_in_chunks(dict(theta), num_draws, size),
        lambda rows, _: ((), _values_at((program, quantities), rows, data)),
        num_draws,
        size,
        num_draws,
    )
    return np.asarray(values, np.float64)


@compiled()
def _values_at(what: tuple[Program, Quantities], theta: Mapping[str, Any], data: Data) -> jax.Array:
    program, quantities = what

    def of_draw(one: Mapping[str, Any]) -> jax.Array:
        return quantities.at(program, None, program.unconstrain(one, data), data)

    return jax.vmap(of_draw)(theta)
