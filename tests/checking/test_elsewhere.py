"""Approximations of other libraries, which are drawn from as often as is needed."""

from __future__ import annotations

import time

import numpy as np
import pytest

import vicheck.checking.enough
from vicheck.checking.elsewhere import check_approximation
from vicheck.draws import Draws


class Drawn:
    """q = N(0, 0.8^2) for p = N(0, 1), with so many seconds for each draw."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.numbers: list[int] = []

    def __call__(self, num_draws: int) -> Draws:
        self.numbers.append(num_draws)
        time.sleep(num_draws * self.seconds)
        z = 0.8 * np.random.default_rng(1).normal(size=num_draws)
        return Draws({"z": z}, -(z**2) / 2, -(z**2) / 1.28 - np.log(0.8))


def test_a_number_that_is_given_is_drawn_once():
    draw = Drawn()
    found = check_approximation(draw, 5000, 1.0, quantities=None, seed=0)
    assert draw.numbers == [5000]
    assert found.psis.num_draws == 5000
    assert not found.notes


def test_by_default_a_hundred_thousand_are_drawn():
    draw = Drawn()
    found = check_approximation(draw, None, 100.0, quantities=None, seed=0)
    assert draw.numbers[-1] == found.psis.num_draws == 100_000
    assert sum(draw.numbers[:-1]) < 0.15 * 100_000  # what finding out how long it takes costs


@pytest.mark.parametrize("seconds", [2e-5, 5e-4])
def test_slow_draws_are_as_many_as_the_budget_allows(seconds):
    draw = Drawn(seconds)
    budget = 100_000 * seconds / 8
    begun = time.perf_counter()
    found = check_approximation(draw, None, budget, quantities=None, seed=0)
    assert found.psis.num_draws < 100_000
    assert time.perf_counter() - begun < 3 * budget + 10
    first, second = found.notes
    assert first.startswith("100,000 draws would have taken about")
    assert second.startswith(f"Stopped at {found.psis.num_draws:,} draws")


def test_an_automatic_number_doubles_until_nothing_is_open():
    draw = Drawn()
    found = check_approximation(draw, "auto", vicheck.checking.enough.BUDGET,
                                quantities=None, seed=0)  # fmt: skip
    assert draw.numbers == [1000 * 2**i for i in range(len(draw.numbers))]
    assert found.psis.num_draws == draw.numbers[-1]
