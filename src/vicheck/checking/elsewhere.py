"""Approximations of other libraries that can be drawn from: as many draws as are needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from vicheck.checking.chained import Chains
from vicheck.checking.enough import FIRST_DRAWS, NUM_DRAWS, NumDraws, draw_enough, open_question
from vicheck.checking.given import check_given
from vicheck.draws import Draws

if TYPE_CHECKING:
    from vicheck.quantities import Spec
    from vicheck.results.check import Check

__all__ = ["check_approximation"]

_TRIALS = (FIRST_DRAWS, FIRST_DRAWS, 10 * FIRST_DRAWS)
"""Draws made only to see how long all of them will take: the first are spoiled by compiling, and
the second may be too few to time."""


def check_approximation(
    draw: Callable[[int], Draws],
    num_draws: NumDraws,
    budget: float,
    *,
    quantities: Spec | None,
    seed: int,
    chains: Chains = None,
    num_starts: int | None = None,
) -> Check:
    """Check something that returns as many draws as it is asked for.

    Parameters
    ----------
    draw
        Returns draws, their number being given; always the same ones.
    num_draws
        As for `vicheck.check`.
    budget
        Seconds for draws where their number is not given, and for short chains.
    quantities, seed, chains, num_starts
        As for `vicheck.check`.
    """

    def first(number: int, go_on: Callable[[int], bool] | None) -> Draws | None:
        if num_draws is None and number == NUM_DRAWS and go_on is not None:
            done = 0
            for some in _TRIALS:
                draw(some)
                done += some
                if not go_on(done):
                    return None
        return draw(number)

    def open_in(draws: Draws) -> str:
        checked = check_given(draws, quantities)
        return open_question(checked.psis, checked.log_ratios, checked.values)

    draws, notes = draw_enough(first, num_draws, budget, open_in)
    checked = check_given(
        draws, quantities, chains=chains, num_starts=num_starts, seed=seed, budget=budget
    )
    return replace(checked, notes=(*checked.notes, *notes))
