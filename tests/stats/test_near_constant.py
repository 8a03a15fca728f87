"""Ratios that are nearly constant: khat keeps all digits, on every processor.

The exceedances exp(r) - exp(cut-off) of ratios that differ by 1e-9 have lost nine of their digits
when they are computed as written, and which ones are left depends on the processor's `exp`.
"""

import numpy as np
import pytest

import vicheck
from tests.stats.exact import exact_khat
from vicheck.stats import gpd, rows_compiled, rows_numpy, tail
from vicheck.stats.psis import default_tail_length
from vicheck.stats.smoothing import smooth

EPS = np.finfo(np.float64).eps
SPANS = [1e-6, 1e-9, 1e-12, 1e-13]

# The logarithm of an exceedance x is off by at most (1 + 2 |log x|) eps where each function may be
# off by a unit in the last place: 62 eps at x = 1e-13. The means of logarithms from which the fit
# computes its weights are off by a few eps, N times this is what their logarithms are off by, and
# the fit averages over a width of about 1 / sqrt(N). So khat is off by some (62 + sqrt(N)) eps.
KHAT_ERROR = 1000 * EPS


@pytest.mark.parametrize("offset", [0.0, -1.0])
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("version", [rows_numpy, rows_compiled], ids=["numpy", "compiled"])
def test_khat_has_all_digits(rng, version, span, offset):
    log_ratios = offset + span * rng.normal(size=1000)
    length = default_tail_length(log_ratios.size)
    found = smooth(log_ratios[None], length, version.smooth_rows, with_weights=True)
    assert found.khat[0] == pytest.approx(exact_khat(log_ratios, length), abs=KHAT_ERROR)
    np.testing.assert_allclose(np.exp(found.log_weights).sum(), 1.0, rtol=1e-13)


class Moved:
    """NumPy with elementary functions that are off by one unit in the last place."""

    def __init__(self, way):
        self.way = way  # of the numbers of a result: up, down, or either at random

    def __getattr__(self, name):
        plain = getattr(np, name)
        if name not in ("exp", "expm1", "log", "log1p", "logaddexp"):
            return plain

        def moved(*arguments, out=None):
            values = plain(*arguments, out=out)
            goal = self.way(np.shape(values)) * np.inf
            exact = (values == 0.0) | ~np.isfinite(values)
            return np.where(exact, values, np.nextafter(values, goal))[()]

        return moved


def up(shape):
    return np.ones(shape)


def down(shape):
    return -np.ones(shape)


def either(shape):
    return np.random.default_rng(1).choice([-1.0, 1.0], size=shape)


@pytest.mark.parametrize("way", [up, down, either])
@pytest.mark.parametrize("span", [1.0, *SPANS])
def test_khat_hardly_moves_with_the_last_bit_of_elementary_functions(rng, monkeypatch, span, way):
    log_ratios = span * rng.normal(size=1000)
    here = vicheck.psis(log_ratios)
    for module in (gpd, rows_numpy, tail):
        monkeypatch.setattr(module, "np", Moved(way))
    elsewhere = vicheck.psis(log_ratios)
    assert elsewhere.khat == pytest.approx(here.khat, abs=KHAT_ERROR)
    # Three logarithms of numbers up to 1000 make up a weight.
    np.testing.assert_allclose(elsewhere.log_weights, here.log_weights, rtol=0, atol=40 * EPS)
    # Otherwise nothing was moved.
    assert not np.array_equal(elsewhere.log_weights, here.log_weights)


def test_such_a_bit_would_spoil_exceedances_that_are_subtracted(rng):
    """So the test above can fail: this is what it is there to prevent."""
    values = 1e-9 * rng.normal(size=1000)
    largest = np.sort(values)[-96:]

    def khat_by(exp):
        below = exp(largest - largest[-1])
        return gpd.fit_gpd(np.log(below[1:] - below[0])).k

    assert abs(khat_by(Moved(either).exp) - khat_by(np.exp)) > 1e-9
