"""What figures can be made of, and what is said to whoever brings something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["require_calibration", "require_check", "require_names"]


def require_check(value: Any) -> None:
    """Raise unless this is a check."""
    # By what it has and not by its type, which would have to be imported from above.
    if not (hasattr(type(value), "moments") and hasattr(value, "psis")):
        raise TypeError(f"check must come from vicheck.check, got {type(value).__name__}")


def require_calibration(value: Any) -> None:
    """Raise unless this is a calibration."""
    if not (hasattr(type(value), "tests") and hasattr(type(value), "probabilities")):
        raise TypeError(f"calibration must come from vicheck.vsbc, got {type(value).__name__}")


def require_names(quantities: Sequence[str] | None, most: int, known: Sequence[str]) -> None:
    """Raise unless these are names of quantities, and at least one."""
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    if quantities is None:
        return
    if isinstance(quantities, str):
        raise TypeError(f"quantities must be a list of names, got the string {quantities!r}")
    if not len(quantities):
        raise ValueError("quantities must hold at least one name, got none")
    unknown = [str(name) for name in quantities if name not in known]
    if unknown:
        raise ValueError(
            f"quantities has {', '.join(unknown)}, but the calibration has: {', '.join(known)}"
        )
