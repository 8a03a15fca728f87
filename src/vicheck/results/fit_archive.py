"""A fit as a file: what is kept of it. Its parts are taken apart and joined in `vi.saving`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vicheck.indexing import Indexing
from vicheck.results.archive import ArchiveFormat
from vicheck.results.modes import ModeSearch
from vicheck.results.record import Record
from vicheck.results.status import FitStatus

__all__ = ["FIT_FORMAT", "FitDescription"]


@dataclass(frozen=True, eq=False, repr=False)
class FitDescription(Record):
    """What is kept beside the arrays: fields of `Fit` and `Solution`, and names of the model's."""

    family: str
    solver: str
    seed: int
    options: dict[str, Any]
    name: str
    model: str
    shapes: dict[str, tuple[int, ...]]
    """Of the parameters on the unconstrained scale."""
    coordinates: tuple[str, ...]
    indexing: Indexing
    drawn: tuple[str, ...]
    """Names of what there are draws of."""
    other_elbos: tuple[float, ...]
    """Of optima at other modes."""
    status: FitStatus
    elbo: float
    num_evaluations: int
    gradient_norm: float
    sampling_error: float
    num_draws: int
    search: ModeSearch | None
    settings: dict[str, float]


FIT_FORMAT = ArchiveFormat("fit", 1, FitDescription)
