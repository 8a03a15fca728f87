"""A rescue as a file: its checks, its fit and its reference draws, each as in a file of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vicheck.results.archive import ArchiveFormat, Arrays
from vicheck.results.check import Check
from vicheck.results.check_archive import CheckDescription, described_check, fields_of
from vicheck.results.fit_archive import FitDescription
from vicheck.results.record import Record
from vicheck.results.reference import Reference
from vicheck.results.reference_archive import (
    ReferenceDescription,
    described_reference,
    reference_fields,
)
from vicheck.results.rescue import Attempt, Rescue

__all__ = ["load_rescue", "save_rescue"]

_NUM_DRAWS = 4000
"""Of the fit."""


@dataclass(frozen=True, eq=False, repr=False)
class _Description(Record):
    """What is kept beside the arrays, whose names begin with those of the parts they belong to."""

    attempts: tuple[Attempt, ...]
    succeeded: bool
    sentence: str
    code: str
    remedies: tuple[str, ...]
    doubtful: tuple[str, ...]
    check: CheckDescription
    before: CheckDescription | None
    fit: FitDescription | None
    reference: ReferenceDescription | None


_FORMAT = ArchiveFormat("rescue", 1, _Description)
_PARTS = ("check", "before", "fit", "reference")


def save_rescue(path: str | Path, rescue: Rescue, *, draws: bool, dtype: str) -> None:
    """Write a rescue to a file, whole or not at all."""
    from vicheck.vi.saving import described_fit

    parts: dict[str, tuple[Any, Arrays]] = {}
    for name in ("check", "before"):
        check = getattr(rescue, name)
        if check is not None:
            parts[name] = described_check(check, draws=draws, dtype=dtype)
    if rescue.fit is not None:
        parts["fit"] = described_fit(rescue.fit, _NUM_DRAWS if draws else 0)
    if rescue.reference is not None:
        parts["reference"] = described_reference(rescue.reference)
    described: dict[str, Any] = {name: parts[name][0] if name in parts else None for name in _PARTS}
    description = _Description(
        attempts=rescue.attempts,
        succeeded=bool(rescue.succeeded),
        sentence=rescue.sentence,
        code=rescue.code,
        remedies=rescue.remedies,
        doubtful=rescue.doubtful,
        **described,
    )
    arrays = {
        f"{part}.{name}": array for part, (_, own) in parts.items() for name, array in own.items()
    }
    _FORMAT.save(path, description, arrays)


def load_rescue(path: str | Path) -> Rescue:
    """Read what `save_rescue` has written.

    Raises
    ------
    InputFileError
        If the file is damaged or holds anything else.
    """
    return _FORMAT.load(path, _rescue_from)


def _rescue_from(description: _Description, arrays: Arrays) -> Rescue:
    from vicheck.vi.saving import fit_from

    own: dict[str, Arrays] = {name: {} for name in _PARTS}
    for name, array in arrays.items():
        part, _, rest = name.partition(".")
        if part not in own or getattr(description, part) is None:
            raise ValueError(f"it has {name!r}, which belongs to no part of it")
        own[part][rest] = array
    before, fit, reference = description.before, description.fit, description.reference
    known = None if reference is None else reference_fields(reference, own["reference"])
    return Rescue(
        check=Check.of_fields(fields_of(description.check, own["check"])),
        attempts=description.attempts,
        succeeded=description.succeeded,
        sentence=description.sentence,
        code=description.code,
        remedies=description.remedies,
        doubtful=description.doubtful,
        fit=None if fit is None else fit_from(fit, own["fit"]),
        reference=None if known is None else Reference(**known),
        before=None if before is None else Check.of_fields(fields_of(before, own["before"])),
    )
