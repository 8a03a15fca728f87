"""Arguments of models that are tuples of arrays: kept as dictionaries, handed over as tuples."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["as_dictionary", "is_data", "with_tuples"]


def is_data(value: Any) -> bool:
    """Whether an argument is a tuple of arrays or of real numbers, and so data.

    One of whole numbers may be a shape, and stays what it is.
    """
    if not isinstance(value, tuple) or not value:
        return False
    return any(isinstance(each, float | list | Mapping) or _is_array(each) for each in value)


def as_dictionary(value: tuple[Any, ...]) -> Any:
    """Return a tuple as data: numbers as an array, anything else as a dictionary of its parts."""
    if all(np.isscalar(each) for each in value):
        return np.asarray(value)
    return {f"[{place}]": each for place, each in enumerate(value)}


def with_tuples(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes such dictionaries in place of tuples."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_back, args), **{name: _back(each) for name, each in kwargs.items()})

    if inspect.isroutine(function):
        return functools.wraps(function)(called)
    return called


def _back(value: Any) -> Any:
    if not isinstance(value, Mapping) or not value:
        return value
    places = [f"[{place}]" for place in range(len(value))]
    return tuple(value[place] for place in places) if set(value) == set(places) else value


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") and not np.isscalar(value)
