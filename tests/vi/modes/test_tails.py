"""Densities that do not end, and heavy tails that do."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy import stats

import vicheck
from vicheck.vi.modes.place import Place
from vicheck.vi.modes.search import search_modes

HERE = Place(np.array([0.2, -0.1]), np.array([0.8, 3.0]))


def normal(x):
    return -0.5 * jnp.square(x)


@pytest.mark.parametrize(
    "tail",
    [
        lambda x: -0.5 * jnp.log1p(x**2),
        lambda x: -jnp.log1p(jnp.abs(x)),
        lambda x: jnp.logaddexp(normal(x), -4.0 - 0.5 * jnp.log1p(x**2)),
        lambda x: -jnp.logaddexp(0.0, -x),  # flat on one side
        lambda x: -jnp.logaddexp(0.0, x),
        lambda x: 0.0 * x,
    ],
)
def test_what_falls_off_no_faster_than_one_over_x_does_not_end(tail):
    model = vicheck.from_log_density(lambda x: normal(x[0]) + tail(x[1]), np.zeros(2))
    search = search_modes(model, HERE)
    assert search.endless == "x[1]"


@pytest.mark.parametrize(
    "tail",
    [
        normal,
        lambda x: stats.t.logpdf(x, 0.2),
        stats.cauchy.logpdf,
        lambda x: x - jnp.exp(x),
        lambda x: -jnp.abs(x),
        lambda x: jnp.logaddexp(normal(x), normal(x - 3e4)),  # a mode just where one looks
        lambda x: jnp.maximum(normal(x), -700.0),  # as if clipped
        lambda x: jnp.where(jnp.abs(x) < 5.0, normal(x), -jnp.inf),
    ],
)
def test_heavy_tails_and_clipped_ones_end(tail):
    model = vicheck.from_log_density(lambda x: normal(x[0]) + tail(x[1]), np.zeros(2))
    assert search_modes(model, HERE).endless == ""


@pytest.mark.parametrize("seed", range(3))
def test_no_fit_of_such_a_density_is_usable_whatever_khat_says(seed):
    model = vicheck.from_log_density(lambda x: -0.5 * jnp.log1p(x[0] ** 2), np.zeros(1))
    checked = vicheck.check(vicheck.fit(model, seed=seed), num_draws=5000, seed=seed)
    assert checked.verdict.level in ("unreliable", "none")
    assert "endless-tail" in {finding.code for finding in checked.findings}
    assert (checked.moments["use_mean"] == "neither").all()
