"""Where Stan models come from: a program compiled here, BridgeStan, or an object of the user's."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.stan.bridge import Bridge, as_json
from vicheck.adapters.stan.compiler import Report, compile_program
from vicheck.errors import ModelError
from vicheck.runtime.cache import is_private

__all__ = ["Source", "StanModel", "constrain_rows", "gradient_rows", "source_of", "value_rows"]

Floats = NDArray[np.float64]

_NEEDED = (
    "log_density", "log_density_gradient", "param_constrain", "param_unconstrain", "param_names",
    "param_unc_num",
)  # fmt: skip
_ALONE = threading.Lock()
"""Objects that are not ours may share the state of differentiation between threads."""


class StanModel(Protocol):
    """The interface of BridgeStan's ``StanModel``: a program with its data."""

    def log_density(self, theta_unc: Any, *, propto: bool, jacobian: bool) -> float: ...
    def log_density_gradient(
        self, theta_unc: Any, *, propto: bool, jacobian: bool
    ) -> tuple[float, Floats]: ...
    def param_constrain(
        self, theta_unc: Any, *, include_tp: bool, include_gq: bool, rng: Any
    ) -> Floats: ...
    def param_unconstrain(self, theta: Any) -> Floats: ...
    def param_names(self, *, include_tp: bool, include_gq: bool) -> list[str]: ...
    def param_unc_num(self) -> int: ...


class Source(Protocol):
    """Makes models of data; compared by value, as compiled code is kept for it."""

    @property
    def identity(self) -> str:
        """What tells the program apart from others."""
        ...

    def model(self, data: Mapping[str, Any]) -> StanModel:
        """Return the program with data; the same object for the same data."""
        ...


class _Kept:
    """The models used last; building one takes longer than evaluating it."""

    def __init__(self, most: int) -> None:
        self._most, self._models, self._lock = most, OrderedDict[Any, StanModel](), threading.Lock()

    def get(self, key: Any, make: Callable[[], StanModel]) -> StanModel:
        with self._lock:
            if key not in self._models:
                self._models[key] = make()
                while len(self._models) > self._most:
                    self._models.popitem(last=False)
            self._models.move_to_end(key)
            return self._models[key]


_MODELS = _Kept(64)


def _digest(data: Mapping[str, Any]) -> bytes:
    """Return what tells data apart; quick, as it is needed at every evaluation."""
    digest = hashlib.blake2b()
    for name, value in sorted(data.items()):
        array = np.asarray(value, order="C")
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.digest()


@dataclass(frozen=True)
class CompiledProgram:
    """A library that was compiled here; a process that it is sent to loads it again."""

    library: str

    @property
    def identity(self) -> str:
        return Path(self.library).stem.partition("-")[0]  # wherever Stan's libraries are

    def model(self, data: Mapping[str, Any]) -> StanModel:
        return _MODELS.get((self.library, _digest(data)), lambda: Bridge(self.library, data))


@dataclass(frozen=True)
class BridgestanProgram:
    """A library that BridgeStan has compiled."""

    library: str
    text: str

    @property
    def identity(self) -> str:
        return self.text

    def model(self, data: Mapping[str, Any]) -> StanModel:
        return _MODELS.get((self.library, _digest(data)), lambda: self._make(as_json(data)))

    def _make(self, data: str) -> StanModel:
        import bridgestan

        try:
            return bridgestan.StanModel(self.library, data, warn=False)
        except RuntimeError as error:
            raise ModelError(f"Stan rejected the data: {error}") from error


@dataclass(frozen=True, eq=False)
class GivenObject:
    """An object with BridgeStan's interface, which has its data already."""

    object: Any

    @property
    def identity(self) -> str:
        return repr(self.object)

    def model(self, data: Mapping[str, Any]) -> StanModel:
        if data:
            raise ModelError(
                f"data has {', '.join(data)}, but the Stan model was made with its data: give "
                "from_stan the path of the program instead"
            )
        return self.object


def source_of(program: Any, report: Report) -> Source:
    """Return where models come from: a path is compiled, an object taken as it is."""
    if not isinstance(program, str | Path):
        missing = [name for name in _NEEDED if not callable(getattr(program, name, None))]
        if missing:
            raise TypeError(
                "program must be the path of a .stan file or an object with BridgeStan's "
                f"interface, got {type(program).__name__} without {', '.join(missing)}"
            )
        return GivenObject(program)
    path = Path(program)
    if path.suffix != ".stan":
        raise ModelError(f"program must be the path of a .stan file, got {str(program)[:60]!r}")
    text = path.read_text(encoding="utf-8")
    if _has_bridgestan():
        import bridgestan

        program = path.resolve()
        if not is_private(program.parent):
            raise ModelError(
                f"others could write to {program.parent}, where BridgeStan keeps its library",
                hint="copy the program into a directory that only you can write to",
            )
        return BridgestanProgram(str(bridgestan.compile_model(program)), text)
    return CompiledProgram(str(compile_program(path, report)))


def _has_bridgestan() -> bool:
    """Whether BridgeStan is there with the sources it compiles from: it would download them."""
    if find_spec("bridgestan") is None:
        return False
    from bridgestan.compile import get_bridgestan_path, verify_bridgestan_path

    try:
        with redirect_stdout(StringIO()):
            verify_bridgestan_path(get_bridgestan_path(download=False) or "there is none")
    except ValueError:
        return False
    return True


def value_rows(model: StanModel, z: Floats) -> Floats:
    """Return the log density at each row; -inf where Stan rejects."""
    if isinstance(model, Bridge):
        return model.log_densities(z)
    return _by_row(lambda row: model.log_density(row, propto=False, jacobian=True), z, -np.inf, ())


def gradient_rows(model: StanModel, z: Floats) -> tuple[Floats, Floats]:
    """Return log density and gradient at each row; -inf and NaN where Stan rejects."""
    if isinstance(model, Bridge):
        return model.log_density_gradients(z)

    def both(row: Floats) -> Floats:
        value, gradient = model.log_density_gradient(row, propto=False, jacobian=True)
        return np.append(gradient, value)

    rows = _by_row(both, z, np.nan, (z.shape[1] + 1,))
    values = np.where(np.isnan(rows[:, -1]), -np.inf, rows[:, -1])
    return values, rows[:, :-1]


def constrain_rows(
    model: StanModel, z: Floats, *, transformed: bool, generated: bool = False, seed: int = 0
) -> Floats:
    """Return all constrained numbers at each row; NaN where Stan rejects."""
    names = model.param_names(include_tp=transformed, include_gq=generated)
    if isinstance(model, Bridge):
        return model.constrain_many(z, include_tp=transformed, include_gq=generated, rng=seed)
    new_rng = getattr(model, "new_rng", None)
    rng = new_rng(seed) if generated and new_rng is not None else None

    def constrain(row: Floats) -> Floats:
        return model.param_constrain(row, include_tp=transformed, include_gq=generated, rng=rng)

    return _by_row(constrain, z, np.nan, (len(names),))


def _by_row(function: Any, z: Floats, rejected: float, shape: tuple[int, ...]) -> Floats:
    results = np.full((len(z), *shape), rejected)
    with _ALONE:
        for index, row in enumerate(np.ascontiguousarray(z, np.float64)):
            try:
                results[index] = function(row)
            except (RuntimeError, ValueError):  # how Stan's rejections arrive
                continue
    return results
