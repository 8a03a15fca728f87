"""Random bits become normal numbers."""

import numpy as np
from scipy import stats

from vicheck.calibration.noise import as_normal, random_bits


def test_bits_become_the_quantiles_that_they_stand_for():
    bits = np.array([0, 2, 2**8, 2**14, 2**20, 2**26, 2**31, 2**32 - 2], np.uint32)
    expected = stats.norm.ppf((bits // 2 + 0.5) * 2.0**-32)
    found = np.asarray(as_normal(bits))
    np.testing.assert_allclose(found, expected, rtol=5e-4, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(as_normal(bits + 1)), -found)


def test_normal_numbers_have_the_law_of_a_normal_far_out_too():
    rng = np.random.Generator(np.random.SFC64(0))
    bits = random_bits(rng, 2_000_001)
    assert len(bits) == 2_000_001
    z = np.asarray(as_normal(bits))
    assert stats.kstest(z, "norm").pvalue > 0.01
    for far in (2.0, 3.0, 4.0):
        expected = 2 * stats.norm.sf(far) * len(z)
        assert abs((np.abs(z) > far).sum() - expected) < 4.0 * np.sqrt(expected)
