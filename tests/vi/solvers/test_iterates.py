"""The iterates of a stochastic run: which are kept, and whether they have settled."""

import numpy as np
import pytest

from vicheck.vi.solvers.iterates import Thinned, iterate_diagnostics


class TestIterateDiagnostics:
    def test_independent_iterates(self):
        rng = np.random.default_rng(0)
        iterates = rng.standard_normal((1000, 6))
        iterates[:, 3:] -= iterates[:, 3:].mean(axis=0)  # sds of 1
        rhat, mcse = iterate_diagnostics(iterates)
        assert rhat < 1.02
        assert mcse == pytest.approx(1 / np.sqrt(1000), rel=0.3)

    def test_means_are_in_units_of_sds(self):
        rng = np.random.default_rng(1)
        iterates = np.concatenate(
            [rng.standard_normal((1000, 1)), np.full((1000, 1), np.log(0.1))], axis=1
        )
        _, mcse = iterate_diagnostics(iterates)
        assert mcse == pytest.approx(10 / np.sqrt(1000), rel=0.3)

    def test_autocorrelation_counts(self):
        rng = np.random.default_rng(2)
        chain = np.zeros((4000, 2))
        for step in range(1, 4000):
            chain[step, 0] = 0.9 * chain[step - 1, 0] + rng.standard_normal()
        _, mcse = iterate_diagnostics(chain)
        # Of an autoregression the mean has the sd 1 / ((1 - 0.9) sqrt(n)).
        assert mcse == pytest.approx(10 / np.sqrt(4000), rel=0.3)

    def test_drift_is_seen(self):
        noise = 0.1 * np.random.default_rng(3).standard_normal((500, 2))
        drift = np.linspace(0.0, 1.0, 500)[:, None] * [1.0, 0.0]
        assert iterate_diagnostics(noise + drift)[0] > 1.5
        assert iterate_diagnostics(noise)[0] < 1.05

    def test_constants_have_converged(self):
        assert iterate_diagnostics(np.zeros((100, 4))) == (1.0, 0.0)

    def test_too_few_are_undefined(self):
        assert np.isnan(iterate_diagnostics(np.zeros((19, 4)))).all()
        assert np.isnan(iterate_diagnostics(np.empty((0, 4)))).all()

    def test_the_worst_of_many_columns_is_found(self):
        iterates = 0.01 * np.random.default_rng(4).standard_normal((150, 10_000))
        for column in (4_999, 5_000, 9_999):
            worse = iterates.copy()
            worse[:, column] += np.linspace(0.0, 1.0, 150)
            assert iterate_diagnostics(worse)[0] > 1.5
        assert iterate_diagnostics(iterates)[0] == 1.0


def test_iterates_of_a_long_run_are_thinned_evenly():
    kept = Thinned(max_rows=10)
    numbers = np.arange(1000.0)[:, None]
    for first in range(0, 1000, 7):
        kept.append(numbers[first : first + 7])
    half = kept.last_half(1)[:, 0]
    assert 5 <= len(half) <= 10
    assert len(set(np.diff(half))) == 1
    assert 400 < half[0] < 600
    assert half[-1] > 900
    assert Thinned(10).last_half(4).shape == (0, 4)
