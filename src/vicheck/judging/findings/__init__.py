"""All findings there are: one class for each code, with its sentence and its hint."""

from __future__ import annotations

from vicheck.judging.findings import (
    calibration,
    chains,
    draws,
    khat,
    modes,
    optimum,
    plain,
    simulations,
    spread,
    tail,
)
from vicheck.judging.findings.evidence import Evidence

__all__ = ["CATALOGUE", "Evidence"]

CATALOGUE: dict[str, type[Evidence]] = {
    kind.code: kind
    for module in (
        khat,
        tail,
        draws,
        plain,
        modes,
        optimum,
        chains,
        calibration,
        spread,
        simulations,
    )
    for kind in (getattr(module, name) for name in module.__all__)
}
"""Every finding by its code."""
