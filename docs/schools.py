"""The eight schools in two parametrizations, for the examples of the documentation."""

import numpyro
import numpyro.distributions as dist


def centred(sigma, y=None):
    """Draw the effects theta around mu."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([len(sigma)]).to_event(1))
    numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def noncentred(sigma, y=None):
    """Draw how many times tau each effect lies from mu."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    raw = numpyro.sample("raw", dist.Normal(0, 1).expand([len(sigma)]).to_event(1))
    theta = numpyro.deterministic("theta", mu + tau * raw)
    numpyro.sample("y", dist.Normal(theta, sigma), obs=y)
