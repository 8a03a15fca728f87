"""The family of mixtures of split t: its density, its draws and its moments."""

import jax
import numpy as np
import pytest

from vicheck.model import double_precision
from vicheck.stats.t_mixtures import TMixture
from vicheck.vi.families.students import MOST_DF, Students


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(1)
    return {
        "locs": 3.0 * rng.normal(size=(3, 4)),
        "roots": 0.3 * rng.normal(size=(3, 4, 4)) + np.eye(4),
        "dfs": np.array([6.0, 9.0, 30.0]),
        "parts": np.array([0.2, 0.5, 0.3]),
        "ups": np.exp(0.4 * rng.normal(size=(3, 4))),
        "downs": np.exp(0.4 * rng.normal(size=(3, 4))),
    }


def test_the_density_is_that_of_the_arrays(arrays):
    z = TMixture(**arrays).draw(np.random.default_rng(2), 100)
    with double_precision():
        values = np.asarray(jax.vmap(Students.made_of(**arrays).log_prob)(z))
    np.testing.assert_allclose(values, TMixture(**arrays).log_density(z), rtol=1e-12)


@pytest.mark.parametrize("by", ["noise", "key"])
def test_draws_have_the_moments_that_it_says(arrays, by):
    with double_precision():
        q = Students.made_of(**arrays)
        if by == "noise":
            noise = q.draw_noise(np.random.default_rng(3), 200_000)
            z = np.asarray(jax.vmap(q.transform)(noise))
        else:
            z = np.asarray(q.sample_and_log_prob(jax.random.key(3), 200_000)[0])
        mean, sd, covariance = (np.asarray(each) for each in (q.mean, q.sd, q.covariance()))
    np.testing.assert_allclose(z.mean(axis=0), mean, atol=0.04)
    np.testing.assert_allclose(z.std(axis=0), sd, rtol=0.02)
    np.testing.assert_allclose(np.cov(z.T), covariance, atol=0.02 * sd.max() ** 2)


def test_draws_of_a_key_have_the_density_that_comes_with_them(arrays):
    with double_precision():
        q = Students.made_of(**arrays)
        z, log_q = q.sample_and_log_prob(jax.random.key(4), 50)
        np.testing.assert_allclose(log_q, jax.vmap(q.log_prob)(z), rtol=1e-10)


def test_parts_are_normalised_and_degrees_of_freedom_bounded(arrays):
    q = Students.made_of(**arrays | {"parts": np.array([2.0, 2.0, 4.0]), "dfs": [1e9, 2.0, 5.0]})
    np.testing.assert_allclose(q.parts, [0.25, 0.25, 0.5])
    np.testing.assert_allclose(q.dfs, [MOST_DF, 3.0, 5.0])
