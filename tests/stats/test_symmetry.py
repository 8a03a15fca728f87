"""Butler's test of symmetry and the paper's test beside it.

Statistical tests have fixed seeds and allow four standard errors: each would fail by chance for
one seed in 16,000.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from vicheck.stats.symmetry import (
    leaving_probability,
    paper_ks,
    paper_ks_size,
    reaching_probability,
    symmetry_test,
)


def enumerate_walks(num_steps):
    """Return the highest and lowest point of every walk."""
    signs = np.array(list(product([-1, 1], repeat=num_steps)))
    walks = np.cumsum(signs, axis=1)
    return walks.max(axis=1, initial=0), walks.min(axis=1, initial=0)


def probability_to_stay(low, high, num_steps):
    """Return Pr(low < walk < high throughout) in exact arithmetic, step by step."""
    ways = {0: 1}
    for _ in range(num_steps):
        following = {}
        for place, count in ways.items():
            for to in (place - 1, place + 1):
                if low < to < high:
                    following[to] = following.get(to, 0) + count
        ways = following
    return Fraction(sum(ways.values()), 2**num_steps)


def brownian_leaving(x):
    """Return Pr(max |W| >= x) of Brownian motion on [0, 1], by its other, cosine series."""
    odd = 2 * np.arange(200) + 1
    terms = (-1.0) ** np.arange(200) / odd * np.exp(-((np.pi * odd) ** 2) / (8 * x**2))
    return 1 - 4 / np.pi * terms.sum()


def attainable(law, num, level):
    """Return the largest probability of the law that does not exceed the level."""
    chances = law(np.arange(num + 2), num)
    return chances[chances <= level].max()


def assert_rate(rejected, expected):
    error = np.sqrt(expected * (1 - expected) / rejected.size)
    assert abs(rejected.mean() - expected) < 4 * error


# ---- the law ----


@pytest.mark.parametrize("num_steps", range(1, 13))
def test_law_against_enumeration(num_steps):
    highest, lowest = enumerate_walks(num_steps)
    for height in range(num_steps + 3):
        assert reaching_probability(height, num_steps) == pytest.approx(
            np.mean(highest >= height), abs=1e-15
        )
        assert leaving_probability(height, num_steps) == pytest.approx(
            np.mean((highest >= height) | (-lowest >= height)), abs=1e-15
        )


@pytest.mark.parametrize("num_steps", [99, 100])
def test_law_against_exact_dynamic_programme(num_steps):
    for height in (1, 2, 3, 7, 10, 19, 20, 35, 60, 99, 100):
        two_sided = float(1 - probability_to_stay(-height, height, num_steps))
        one_sided = float(1 - probability_to_stay(-num_steps - 1, height, num_steps))
        assert leaving_probability(height, num_steps) == pytest.approx(two_sided, rel=1e-12, abs=0)
        assert reaching_probability(height, num_steps) == pytest.approx(one_sided, rel=1e-12, abs=0)


@pytest.mark.parametrize("x", [0.5, 1.0, 1.96, 3.0, 5.0])
def test_law_tends_to_that_of_brownian_motion(x):
    num = 1_000_000
    height = round(x * np.sqrt(num))
    expected = brownian_leaving(height / np.sqrt(num))
    assert leaving_probability(height, num) == pytest.approx(expected, rel=1e-4)


def test_law_is_a_distribution_for_many_steps():
    for num in (1000, 1_000_000):
        two_sided = leaving_probability(np.arange(3000), num)
        one_sided = reaching_probability(np.arange(3000), num)
        for chances in (two_sided, one_sided):
            assert chances[0] == 1.0
            assert np.all(np.diff(chances) <= 1e-12)
            assert np.all((chances >= 0.0) & (chances <= 1.0))
        assert np.all(two_sided >= one_sided - 1e-12)
        assert np.all(two_sided <= 2 * one_sided + 1e-12)
    assert leaving_probability(num + 1, num) == 0.0


def test_law_far_out_keeps_its_digits():
    assert leaving_probability(1000, 1000) == pytest.approx(2.0**-999, rel=1e-12)
    assert reaching_probability(999, 1000) == pytest.approx(2.0**-999, rel=1e-12)


def test_walk_of_no_steps_stays_at_zero():
    assert leaving_probability([0, 1], 0).tolist() == [1.0, 0.0]
    assert reaching_probability([0, 1], 0).tolist() == [1.0, 0.0]


# ---- the test ----


def reference_walk(p):
    """Return highest and lowest point by the definition, for p without ties."""
    order = np.argsort(-np.abs(p - 0.5))
    walk = np.concatenate([[0], np.cumsum(np.sign(p - 0.5)[order])])
    return walk.max(), walk.min()


@pytest.mark.parametrize("num", [1, 2, 7, 50, 501])
def test_statistic_and_p_values_by_the_definition(rng, num):
    for _ in range(20):
        p = rng.random(num)
        highest, lowest = reference_walk(p)
        found = symmetry_test(p)
        assert found.statistic == max(highest, -lowest)
        assert found.p_value == leaving_probability(found.statistic, num)
        assert found.p_value_over == reaching_probability(int(-lowest), num)
        assert found.p_value_under == reaching_probability(int(highest), num)


SYMMETRIC = {
    "uniform": lambda rng, shape: rng.random(shape),
    "u-shaped": lambda rng, shape: rng.beta(0.5, 0.5, shape),
    "hump": lambda rng, shape: rng.beta(3.0, 3.0, shape),
    "next to 0 and 1": lambda rng, shape: stats.norm.cdf(15 * rng.normal(size=shape)),
    "ranks": lambda rng, shape: rng.integers(1, 101, shape) / 101,
    "float32 ranks": lambda rng, shape: (rng.integers(1, 11, shape) / 11).astype(np.float32),
    "two values": lambda rng, shape: rng.choice([0.3, 0.7], shape),
}


@pytest.mark.parametrize("num", [20, 100, 1000])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_size_is_the_attainable_level(name, num):
    found = symmetry_test(SYMMETRIC[name](np.random.default_rng(num), (num, 8000)), seed=3)
    assert_rate(found.p_value <= 0.05, attainable(leaving_probability, num, 0.05))
    one_sided = attainable(reaching_probability, num, 0.05)
    assert_rate(found.p_value_over <= 0.05, one_sided)
    assert_rate(found.p_value_under <= 0.05, one_sided)


@pytest.mark.parametrize("num", [20, 100, 1000])
@pytest.mark.parametrize("num_draws", [4, 20, 100])
def test_size_with_p_of_one_half(num, num_draws):
    """One half is no step, so the number of steps is binomial, and with it what is attainable."""
    rng = np.random.default_rng(num + num_draws)
    found = symmetry_test(rng.integers(0, num_draws + 1, (num, 8000)) / num_draws, seed=3)
    chance = stats.binom.pmf(np.arange(num + 1), num, num_draws / (num_draws + 1))
    likely = np.flatnonzero(chance > 1e-7)
    for law, p_values in (
        (leaving_probability, found.p_value),
        (reaching_probability, found.p_value_over),
        (reaching_probability, found.p_value_under),
    ):
        levels = [attainable(law, steps, 0.05) for steps in likely.tolist()]
        assert_rate(p_values <= 0.05, np.sum(chance[likely] * levels))


@pytest.mark.parametrize("num", [20, 100, 1000])
@pytest.mark.parametrize("num_draws", [4, 100])
def test_size_is_the_level_itself_when_randomised(num, num_draws):
    rng = np.random.default_rng(num + num_draws)
    for p in (rng.random((num, 8000)), rng.integers(0, num_draws + 1, (num, 8000)) / num_draws):
        found = symmetry_test(p, randomised=True)
        for p_values in found[1:]:
            assert_rate(p_values <= 0.05, 0.05)
            assert_rate(p_values <= 0.5, 0.5)


def test_ties_that_rounding_breaks_are_ties():
    # 0.3 < 1 - 0.7 in floating point: taken at their word, all low p would come first.
    assert 0.3 < 1 - 0.7
    p = np.repeat([0.3, 0.7], 200)
    assert symmetry_test(p).statistic < 60
    assert paper_ks(p).statistic == 0.0


def test_seed_matters_for_ties_only(rng):
    p = rng.random((50, 40))
    tied = rng.integers(0, 6, (50, 40)) / 5
    for seed in (1, 2):
        assert np.array_equal(symmetry_test(p, seed=seed), symmetry_test(p))
        assert np.array_equal(symmetry_test(tied, seed=seed), symmetry_test(tied, seed=seed))
    assert not np.array_equal(symmetry_test(tied, seed=1), symmetry_test(tied, seed=2))


def test_a_column_does_not_depend_on_the_others(rng):
    p = np.column_stack([rng.random((60, 5)), rng.integers(0, 9, (60, 5)) / 8])
    together = symmetry_test(p, seed=4)
    for j in range(p.shape[1]):
        assert [field[j] for field in together] == list(symmetry_test(p[:, j], seed=4))
        assert [field[j] for field in paper_ks(p)] == list(paper_ks(p[:, j]))


def test_many_columns_pass_through_blocks_unchanged(rng):
    p = rng.random((3000, 700))  # more than one block
    found = symmetry_test(p)
    for j in (0, 348, 349, 350, 699):
        assert found.statistic[j] == symmetry_test(p[:, j]).statistic


def test_all_at_one_half_says_nothing():
    assert symmetry_test(np.full(30, 0.5)) == (0, 1.0, 1.0, 1.0)


def test_a_shift_is_found_with_its_direction(rng):
    z = rng.normal(size=(200, 500))
    over = symmetry_test(stats.norm.cdf(z - 0.5))  # q half an sd too high: p small
    assert np.mean(over.p_value <= 0.05) > 0.99
    assert np.mean(over.p_value_over <= 0.05) > 0.99
    assert np.mean(over.p_value_under <= 0.05) < 0.001
    under = symmetry_test(stats.norm.cdf(z + 0.5))
    assert np.mean(under.p_value <= 0.05) > 0.99
    assert np.mean(under.p_value_under <= 0.05) > 0.99
    assert np.mean(under.p_value_over <= 0.05) < 0.001


def test_mirrored_p_swap_the_directions(rng):
    p = rng.integers(0, 2**20, (80, 30)) / 2**20  # so that 1 - p is exact
    one, other = symmetry_test(p), symmetry_test(1 - p)
    assert np.array_equal(one.statistic, other.statistic)
    assert np.array_equal(one.p_value_over, other.p_value_under)


def test_asymmetry_without_a_shift_of_the_median_is_found(rng):
    # Half of p below 1/2, but those lie at the edge and the others near the middle.
    z = rng.normal(size=1000)
    p = stats.norm.cdf(np.where(z < 0, 3 * z, z))
    assert symmetry_test(p).p_value < 1e-6


def test_all_p_on_one_side():
    found = symmetry_test(np.linspace(0.01, 0.4, 100))
    assert found.statistic == 100
    assert found.p_value == pytest.approx(2.0**-99)
    assert found.p_value_over == pytest.approx(2.0**-100)
    assert found.p_value_under == 1.0


def test_shapes_and_types(rng):
    p = rng.random((25, 3))
    for function in (symmetry_test, paper_ks):
        assert all(field.shape == (3,) for field in function(p))
        assert all(type(field) in (int, float) for field in function(p[:, 0]))


# ---- the paper's test ----


@pytest.mark.parametrize("num", [1, 2, 10, 99, 100, 400])
def test_paper_ks_equals_scipy(rng, num):
    p = rng.random((num, 20))
    p[:, 10:] **= 1.5
    found = paper_ks(p)
    for j in range(20):
        expected = stats.ks_2samp(p[:, j], 1 - p[:, j])
        assert found.statistic[j] == pytest.approx(expected.statistic, rel=1e-12)
        assert found.p_value[j] == pytest.approx(expected.pvalue, rel=1e-9)


# scipy's own exact law comes out a rounding error above 1 for the smallest statistics.
@pytest.mark.filterwarnings("ignore:ks_2samp. Exact calculation unsuccessful")
@pytest.mark.parametrize("num_draws", [3, 4, 10, 99])
def test_paper_ks_equals_scipy_with_ties(rng, num_draws):
    r = rng.integers(0, num_draws + 1, (60, 30))
    found = paper_ks(r / num_draws)
    for j in range(30):
        expected = stats.ks_2samp(r[:, j], num_draws - r[:, j])  # in whole numbers ties are exact
        assert found.statistic[j] == pytest.approx(expected.statistic, abs=1e-12)
        assert found.p_value[j] == pytest.approx(expected.pvalue, rel=1e-9)


def test_paper_ks_equals_scipy_where_that_is_asymptotic(rng):
    p = rng.random(10_001) ** 1.02
    expected = stats.ks_2samp(p, 1 - p)
    assert paper_ks(p).statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert paper_ks(p).p_value == pytest.approx(expected.pvalue, rel=1e-9)


@pytest.mark.parametrize("num", [20, 100, 250, 1000])
def test_paper_ks_size_is_how_often_it_rejects(num):
    p = np.random.default_rng(num).random((num, 20_000))
    assert_rate(paper_ks(p).p_value <= 0.05, paper_ks_size(num))


def test_paper_ks_is_mis_sized():
    sizes = np.array([paper_ks_size(num) for num in range(100, 1001, 100)])
    assert np.all((sizes > 0.085) & (sizes < 0.13))
    # Its critical value is Kolmogorov's, 1.358 sqrt(2 M) steps, for what is no bridge.
    critical = stats.kstwobign.isf(0.05) * np.sqrt(2)
    assert paper_ks_size(1_000_000) == pytest.approx(brownian_leaving(critical), abs=1e-3)
    assert brownian_leaving(critical) == pytest.approx(0.1096, abs=1e-4)


def test_paper_ks_size_of_a_level_out_of_reach():
    assert paper_ks_size(2, 1e-6) == 0.0


# ---- wrong input ----


@pytest.mark.parametrize("function", [symmetry_test, paper_ks])
def test_wrong_input_is_named(function):
    bad = np.full((10, 2), 0.5)
    bad[[3, 7], 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN, got it in 2 of 10 datasets, the first at row 3"):
        function(bad)
    with pytest.raises(ValueError, match=r"between 0 and 1, got values from 0.2 to 1.5"):
        function([0.2, 1.5])
    with pytest.raises(ValueError, match=r"shape \(M,\) or \(M, Q\).*got shape \(2, 2, 2\)"):
        function(np.full((2, 2, 2), 0.5))
    with pytest.raises(ValueError, match=r"not be empty, got shape \(0,\)"):
        function(np.empty(0))
    with pytest.raises(ValueError, match="rows of unequal length"):
        function([[0.1], [0.2, 0.3]])
    with pytest.raises(TypeError, match="real numbers, got dtype"):
        function(["a"])
    with pytest.raises(TypeError, match="masked array"):
        function(np.ma.masked_equal([0.1, 0.2], 0.2))


def test_wrong_arguments_of_the_laws_are_named():
    with pytest.raises(TypeError, match="height must be whole numbers"):
        leaving_probability(1.5, 10)
    with pytest.raises(ValueError, match="num_steps must be at least 0, got -1"):
        reaching_probability(1, -1)
    with pytest.raises(ValueError, match="num_datasets must be at least 1, got 0"):
        paper_ks_size(0)
    with pytest.raises(ValueError, match=r"level must lie between 0 and 1, got 1\.5"):
        paper_ks_size(100, 1.5)
