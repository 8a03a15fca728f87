"""Linear regression by its sufficient statistics: the same posterior at a hundredth of the cost.

The likelihood of y ~ N(X beta, sigma^2) depends on the n outcomes through the least-squares
estimate and the residual sum of squares alone, so 10,000 rows become a matrix of 100 by 100.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from numpyro.distributions import constraints

__all__ = ["LeastSquares", "linear_by_statistics"]


class LeastSquares(dist.Distribution):  # type: ignore[misc] # NumPyro has no types
    """Least-squares estimate and residual sum of squares, as one vector, of a linear regression.

    The log density is that of all n outcomes, so ELBO and evidence are those of the regression.

    Parameters
    ----------
    beta, sigma
        Coefficients and residual standard deviation.
    gram
        X'X, of full rank.
    num_rows
        Rows of X.
    """

    arg_constraints = {"beta": constraints.real_vector, "sigma": constraints.positive}  # noqa: RUF012
    support = constraints.real_vector

    def __init__(self, beta: Any, sigma: Any, gram: Any, num_rows: Any) -> None:
        self.beta, self.sigma, self.gram, self.num_rows = beta, sigma, gram, num_rows
        super().__init__(event_shape=(beta.shape[-1] + 1,))

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Draw from the law of both statistics, which are independent given the parameters."""
        key_normal, key_gamma = jax.random.split(key)
        width = self.beta.shape[-1]
        noise = jax.random.normal(key_normal, (*sample_shape, width))
        # gram = L L', so L'^-1 noise has the covariance of the estimate over sigma^2.
        lower = jnp.linalg.cholesky(self.gram)
        shift = solve_triangular(lower.T, jnp.moveaxis(noise, -1, 0), lower=False)
        estimate = self.beta + self.sigma * jnp.moveaxis(shift, 0, -1)
        half_freedom = (self.num_rows - width) / 2
        residual = 2 * self.sigma**2 * jax.random.gamma(key_gamma, half_freedom, sample_shape)
        return jnp.concatenate([estimate, residual[..., None]], axis=-1)

    def log_prob(self, value: Any) -> Any:
        """Log density of the outcomes that have these statistics."""
        error, residual = self.beta - value[..., :-1], value[..., -1]
        squares = residual + jnp.sum(error * (error @ self.gram), axis=-1)
        constant = jnp.log(self.sigma) + 0.5 * jnp.log(2 * jnp.pi)
        return -self.num_rows * constant - squares / (2 * self.sigma**2)


def linear_by_statistics(gram: Any, num_rows: Any, statistics: Any = None) -> None:
    """Linear regression without intercept (section 4.1): `models.linear`, with y summed up."""
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([gram.shape[0]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.Gamma(0.5, 0.5))
    numpyro.sample("statistics", LeastSquares(beta, sigma, gram, num_rows), obs=statistics)
