import json

import numpy as np
import pytest

import vicheck
from tests.conftest import REFERENCE
from vicheck.stats.estimates import (
    estimates,
    expectation,
    importance_log_weights,
    khat_of,
    plain_log_weights,
    truncated_log_weights,
)
from vicheck.stats.quantiles import quantiles


@pytest.fixture(scope="module")
def loo():
    return json.loads((REFERENCE / "estimates_loo.json").read_text())


@pytest.fixture(scope="module")
def theta(loo):
    return np.array(loo["theta"])


@pytest.fixture(scope="module")
def log_ratios(theta):
    return narrow_normal_log_ratios(theta, 0.8)


def narrow_normal_log_ratios(theta, s):
    """log p / q for p = N(0, 1) and q = N(0, s^2), both normalised."""
    return -(theta**2) / 2 + theta**2 / (2 * s**2) + np.log(s)


QUANTITIES = {"identity": 1, "square": 2, "cube": 3}


@pytest.mark.parametrize(("name", "power"), QUANTITIES.items())
def test_smoothed_mean_and_error_are_those_of_loo(loo, theta, log_ratios, name, power):
    estimate = expectation(theta**power, vicheck.psis(log_ratios).log_weights)
    assert estimate.mean == pytest.approx(loo[name]["mean"], abs=1e-9)
    assert estimate.mcse == pytest.approx(loo[name]["mcse"], abs=1e-9)


@pytest.mark.parametrize(("name", "power"), QUANTITIES.items())
def test_median_is_next_to_that_of_loo(loo, theta, log_ratios, name, power):
    """loo interpolates between two draws, of which ours is the upper one."""
    median = quantiles(theta**power, vicheck.psis(log_ratios).log_weights, 0.5).value
    values = np.sort(theta**power)
    place = np.searchsorted(values, median)
    assert values[place - 1] <= loo[name]["median"] <= values[place]


@pytest.mark.parametrize(("name", "power"), QUANTITIES.items())
def test_khat_of_h_times_r_is_that_of_loo(loo, theta, log_ratios, name, power):
    khat = khat_of(theta**power, log_ratios, center=0.0)
    assert khat == pytest.approx(max(loo[name]["khat_left"], loo[name]["khat_right"]), abs=1e-9)


def test_khat_of_a_tail_below_zero_is_that_of_loo(loo, theta, log_ratios):
    """The right tail of -theta^2 r ends at zero: its khat is negative, and the left one counts."""
    from vicheck.stats.products import signed_khat

    khat = signed_khat(-(theta**2), log_ratios, loo["tail_length"])
    assert khat == pytest.approx(loo["square"]["khat_left"], abs=1e-9)


def test_truncated_weights_are_those_of_loo(loo, theta, log_ratios):
    log_weights = truncated_log_weights(log_ratios)
    np.testing.assert_allclose(log_weights[:20], loo["tis_first20"], atol=1e-9)
    mean = expectation(theta**2, log_weights).mean
    assert mean == pytest.approx(loo["tis_mean_square"], abs=1e-9)


def test_truncation_caps_the_largest_weight():
    """One of 100 ratios is 50 times the others: it is cut to sqrt(100) times the mean."""
    ratios = np.ones(100)
    ratios[0] = 50.0
    cut = 10.0 * ratios.mean()
    weights = np.exp(truncated_log_weights(np.log(ratios)))
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0] == pytest.approx(cut / (99.0 + cut))
    assert np.exp(importance_log_weights(np.log(ratios)))[0] == pytest.approx(50.0 / 149.0)


def test_plain_estimates_are_those_of_numpy(rng):
    values = rng.gamma(2.0, size=(500, 3))
    estimate = expectation(values, plain_log_weights(500))
    np.testing.assert_allclose(estimate.mean, values.mean(axis=0))
    np.testing.assert_allclose(estimate.sd, values.std(axis=0, ddof=1))
    np.testing.assert_allclose(estimate.mcse, values.std(axis=0) / np.sqrt(500))
    np.testing.assert_allclose(estimate.ess, 500)


