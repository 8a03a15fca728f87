"""What log ratios are made of, for ratios that are made of one thing or two."""

import numpy as np
import pytest

from tests.stats import targets
from vicheck.judging.cutoffs import CAUSE_SHARE
from vicheck.stats.ratio_terms import ratio_terms
from vicheck.stats.standardised import compressed

KINDS = {
    "of_slope": targets.shifted,
    "of_curvature": targets.narrow,
    "of_correlation": targets.correlation,
    "of_skewness": targets.skewness,
    "of_heavy_tails": targets.heavy_tails,
    "funnel": targets.funnel,
}
CASES = [(dim, seed) for dim in (1, 10, 50) for seed in (0, 1, 2)]


def terms_of(e, ratios, slopes=None, groups=None):
    groups = np.zeros(e.shape[1], np.intp) if groups is None else groups
    return ratio_terms(e, *compressed(ratios, slopes), groups)


def shares(terms):
    found = {name: getattr(terms, name) for name in KINDS if name != "funnel"}
    return found | {"funnel": max((funnel.share for funnel in terms.funnels), default=0.0)}


def first_alone(dim):
    """Return groups: the first coordinate, and all others."""
    return np.minimum(np.arange(dim), 1)


@pytest.mark.parametrize(("dim", "seed"), [*CASES, pytest.param(200, 0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_one_cause_is_found_and_no_other(kind, dim, seed):
    if dim == 1 and kind in ("of_correlation", "funnel"):
        pytest.skip("takes two coordinates")
    e = np.random.default_rng(seed).standard_normal((4096, dim))
    found = shares(terms_of(e, *KINDS[kind](e), first_alone(dim)))
    cause = found.pop(kind)
    assert cause > 0.5
    assert max(found.values()) < CAUSE_SHARE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_is_found_without_slopes_in_few_dimensions(kind, seed):
    e = np.random.default_rng(seed).standard_normal((8192, 10))
    found = shares(terms_of(e, KINDS[kind](e)[0], None, first_alone(10)))
    cause = found.pop(kind)
    assert cause > 0.5
    assert max(found.values()) < CAUSE_SHARE


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["of_correlation", "funnel"])
def test_thousands_of_coordinates_need_no_more_draws(kind):
    e = np.random.default_rng(0).standard_normal((2048, 2000))
    # So many locations leave a log scale an sd of one part in the root of twice their number.
    made = targets.funnel(e, sd=0.016) if kind == "funnel" else targets.correlation(e)
    found = shares(terms_of(e, *made, first_alone(2000)))
    cause = found.pop(kind)
    assert cause > 0.8
    assert max(found.values()) < CAUSE_SHARE


@pytest.mark.parametrize("dim", [2, 10, 50])
def test_elliptical_tails_are_heavy_tails(dim):
    e = np.random.default_rng(dim).standard_normal((4096, dim))
    found = shares(terms_of(e, *targets.elliptical_tails(e)))
    assert max(found, key=found.get) == "of_heavy_tails"


def test_a_funnel_names_its_scale_and_its_locations():
    e = np.random.default_rng(3).standard_normal((4096, 12))
    order = np.array([4, 0, 1, 2, 3, 5])  # the scale is coordinate 4; 6 to 11 do not take part
    ratios, slopes = targets.funnel(e[:, order])
    spread = np.zeros_like(e)
    spread[:, order] = slopes
    groups = np.array([0, 0, 0, 0, 1, 0, 2, 2, 2, 2, 2, 2])
    (funnel,) = terms_of(e, ratios, spread, groups).funnels
    assert funnel.scales.tolist() == [4]
    assert sorted(funnel.locations.tolist()) == [0, 1, 2, 3, 5]
    assert funnel.sign == 1


def test_an_inverse_funnel_has_the_other_sign():
    e = np.random.default_rng(3).standard_normal((4096, 5))
    mirrored = e * np.array([-1.0, 1, 1, 1, 1])
    ratios, slopes = targets.funnel(mirrored)
    slopes[:, 0] *= -1.0
    (funnel,) = terms_of(e, ratios, slopes, first_alone(5)).funnels
    assert funnel.sign == -1


def test_a_correlation_that_comes_and_goes_with_the_scale_is_part_of_the_funnel():
    """As theta with mu of the centred eight schools, whose precision is 1 / tau^2."""
    e = np.random.default_rng(5).standard_normal((4096, 10))
    stretch = 0.5 * np.exp(-0.6 * e[:, 0])
    apart = e[:, 2:] - e[:, 1:2]
    slopes = np.zeros_like(e)
    slopes[:, 0] = 0.3 * stretch * (apart**2).sum(axis=1)
    slopes[:, 2:] = -stretch[:, None] * apart
    slopes[:, 1] = stretch * apart.sum(axis=1)
    ratios, slopes = targets.settled(e, -0.5 * stretch * (apart**2).sum(axis=1), slopes)
    found = shares(terms_of(e, ratios, slopes, np.minimum(np.arange(10), 2)))
    assert found["funnel"] > 0.7
    assert found["of_correlation"] < CAUSE_SHARE


def test_a_correlation_that_stays_is_not():
    e = np.random.default_rng(5).standard_normal((4096, 10))
    both = [targets.funnel(e), targets.correlation(e[:, 1:], 0.4)]
    ratios = both[0][0] + both[1][0]
    slopes = both[0][1].copy()
    slopes[:, 1:] += both[1][1]
    found = shares(terms_of(e, ratios, slopes, first_alone(10)))
    parts = [each[0].var() for each in both]
    assert found["funnel"] == pytest.approx(parts[0] / sum(parts), abs=0.15)
    assert found["of_correlation"] == pytest.approx(parts[1] / sum(parts), abs=0.15)


@pytest.mark.parametrize("sizes", [(0.2, 1.0), (0.6, 1.0)])
def test_two_causes_are_weighed_by_their_variance(sizes):
    e = np.random.default_rng(7).standard_normal((4096, 10))
    cross, skew = targets.correlation(e, sizes[0]), targets.skewness(e)
    found = shares(terms_of(e, cross[0] + skew[0], cross[1] + skew[1]))
    total = cross[0].var() + skew[0].var()
    assert found["of_correlation"] == pytest.approx(cross[0].var() / total, abs=0.12)
    assert found["of_skewness"] == pytest.approx(skew[0].var() / total, abs=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 10, 50])
@pytest.mark.parametrize("with_slopes", [True, False])
def test_noise_has_no_cause(dim, with_slopes):
    """In 100 repetitions: the rate of false alarms is below 3%, with 95% confidence."""
    rng = np.random.default_rng(dim)
    for _ in range(100):
        e, ratios = rng.standard_normal((1000, dim)), rng.standard_normal(1000)
        slopes = rng.standard_normal((1000, dim)) if with_slopes else None
        assert max(shares(terms_of(e, ratios, slopes, first_alone(dim))).values()) < CAUSE_SHARE


def test_outliers_do_not_decide():
    e = np.random.default_rng(1).standard_normal((4096, 4))
    ratios, slopes = targets.correlation(e)
    ratios[:3], slopes[:3] = -1e6, 1e6 * e[:3]
    found = shares(terms_of(e, ratios, slopes))
    assert max(found, key=found.get) == "of_correlation"


def test_constant_ratios_have_no_terms():
    e = np.random.default_rng(1).standard_normal((512, 3))
    found = terms_of(e, np.zeros(512), np.zeros((512, 3)))
    assert found.sd == 0.0
    assert not any(shares(found).values())
