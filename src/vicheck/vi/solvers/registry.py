"""The solvers by name: the only list of them. It loads no JAX; a solver is loaded when chosen."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from vicheck.errors import ArgumentError

if TYPE_CHECKING:
    from vicheck.model import Model
    from vicheck.results.fit import Solution
    from vicheck.vi.families.registry import Kind
    from vicheck.vi.solvers.reporting import Report

__all__ = ["Solver", "make_solver", "solver_names"]


class Solver(Protocol):
    """What a solver is: a frozen dataclass of options, and a way to use them."""

    def solve(self, model: Model, kind: Kind, seed: int, report: Report) -> Solution:
        """Fit a family to a model."""
        ...


_SOLVERS = {
    "deterministic": "vicheck.vi.solvers.deterministic.solver:Deterministic",
    "stochastic": "vicheck.vi.solvers.stochastic:Stochastic",
    "stan_advi": "vicheck.vi.solvers.stan_advi:StanAdvi",
}
"""Where each class is: ``"module:class"``."""


def solver_names() -> tuple[str, ...]:
    """Return the names of all solvers, the default first."""
    return tuple(_SOLVERS)


def make_solver(name: str, options: dict[str, Any]) -> Solver:
    """Return a solver with its options, or say what there is."""
    if name not in _SOLVERS:
        raise ArgumentError("solver", f"must be one of {', '.join(_SOLVERS)}, got {name!r}")
    module, class_name = _SOLVERS[name].split(":")
    make = getattr(import_module(module), class_name)
    known = [each.name for each in fields(make)]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise TypeError(
            f"fit got the option {', '.join(unknown)}, but those of solver={name!r} are: "
            f"{', '.join(known)}"
        )
    solver: Solver = make(**options)
    return solver
