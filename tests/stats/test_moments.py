"""The compiled code against plain NumPy, to rounding, on everything that columns can hold."""

import os
import subprocess
import sys

import numpy as np
import pytest

import vicheck
from vicheck.stats import columns, products, rows_compiled
from vicheck.stats.estimates import (
    expectation,
    importance_log_weights,
    khat_of,
    plain_log_weights,
)
from vicheck.stats.moments import weighted_moments
from vicheck.stats.psis import psis_once, psis_quietly

SHAPES = {"many draws": (5000, 1), "few draws": (30, 150)}
"""Draws, and copies of all columns: so many that it is the compiled code that runs."""


RATIOS = {
    "mild": lambda normal, rng: 0.2 * normal**2,
    "heavy": lambda normal, rng: rng.standard_cauchy(normal.size),
    "spanning thousands of nats": lambda normal, rng: -5000.0 * rng.random(normal.size),
    "hardly a draw counts": lambda normal, rng: 400.0 * normal,
    "constant": lambda normal, rng: 0.0 * normal,
    "tied": lambda normal, rng: np.round(normal),
    "a third zero": lambda normal, rng: np.where(rng.random(normal.size) < 0.3, -np.inf, normal),
    "nearly all zero": lambda normal, rng: np.where(
        rng.random(normal.size) < 0.97, -np.inf, normal
    ),
    "far from zero": lambda normal, rng: normal - 1e5,
    "with hardly a digit": lambda normal, rng: 1e13 + 1e3 * normal,
}


