import jax
import numpy as np
import pytest
from jax.scipy.stats import norm

import vicheck
from vicheck.model import double_precision
from vicheck.runtime.compiling import is_large
from vicheck.vi.curvature import FLATTEST, climb

SMALL, LARGE = 100, 1100  # rows; three covariates and an outcome each
MANY_STEPS = 40


def regression(num_rows, log_sigma=0.0):
    """A linear regression with covariates of very different sizes, and its exact mode."""
    rng = np.random.default_rng(num_rows)
    x = rng.standard_normal((num_rows, 3)) * [1.0, 100.0, 0.01]
    beta = np.array([1.0, 0.01, 50.0])
    y = x @ beta + np.exp(log_sigma) * rng.standard_normal(num_rows)

    def log_density(z, data):
        return norm.logpdf(data["y"], data["x"] @ z[:3], jax.numpy.exp(z[3])).sum()

    model = vicheck.from_log_density(log_density, np.zeros(4), data={"x": x, "y": y})
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    mode = np.append(best, 0.5 * np.log(np.mean((y - x @ best) ** 2)))
    return model, mode


def climbed(model, steps):
    with double_precision():
        run = jax.jit(lambda data: climb(model.program, jax.numpy.zeros(4), data, steps, FLATTEST))
        return jax.device_get(run(model.data))


def hessian(model, z):
    with double_precision():
        return np.asarray(-jax.hessian(lambda at: model.program.log_density(at, model.data))(z))


def test_only_one_of_the_problems_is_large():
    assert [is_large(m.program, m.data) for m, _ in map(regression, (SMALL, LARGE))] == [
        False,
        True,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("num_rows", [SMALL, LARGE], ids=["Newton", "quasi-Newton"])
@pytest.mark.parametrize("log_sigma", [-3.0, 3.0])
def test_the_climb_ends_near_the_mode_with_the_curvature_there(num_rows, log_sigma):
    """From thousands of sds away; a fit that starts within a few goes on by itself."""
    model, mode = regression(num_rows, log_sigma)
    z, curvature = climbed(model, MANY_STEPS)
    exact = hessian(model, mode)
    sd = np.sqrt(np.diag(np.linalg.inv(exact)))
    np.testing.assert_array_less(np.abs(z - mode) / sd, 3.0)
    directions = np.asarray(curvature.directions)
    np.testing.assert_allclose(
        directions @ directions.T, np.linalg.inv(hessian(model, z)), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("num_rows", [SMALL, LARGE], ids=["Newton", "quasi-Newton"])
def test_no_steps_give_the_curvature_at_the_start(num_rows):
    model, _ = regression(num_rows)
    z, curvature = climbed(model, 0)
    np.testing.assert_array_equal(z, 0.0)
    # Made positive after scaling to a unit diagonal: it is indefinite there.
    raw = hessian(model, np.zeros(4))
    scale = np.sqrt(np.abs(np.diag(raw)))
    values, vectors = np.linalg.eigh(raw / np.outer(scale, scale))
    assert values.min() < 0.0
    positive = vectors * np.abs(values) @ vectors.T
    np.testing.assert_allclose(curvature.precisions, scale**2 * np.diag(positive), rtol=1e-6)


@pytest.mark.slow
def test_a_large_regression_starts_at_its_mode():
    """So that hardly anything is left to be done: three rounds on 32 and 64 draws."""
    model, _ = regression(LARGE, log_sigma=-3.0)
    fit = vicheck.fit(model, family="full_rank", num_starts=1)
    assert fit.status.name == "CONVERGED"
    assert fit.solution.num_evaluations <= 512
