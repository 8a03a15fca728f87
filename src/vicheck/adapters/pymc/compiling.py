"""How graphs of PyTensor become functions: of JAX in float64, or of NumPy without a C compiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import jax
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import FAST_COMPILE, JAX
from pytensor.graph.basic import Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors

from vicheck.errors import ModelError
from vicheck.model import double_precision

__all__ = ["in_double_precision", "replace", "run_quickly", "to_jax"]

_NARROW_FLOATS = ("float16", "float32")
_WIDER = dict.fromkeys(("int8", "int16", "uint8", "uint16"), "int64")
_WIDER |= dict.fromkeys(_NARROW_FLOATS, "float64")


def replace(outputs: Iterable[Any], replaced: Mapping[Any, Any]) -> list[Any]:
    """Copy graphs with variables replaced, by others of any type that fits."""
    copies: list[Any] = clone_replace(list(outputs), dict(replaced), rebuild_strict=False)
    return copies


def run_quickly(inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """Compile a function that runs in Python and NumPy: a C compiler takes longer than the run."""
    return pytensor.function(  # type: ignore[attr-defined]
        list(inputs), list(outputs), mode=FAST_COMPILE, on_unused_input="ignore"
    )


def to_jax(inputs: list[Any], outputs: list[Any], check_bounds: bool) -> Callable[..., Any]:
    """Turn a graph into a function of JAX, as PyMC would compile it.

    Parameters out of bounds give -inf, as in PyMC's own compiled density: its conversion to JAX
    leaves these checks out, and would return some number.
    """
    convert = _conversion()
    kind = "check_parameter_to_ninf_switch" if check_bounds else "remove_check_parameter"
    graph = FunctionGraph(inputs, in_double_precision(outputs), clone=True)
    mode: Any = JAX
    mode.including(f"local_{kind}").optimizer.rewrite(graph)
    try:
        # Constants become arrays here, in float64 and for good: not as part of somebody's trace.
        with double_precision(), jax.ensure_compile_time_eval():
            converted: Callable[..., Any] = convert(graph)
    except NotImplementedError as error:
        raise ModelError(f"PyTensor cannot turn the model into JAX: {error}") from error
    return converted


def in_double_precision(outputs: list[Any]) -> list[Any]:
    """Widen constants: PyTensor takes the logarithm of the integer 5, say, in float32."""
    nodes = {v.owner for v in ancestors(outputs) if v.owner is not None}
    # Graphs within operations have the types that they were made with.
    inner = [v for node in nodes if isinstance(node.op, HasInnerGraph) for v in node.inputs]
    kept = set(ancestors([v for v in inner if _dtype(v) in _WIDER]))
    narrow = {
        constant: pt.constant(constant.data, dtype=_WIDER[_dtype(constant)])
        for node in nodes
        if any(_dtype(out) in _NARROW_FLOATS for out in node.outputs)
        for constant in node.inputs
        if isinstance(constant, Constant) and _dtype(constant) in _WIDER and constant not in kept
    }
    return replace(outputs, narrow)


def _dtype(variable: Any) -> str:
    """Return the type of a variable's numbers; generators and slices have none."""
    return getattr(variable.type, "dtype", "")


@lru_cache(maxsize=1)
def _conversion() -> Callable[..., Any]:
    """Import what turns graphs into JAX, and undo the settings that this import changes.

    In a thread of its own: there no context that the caller is in hides the settings.
    """

    def load() -> Callable[..., Any]:
        config: Any = jax.config
        precision, flags = config.jax_enable_x64, os.environ.get("XLA_FLAGS")
        import pymc.sampling.jax  # noqa: F401 (it knows how to convert PyMC's own operations)
        from pytensor.link.jax.dispatch.basic import jax_funcify

        config.update("jax_enable_x64", precision)
        os.environ.pop("XLA_FLAGS", None)
        if flags is not None:
            os.environ["XLA_FLAGS"] = flags
        return jax_funcify

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(load).result()
