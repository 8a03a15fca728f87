"""Draws from q with both log densities, in chunks that bound the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.model import Data, Model, Program, labels
from vicheck.runtime.compiling import Traced, compiled
from vicheck.runtime.interrupts import check_interrupt

if TYPE_CHECKING:
    from vicheck.vi.families.family import Family

__all__ = ["Chunk", "Derivation", "Evaluator"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Derivation(Traced):
    """Quantities of the parameters of one draw: some of the model's own, or what functions make."""

    functions: tuple[tuple[str, Callable[..., Any]], ...] = ()
    picked: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the quantities, in order."""
        return self.picked or tuple(name for name, _ in self.functions)

    def __call__(self, theta: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """Return the quantities by name."""
        if self.picked:
            return {name: theta[name] for name in self.picked}
        return {name: jnp.asarray(of(theta), float) for name, of in self.functions}

    def traces(self, use: str, data: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the quantities as a function of z and data, and shapes of these."""
        program, given = data
        return partial(_quantities, program, self), program.traces("constrain", given)[1]


_CHUNK_BYTES = 2**28
_COPIES = 6
"""How many arrays of the size of draws and observations an evaluation holds at a time, roughly."""
_MAX_CHUNK = 8192


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some of the draws."""

    log_p: Floats
    log_q: Floats
    values: Floats
    """The quantities, shape ``(n, Q)``; no columns when they were not asked for. For a mixture the
    log density of each member."""


class Evaluator:
    """Evaluates draws from one or several approximations of the same posterior.

    With several, draws come from their mixture in the given parts, and ``log_q`` is the mixture's.
    """

    def __init__(
        self,
        model: Model,
        members: tuple[Family, ...],
        derive: Derivation | None,
        num_draws: int,
        seed: int,
        parts: Floats | None = None,
    ) -> None:
        self.program, self.members, self.derive = model.program, members, derive
        self.data = jax.tree.map(jnp.asarray, model.data)
        self.num_draws, self.seed = num_draws, seed
        width = model.dim + sum(np.size(leaf) for leaf in _observations(model))
        bound = max(1, min(_MAX_CHUNK, _CHUNK_BYTES // (8 * _COPIES * width)))
        num_chunks = -(-num_draws // bound)
        self.chunk = -(-num_draws // num_chunks)
        self.parts = np.ones(1) if parts is None else parts / parts.sum()
        self.owner = _owners(self.chunk, self.parts)
        shapes = jax.eval_shape(
            partial(_quantities, self.program, derive), jnp.zeros(model.dim), self.data
        )
        order = _in_order(self.program, shapes) if derive is None else derive.names
        self.shapes = {name: tuple(shapes[name].shape) for name in order}
        self.labels = labels(self.shapes)

    def chunks(self, num_values: int) -> Iterator[Chunk]:
        """Yield the draws, those up to a number with their quantities."""
        waiting: Any = None
        for index, start in enumerate(range(0, self.num_draws, self.chunk)):
            check_interrupt()
            names = tuple(self.shapes) if start < num_values else ()
            # XLA evaluates the chunk before meanwhile; never more than one at a time.
            rng = np.random.default_rng((self.seed, index))
            noise = rng.standard_normal((self.chunk, self.members[0].noise_dim))
            ready = None if waiting is None else [np.asarray(array) for array in waiting]
            waiting = _evaluate(
                (self.program, self.derive, names),
                self.members,
                self.parts,
                self.owner,
                noise,
                self.data,
            )
            if ready is not None:
                yield Chunk(*ready)
        size = self.num_draws - start
        yield Chunk(*(np.asarray(array)[:size] for array in waiting))


@compiled("log_density", "constrain")
def _evaluate(
    what: tuple[Program, Derivation | None, tuple[str, ...]],
    members: tuple[Family, ...],
    parts: Any,
    owner: Any,
    noise: Any,
    data: Data,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    program, derive, names = what
    if len(members) == 1:
        z, log_q = jax.vmap(members[0].transform_and_log_prob)(noise)
    else:
        candidates = jnp.stack([jax.vmap(q.transform)(noise) for q in members])
        z = candidates[owner, jnp.arange(len(noise))]
        each = jnp.stack([jax.vmap(q.log_prob)(z) for q in members], axis=-1)
        log_q = jax.nn.logsumexp(each, axis=-1, b=parts)
    log_p = jax.vmap(program.log_density, (0, None))(z, data)
    if len(members) > 1:
        return log_p, log_q, each

    def row(z: jax.Array) -> jax.Array:
        if not names:
            return jnp.zeros((0,), z.dtype)
        values = _quantities(program, derive, z, data)
        return jnp.concatenate([jnp.ravel(values[name]) for name in names])

    return log_p, log_q, jax.vmap(row)(z)


def _owners(size: int, parts: Floats) -> NDArray[np.intp]:
    """Share draws out in given parts, in random order: any number of the first is a fair share."""
    ends = np.rint(np.cumsum(parts) * size).astype(int)
    owner = np.searchsorted(ends, np.arange(size), side="right")
    return np.random.default_rng(0).permutation(owner)


def _quantities(
    program: Program, derive: Derivation | None, z: jax.Array, data: Data
) -> dict[str, jax.Array]:
    theta = program.constrain(z, data)
    return theta if derive is None else derive(theta)


def _in_order(program: Program, shapes: dict[str, Any]) -> list[str]:
    """Parameters in the order of the model, then what is derived from them."""
    first = [name for name, _ in program.layout if name in shapes]
    return first + [name for name in shapes if name not in first]


def _observations(model: Model) -> list[Any]:
    """Return what the density computes a number for, as far as one can tell: the data's rows."""
    return [np.empty(np.shape(leaf)[:1]) for leaf in jax.tree.leaves(model.data) if np.ndim(leaf)]
