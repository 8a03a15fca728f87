"""True errors: columns against reference draws, and khat of marginals where these are known."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.checking.truth import errors_against, marginal_khat
from vicheck.model import double_precision
from vicheck.results.reference import Reference
from vicheck.vi.families.mixture import Mixture


@pytest.fixture(scope="module")
def model():
    return vicheck.from_log_density(
        lambda x: -jnp.sum(x["a"] ** 2) / 2 - x["b"] ** 2 / 8, {"a": np.zeros(2), "b": 0.0}
    )


@pytest.fixture(scope="module")
def checked(model):
    return vicheck.check(vicheck.fit(model), num_draws=2000)


@pytest.fixture(scope="module")
def reference(model):
    return vicheck.reference(model, num_draws=300, num_warmup=300, num_chains=2)


def test_columns_by_quantity(reference, checked):
    columns = errors_against(reference, checked)
    assert set(columns) == {"ref_mean", "ref_sd", "marginal_khat"}
    assert set(columns["ref_mean"]) == set(checked.names) == {"a[0]", "a[1]", "b"}
    assert columns["ref_sd"]["b"] == pytest.approx(2.0, abs=0.4)
    # q is the posterior: the ratio has no tail but that of the kernel estimate.
    assert all(khat < 0.7 for khat in columns["marginal_khat"].values())


def test_without_exact_marginals_there_is_no_marginal_khat(reference, checked):
    """No Gaussian is assumed: a mixture has other marginals."""
    with double_precision():
        mixture = Mixture((checked.q, checked.q), jnp.array([0.5, 0.5]))
    columns = errors_against(reference, replace(checked, q=mixture))
    assert columns["marginal_khat"] == {}
    assert columns["ref_mean"]["b"] == errors_against(reference, checked)["ref_mean"]["b"]


def test_a_reference_of_another_model_is_refused(checked):
    other = vicheck.from_log_density(lambda x: -jnp.sum(x**2) / 2, np.zeros(2))
    known = vicheck.reference(other, num_draws=20, num_warmup=50, num_chains=2)
    assert isinstance(known, Reference)
    with pytest.raises(ValueError, match="must be of the same model, with 3 parameters, got 2"):
        errors_against(known, checked)


@pytest.mark.parametrize(("sd", "low", "high"), [(2.0, -4.0, 0.3), (0.5, 0.6, 3.0)])
def test_a_narrow_marginal_has_a_large_khat(sd, low, high):
    """For a normal of sd s under one of sd 1 the ratio has khat 1 - s^2; kernels blur it."""
    rng = np.random.default_rng(1)
    draws = sd * rng.normal(size=10_000)
    log_q = -(draws**2) / (2 * sd**2) - np.log(sd * np.sqrt(2 * np.pi))
    assert low < marginal_khat(rng.normal(size=4000), draws, log_q) < high


def test_a_reference_of_another_model_of_the_same_size_is_refused():
    def named(name):
        return vicheck.from_log_density(lambda x: -(x[name] ** 2), {name: 0.0})

    reference = vicheck.reference(named("a"), num_draws=50, num_warmup=50)
    with pytest.raises(ValueError, match=r"shares no quantity .* it has a, the draws have b"):
        vicheck.check(vicheck.fit(named("b")), num_draws=100, reference=reference)
