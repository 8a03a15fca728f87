"""Options of the deterministic solver, checked when they are given."""

from __future__ import annotations

from dataclasses import dataclass

from vicheck.vi.families.registry import Kind
from vicheck.vi.solvers.deterministic.noise import FEWEST

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """What `vicheck.vi.solvers.deterministic.solver.Deterministic` says about its parameters."""

    tolerance: float = 1e-3
    sampling_tolerance: float = 0.05
    num_draws: int | None = None
    max_draws: int = 16384
    num_restarts: int = 3

    def __post_init__(self) -> None:
        for name in ("tolerance", "sampling_tolerance"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("num_draws", "max_draws"):
            value = getattr(self, name)
            if value is not None and (value < FEWEST or value & (value - 1)):
                raise ValueError(f"{name} must be a power of 2 from {FEWEST} on, got {value}")
        if self.num_draws is not None and self.max_draws < self.num_draws:
            raise ValueError(
                f"max_draws must be at least num_draws, got {self.max_draws} and {self.num_draws}"
            )
        if self.num_restarts < 0:
            raise ValueError(f"num_restarts must be at least 0, got {self.num_restarts}")

    def first_draws(self, kind: Kind, dim: int) -> int:
        """Return how many draws a fit of a family begins with, or say why it cannot."""
        enough = kind.num_draws(dim)
        if self.max_draws < enough:
            raise ValueError(
                f"max_draws must be at least {enough} for family={kind.name!r} and {dim} "
                f"parameters, got {self.max_draws}"
            )
        return enough if self.num_draws is None else self.num_draws
