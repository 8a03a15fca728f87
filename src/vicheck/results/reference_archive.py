"""Reference draws as a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicheck.results.archive import ArchiveFormat, Arrays
from vicheck.results.record import Record

__all__ = ["REFERENCE_FORMAT", "ReferenceDescription", "described_reference", "reference_fields"]


@dataclass(frozen=True, eq=False, repr=False)
class ReferenceDescription(Record):
    """What is kept beside the draws."""

    drawn: tuple[str, ...]
    """Names of the arrays."""
    rhat: dict[str, float]
    ess: dict[str, float]
    mcse: dict[str, float]
    tail_ess: dict[str, float]
    """Empty where it is not known."""
    num_divergent: int
    num_gradients: int


REFERENCE_FORMAT = ArchiveFormat("reference", 1, ReferenceDescription)


def described_reference(reference: Any) -> tuple[ReferenceDescription, Arrays]:
    """Return what is kept of reference draws: all of them."""
    description = ReferenceDescription(
        tuple(reference.draws),
        reference.rhat,
        reference.ess,
        reference.mcse,
        reference.tail_ess,
        reference.num_divergent,
        reference.num_gradients,
    )
    arrays: Arrays = {
        f"draws.{number}": np.asarray(array, np.float64)
        for number, array in enumerate(reference.draws.values())
    }
    return description, arrays | {"z": np.asarray(reference.z, np.float64)}


def reference_fields(description: ReferenceDescription, arrays: Arrays) -> dict[str, Any]:
    """Return the fields of a reference, or raise `ValueError` where its parts do not fit."""
    names = [f"draws.{number}" for number in range(len(description.drawn))]
    if {*names, "z"} != arrays.keys() or not names:
        raise ValueError("its arrays are not those of its description")
    if any(array.dtype != np.float64 for array in arrays.values()):
        raise ValueError("its draws are not in float64")
    sizes = {array.shape[:2] for array in arrays.values()}
    if arrays["z"].ndim != 3 or len(sizes) != 1 or 0 in min(sizes):
        raise ValueError("its draws are not those of the same chains")
    draws = {name: arrays[key] for name, key in zip(description.drawn, names, strict=True)}
    count = sum(int(np.prod(array.shape[2:])) for array in draws.values())
    numbers = {name: getattr(description, name) for name in ("rhat", "ess", "mcse")}
    if any(len(each) != count for each in numbers.values()):
        raise ValueError("its quantities have no numbers each")
    if len(description.tail_ess) not in (0, count):
        raise ValueError("its quantities have no effective draws each in the tails")
    return numbers | {
        "tail_ess": description.tail_ess,
        "z": arrays["z"],
        "draws": draws,
        "num_divergent": description.num_divergent,
        "num_gradients": description.num_gradients,
    }
