"""`Record`: base of all results; frozen, printable, convertible to and from plain dictionaries."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from enum import Enum
from types import UnionType
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Record"]

Floats = NDArray[np.float64]

_MOST_SHOWN = 4
"""Entries of a field that are printed; of more, only their number."""


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """Base of all results: `to_dict` gives plain lists and numbers, `from_dict` reads them back."""

    _arrays_of: ClassVar[dict[str, type[Enum]]] = {}
    """Fields that hold a member of an enumeration, or an array of members."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values; arrays become lists, statuses their names."""
        return {each.name: _encode(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Rebuild a record from what `to_dict` returned, also by way of JSON; null becomes NaN.

        Raises
        ------
        ValueError
            When a field is missing, unknown, or of another type than the record's.
        """
        if not isinstance(values, dict):
            raise ValueError(f"{cls.__name__} must be a dictionary, got {type(values).__name__}")
        known = {each.name: each for each in fields(cls)}
        needed = {
            name
            for name, each in known.items()
            if each.default is MISSING and each.default_factory is MISSING
        }
        for what, names in (("no", needed - {*values}), ("an unknown", {*values} - {*known})):
            if names:
                raise ValueError(f"{cls.__name__} has {what} field {min(map(str, names))!r}")
        decoded, hints = {}, get_type_hints(cls)
        for name, value in values.items():
            try:
                decoded[name] = _decode_field(value, hints[name], cls._arrays_of.get(name))
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"{name} of {cls.__name__}: {error}") from None
        return cls(**decoded)

    def __repr__(self) -> str:
        parts = (f"{each.name}={_brief(getattr(self, each.name))}" for each in fields(self))
        return f"{type(self).__name__}({', '.join(parts)})"


def _brief(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray):
        return f"<array {value.shape}>"
    if isinstance(value, tuple | dict) and len(value) > _MOST_SHOWN:
        return f"<{len(value)} entries>"
    if isinstance(value, Record) and type(value).__repr__ is Record.__repr__:
        return f"<{type(value).__name__}>"
    return repr(value)


def _encode(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.ndarray | np.generic):
        return _encode(value.tolist())
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return value


def _decode_field(value: Any, hint: Any, members: type[Enum] | None) -> Any:
    """Return the value of a field; one that may hold anything holds numbers, alone or in arrays."""
    if members is not None:
        names = np.array(value, dtype=object)
        decoded = np.empty(names.shape, dtype=object)
        for index, name in np.ndenumerate(names):
            decoded[index] = _member(name, members)
        return decoded.item() if decoded.ndim == 0 else decoded
    if hint is not Any:
        return _decode(value, hint)
    if value is None:
        return np.nan
    if not isinstance(value, list):
        return value
    array = np.array(value)
    return array.astype(np.float64) if array.dtype == object else array  # None becomes NaN


def _decode(value: Any, hint: Any) -> Any:
    """Return what a type makes of plain values, or raise `TypeError` or `ValueError`."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in (Any, type(None)) or (origin is Literal and value in parts):
        return value
    if origin in (UnionType, Union):  # of types, or of a type and None
        return _decode(value, next((part for part in parts if type(value) is part), parts[0]))
    if origin is None:
        return _decode_single(value, hint)
    if origin is dict and isinstance(value, dict):
        kind = parts[0]  # of the keys, which JSON has as text
        return {kind(key): _decode(item, parts[1]) for key, item in value.items()}
    # An array's type has its alias as origin where that is a type of its own, from NumPy 2.5 on.
    if origin not in (np.ndarray, NDArray, tuple) or not isinstance(value, list):
        raise TypeError(f"expected {hint}, got {type(value).__name__}")
    if origin is tuple:
        return tuple(_decode(item, parts[0]) for item in value)
    return np.array(value, dtype=np.float64)  # None becomes NaN


def _decode_single(value: Any, kind: type[Any]) -> Any:
    if issubclass(kind, Record):
        return kind.from_dict(value)
    if issubclass(kind, Enum):
        return _member(value, kind)
    if kind is float and value is None:
        return np.nan
    wanted = int | float if kind is float else kind
    if not isinstance(value, wanted) or isinstance(value, bool) is not (kind is bool):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    return _within_64_bits(value) if kind is int else kind(value)


def _within_64_bits(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise ValueError("a number is too large")
    return value


def _member(name: Any, kind: type[Enum]) -> Enum:
    if not isinstance(name, str) or name not in kind.__members__:
        raise ValueError(f"there is no {kind.__name__} {name!r:.40}")
    return kind[name]
