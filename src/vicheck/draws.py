"""`Draws`: draws from any approximation with both log densities, as adapters bring them."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vicheck.indexing import Indexing
from vicheck.results.status import FitStatus

if TYPE_CHECKING:
    from vicheck.model import Model
    from vicheck.results.convergence import Convergence
    from vicheck.vi.families.family import Family

__all__ = ["Approximation", "Draws", "as_numbers", "require_function"]

Floats = NDArray[np.float64]

_NOT_REAL = "cSUMm"
"""Kinds of NumPy's that would be converted, though they are complex numbers, text or times."""


class Approximation(abc.ABC):
    """A q made by another library, from which more draws can be had."""

    @abc.abstractmethod
    def draws(self, num_draws: int, seed: int = 0) -> Draws:
        """Draw from q, with both log densities; the same seed gives the same bits."""

    def family(self) -> Family | None:
        """Return the same q as a member of one of vicheck's own families, where it is one."""
        return None


@dataclass(frozen=True, eq=False, repr=False)
class Draws:
    """Draws from an approximation made elsewhere, for `vicheck.check`."""

    values: Mapping[str, Floats]
    """Named draws, shape ``(S, ...)``, on the parameters' own scale. There may be fewer of them
    than densities: those of the first draws."""
    log_p: Floats
    """Log joint density of each draw on the unconstrained scale, Jacobian included."""
    log_q: Floats
    """Log density of the approximation at the same draws, on the same scale."""
    title: str = ""
    """What was fitted, in one line."""
    notes: tuple[str, ...] = ()
    """Sentences to bear in mind when reading the numbers."""
    unnormalized: str = ""
    """Why ``log_q`` lacks its constant, if it does: khat and the weights need none, but the ELBO
    and the evidence do."""
    status: FitStatus = FitStatus.UNKNOWN
    """How the fit ended, if its library says so; `vicheck.vsbc` counts it."""
    elbo_trace: Floats = field(default_factory=lambda: np.empty(0))
    """Estimates of the ELBO in the course of the fit, if they are known."""
    convergence: Convergence | None = None
    """What is known about the optimiser, if it could be tested."""
    model: Model | None = None
    """The model with its data, if the library's model could be read."""
    q: Approximation | None = None
    """What the draws come from, if more can be drawn."""
    indexing: Indexing = Indexing.PYTHON
    """How elements of arrays are named; where there is a model, as it names them."""

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping):
            raise TypeError(
                "values must be a dictionary of named arrays, draws first, got "
                f"{type(self.values).__name__}"
            )
        if self.model is not None:
            object.__setattr__(self, "indexing", self.model.indexing)
        arrays = {name: as_numbers(name, value) for name, value in self.values.items()}
        object.__setattr__(self, "values", arrays)
        for name in ("log_p", "log_q"):
            object.__setattr__(self, name, np.atleast_1d(as_numbers(name, getattr(self, name))))
        num_draws = len(self.log_p)
        if np.shape(self.log_p) != (num_draws,) or np.shape(self.log_q) != (num_draws,):
            raise ValueError(
                "log_p and log_q must have one value per draw, got shapes "
                f"{np.shape(self.log_p)} and {np.shape(self.log_q)}"
            )
        lengths = {name: len(array) if np.ndim(array) else 0 for name, array in self.values.items()}
        if not sum(np.size(array) for array in self.values.values()):
            raise ValueError("draws must hold at least one number per draw, got none")
        kept = max(lengths.values())
        for name, length in lengths.items():
            if length != kept or kept > num_draws:
                raise ValueError(
                    f"{name} must have one row for each of the {num_draws} draws, got shape "
                    f"{np.shape(self.values[name])}"
                )

    @property
    def num_draws(self) -> int:
        """How many draws there are."""
        return len(self.log_p)

    def __repr__(self) -> str:
        names = ", ".join(f"{name} {np.shape(array)[1:]}" for name, array in self.values.items())
        return f"Draws({self.title or 'of an approximation'}: {self.num_draws} of {names})"


def as_numbers(name: str, values: object) -> Floats:
    """Return an array argument in float64, or raise when it does not hold real numbers."""
    hidden = _num_masked(values)
    if hidden:
        raise TypeError(
            f"{name} must not hide numbers, got an array with {hidden} masked: drop these draws"
        )
    try:
        array = np.asarray(values)
        if not _is_real(array):
            raise TypeError(f"{name} must be real numbers, got dtype {array.dtype}")
        return np.asarray(array, float)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of numbers: {error}") from None


def _num_masked(values: object) -> int:
    """Count the numbers that masked arrays hide: NumPy would take them as they are."""
    if isinstance(values, list | tuple):
        return sum(_num_masked(each) for each in values if not isinstance(each, float))
    return int(np.ma.getmaskarray(values).sum()) if isinstance(values, np.ma.MaskedArray) else 0


def _is_real(array: NDArray[Any]) -> bool:
    """Whether an array holds what can be taken for real numbers without a loss."""
    if array.dtype == object:
        return not any(isinstance(each, str | bytes | complex) for each in array.flat)
    return array.dtype.kind not in _NOT_REAL


def require_function(name: str, value: object) -> None:
    """Raise unless an argument is a function, or can be called like one."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {type(value).__name__}")
