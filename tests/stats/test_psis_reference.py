"""khat and weights against loo, which nobody here wrote."""

import numpy as np
import pytest

import vicheck
from tests.stats.exact import exact_khat
from vicheck.stats import smoothing
from vicheck.stats.gpd import fit_gpd
from vicheck.stats.tail import log_exceedances, select_tail

FINITE = [
    "normal_s0.5_S100", "normal_s1_S1000", "normal_s2_S1000", "normal_s1_S100000", "t2_S10000",
    "t2_neg_S4000", "gpd_k-0.5_S1000", "gpd_k0_S1000", "gpd_k0.2_S100000", "gpd_k0.5_S10000",
    "gpd_k0.7_S1000", "gpd_k0.9_S5000", "gpd_k1_S10000", "gpd_k1.2_S50000", "uniform_S1000",
    "offset_+1e4_S1000", "offset_+1e4_gpd0.7", "offset_-800_S1000", "near_constant_1e-8_S1000",
    "tail_partial_max_ties_S1000", "dup50_S5000", "neginf_as_-800_S1000", "S21", "S25_gpd0.7",
    "S225_gpd0.5", "ascending_S500",
]  # fmt: skip

ELSEWHERE = {
    "constant_0_S1000": "CONSTANT",
    "constant_-1e5_S1000": "CONSTANT",
    "tail_all_max_ties_S1000": "TIED_AT_MAXIMUM",
    "rounded_0dp_S1000": "TIED_AT_CUTOFF",
    "two_valued_S1000": "TIED_AT_CUTOFF",
    "one_spike_S1000": "TIED_AT_CUTOFF",
    "spike_on_normal_S1000": "OK",
    "ties_at_cutoff_70pct_S1000": "TIED_AT_CUTOFF",
    "neginf_some_S1000": "OK",
    "neginf_95pct_as_-800_S1000": "TIED_AT_CUTOFF",
    "neginf_all_S100": "ALL_ZERO",
    "posinf_S100": "NOT_FINITE",
    "nan_S100": "NOT_FINITE",
    "S1": "TOO_FEW_DRAWS",
    "S2": "TOO_FEW_DRAWS",
    "S5": "TOO_FEW_DRAWS",
    "S10": "TOO_FEW_DRAWS",
    "S20": "TOO_FEW_DRAWS",
}

NEAR_CONSTANT = "near_constant_1e-8_S1000"

pytestmark = pytest.mark.filterwarnings("ignore::vicheck.UndefinedKhatWarning")


@pytest.fixture(params=["by size", "compiled"])
def implementation(request, monkeypatch):
    if request.param == "compiled":
        monkeypatch.setattr(smoothing, "_MAX_NUMPY_SIZE", 0)


def test_every_vector_is_in_one_of_the_lists(loo_cases):
    assert set(FINITE) | set(ELSEWHERE) == set(loo_cases)
    for name, (_, case) in loo_cases.items():
        finite = case["pareto_k"] is not None and np.isfinite(float(case["pareto_k"]))
        assert finite == (name in FINITE)


def lost_by_loo(log_ratios, tail_length):
    """Return how far loo's khat may be off, because loo subtracts two exponentials.

    Each has a relative error of eps / 2, if the exponential function is good to a unit in the
    last place. To first order khat is off by the sum of its slopes times the errors.
    """
    tail = select_tail(log_ratios, tail_length)
    log_x = log_exceedances(tail)
    error = np.finfo(np.float64).eps / -np.expm1(tail.cutoff - tail.values)  # of log x
    step = 1e-6
    slopes = (fit_gpd(log_x + step * np.eye(tail_length)).k - fit_gpd(log_x).k) / step
    return np.abs(slopes) @ error


def test_digits_of_nearly_constant_ratios_are_lost_by_loo_and_not_here(loo_cases):
    log_ratios, case = loo_cases[NEAR_CONSTANT]
    exact = exact_khat(log_ratios, case["tail_len"])
    assert vicheck.psis_khat(log_ratios) == pytest.approx(exact, abs=1e-13)
    assert 1e-9 < abs(case["pareto_k"] - exact) < lost_by_loo(log_ratios, case["tail_len"])


@pytest.mark.parametrize("name", FINITE)
@pytest.mark.usefixtures("implementation")
def test_agrees_with_loo_where_loo_is_finite(loo_cases, name):
    log_ratios, case = loo_cases[name]
    result = vicheck.psis(log_ratios)
    normalizer = case["lw_logsumexp"]
    assert result.status is vicheck.PsisStatus.OK
    assert result.tail_length == case["tail_len"]
    lost = lost_by_loo(log_ratios, case["tail_len"]) if name == NEAR_CONSTANT else 0.0
    assert result.khat == pytest.approx(case["pareto_k"], abs=1e-9 + lost)
    assert result.ess == pytest.approx(case["n_eff"], rel=1e-9)
    assert result.log_normalizer == pytest.approx(normalizer, abs=1e-9)
    first = np.array(case["lw_first20"]) - normalizer
    np.testing.assert_allclose(result.log_weights[:20], first, rtol=0, atol=1e-9)
    top = np.array(case["lw_top20_sorted"]) - normalizer
    np.testing.assert_allclose(np.sort(result.log_weights)[-20:], top, rtol=0, atol=1e-9)
    total = case["lw_sum"] - normalizer * log_ratios.size
    assert result.log_weights.sum() == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize(("name", "status"), ELSEWHERE.items())
@pytest.mark.usefixtures("implementation")
def test_is_total_where_loo_is_not(loo_cases, name, status):
    log_ratios, case = loo_cases[name]
    result = vicheck.psis(log_ratios)
    assert result.status.name == status
    assert not np.isinf(result.khat)
    assert np.isnan(result.khat) == (status not in ("OK", "CONSTANT"))
    if status not in ("OK", "ALL_ZERO", "NOT_FINITE") and case["n_eff"] is not None:
        # loo also falls back on raw weights
        assert result.ess == pytest.approx(case["n_eff"], rel=1e-9)


@pytest.mark.parametrize("s", [0.6, 0.7, 0.8, 0.9])
@pytest.mark.parametrize(("dimension", "tolerance"), [(1, 0.06), (2, 0.045), (5, 0.13)])
def test_recovers_the_true_k_of_a_narrow_normal(s, dimension, tolerance):
    """p = N(0, I), q = N(0, s^2 I) has k = 1 - s^2 in every dimension.

    For d = 2 the ratios are exactly Pareto, and the tolerance is four standard errors of the
    average over eight samples. Otherwise they are so in the limit only, from below for d = 1 and
    from above for d > 2, which costs up to 0.02 and 0.09 at this sample size.
    """
    squares = s**2 * np.random.default_rng(11).chisquare(dimension, size=(8, 1_000_000))
    khat = vicheck.psis_khat(0.5 * (1 / s**2 - 1) * squares)
    assert khat.mean() == pytest.approx(1 - s**2, abs=tolerance)
