"""Loops over small models that XLA for CPUs compiles to one function of machine code.

Otherwise each operation becomes a function of its own, and calling it takes longer than what it
does where arrays are as short as those of small models: the loop over fits of the eight schools
takes a third less time in one piece, and as long to compile. XLA does so with tiny loops by itself,
and with calls that have its attribute. It can do it with ordinary arithmetic only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
from jax.experimental.xla_metadata import set_xla_metadata

__all__ = ["Pieces", "can_be_in_one_piece", "in_one_piece", "tracing"]

_ATTRIBUTES = {"xla_cpu_small_call": "true", "inlineable": "false"}
_OPERATIONS = re.compile(r"\b(?:stablehlo|chlo)\.(\w+)")
_ORDINARY = frozenset((
    "abs", "add", "and", "atan2", "bitcast_convert", "broadcast_in_dim", "cbrt", "ceil", "clamp",
    "compare", "concatenate", "constant", "convert", "cosine", "count_leading_zeros", "digamma",
    "divide", "dot_general", "dynamic_slice", "dynamic_update_slice", "erf", "erf_inv", "erfc",
    "exponential", "exponential_minus_one", "floor", "iota", "is_finite", "is_inf", "lgamma",
    "log", "log_plus_one", "logistic", "maximum", "minimum", "multiply", "negate", "not",
    "optimization_barrier", "or", "pad", "polygamma", "popcnt", "power", "reduce", "remainder",
    "reshape", "return", "reverse", "round_nearest_afz", "round_nearest_even", "rsqrt", "select",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sine", "slice",
    "sqrt", "square", "subtract", "tan", "tanh", "transpose", "while", "xor", "zeta",
))  # fmt: skip
"""Operations of StableHLO that may be in it; calls of libraries, sorting and the like may not."""


@dataclass
class Pieces:
    """Whether `in_one_piece` does what it says while something is traced, and whether it has."""

    allowed: bool
    used: bool = False


_NOW: ContextVar[Pieces | None] = ContextVar("vicheck_pieces", default=None)


def in_one_piece(
    function: Callable[..., Any], *args: Any, otherwise: Callable[..., Any] | None = None
) -> Any:
    """Call a function, within what is compiled, so that it becomes one function of machine code.

    It runs on one core, so it is not for large models. Where it cannot become one, ``otherwise`` is
    called instead, if it is given.
    """
    pieces = _NOW.get()
    if pieces is None or not pieces.allowed:
        return (otherwise or function)(*args)
    pieces.used = True

    def unmarked(*inner: Any) -> Any:
        with set_xla_metadata(**dict.fromkeys(_ATTRIBUTES)):  # type: ignore[no-untyped-call]
            return function(*inner)

    with set_xla_metadata(**_ATTRIBUTES):  # type: ignore[no-untyped-call]
        return jax.jit(unmarked)(*args)


@contextmanager
def tracing(*, allowed: bool) -> Iterator[Pieces]:
    """Allow it to what is traced within, or not."""
    pieces = Pieces(allowed)
    token = _NOW.set(pieces)
    try:
        yield pieces
    finally:
        _NOW.reset(token)


def can_be_in_one_piece(lowered: jax.stages.Lowered) -> bool:
    """Whether all operations are known to be possible in one function."""
    module: Any = lowered.compiler_ir("stablehlo")
    text = module.operation.get_asm(large_elements_limit=8)
    return set(_OPERATIONS.findall(text)) <= _ORDINARY
