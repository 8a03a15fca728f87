"""The paper's models as NumPyro functions; pass one to `vicheck.from_numpyro` with its data.

Yao, Vehtari, Simpson and Gelman (2018), sections 4 and 5. N(m, s) means standard deviation s.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

__all__ = [
    "EIGHT_SCHOOLS",
    "eight_schools_centred",
    "eight_schools_noncentred",
    "horseshoe_logistic",
    "linear",
    "logistic",
    "two_modes",
]

EIGHT_SCHOOLS = {
    "sigma": np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
    "y": np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
}
"""Standard errors and estimated effects of coaching in eight schools (Rubin 1981)."""

_TAU_PRIORS = {"half_cauchy": dist.HalfCauchy, "half_normal": dist.HalfNormal}


def linear(X: Any, y: Any = None) -> None:  # noqa: N803 (the design matrix is X everywhere)
    """Linear regression without intercept (section 4.1)."""
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.Gamma(0.5, 0.5))
    numpyro.sample("y", dist.Normal(X @ beta, sigma), obs=y)


def logistic(X: Any, y: Any = None) -> None:  # noqa: N803
    """Logistic regression with a flat prior (section 4.2): no data can be simulated from it."""
    flat = dist.ImproperUniform(constraints.real, (), (X.shape[1],))
    beta = numpyro.sample("beta", flat)
    numpyro.sample("y", dist.Bernoulli(logits=X @ beta), obs=y)


def eight_schools_centred(
    sigma: Any,
    y: Any = None,
    mu_scale: float = 5.0,
    tau_scale: float = 5.0,
    tau_prior: str = "half_cauchy",
) -> None:
    """Eight schools, the effects theta drawn around mu (section 4.3)."""
    mu = numpyro.sample("mu", dist.Normal(0.0, mu_scale))
    tau = numpyro.sample("tau", _TAU_PRIORS[tau_prior](tau_scale))
    theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([len(sigma)]).to_event(1))
    numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def eight_schools_noncentred(
    sigma: Any,
    y: Any = None,
    mu_scale: float = 5.0,
    tau_scale: float = 5.0,
    tau_prior: str = "half_cauchy",
) -> None:
    """Eight schools, theta = mu + tau theta_raw with theta_raw standard normal (section 4.3)."""
    mu = numpyro.sample("mu", dist.Normal(0.0, mu_scale))
    tau = numpyro.sample("tau", _TAU_PRIORS[tau_prior](tau_scale))
    raw = numpyro.sample("theta_raw", dist.Normal(0.0, 1.0).expand([len(sigma)]).to_event(1))
    theta = numpyro.deterministic("theta", mu + tau * raw)
    numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def horseshoe_logistic(
    X: Any,  # noqa: N803
    y: Any = None,
    slab_shape: float = 2.0,
    slab_scale: float = 8.0,
    local_scale: float = 1.0,
) -> None:
    """Logistic regression with a regularised horseshoe prior (section 4.4, Piironen and Vehtari).

    The slab is c^2 ~ Inv-Gamma(slab_shape, slab_scale): 2 and 8 in the text; 2 and 50 in the
    authors' scripts. Local scales have a half-Cauchy prior of scale 1; the simulator of Figure 8
    drew them with 25.
    """
    n, num_features = X.shape
    half_cauchy = dist.HalfCauchy(local_scale)
    intercept = numpyro.sample("beta0", dist.Normal(0.0, 10.0))
    raw = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([num_features]).to_event(1))
    lam = numpyro.sample("lambda", half_cauchy.expand([num_features]).to_event(1))
    tau = numpyro.sample("tau", dist.HalfCauchy(2.0 / (np.sqrt(n) * (num_features - 1))))
    slab = numpyro.sample("c2", dist.InverseGamma(slab_shape, slab_scale))
    shrunk = lam * jnp.sqrt(slab / (slab + (tau * lam) ** 2))
    beta = numpyro.deterministic("beta", raw * shrunk * tau)
    numpyro.sample("y", dist.Bernoulli(logits=intercept + X @ beta), obs=y)


def two_modes(weight: float = 0.8, separation: float = 3.0, scale: float = 0.2) -> None:
    """Draw x from a mixture of two separate normals and see no data (section 5.1)."""
    parts = dist.Normal(jnp.array([0.0, separation]), scale)
    numpyro.sample(
        "x", dist.MixtureSameFamily(dist.Categorical(jnp.array([weight, 1 - weight])), parts)
    )
