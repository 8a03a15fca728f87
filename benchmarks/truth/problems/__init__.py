"""All problems by name, in rooms by how their truth is known."""

from __future__ import annotations

from pathlib import Path

from truth.problem import Problem
from truth.problems import (
    gaussians,
    given,
    hierarchical,
    limits,
    mixtures,
    posteriordb,
    practice,
    regressions,
    shapes,
    structured,
)

__all__ = ["all_problems"]

ROOMS = (
    gaussians, shapes, mixtures, structured, practice, regressions, hierarchical, given, limits,
)  # fmt: skip


def all_problems(moments: Path | None = None, checkout: Path | None = None) -> dict[str, Problem]:
    """Return the problems by name.

    Parameters
    ----------
    moments
        Directory of JSON files with data and reference moments of posteriordb.
    checkout
        Full checkout of posteriordb, for its Stan programs.
    """
    listed = [problem for room in ROOMS for problem in room.problems()]
    if moments is not None and moments.is_dir():
        listed += posteriordb.problems(moments)
    if checkout is not None:
        listed += posteriordb.stan_problems(checkout)
    named = {problem.name: problem for problem in listed}
    if len(named) < len(listed):
        raise ValueError("two problems have the same name")
    return named