def test_errors_are_honest():
    """The reported errors of mean, sd and quantiles match the scatter over 400 repetitions.

    Tolerance 20%: five standard errors of a standard deviation over 400.
    """
    rng = np.random.default_rng(7)
    rows = []
    for _ in range(400):
        theta = 0.9 * rng.normal(size=1000)
        log_weights = vicheck.psis(narrow_normal_log_ratios(theta, 0.9)).log_weights
        moments = expectation(theta, log_weights)
        points = quantiles(theta, log_weights, [0.25, 0.5])
        rows.append(
            [moments.mean, moments.sd, *points.value, moments.mcse, moments.mcse_sd, *points.mcse]
        )
    values, errors = np.split(np.array(rows), 2, axis=1)
    np.testing.assert_allclose(errors.mean(axis=0), values.std(axis=0), rtol=0.2)
    np.testing.assert_allclose(values.mean(axis=0), [0.0, 1.0, -0.6745, 0.0], atol=0.03)


def test_smoothed_estimates_beat_the_others_when_khat_is_moderate():
    """Mean squared error of the second moment over 300 repetitions, khat about 0.6."""
    rng = np.random.default_rng(8)
    errors = {name: [] for name in ("plain", "is", "tis", "psis")}
    for _ in range(300):
        theta = 0.65 * rng.normal(size=1000)
        for name, estimate in estimates(theta**2, narrow_normal_log_ratios(theta, 0.65)).items():
            errors[name].append(estimate.mean - 1.0)
    loss = {name: np.mean(np.square(values)) for name, values in errors.items()}
    assert loss["psis"] < loss["is"]
    assert loss["psis"] < loss["plain"]


def test_khat_of_a_quantity_can_be_below_and_above_the_joint_one(rng):
    """khat of a mean follows the error of that mean, not the joint khat."""
    theta = 0.6 * rng.normal(size=100_000)
    log_ratios = narrow_normal_log_ratios(theta, 0.6)
    joint = vicheck.psis_khat(log_ratios)
    quantities = np.stack([np.exp(-(theta**2) / 2), theta**4], axis=1)
    gentle, wild = khat_of(quantities, log_ratios, center=0.0)
    assert gentle < joint - 0.1
    assert wild > joint + 0.1


def test_khat_of_a_mean_says_whether_its_error_can_be_trusted():
    """q = N(0, 0.5^2): of two means from the same draws, one has an honest error and one has not.

    Share of 400 repetitions within two Monte Carlo errors of the truth; the bounds are six and
    more binomial standard errors away from the 0.95 and 0.36 measured.
    """
    rng = np.random.default_rng(3)
    khats, within = [], []
    for _ in range(400):
        theta = 0.5 * rng.normal(size=2000)
        log_ratios = narrow_normal_log_ratios(theta, 0.5)
        values = np.stack([theta * np.exp(-(theta**2) / 2), theta**2], axis=1)
        estimate = expectation(values, vicheck.psis(log_ratios).log_weights)
        within.append(np.abs(estimate.mean - [0.0, 1.0]) < 2 * estimate.mcse)
        khats.append([vicheck.psis_khat(log_ratios), *khat_of(values, log_ratios)])
    joint, gentle, wild = np.median(khats, axis=0)
    assert gentle < joint < wild
    assert gentle < 0.69 < wild  # the threshold for 2000 draws
    honest, dishonest = np.mean(within, axis=0)
    assert honest > 0.88
    assert dishonest < 0.5


def test_khat_of_the_normalised_mean_does_not_depend_on_an_added_constant(rng):
    theta = 0.7 * rng.normal(size=20_000)
    log_ratios = narrow_normal_log_ratios(theta, 0.7)
    assert khat_of(theta + 1000.0, log_ratios) == pytest.approx(
        khat_of(theta, log_ratios), abs=1e-6
    )


def test_khat_of_a_rare_event_uses_the_few_positive_products(rng):
    theta = 0.7 * rng.normal(size=4000)
    rare = (theta > 1.5).astype(float)
    assert np.isfinite(khat_of(rare, narrow_normal_log_ratios(theta, 0.7)))


@pytest.mark.parametrize("constant", [3.0, 0.1, 1e8 / 3, 0.0])
def test_khat_of_a_constant_is_zero(rng, constant):
    assert khat_of(np.full(1000, constant), rng.normal(size=1000)) == 0.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_heavier_of_the_two_tails_decides(rng, sign):
    theta = 0.7 * rng.normal(size=20_000)
    log_ratios = narrow_normal_log_ratios(theta, 0.7)
    one_sided = sign * theta**4
    assert khat_of(one_sided, log_ratios) == pytest.approx(khat_of(-one_sided, log_ratios))
    assert khat_of(one_sided, log_ratios) > vicheck.psis_khat(log_ratios)


