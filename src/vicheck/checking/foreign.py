"""Fits made elsewhere, one function for each library: its adapter draws, `check` looks at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vicheck.checking.run import Quantities, check

if TYPE_CHECKING:
    from vicheck.checking.result import Check

__all__ = ["check_pymc", "check_pyro"]


def check_pymc(
    approx: Any, *, num_draws: int = 10_000, quantities: Quantities | None = None, seed: int = 0
) -> Check:
    """Check what ``pymc.fit`` returned."""
    from vicheck.adapters.pymc import draws_of_approximation

    return check(draws_of_approximation(approx, num_draws, seed), quantities=quantities)


def check_pyro(
    model: Any,
    guide: Any,
    *args: Any,
    num_draws: int = 10_000,
    quantities: Quantities | None = None,
    seed: int = 0,
    **kwargs: Any,
) -> Check:
    """Check a Pyro guide after SVI, with the parameters that lie in Pyro's store."""
    from vicheck.adapters.pyro import draws_of_guide

    drawn = draws_of_guide(model, guide, args, kwargs, num_draws, seed)
    return check(drawn, quantities=quantities)
