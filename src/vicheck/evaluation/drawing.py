"""Draws from a member of a family, with both log densities and quantities.

A `Drawing` says which draws, in chunks that are computed here or by an executor, and an
`Evaluation` has those that were computed so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ModelError
from vicheck.evaluation.chunks import Rows, drawn_ahead, one_ahead
from vicheck.evaluation.sizes import (
    CHUNKS,
    FEWEST,
    FEWEST_ON_HOST,
    chunk_size,
    halved,
    kept_draws,
    width_of,
)
from vicheck.model import Data, Model, Program, double_precision
from vicheck.quantities import Quantities
from vicheck.runtime.compiling import compiled
from vicheck.runtime.progress import advance
from vicheck.runtime.tally import count
from vicheck.runtime.workers import in_order

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from vicheck.vi.families.family import Family

__all__ = ["Drawing", "Evaluated", "Evaluation", "densities_and_values", "evaluate_draws_of"]

Floats = NDArray[np.float64]

_AHEAD_BYTES = 2**25
"""Noise that waits to be evaluated, unless one chunk is more."""


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


@dataclass(frozen=True, eq=False)
class Drawing:
    """Draws from q with both densities and the quantities; chunks are functions of their number.

    It goes to workers as it is, so it can be pickled.
    """

    model: Model
    q: Family
    quantities: _Values
    num_draws: int
    seed: int

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def snapshot(self) -> Drawing:
        """Return a copy whose model is traced only once."""
        return replace(self, model=self.model.snapshot())

    @cached_property
    def size(self) -> int:
        """How many draws a chunk has, whatever their number in all; never more than that."""
        on_host = self.model.program.runs_unseen_code("log_density", self.model.data)
        most = min(self._most, FEWEST_ON_HOST) if on_host else self._most
        return min(self.num_draws, halved(FEWEST, most))

    @cached_property
    def block(self) -> int:
        """For how many draws noise is made together.

        Numbers of draws that come from 1000 by doubling have the same blocks: the fewer draws are
        the first of the more, as far as the noise of a block begins like that of a smaller one.
        """
        thousands, rest = divmod(self.num_draws, FEWEST)
        if rest == 0 and thousands & (thousands - 1) == 0:
            return halved(self.num_draws, self._most)
        return chunk_size(self.num_draws, width_of(self.model))

    @property
    def kept(self) -> int:
        """For how many draws the quantities are kept."""
        return kept_draws(self.num_draws, self.quantities.num_values)

    @property
    def num_chunks(self) -> int:
        """How many chunks there are; the last may have more draws than are asked for."""
        return -(-self.num_draws // self.size)

    def chunk(self, index: int) -> tuple[Any, Any]:
        """Return both densities, and the quantities where they are kept, of a chunk's draws."""
        with double_precision(), _explained():
            evaluated: tuple[Any, Any] = jax.tree.map(
                np.asarray, self.evaluate(index, self.noise(index))
            )
        return evaluated

    def evaluate(self, index: int, noise: Floats) -> tuple[Any, Any]:
        """Do the same from a chunk's noise; the numbers may not be there yet."""
        keep = index * self.size < self.kept
        count(densities=len(noise))
        log_p, log_q, values = self._code(keep, noise)(self.q, noise, self._data)
        return (log_p, log_q), values

    def _code(self, keep: bool, noise: Floats) -> Any:
        """Return the compiled code for chunks, looked up once."""
        known = vars(self).setdefault("_codes", {})
        if keep not in known:
            what = (self.model.program, self.quantities if keep else _NOTHING)
            known[keep] = _evaluate.prepared(what, self.q, noise, self._data)  # type: ignore[attr-defined]
        return known[keep]

    def noise(self, index: int) -> Floats:
        """Return the noise of a chunk's draws, which may come from several blocks."""
        start, stop = index * self.size, (index + 1) * self.size
        blocks = range(start // self.block, (stop - 1) // self.block + 1)
        parts = [
            self._noise_of_block(each)[max(0, start - each * self.block) : stop - each * self.block]
            for each in blocks
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def noise_of(self, rows: NDArray[np.intp]) -> Floats:
        """Return the noise of some draws, by their numbers, in that order."""
        found = np.empty((len(rows), self.q.noise_dim))
        for block in np.unique(rows // self.block).tolist():
            here = rows // self.block == block
            found[here] = self._noise_of_block(block)[rows[here] % self.block]
        return found

    def num_shared(self, other: Drawing) -> int:
        """Return how many of the first draws are the same as those of a drawing of another number.

        Which is seen from their noise: of one block, if blocks are not of the same size.
        """
        if self.block == other.block:
            return min(self.num_draws, other.num_draws)
        size = min(self.block, other.block)
        mine, others = self._noise_of_block(0)[:size], other._noise_of_block(0)[:size]
        return size if np.array_equal(mine, others) else 0

    @property
    def _most(self) -> int:
        """How many draws may be worked on together, by the memory that they need."""
        return chunk_size(2**62, width_of(self.model), CHUNKS._replace(even=False))

    @cached_property
    def _data(self) -> Data:
        return jax.device_put(self.model.data)

    def _noise_of_block(self, number: int) -> Floats:
        known: tuple[int, Floats] | None = vars(self).get("_last_block")
        if known is None or known[0] != number:
            rng = np.random.default_rng((self.seed, number))
            known = number, self.q.draw_noise(rng, self.block)
            vars(self)["_last_block"] = known
        return known[1]


class Evaluation:
    """Draws from q that can become more: those that are there already are not evaluated again.

    However many there were before, and wherever chunks are computed, they are the same bits.
    """

    def __init__(
        self,
        model: Model,
        q: Family,
        quantities: _Values,
        seed: int,
        executor: Executor | None = None,
    ) -> None:
        self._executor = executor
        if executor is not None:  # a worker that reads arrays of JAX may not be in double precision
            q = jax.tree.map(np.asarray, q)
        self._template = Drawing(model, q, quantities, 0, seed)
        self._before: tuple[Drawing, Rows, Rows] | None = None

    def first(self, num_draws: int, go_on: Callable[[int], bool] | None = None) -> Evaluated | None:
        """Return the first draws, in double precision.

        Parameters
        ----------
        num_draws
            How many.
        go_on
            Asked after each chunk, with the number of draws that there are, whether to go on with
            the next. If not, None is returned.
        """
        drawing = replace(self._template, num_draws=num_draws)
        of_all, of_kept = Rows(num_draws), Rows(drawing.kept)
        begun = self._take_over(drawing, of_all, of_kept)
        self._before = drawing, of_all, of_kept
        with _explained():
            for of_chunk in self._chunks(drawing, begun):
                of_all.add(of_chunk[0])
                of_kept.add(of_chunk[1])
                advance(of_all.filled, num_draws)
                if of_all.filled < num_draws and go_on is not None and not go_on(of_all.filled):
                    return None
        log_p, log_q = of_all.tree
        return Evaluated(log_p, log_q, of_kept.tree)

    def noise_of(self, rows: NDArray[np.intp]) -> Floats:
        """Return the noise of some of the draws that were asked for last, by their numbers."""
        assert self._before is not None
        return self._before[0].noise_of(rows)

    def _chunks(self, drawing: Drawing, begun: int) -> Iterable[tuple[Any, Any]]:
        if self._executor is not None:
            return in_order(self._executor, drawing, range(begun, drawing.num_chunks))
        return self._here(drawing, begun)

    def _here(self, drawing: Drawing, begun: int) -> Iterator[tuple[Any, Any]]:
        """Compute chunks in this process; noise is made in a thread, some chunks ahead."""
        ahead = max(1, _AHEAD_BYTES // (8 * drawing.size * max(1, drawing.q.noise_dim)))
        chunks = range(begun, drawing.num_chunks)
        with drawn_ahead(drawing.noise, chunks, ahead) as noise:
            yield from one_ahead(noise, drawing.evaluate, drawing.num_chunks, begun)

    def _take_over(self, drawing: Drawing, of_all: Rows, of_kept: Rows) -> int:
        """Copy what is there already, and return how many chunks that is."""
        if self._before is None:
            return 0
        before, all_before, kept_before = self._before
        rows = min(all_before.filled, before.num_shared(drawing))
        chunks = rows // drawing.size if before.size == drawing.size else 0
        if chunks:
            rows = chunks * drawing.size
            of_all.add(jax.tree.map(lambda leaf: leaf[:rows], all_before.tree))
            of_kept.add(jax.tree.map(lambda leaf: leaf[:rows], kept_before.tree))
        return chunks


@contextmanager
def _explained() -> Iterator[None]:
    """Say that it was the density where compiled code fails: functions of the host may raise."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        said = str(error).split("\n-----")[0].strip().splitlines()[-1]
        raise ModelError(f"the density failed while draws were evaluated: {said}") from error


def evaluate_draws_of(
    model: Model,
    q: Family,
    quantities: _Values,
    num_draws: int,
    seed: int,
    executor: Executor | None = None,
) -> Evaluated:
    """Draw from q and evaluate both densities and the quantities, in double precision.

    The same seed gives the same bits.
    """
    evaluated = Evaluation(model, q, quantities, seed, executor).first(num_draws)
    assert evaluated is not None
    return evaluated


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
