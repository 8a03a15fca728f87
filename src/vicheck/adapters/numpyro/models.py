"""Models written in NumPyro."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vicheck.adapters.numpyro.observed import Chosen
from vicheck.adapters.numpyro.program import NumpyroProgram
from vicheck.adapters.numpyro.tuples import as_dictionary, is_data, with_tuples
from vicheck.errors import ARGUMENTS_DO_NOT_FIT, ModelError
from vicheck.model import Data, Model, as_data, double_precision, name_of

__all__ = ["from_numpyro"]


def from_numpyro(
    model_fn: Callable[..., Any],
    *args: Any,
    observed: tuple[str, ...] | Mapping[str, str] | None = None,
    **kwargs: Any,
) -> Model:
    """Take a model written in NumPyro.

    Parameters
    ----------
    model_fn
        The function with ``numpyro.sample`` statements.
    *args, **kwargs
        Its arguments. Arrays, and tuples of them, become the model's data, which `vicheck.fit` can
        replace without compiling again; numbers, strings and the like are fixed. Those that reach
        ``obs=`` are observed: `vicheck.vsbc` simulates them, and they may be left out here and
        given to `vicheck.fit`.
    observed
        Needed only where this cannot be found out: names of the arguments that are observed, or a
        dictionary from these to the sites whose draws they are. With ``()``, whatever is left out
        is a parameter.

    Returns
    -------
    Model
        It has the log joint density of the flat unconstrained vector, Jacobians included.

    Raises
    ------
    ModelError
        For discrete latent variables, ``numpyro.param`` sites (they have no prior density),
        data with NaN, and shapes that do not fit; the message names the site or argument.

    Examples
    --------
    >>> import numpyro, numpyro.distributions as dist
    >>> def coin(y=None):
    ...     p = numpyro.sample("p", dist.Beta(1, 1))
    ...     numpyro.sample("y", dist.Bernoulli(p).expand([3]), obs=y)
    >>> model = vicheck.from_numpyro(coin, y=[1, 1, 0])
    >>> model.coordinates
    ('p',)
    """
    arguments = _bind(model_fn, args, kwargs)
    if any(map(is_data, arguments.values())):
        model_fn = with_tuples(model_fn)
        arguments = {
            name: as_dictionary(value) if is_data(value) else value
            for name, value in arguments.items()
        }
    chosen = _chosen(observed, model_fn, arguments)
    data, fixed = {}, {}
    for name, value in arguments.items():
        seen = chosen is not None and name in chosen and value is not None
        if seen or isinstance(value, list | Mapping) or _is_array(value):
            data[name] = as_data(name, value)
        else:
            fixed[name] = _hashable(name, value)
    with double_precision():
        draft = NumpyroProgram(model_fn, tuple(fixed.items()), (), (), ())
        absent = _absent(model_fn, data | fixed, chosen)
        imagined = draft.imagine(data, absent, chosen)
        draft = draft.without(imagined)
        if chosen is None:
            data |= draft.observed_numbers(data | imagined)
            draft = draft.without(data)
        filled = data | imagined
        program = draft.with_parameters(filled)
        program.check_data(filled)
        program = program.with_targets(filled, tuple(imagined), chosen)
    return Model(program, data, tuple(imagined), name_of(model_fn))


def _bind(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> dict[str, Any]:
    signature = inspect.signature(function)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        raise ModelError("a model with *args has no names for its data: name its arguments")
    try:
        bound = signature.bind_partial(*args, **kwargs)
    except TypeError as error:
        raise ModelError(
            f"the arguments do not fit the model: {error}", code=ARGUMENTS_DO_NOT_FIT
        ) from error
    arguments = dict(bound.arguments)
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(arguments.pop(name, {}))
    return arguments


def _chosen(observed: Any, function: Callable[..., Any], arguments: Data) -> Chosen:
    """Return the arguments that the user calls observed, with their sites where these are named."""
    if observed is None:
        return None
    if isinstance(observed, str):
        raise ModelError(f"observed must be a tuple of names, got the string {observed!r}")
    chosen = dict(observed) if isinstance(observed, Mapping) else dict.fromkeys(observed)
    known = dict.fromkeys([*inspect.signature(function).parameters, *arguments])
    for name in chosen:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise ModelError(f"observed has {name!r}, but the model's arguments are: {listed}")
    return chosen


def _absent(function: Callable[..., Any], given: Data, chosen: Chosen) -> tuple[str, ...]:
    """Return the arguments that are None or left out, as far as they may be observed."""
    absent = []
    for name, parameter in inspect.signature(function).parameters.items():
        value = given.get(name, parameter.default)
        empty = value is None or value is parameter.empty
        if empty and parameter.kind is not parameter.VAR_KEYWORD:
            absent.append(name)
    return tuple(name for name in absent if chosen is None or name in chosen)


def _hashable(name: str, value: Any) -> Any:
    try:
        hash(value)
    except TypeError as error:
        raise ModelError(
            f"argument {name!r} must be an array or hashable, got {type(value).__name__}"
        ) from error
    return value


def _is_array(value: Any) -> bool:
    """Whether a value is an array of some library: NumPy, JAX, pandas."""
    return hasattr(value, "__array__") and not np.isscalar(value)
