"""Evaluations are counted where somebody keeps a tally, and only there."""

import numpy as np

import vicheck
from vicheck.runtime.tally import Tally, count, tallied


def test_the_inner_tally_counts():
    outer, inner = Tally(), Tally()
    count(gradients=5)
    with tallied(outer):
        count(gradients=1)
        with tallied(inner):
            count(gradients=2, densities=3)
        count(densities=4)
    assert (outer.gradients, outer.densities) == (1, 4)
    assert (inner.gradients, inner.densities, inner.evaluations) == (2, 3, 5)


def test_a_fit_and_a_check_are_counted():
    model = vicheck.from_log_density(lambda x: -0.5 * x @ x, np.zeros(2))
    with tallied(Tally()) as tally:
        fit = vicheck.fit(model)
        assert tally.gradients == fit.solution.num_evaluations
        vicheck.check(fit, num_draws=2000, chains=False)
    assert tally.densities == 2000