def test_khat_of_ignores_draws_of_weight_zero(rng):
    theta = rng.normal(size=1000)
    log_ratios = 0.3 * theta**2
    log_ratios[:5] = -np.inf
    broken = theta.copy()
    broken[:5] = np.nan
    assert np.isfinite(khat_of(broken, log_ratios))


@pytest.mark.filterwarnings("ignore::vicheck.UndefinedKhatWarning")
def test_khat_of_is_nan_when_nothing_can_be_fitted():
    assert np.isnan(khat_of(np.arange(10.0), np.arange(10.0)))
    assert np.isnan(khat_of(np.arange(50.0), np.full(50, np.nan)))


def test_draws_of_weight_zero_do_not_count():
    log_weights = np.array([np.log(0.5), np.log(0.5), -np.inf])
    estimate = expectation([1.0, 3.0, np.nan], log_weights)
    assert estimate.mean == 2.0
    assert np.isfinite(estimate.mcse)


def test_quantiles_of_equal_weights_are_order_statistics():
    result = quantiles(np.arange(100.0), plain_log_weights(100), np.arange(1, 101) / 100)
    np.testing.assert_array_equal(result.value, np.arange(100.0))


@pytest.mark.filterwarnings("ignore::vicheck.UndefinedKhatWarning")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_estimates_from_undefined_ratios_are_nan(rng, bad):
    result = estimates(rng.normal(size=100), np.full(100, bad))
    assert np.isfinite(result["plain"].mean)
    for name in ("is", "tis", "psis"):
        assert np.isnan(result[name].mean)
        assert np.isnan(result[name].ess)


def test_floating_point_errors_of_the_user_do_not_reach_us(rng):
    theta = 1000.0 * rng.normal(size=1000)
    with np.errstate(all="raise"):
        vicheck.estimates(theta, theta)
        quantiles(theta, importance_log_weights(theta), [0.1, 0.5])
        vicheck.divergences(theta)
        khat_of(theta, theta)
        vicheck.psis(np.linspace(-1e4, 0.0, 1000)).khat_interval()


def test_quantiles_of_several_quantities(rng):
    values = rng.normal(size=(300, 2, 3))
    result = quantiles(values, plain_log_weights(300), [0.1, 0.9])
    assert result.value.shape == result.mcse.shape == (2, 2, 3)
    expected = np.quantile(values, [0.1, 0.9], axis=0, method="inverted_cdf")
    np.testing.assert_allclose(result.value, expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: expectation([1.0, 2.0], [0.0]),
            r"one row for each of the 1 draws, got shape \(2,\)",
        ),
        (lambda: expectation(3.0, [0.0]), "one row for each of the 1 draws"),
        (lambda: expectation([1.0, 2.0], [0.0, 0.0]), "normalised, but the weights sum to 2"),
        (
            lambda: expectation([1.0], [[0.0]]),
            r"log_weights must have shape \(S,\), got shape \(1, 1\)",
        ),
        (lambda: quantiles([1.0], [0.0], 1.5), r"probabilities must lie between 0 and 1, got 1.5"),
        (lambda: khat_of([1.0], [[0.0]]), r"log_ratios must have shape \(S,\)"),
        (lambda: khat_of([1.0], [0.0, 1.0]), "one row for each of the 2 draws"),
        (lambda: quantiles(np.ones((1, 0)), [0.0], 0.5), "at least one quantity, got shape"),
        (
            lambda: khat_of(np.arange(30.0), np.arange(30.0), center=[1, 2]),
            "center must be a number",
        ),
        (lambda: estimates([1.0], []), r"log_ratios must not be empty, got shape \(0,\)"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ma.masked_equal([1.0, 2.0], 2.0), "values must be real numbers, got a masked array"),
        (["1", "2"], "values must be real numbers, got dtype <U1"),
        ([None, None], "values must be real numbers, got dtype object"),
        ([1j, 2j], "values must be real numbers, got dtype complex128"),
    ],
)
def test_values_of_a_wrong_type_are_named(values, message):
    with pytest.raises(TypeError, match=message):
        expectation(values, plain_log_weights(2))
