"""What a PyMC model is made of: where its data lie, and why it might not be drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.data import MinibatchOp
from pymc.distributions.transforms import _default_transform
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.scalar.basic import Cast
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import Shape, Shape_i

__all__ = [
    "held_by",
    "holder_of",
    "is_data",
    "is_stream",
    "is_used",
    "reasons_against_drawing",
    "shared_variables",
    "signature_of",
    "total_sizes",
    "unshaped_like",
    "whole_of_minibatches",
    "whole_sizes",
]


def reasons_against_drawing(model: Any) -> list[str]:
    """Return the reasons that have nothing to do with the data."""
    reasons = []
    if not model.observed_RVs:
        reasons.append("it observes nothing")
    if model.potentials:
        names = ", ".join(repr(each.name) for each in model.potentials)
        reasons.append(
            f"nothing can be drawn from the pm.Potential {names}: write it as a distribution"
        )
    reasons += [
        f"variable {rv.name!r} has a flat prior that cannot be drawn from: give it a proper prior"
        for rv in model.free_RVs
        if type(rv.owner.op).__name__ in {"FlatRV", "HalfFlatRV"}
    ]
    reasons += [
        f"variable {rv.name!r} has a transform of its own, which its random draws know nothing of"
        for rv in model.free_RVs
        if not _is_default(model.rvs_to_transforms[rv], rv)
    ]
    reasons += [
        f"variable {rv.name!r} has a total_size, which scales its density"
        for rv in model.observed_RVs
        if isinstance(rv.owner.op, MinibatchRandomVariable)
    ]
    return reasons


def _is_default(transform: Any, rv: Any) -> bool:
    """Whether a transform covers all that can be drawn: none, or the one of the distribution.

    Others may narrow the support, as an ordering of independent variables does.
    """
    usual = _default_transform(rv.owner.op, rv)
    return transform is None or type(transform) is type(usual)


def signature_of(model: Any) -> tuple[Any, ...]:
    """Return what tells a model from the same one after a change; data may change."""
    variables = [*_everything(model), *model.rvs_to_values.values()]
    fixed = [v for v in shared_variables(variables) if not is_data(model, v)]
    frozen = tuple((id(v), np.asarray(v.get_value()).tobytes()) for v in fixed)
    return tuple(map(id, variables)), frozen


def _everything(model: Any) -> list[Any]:
    values = [model.rvs_to_values[rv] for rv in model.observed_RVs]
    return [*model.basic_RVs, *model.deterministics, *model.potentials, *values]


def shared_variables(variables: list[Any]) -> list[Any]:
    """Return the shared variables that others depend on, except random number generators."""
    inputs = graph_inputs(variables)
    shared = [v for v in inputs if isinstance(v, SharedVariable) and not is_stream(v)]
    return list(dict.fromkeys(shared))


def is_data(model: Any, shared: Any) -> bool:
    """Whether a shared variable is data that users know by its name."""
    if shared in model.data_vars:
        return True
    lengths = list(model.dim_lengths.values())
    return shared.name is not None and shared.name not in model.named_vars and shared not in lengths


def is_stream(variable: Any) -> bool:
    """Whether a variable is the state of a random number generator."""
    return isinstance(variable.type, RandomType) and isinstance(variable, SharedVariable)


def whole_of_minibatches(variables: list[Any]) -> dict[Any, Any]:
    """Return minibatches and the whole data that they are random parts of."""
    nodes = {v.owner for v in ancestors(variables) if v.owner is not None}
    whole: dict[Any, Any] = {}
    for node in nodes:
        if isinstance(node.op, MinibatchOp):
            whole |= dict(zip(node.outputs, node.inputs[:-1], strict=False))
    return whole


def whole_sizes(model: Any, whole: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the sizes of variables that observe minibatches, and those with the whole data."""
    sizes = {}
    for rv in model.observed_RVs:
        holder = holder_of(model.rvs_to_values[rv], whole)
        scaled = isinstance(rv.owner.op, MinibatchRandomVariable)
        node = rv.owner.inputs[0].owner if scaled else rv.owner
        size = node.op.size_param(node)
        if whole and holder is not None and isinstance(size, Constant) and size.data is not None:
            length = len(size.data)
            sizes[size] = pt.constant(np.array(np.shape(held_by(holder))[:length], np.int64))
    return sizes


def total_sizes(rv: Any) -> tuple[int | None, ...]:
    """Return the total_size of a variable along each of its dimensions."""
    if not isinstance(rv.owner.op, MinibatchRandomVariable):
        return ()
    return tuple(
        int(size.data) if isinstance(size, Constant) and size.data is not None else None
        for size in rv.owner.inputs[1:]
    )


def holder_of(value: Any, whole: Mapping[Any, Any]) -> Any:
    """Return the constant or shared variable that an observed value is, if it is one."""
    while True:
        if value in whole:
            value = whole[value]
        elif value.owner is not None and _is_cast(value.owner.op):
            value = value.owner.inputs[0]
        else:
            return value if isinstance(value, Constant | SharedVariable) else None


def _is_cast(op: Any) -> bool:
    return isinstance(op, Elemwise) and isinstance(op.scalar_op, Cast)


def held_by(holder: Any) -> Any:
    """Return the array in a constant or shared variable."""
    return holder.data if isinstance(holder, Constant) else holder.get_value()


def is_used(variables: Sequence[Any], source: Any) -> bool:
    """Whether a distribution depends on the values of a variable, not only on its shape."""
    seen: set[Any] = set()
    waiting = [*variables]
    while waiting:
        variable = waiting.pop()
        if variable is source:
            return True
        if variable in seen or variable.owner is None:
            continue
        seen.add(variable)
        if not isinstance(variable.owner.op, Shape | Shape_i):
            waiting += variable.owner.inputs
    return False


def unshaped_like(name: str, like: Any) -> Any:
    """Return an input of the same type but of any length; ones stay, as they are broadcast."""
    shape = tuple(1 if size == 1 else None for size in like.type.shape)
    return pt.tensor(name, dtype=like.dtype, shape=shape)
