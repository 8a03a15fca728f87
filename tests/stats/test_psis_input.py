"""Bad and odd input: an error that names the argument, or a named status."""

import numpy as np
import pytest

import vicheck


@pytest.mark.parametrize("function", [vicheck.psis, vicheck.psis_khat])
@pytest.mark.parametrize(
    ("log_ratios", "options", "error", "message"),
    [
        (
            3.0,
            {},
            ValueError,
            r"log_ratios must have shape \(S,\) or \(..., S\), got a single number",
        ),
        ([], {}, ValueError, r"log_ratios must not be empty, got shape \(0,\)"),
        (np.empty((3, 0)), {}, ValueError, r"log_ratios must not be empty, got shape \(3, 0\)"),
        (np.ones(30) * 1j, {}, TypeError, "log_ratios must be real numbers, got dtype complex128"),
        (np.array([None] * 30), {}, TypeError, "log_ratios must be real numbers, got dtype object"),
        (["a", "b"], {}, TypeError, "log_ratios must be real numbers, got dtype <U1"),
        (np.ones(30, bool), {}, TypeError, "log_ratios must be real numbers, got dtype bool"),
        ([[1.0], [1.0, 2.0]], {}, ValueError, "log_ratios must be an array .* unequal length"),
        (np.ma.masked_equal([1.0, 2.0], 2.0), {}, TypeError, "log_ratios must not be a masked"),
        (np.arange(30), {"tail_length": 4}, ValueError, "tail_length must be at least 5 .* got 4"),
        (np.arange(30), {"tail_length": 30}, ValueError, "below the number of draws 30, got 30"),
        (np.arange(30), {"tail_length": 7.5}, TypeError, "tail_length must be an integer, got 7.5"),
        (np.arange(30), {"tail_length": "9"}, TypeError, "an integer, got '9' of type str"),
        (np.arange(30), {"tail_length": True}, TypeError, "an integer, got True"),
    ],
)
def test_wrong_input_is_named(function, log_ratios, options, error, message):
    with pytest.raises(error, match=message):
        function(log_ratios, **options)


def clipped(values, at):
    return np.minimum(values, at)


NORMAL = np.random.default_rng(3).normal(size=1000)

ODD = {
    "CONSTANT": (np.zeros(100), 0.0, "all ratios are equal"),
    "TIED_AT_MAXIMUM": (clipped(NORMAL, 0.5), np.nan, "all ratios in the tail are equal"),
    "TIED_AT_CUTOFF": (np.round(NORMAL), np.nan, "equal the cut-off"),
    "TOO_FEW_DRAWS": (NORMAL[:20], np.nan, "fewer than 21 draws"),
    "TOO_FEW_POSITIVE": (
        np.where(np.arange(1000) < 950, -np.inf, NORMAL),
        np.nan,
        "50 positive, tail length 95",
    ),
    "ALL_ZERO": (np.full(100, -np.inf), np.nan, "all ratios are zero"),
    "NOT_FINITE": (np.where(np.arange(1000) > 997, np.inf, NORMAL), np.nan, "2 of 1000.*index 998"),
}


def test_every_status_but_ok_is_in_the_table():
    assert set(ODD) == {status.name for status in vicheck.PsisStatus} - {"OK"}


@pytest.mark.filterwarnings("ignore::vicheck.UndefinedKhatWarning")
@pytest.mark.parametrize("name", ODD)
def test_odd_input_has_a_named_status(name):
    log_ratios, khat, message = ODD[name]
    result = vicheck.psis(log_ratios)
    assert result.status.name == name
    assert result.khat == pytest.approx(khat, nan_ok=True)
    assert vicheck.psis_khat(log_ratios) == pytest.approx(khat, nan_ok=True)
    import re

    assert re.search(message, result.message)
    assert result.num_draws == log_ratios.size
    if name in ("ALL_ZERO", "NOT_FINITE"):
        assert np.isnan(result.log_weights).all()
        assert np.isnan(result.ess)
    else:  # raw weights
        raw = log_ratios - np.logaddexp.reduce(log_ratios)
        np.testing.assert_allclose(result.log_weights, raw, atol=1e-12)
    if np.isnan(khat):
        assert np.isnan(result.min_draws)
        assert np.isnan(result.convergence_rate)


@pytest.mark.parametrize("name", [name for name in ODD if name != "CONSTANT"])
@pytest.mark.parametrize("function", [vicheck.psis, vicheck.psis_khat])
def test_an_undefined_khat_warns_once(name, function):
    with pytest.warns(vicheck.UndefinedKhatWarning, match="khat is undefined") as caught:
        function(ODD[name][0])
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("function", [vicheck.psis, vicheck.psis_khat])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_strict_refuses_nan_and_infinity(function, bad):
    log_ratios = np.zeros((2, 50))
    log_ratios[1, 7:9] = bad
    with pytest.raises(ValueError, match=r"got 2 NaN or \+inf, the first at index 1, 7"):
        function(log_ratios, strict=True)


def test_strict_admits_zeros(rng):
    log_ratios = rng.normal(size=100)
    log_ratios[0] = -np.inf
    assert vicheck.psis(log_ratios, strict=True).num_zero == 1


def test_boundary_between_too_few_and_enough_draws(rng):
    with pytest.warns(vicheck.UndefinedKhatWarning, match="fewer than 21"):
        vicheck.psis(rng.normal(size=20))
    assert vicheck.psis(rng.normal(size=21)).tail_length == 5