def quantities_of(log_ratios, rng):
    """Return columns of every kind, shape (S, Q)."""
    size = len(log_ratios)
    x = rng.normal(size=size)
    counted = log_ratios > -np.inf
    one_bad = {}
    for name, bad in (("nan", np.nan), ("inf", np.inf), ("-inf", -np.inf)):
        one_bad[name] = x.copy()
        one_bad[name][rng.choice(np.flatnonzero(counted))] = bad
    bad_where_weightless = np.where(counted, x, np.nan)
    wild_where_weightless = np.where(counted, x, 1e300)
    return np.stack([
        x,
        x + 1e6,
        np.exp(3.0 * x),
        rng.standard_cauchy(size),
        np.round(x),
        (x > 0.3).astype(float),
        (x > 2.2).astype(float),
        np.where(rng.random(size) < 0.95, 0.0, x),
        np.where(counted, log_ratios, 0.0),
        np.full(size, 0.1),
        np.full(size, 1e8 / 3),
        np.where(counted, 0.1, 5.0),
        np.zeros(size),
        1e-300 * x,
        1e150 * x,
        1e150 * np.sign(x),
        *one_bad.values(),
        bad_where_weightless,
        wild_where_weightless,
    ], axis=1)  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy: overflows, and inf - inf
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", RATIOS)
def test_moments_are_those_of_numpy(monkeypatch, kind, shape):
    rng = np.random.default_rng(list(RATIOS).index(kind))
    num_draws, copies = SHAPES[shape]
    log_ratios = RATIOS[kind](rng.normal(size=num_draws), rng)
    log_ratios[0] = max(log_ratios[0], 0.0)  # at least one draw counts
    values = quantities_of(log_ratios, rng)
    num_columns = values.shape[1]
    log_weights = (
        plain_log_weights(num_draws),
        importance_log_weights(log_ratios),
        psis_quietly(log_ratios).log_weights,
    )
    fast = weighted_moments(np.tile(values, copies), log_weights, log_ratios)

    for place, column in enumerate(values.T):
        tolerance = {"rtol": 1e-12, "atol": 1e-13 * np.abs(column[np.isfinite(column)]).max()}
        for way, each in enumerate(log_weights):
            slow = expectation(column, each)
            for name in ("mean", "sd", "mcse"):
                got = getattr(fast, name)[way, place]
                np.testing.assert_allclose(got, getattr(slow, name), **tolerance, err_msg=name)
    monkeypatch.setattr(products, "psis_quietly", psis_in_numpy)
    khats = products.khats_by_numpy(values, fast.mean[-1, :num_columns], log_ratios, None)
    np.testing.assert_allclose(fast.khat[:num_columns], khats, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(fast.khat, np.tile(fast.khat[:num_columns], copies))


def psis_in_numpy(log_ratios, *, tail_length, with_weights):
    return psis_once(log_ratios, tail_length=tail_length)


def test_columns_are_in_their_place_whatever_the_block(rng, monkeypatch):
    values = rng.normal(size=(5000, 37)) * np.arange(1, 38)
    log_ratios = 0.1 * rng.normal(size=5000) ** 2
    log_weights = (psis_quietly(log_ratios).log_weights,)
    whole = weighted_moments(values, log_weights, log_ratios)
    monkeypatch.setattr(columns, "MIN_THREADED_SIZE", 1)
    monkeypatch.setattr(columns, "num_cores", lambda: 3)
    monkeypatch.setattr(columns, "_BLOCK", 20_000)
    blocks = weighted_moments(np.asfortranarray(values), log_weights, log_ratios)
    for one, other in zip(whole, blocks, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(whole.mean[0], expectation(values, log_weights[0]).mean)
    assert whole.khat[5] == pytest.approx(khat_of(values[:, 5], log_ratios), abs=1e-10)


def test_what_depends_on_undefined_weights_is_nan(rng):
    values = rng.normal(size=(5000, 2))
    unknown = np.full(5000, np.nan)
    result = weighted_moments(values, (plain_log_weights(5000), unknown), unknown)
    assert np.isfinite(result.mean[0]).all()
    for number in (result.mean[1], result.sd[1], result.mcse[1], result.khat):
        assert np.isnan(number).all()


@pytest.mark.parametrize("num_draws", [1000, 6000])
def test_an_infinite_value_leaves_khat_undefined(rng, num_draws):
    values, log_ratios = rng.normal(size=(num_draws, 2)), rng.normal(size=num_draws)
    values[7, 0] = np.inf
    unknown, known = khat_of(values, log_ratios, center=0.0)
    assert np.isnan(unknown)
    assert np.isfinite(known)


@pytest.mark.parametrize("num_draws", [1000, 6000])
def test_a_value_at_a_draw_without_weight_does_not_change_khat(rng, num_draws):
    theta, log_ratios = rng.normal(size=num_draws), rng.normal(size=num_draws)
    log_ratios[:5] = -np.inf
    expected = khat_of(theta, log_ratios)
    for value in (np.nan, np.inf, 0.0, 1e20, -1e300):
        theta[:5] = value
        assert khat_of(theta, log_ratios) == expected


@pytest.mark.parametrize("num_draws", [1000, 6000])
def test_khat_is_undefined_when_a_single_draw_counts(rng, num_draws):
    log_ratios = np.full(num_draws, -np.inf)
    log_ratios[3] = 0.0
    with pytest.warns(vicheck.UndefinedKhatWarning):
        assert np.isnan(khat_of(rng.normal(size=num_draws), log_ratios))


def test_compiled_code_is_made_for_one_kind_of_arrays(rng):
    values, log_ratios = rng.normal(size=(6000, 3)), rng.normal(size=6000)
    for array in (values, log_ratios):
        array.flags.writeable = False
    khat_of(values, log_ratios)
    khat_of(values[::-1].T.copy().T, log_ratios[::-1])
    weighted_moments(values, (psis_quietly(log_ratios).log_weights,), log_ratios)
    assert len(rows_compiled.select_products.signatures) == 1
    assert len(rows_compiled.weigh_rows.signatures) == 1


@pytest.mark.parametrize("size", [20_000, 20_001])
def test_tails_of_mean_and_variance_are_found_in_one_pass(size):
    rng = np.random.default_rng(size)
    rows = rng.standard_t(5, size=(4, size)) * [[1.0], [1e-3], [1e5], [1.0]] + [[0], [1], [0], [9]]
    log_ratios = 0.3 * rng.normal(size=size) - 0.1 * rows[0]
    ratios = products.scaled_ratios(log_ratios)
    means = rows @ ratios / ratios.sum()
    squares = np.square(rows - means[:, None])
    variances = squares @ ratios / ratios.sum()
    tails, certain = np.empty((4, 4, 425)), np.empty(4, np.bool_)
    rows_compiled.select_moments(rows, means, variances, log_ratios, ratios, tails, certain)
    assert certain.all()
    for first, (each, centers) in enumerate([(rows, means), (squares, variances)]):
        expected, codes = np.empty((4, 2, 425)), np.empty((4, 2), np.int64)
        rows_compiled.select_products(each, centers, log_ratios, ratios, expected, codes)
        found = np.sort(tails[:, 2 * first : 2 * first + 2])
        np.testing.assert_allclose(found, np.sort(expected), rtol=1e-12)


WITHIN_ARRAYS = """
import numpy as np
from vicheck.stats.products import khats_by_numpy, khats_of_moments, scaled_ratios
from vicheck.stats.psis import default_tail_length

rng = np.random.default_rng(3)
for size in (200, 500, 1000, 2000, 4000, 9000):
    values = rng.normal(size=(size, 4))
    values[:, 1] = np.exp(values[:, 1])
    values[:, 2] **= 3
    values[: size // 2, 3] *= 50.0  # the largest come first
    log_ratios = 0.5 * rng.standard_t(5, size=size)
    weights = np.exp(log_ratios - log_ratios.max())
    means = values.T @ weights / weights.sum()
    variances = ((values - means) ** 2).T @ weights / weights.sum()
    rows = np.ascontiguousarray(values.T)
    length = default_tail_length(size)
    found = khats_of_moments(rows, means, variances, log_ratios, scaled_ratios(log_ratios), length)
    squares = (values - means) ** 2
    for khats, of, center in zip(found, (values, squares), (means, variances)):
        np.testing.assert_allclose(khats, khats_by_numpy(of, center, log_ratios, None), atol=1e-9)
print("within")
"""


@pytest.mark.slow
def test_compiled_code_stays_within_its_arrays(tmp_path):
    """With few draws nearly all of a piece may be among the largest; compiled code cannot tell."""
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", WITHIN_ARRAYS]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.stdout == "within\n", ended.stderr
