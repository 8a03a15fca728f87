"""The report: one page of HTML that stands alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vicheck.report.html import write_page

__all__ = ["write_report"]


def write_report(path: str | Path, *, check: Any = None, calibration: Any = None) -> Path:
    """Write what a check, a calibration or both have found."""
    result = check if check is not None else calibration
    write_page(path, result.title or "vicheck", str(result), result.worst_first)
    return Path(path)
