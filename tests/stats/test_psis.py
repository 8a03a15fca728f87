"""Laws that PSIS obeys on any input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import vicheck
from vicheck.stats import rows_compiled, rows_numpy, smoothing
from vicheck.stats.gpd import grid_size
from vicheck.stats.psis import default_tail_length

pytestmark = pytest.mark.filterwarnings("ignore::vicheck.UndefinedKhatWarning")

any_finite = arrays(
    np.float64, st.integers(1, 300), elements=st.floats(allow_nan=False, allow_infinity=False)
)
any_float = arrays(np.float64, st.integers(1, 100), elements=st.floats())
ordinary = arrays(np.float64, st.integers(21, 200), elements=st.floats(-50, 50, width=32))


@given(any_finite)
def test_never_raises_on_finite_input_and_weights_sum_to_one(log_ratios):
    result = vicheck.psis(log_ratios)
    assert np.exp(result.log_weights).sum() == pytest.approx(1.0)
    assert 1.0 - 1e-9 <= result.ess <= log_ratios.size * (1 + 1e-9)
    assert not np.isinf(result.khat)
    assert vicheck.psis_khat(log_ratios) == pytest.approx(result.khat, nan_ok=True, abs=0)


@given(any_finite)
def test_compiled_version_never_fails_on_finite_input(log_ratios):
    result = vicheck.psis(np.tile(log_ratios, (9, 1)))
    np.testing.assert_allclose(np.exp(result.log_weights).sum(axis=1), 1.0)
    assert not np.isinf(result.khat).any()


@given(any_float)
def test_is_total_on_any_float(log_ratios):
    result = vicheck.psis(log_ratios)
    invalid = np.isnan(log_ratios) | (log_ratios == np.inf)
    assert result.num_invalid == invalid.sum()
    assert result.num_zero == (log_ratios == -np.inf).sum()
    assert (result.status is vicheck.PsisStatus.NOT_FINITE) == bool(invalid.any())


@given(ordinary, st.floats(-1e5, 1e5))
def test_adding_a_constant_changes_nothing(log_ratios, shift):
    rounded = np.round(log_ratios * 2.0**20) / 2.0**20  # so that the shift itself is exact ...
    shift = round(shift * 2.0**10) / 2.0**10
    plain, shifted = vicheck.psis(rounded), vicheck.psis(rounded + shift)
    if plain.status is not shifted.status:  # ... except for what is constant to rounding
        assert np.ptp(rounded) < 1e-8
        return
    assert shifted.khat == pytest.approx(plain.khat, abs=1e-9, nan_ok=True)
    np.testing.assert_allclose(shifted.log_weights, plain.log_weights, rtol=0, atol=1e-9)


@given(ordinary, st.randoms(use_true_random=False))
def test_a_permutation_permutes_the_weights(log_ratios, random):
    order = np.arange(log_ratios.size)
    random.shuffle(order)
    plain, permuted = vicheck.psis(log_ratios), vicheck.psis(log_ratios[order])
    assert permuted.khat == pytest.approx(plain.khat, abs=1e-12, nan_ok=True)
    if np.unique(log_ratios).size == log_ratios.size:
        np.testing.assert_allclose(permuted.log_weights, plain.log_weights[order], atol=1e-11)
    else:  # equal ratios in the tail share its quantiles among them by position
        np.testing.assert_allclose(
            np.sort(permuted.log_weights), np.sort(plain.log_weights), atol=1e-11
        )


@given(ordinary)
def test_weights_are_in_the_order_of_the_ratios(log_ratios):
    result = vicheck.psis(log_ratios)
    order = np.argsort(log_ratios, kind="stable")
    assert (np.diff(result.log_weights[order]) >= -1e-12).all()


@given(ordinary)
def test_compiled_and_numpy_versions_agree(log_ratios):
    assert_versions_agree(log_ratios[None, :])


@pytest.mark.parametrize("size", [21, 100, 5000, 40_000])
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 5.0, 300.0, 1e6])
def test_compiled_and_numpy_versions_agree_on_long_vectors(rng, size, scale):
    assert_versions_agree(scale * rng.normal(size=(2, size)))
    assert_versions_agree(scale * rng.standard_cauchy(size=(1, size)))
    assert_versions_agree(np.round(rng.normal(size=(1, size)), 2))


def assert_versions_agree(rows):
    length = default_tail_length(rows.shape[1])
    results = []
    for version in (rows_numpy, rows_compiled):
        codes = np.zeros(len(rows), np.int64)
        numbers = np.full((len(rows), 3), np.nan)
        grid = np.full((len(rows), 2, grid_size(length)), np.nan)
        log_weights = np.empty_like(rows)
        version.smooth_rows(rows, rows.max(axis=1), length, codes, numbers, grid, log_weights)
        results.append((codes, numbers, grid, log_weights))
    # A log density of the grid is as large as khat, and so is its rounding error.
    tolerance = 1e-9 * max(1.0, np.nanmax(np.abs(results[0][1][:, 0]), initial=0.0))
    for oracle, compiled in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, oracle, rtol=1e-9, atol=tolerance)


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.integers(1, 60)),
        elements=st.floats(-100, 100, width=16) | st.sampled_from([-np.inf, np.inf, np.nan]),
    )
)
def test_any_batch_equals_a_loop(log_ratios):
    batch = vicheck.psis(log_ratios)
    for row, values in enumerate(log_ratios):
        single = vicheck.psis(values)
        assert batch.status[row] is single.status
        assert batch.khat[row] == pytest.approx(single.khat, abs=1e-9, nan_ok=True)
        assert batch.num_invalid[row] == single.num_invalid
        np.testing.assert_allclose(batch.log_weights[row], single.log_weights, atol=1e-9)


@pytest.mark.parametrize("shape", [(30, 100), (5, 4, 25), (3, 30_000), (30, 20_000), (1, 50)])
def test_a_batch_equals_a_loop(rng, shape):
    log_ratios = rng.normal(size=shape)
    log_ratios.reshape(-1, shape[-1])[0, :3] = -np.inf
    batch = vicheck.psis(log_ratios)
    khats = vicheck.psis_khat(log_ratios)
    assert batch.log_weights.shape == shape
    for index in np.ndindex(shape[:-1]):
        single = vicheck.psis(log_ratios[index])
        assert batch.khat[index] == pytest.approx(single.khat, abs=1e-12)
        assert khats[index] == batch.khat[index]
        assert batch.ess[index] == pytest.approx(single.ess)
        assert batch.status[index] is single.status
        assert batch.num_zero[index] == single.num_zero
        assert batch.min_draws[index] == pytest.approx(single.min_draws)
        np.testing.assert_allclose(batch.log_weights[index], single.log_weights, atol=1e-12)


def test_a_large_batch_gives_the_same_bits_on_one_thread(rng, monkeypatch):
    log_ratios = rng.normal(size=(700, 1000))
    threaded = vicheck.psis(log_ratios)
    monkeypatch.setattr(smoothing, "num_cores", lambda: 1)
    single = vicheck.psis(log_ratios)
    np.testing.assert_array_equal(threaded.log_weights, single.log_weights)
    np.testing.assert_array_equal(threaded.khat, single.khat)


def test_odd_vectors_do_not_disturb_their_neighbours(rng):
    log_ratios = rng.normal(size=(40, 200))
    alone = vicheck.psis(log_ratios)
    odd = log_ratios.copy()
    odd[3], odd[7, 5], odd[11], odd[20, 9], odd[30, 30:] = 0.0, np.nan, -np.inf, np.inf, -np.inf
    mixed = vicheck.psis(odd)
    names = {row: mixed.status[row].name for row in (3, 7, 11, 20, 30)}
    assert names == {
        3: "CONSTANT",
        7: "NOT_FINITE",
        11: "ALL_ZERO",
        20: "NOT_FINITE",
        30: "TOO_FEW_POSITIVE",
    }
    untouched = np.setdiff1d(np.arange(40), list(names))
    np.testing.assert_array_equal(mixed.khat[untouched], alone.khat[untouched])
    np.testing.assert_array_equal(mixed.log_weights[untouched], alone.log_weights[untouched])
    assert "1 of 40 vectors CONSTANT" in mixed.message
    assert "2 of 40 vectors NOT_FINITE" in mixed.message
    assert "the first at index 5" in mixed.message


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8, np.uint16])
def test_other_types_are_raised_to_float64(rng, dtype):
    values = rng.integers(0, 100, size=6000).astype(dtype) + rng.normal(size=6000).astype(dtype)
    result = vicheck.psis(values)
    expected = vicheck.psis(values.astype(np.float64))
    assert result.log_weights.dtype == np.float64
    np.testing.assert_array_equal(result.log_weights, expected.log_weights)
    assert result.khat == pytest.approx(expected.khat, abs=0, nan_ok=True)
    assert vicheck.psis_khat(values) == pytest.approx(expected.khat, abs=0, nan_ok=True)


def test_input_is_never_changed(rng):
    for values in (
        rng.normal(size=9000),
        rng.normal(size=(30, 300)),
        rng.normal(size=100),
        rng.normal(size=9000).astype(np.float32),
        rng.normal(size=(300, 30)).T,
    ):
        before = values.copy()
        values.flags.writeable = False
        vicheck.psis(values)
        vicheck.psis_khat(values)
        np.testing.assert_array_equal(values, before)


def test_any_memory_layout(rng):
    values = rng.normal(size=(500, 20))
    for view in (values.T, values[::2, ::3].T, np.asfortranarray(values.T), values.T[::-1]):
        expected = vicheck.psis(np.ascontiguousarray(view))
        np.testing.assert_array_equal(vicheck.psis(view).log_weights, expected.log_weights)
        np.testing.assert_array_equal(vicheck.psis_khat(view), expected.khat)


def test_lists_are_welcome():
    assert vicheck.psis(list(range(100))).tail_length == 20


def test_the_size_of_an_offset_does_not_matter(rng):
    rounded = np.round(rng.normal(size=(2, 6000)) * 2.0**20) / 2.0**20
    for offset in (2.0**30, -(2.0**30)):  # exact: the sums need 50 bits
        for rows in (rounded, rounded[0, :1000]):
            plain, shifted = vicheck.psis(rows), vicheck.psis(rows + offset)
            np.testing.assert_array_equal(shifted.khat, plain.khat)
            np.testing.assert_array_equal(shifted.log_weights, plain.log_weights)


def test_constants_of_the_compiled_code_are_those_of_the_rest():
    from vicheck.stats import gpd

    for name in ("PRIOR_SHAPE", "PRIOR_WEIGHT", "MAX_LOG_SPREAD"):
        assert getattr(rows_compiled, name) == getattr(gpd, name)
    assert smoothing.ROUNDING == rows_compiled.ROUNDING
    for name in ("OK", "CONSTANT", "TIED_AT_MAXIMUM", "TIED_AT_CUTOFF", "TOO_FEW_POSITIVE",
                 "NOT_FINITE"):  # fmt: skip
        assert getattr(rows_compiled, name) == vicheck.PsisStatus[name].code


def test_compiled_exponential():
    x = -np.concatenate([np.linspace(0.0, 40.0, 4001), np.linspace(40.0, 700.0, 4001)])
    for value in x:
        total, square = rows_compiled._exp_sums(np.array([value]))
        assert total == pytest.approx(np.exp(value), rel=3e-15 if value > -40 else 1e-13)
        assert square == pytest.approx(total**2, rel=1e-15)


def test_read_only_input_is_not_compiled_for_anew(rng):
    values = rng.normal(size=9000)
    values.flags.writeable = False
    vicheck.psis(values)
    assert len(rows_compiled.smooth_rows.signatures) == 1


def test_only_the_tail_changes(rng):
    log_ratios = rng.normal(size=1000)
    result = vicheck.psis(log_ratios, tail_length=50)
    body = np.argsort(log_ratios)[:-50]
    shift = log_ratios[body] - result.log_weights[body]
    np.testing.assert_allclose(shift, result.log_normalizer, rtol=1e-12)
    assert result.tail_length == 50


def test_no_weight_exceeds_the_raw_maximum(rng):
    log_ratios = 3 * rng.normal(size=1000)
    result = vicheck.psis(log_ratios)
    assert (result.log_weights + result.log_normalizer).max() <= log_ratios.max() + 1e-12


def test_a_bad_guess_from_the_sample_costs_no_accuracy(rng):
    """Values that only a strided sample sees, or never sees, must not mislead the selection."""
    size = 60_000
    stride = size // max(256, int(6 * np.sqrt(size)))
    for offset in (0, 1):
        log_ratios = rng.normal(size=size)
        log_ratios[offset::stride] += 20.0
        result = vicheck.psis(log_ratios)
        raised = np.argsort(log_ratios)[-result.tail_length :]
        assert set(raised % stride) == {offset}
        assert_versions_agree(log_ratios[None, :])


def test_log_domain_reaches_ten_thousand_nats():
    result = vicheck.psis(np.linspace(-10_000.0, 0.0, 1000))
    assert result.status is vicheck.PsisStatus.OK
    assert np.isfinite(result.khat)
    assert result.khat > 1.0
    assert np.exp(result.log_weights).sum() == pytest.approx(1.0)


def test_largest_finite_span():
    values = 1.7e308 * np.linspace(-1.0, 1.0, 300)
    for log_ratios in (values, np.tile(values, (20, 1))):  # in NumPy, and compiled
        result = vicheck.psis(log_ratios)
        assert np.isfinite(result.khat).all()
        assert np.exp(result.log_weights).sum(axis=-1) == pytest.approx(1.0)
        assert np.isfinite(result.khat_interval()).all()


def test_ratios_equal_up_to_rounding_are_constant(rng):
    noise = rng.integers(-3, 4, size=1000) * np.spacing(1234.5)
    result = vicheck.psis(-1234.5 + noise)
    assert result.status is vicheck.PsisStatus.CONSTANT
    assert result.khat == 0.0


def test_zeros_have_weight_zero_and_are_counted(rng):
    log_ratios = rng.normal(size=1000)
    log_ratios[::10] = -np.inf
    result = vicheck.psis(log_ratios)
    assert result.status is vicheck.PsisStatus.OK
    assert result.num_zero == 100
    assert (result.log_weights[::10] == -np.inf).all()


@pytest.mark.parametrize("k", [0.0, 0.3, 0.6])
def test_interval_covers_the_true_shape(k):
    """90% intervals of 500 exact Pareto tails cover k in 84% to 95%.

    Nearly four binomial standard errors around the 89% to 90% measured with 4000 tails
    (docs/khat-coverage.md): the false-alarm rate is below 1e-3.
    """
    uniform = np.random.default_rng(5).uniform(size=(500, 1000))
    exceedances = np.expm1(-k * np.log1p(-uniform)) / k if k else -np.log1p(-uniform)
    result = vicheck.psis(np.log(exceedances))
    low, high = result.khat_interval(0.9).T
    assert 0.84 < ((low < k) & (k < high)).mean() < 0.95
    above = result.khat_posterior.exceeds(k)
    assert 0.44 < above.mean() < 0.56


def test_interval_and_exceedance_probability_belong_together(rng):
    result = vicheck.psis(rng.normal(size=2000))
    low, high = result.khat_interval(0.8)
    assert low < result.khat < high
    assert result.khat_posterior.exceeds(low) == pytest.approx(0.9)
    assert result.khat_posterior.exceeds(high) == pytest.approx(0.1)
    assert 0 <= result.exceedance_probability <= 1
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 90"):
        result.khat_interval(90)


def test_interval_of_undefined_khat_is_nan():
    result = vicheck.psis([1.0, 2.0, 3.0])
    assert np.isnan(result.khat_interval()).all()
    assert np.isnan(result.exceedance_probability)
