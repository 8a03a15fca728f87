"""Distributions whose support is unbounded: other modes are searched for."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.scipy import stats

import vicheck
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred


def two_normals(x):
    """Return the log density of normals at 0 and 14, 60% there."""
    near, far = (stats.norm.logpdf(x, at).sum() for at in (0.0, 14.0))
    return jnp.logaddexp(jnp.log(0.4) + near, jnp.log(0.6) + far)


@pytest.mark.parametrize(
    "q",
    [
        dist.Normal(jnp.zeros(2), 1.0).to_event(1),
        dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)),
    ],
)
def test_modes_beyond_the_reach_of_a_distribution_are_found(q):
    checked = vicheck.check_distribution(q, two_normals, num_draws=2000)
    assert checked.khat < 0.1
    assert checked.verdict.decided_by == "mode-beyond-reach"
    assert checked.modes.share_of_others == pytest.approx(0.6, abs=0.01)
    assert (checked.moments["use_mean"] == "neither").all()


def test_nothing_is_asked_of_a_density_beyond_the_bounds_of_a_distribution():
    def log_density(x):
        return stats.gamma.logpdf(x[0], 3.0)

    q = dist.Gamma(3.0, 1.0).expand([1]).to_event(1)
    checked = vicheck.check_distribution(q, log_density, num_draws=2000)
    assert checked.modes is None
    assert checked.chains is None
    assert "other modes were not searched for" in checked.verdict.sentence
    np.testing.assert_allclose(checked.log_p, checked.log_q, atol=1e-10)


def test_the_density_of_a_model_is_that_of_its_flat_vector():
    model = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
    q = dist.Normal(jnp.zeros(model.dim), 1.0).to_event(1)
    checked = vicheck.check_distribution(q, model.log_density, num_draws=500)
    assert {"mu", "tau", "theta_raw", "theta"} <= set(checked.draws)
    np.testing.assert_array_less(0.0, checked.draws["tau"])
    z = np.column_stack(
        [checked.draws["mu"], np.log(checked.draws["tau"]), checked.draws["theta_raw"]]
    )
    np.testing.assert_allclose(checked.log_p, model.log_density(z), rtol=1e-9)
    short = dist.Normal(jnp.zeros(3), 1.0).to_event(1)
    with pytest.raises(ValueError, match="unconstrained vector, of shape"):
        vicheck.check_distribution(short, model.log_density, num_draws=10)
