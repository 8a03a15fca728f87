"""A compiled Stan program with data, behind the interface that BridgeStan's ``StanModel`` has."""

from __future__ import annotations

import ctypes
import json
import weakref
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ModelError
from vicheck.runtime.cache import is_private

__all__ = ["Bridge", "as_json"]

Floats = NDArray[np.float64]

_DOUBLES, _INTS = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int)
_MODEL, _LONG, _BOOL, _SEED = ctypes.c_void_p, ctypes.c_long, ctypes.c_bool, ctypes.c_uint
_TEXT, _LONGS = ctypes.c_char_p, ctypes.POINTER(ctypes.c_long)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "message": (_TEXT, []),
    "new": (_MODEL, [_TEXT, _LONGS, _DOUBLES, _TEXT, _LONGS, _INTS, _SEED]),
    "delete": (None, [_MODEL]),
    "dim": (_LONG, [_MODEL]),
    "names": (_TEXT, [_MODEL, _BOOL, _BOOL]),
    "log_density": (None, [_MODEL, _DOUBLES, _LONG, _DOUBLES, _DOUBLES]),
    "constrain": (_LONG, [_MODEL, _DOUBLES, _LONG, _BOOL, _BOOL, _SEED, _LONG, _DOUBLES]),
    "unconstrain": (ctypes.c_int, [_MODEL, _DOUBLES, _LONG, _DOUBLES]),
}


class Bridge:
    """A Stan model: densities with all constants and the Jacobian, at many points at a time.

    Beside BridgeStan's methods for one point it has ``log_densities`` and ``log_density_gradients``
    for many, which `vicheck.from_stan` uses where they exist.
    """

    def __init__(self, library: str, data: Mapping[str, Any], seed: int = 0) -> None:
        self._call = _functions(library)
        arrays = {name: np.asarray(value) for name, value in data.items()}
        for name, array in arrays.items():
            if array.dtype.kind not in "biuf":
                raise ModelError(f"{name} must hold numbers, got an array of type {array.dtype}")
        integers = {name: array for name, array in arrays.items() if _is_integer(array)}
        reals = {name: array for name, array in arrays.items() if name not in integers}
        self._model = self._call["new"](
            *_variables(reals, ctypes.c_double), *_variables(integers, ctypes.c_int), seed
        )
        if not self._model:
            raise ModelError(f"Stan rejected the data: {self.message}")
        weakref.finalize(self, self._call["delete"], self._model)

    @property
    def message(self) -> str:
        """Stan's last message about something it rejected, in this thread."""
        return str(self._call["message"]().decode())

    def param_unc_num(self) -> int:
        """Return the number of unconstrained parameters."""
        return int(self._call["dim"](self._model))

    def param_names(self, *, include_tp: bool = False, include_gq: bool = False) -> list[str]:
        """Return the names of all scalars, as ``theta.1``."""
        return self._call["names"](self._model, include_tp, include_gq).decode().splitlines()

    def log_density(self, theta_unc: Any, *, propto: bool = False, jacobian: bool = True) -> float:
        """Return the log density at one point."""
        _require_whole(propto, jacobian)
        return float(self.log_densities(np.atleast_2d(theta_unc))[0])

    def log_density_gradient(
        self, theta_unc: Any, *, propto: bool = False, jacobian: bool = True
    ) -> tuple[float, Floats]:
        """Return the log density and its gradient at one point."""
        _require_whole(propto, jacobian)
        values, gradients = self.log_density_gradients(np.atleast_2d(theta_unc))
        return float(values[0]), gradients[0]

    def param_constrain(
        self, theta_unc: Any, *, include_tp: bool = False, include_gq: bool = False, rng: Any = 0
    ) -> Floats:
        """Return the constrained parameters at one point; ``rng`` is a seed."""
        constrained = self.constrain_many(
            np.atleast_2d(theta_unc), include_tp=include_tp, include_gq=include_gq, rng=rng
        )
        return constrained[0]

    def new_rng(self, seed: int) -> int:
        """Return what ``param_constrain`` takes as ``rng``."""
        return seed

    def param_unconstrain(self, theta: Any) -> Floats:
        """Return the unconstrained parameters."""
        theta, z = _doubles(theta), np.empty(self.param_unc_num())
        if self._call["unconstrain"](self._model, _pointer(theta), theta.size, _pointer(z)):
            raise ModelError(f"parameters are out of their support: {self.message}")
        return z

    def log_densities(self, z: Any) -> Floats:
        """Return the log density at each row; -inf where Stan rejects."""
        z = _doubles(z)
        values = np.empty(len(z))
        self._call["log_density"](self._model, _pointer(z), len(z), _pointer(values), None)
        return values

    def log_density_gradients(self, z: Any) -> tuple[Floats, Floats]:
        """Return log density and gradient at each row; -inf and NaN where Stan rejects."""
        z = _doubles(z)
        values, gradients = np.empty(len(z)), np.empty_like(z)
        self._call["log_density"](
            self._model, _pointer(z), len(z), _pointer(values), _pointer(gradients)
        )
        return values, gradients

    def constrain_many(
        self, z: Any, *, include_tp: bool = False, include_gq: bool = False, rng: Any = 0
    ) -> Floats:
        """Return the constrained parameters at each row; NaN where Stan rejects."""
        z = _doubles(z)
        width = len(self.param_names(include_tp=include_tp, include_gq=include_gq))
        values = np.empty((len(z), width))
        self._call["constrain"](
            self._model, _pointer(z), len(z), include_tp, include_gq, int(rng), width,
            _pointer(values),
        )  # fmt: skip
        return values


def _is_integer(array: NDArray[Any]) -> bool:
    """Whether Stan can read values as integers; it takes integers where it wants real numbers."""
    if not array.size:
        return True
    limits = np.iinfo(np.intc)
    return array.dtype.kind in "biu" and limits.min <= array.min() and array.max() <= limits.max


def _variables(arrays: Mapping[str, NDArray[Any]], kind: Any) -> tuple[bytes, Any, Any]:
    """Return names, ranks with sizes, and values, the first index of each running fastest."""
    shapes = [size for array in arrays.values() for size in (array.ndim, *array.shape)]
    flat = [array.ravel(order="F").astype(kind) for array in arrays.values()]
    values = np.concatenate([np.empty(0, kind), *flat])
    return (
        "\n".join(arrays).encode(),
        (ctypes.c_long * len(shapes))(*shapes),
        values.ctypes.data_as(ctypes.POINTER(kind)),
    )


def as_json(data: Mapping[str, Any]) -> str:
    """Return data as Stan reads it, every number to its last bit."""
    arrays = {name: np.asarray(value) for name, value in data.items()}
    return json.dumps(
        {
            name: (array.astype(int) if array.dtype.kind == "b" else array).tolist()
            for name, array in arrays.items()
        }
    )


@lru_cache(maxsize=32)
def _functions(library: str) -> dict[str, Any]:
    path = Path(library)
    if not (is_private(path) and is_private(path.parent)):
        raise ModelError(
            f"{library} is not loaded: it is not there, or others could have written it",
            hint="compile the program where, and as the user for whom, it is to run",
        )
    loaded = ctypes.CDLL(library)
    functions = {}
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, f"vicheck_{name}")
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return functions


def _require_whole(propto: bool, jacobian: bool) -> None:
    if propto or not jacobian:
        raise ValueError("this model only has its density with all constants and the Jacobian")


def _doubles(values: Any) -> Floats:
    return np.ascontiguousarray(values, np.float64)


def _pointer(array: Floats) -> Any:
    return array.ctypes.data_as(_DOUBLES)
