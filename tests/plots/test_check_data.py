"""The numbers behind the figures of a check."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import genpareto

import vicheck
from tests.calibration.made import calibration
from tests.plots.subjects import funnel_check, normal_check
from vicheck.plots import khat_growth_data, khat_scale_data, pairs_data, solver_data, tail_data
from vicheck.results.convergence import Convergence, GradientTest
from vicheck.results.status import FitStatus


def constant_check():
    z = np.random.default_rng(1).normal(size=(1000, 2))
    return vicheck.check_draws(z, np.zeros(1000), np.zeros(1000))


def with_trace(check, elbo=None, gradient=None):
    test = GradientTest(0.01, 0.5, 0.1, "x[0]", 1000)
    convergence = Convergence(
        FitStatus.CONVERGED, "deterministic", test, gradient_trace=np.array(gradient or [])
    )
    return replace(check, convergence=convergence, elbo_trace=np.array(elbo or []))


def test_the_scale_has_khat_its_interval_and_the_papers_bands():
    check = normal_check()
    data = khat_scale_data(check)
    assert data.khat == check.khat
    assert (data.low, data.high) == tuple(check.psis.khat_interval())
    assert data.threshold == vicheck.psis(check.log_ratios).threshold
    names, starts, ends = zip(*data.bands, strict=True)
    assert names == ("good", "usable", "not reliable")
    assert starts == (-np.inf, 0.5, 0.7)
    assert ends == (0.5, 0.7, np.inf)


def test_the_tail_is_that_of_psis():
    check = normal_check()
    data = tail_data(check)
    ordered = np.sort(check.log_ratios)[::-1]
    mean = np.log(np.exp(check.log_ratios).mean())
    assert data.share[0] == 0.5 / 8000
    assert data.share[-1] == (check.psis.tail_length - 0.5) / 8000
    assert data.log_ratios[0] == pytest.approx((ordered[0] - mean) / np.log(10))
    assert data.log_ratios[-1] == pytest.approx(
        (ordered[check.psis.tail_length - 1] - mean) / np.log(10)
    )
    # What is shown as smoothed is what PSIS has put there.
    smoothed = np.sort(check.psis.log_weights)[::-1] + check.psis.log_normalizer - mean
    assert data.log_smoothed[0] == pytest.approx(smoothed[0] / np.log(10))
    assert data.log_smoothed[-1] == pytest.approx(smoothed[check.psis.tail_length - 1] / np.log(10))
    assert (np.diff(data.log_ratios) <= 0).all()
    assert len(data.share) <= 250


def test_the_fitted_tail_is_a_straight_line_for_a_pareto_of_large_shape():
    size = 20_000
    u = (np.arange(size) + 0.5) / size
    log_ratios = np.log(genpareto.ppf(u, 1.5) + 1e-3)
    z = np.random.default_rng(1).normal(size=(size, 1))
    data = tail_data(vicheck.check_draws(z, log_ratios, np.zeros(size)))
    slope = np.polyfit(np.log10(data.share), data.log_fitted, 1)[0]
    assert slope == pytest.approx(-data.khat, abs=0.05)
    assert data.khat == pytest.approx(1.5, abs=0.1)


def test_growth_is_khat_of_the_first_draws():
    check = normal_check()
    data = khat_growth_data(check)
    assert data.num_draws.tolist() == [2000, 8000]
    assert dict(zip(data.num_draws, data.khat, strict=True)) == check.khat_growth
    for size, khat in zip(data.num_draws, data.khat, strict=True):
        assert khat == vicheck.psis_khat(check.log_ratios[:size])
    assert (data.low < data.khat).all()
    assert (data.khat < data.high).all()
    assert data.threshold[0] == pytest.approx(1 - 1 / np.log10(2000))
    assert data.threshold[-1] == check.psis.threshold


def test_the_gradient_is_traced_where_it_is_known_and_else_the_elbo():
    check = normal_check()
    of_elbo = solver_data(with_trace(check, elbo=[-9.0, -3.0]))
    assert (of_elbo.what, of_elbo.values.tolist()) == ("elbo", [-9.0, -3.0])
    assert of_elbo.steps.tolist() == [1.0, 2.0]
    of_gradient = solver_data(with_trace(check, elbo=[-9.0], gradient=[2.0, 1e-4]))
    assert (of_gradient.what, of_gradient.values.tolist()) == ("gradient", [2.0, 1e-4])


def test_a_long_trace_is_shown_by_means_that_reach_its_end():
    elbo = np.arange(1001.0)
    data = solver_data(with_trace(normal_check(), elbo=elbo.tolist()))
    assert data.block == 4
    assert data.values[-1] == elbo[-4:].mean()
    assert data.steps[-1] == np.mean([998, 999, 1000, 1001])
    assert len(data.values) == len(data.steps) == 250


def test_the_funnel_is_the_worst_pair_with_the_scale_upwards():
    pair = pairs_data(funnel_check())[0]
    assert (pair.x_name, pair.y_name) == ("theta", "tau")
    assert (pair.x_log, pair.y_log) == (False, True)
    assert pair.shift > 0.3

    def spread(cloud, low, high):
        inside = (cloud.y > low) & (cloud.y < high)
        return np.sqrt(np.average(cloud.x[inside] ** 2, weights=cloud.count[inside]))

    assert spread(pair.q, 0.0, 0.6) == pytest.approx(spread(pair.q, 1.7, 9.0), rel=0.25)
    assert spread(pair.reweighted, 0.0, 0.6) < 0.4 * spread(pair.reweighted, 1.7, 9.0)


def test_clouds_have_the_same_number_of_draws():
    pairs = pairs_data(normal_check(), num_pairs=2)
    assert len(pairs) == 2
    for pair in pairs:
        assert pair.q.count.sum() == pair.reweighted.count.sum() == 1500
        assert (pair.q.count == 1).all()


def test_no_ratio_is_more_than_the_number_of_draws_times_the_mean():
    size = 2000
    log_ratios = 30.0 * np.random.default_rng(1).exponential(size=size)
    data = tail_data(vicheck.check_draws(np.zeros((size, 1)), log_ratios, np.zeros(size)))
    assert data.log_ratios.max() <= np.log10(size)


def test_what_does_not_vary_takes_no_pairs_place():
    """Thirty constants, and as many with a NaN, come before five that vary."""
    z = np.random.default_rng(1).normal(size=(2000, 65))
    z[:, :30] = 0.1
    z[7, 30:60] = np.nan
    log_q = -0.5 * (z[:, 60:] ** 2).sum(axis=1)
    pairs = pairs_data(vicheck.check_draws(z, 1.3 * log_q, log_q))
    assert {name for pair in pairs for name in (pair.x_name, pair.y_name)} <= {
        f"x[{column}]" for column in range(60, 65)
    }


def test_whole_numbers_and_huge_ones_can_be_drawn():
    rng = np.random.default_rng(1)
    values = {"count": 1.0 + rng.geometric(0.6, 2000), "large": 1e60 * rng.normal(size=2000)}
    log_q = -0.5 * rng.normal(size=2000) ** 2
    assert len(pairs_data(vicheck.check_draws(values, 1.2 * log_q, log_q))) == 1


@pytest.mark.parametrize(
    "data", [khat_growth_data, khat_scale_data, pairs_data, tail_data, solver_data]
)
def test_anything_but_a_check_is_refused(data):
    with pytest.raises(TypeError, match=r"check must come from vicheck.check, got Calibration"):
        data(calibration())


def test_the_number_of_pairs_is_positive():
    with pytest.raises(ValueError, match="num_pairs must be at least 1, got 0"):
        pairs_data(normal_check(), 0)


@pytest.mark.parametrize("data", [tail_data, solver_data])
def test_what_is_not_there_is_an_error_that_says_so(data):
    with pytest.raises(ValueError, match=r"not estimated|without a trace"):
        data(constant_check())


def test_pairs_need_weights_and_two_quantities():
    z = np.random.default_rng(1).normal(size=(1000, 2))
    undefined = vicheck.check_draws(z, np.full(1000, np.nan), np.zeros(1000))
    with pytest.raises(ValueError, match="no weights"):
        pairs_data(undefined)
    with pytest.raises(ValueError, match="fewer than two"):
        pairs_data(normal_check(dim=1))
