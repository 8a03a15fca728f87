"""The column of sds by linear response: when a check has it, and that it is what a fit says."""

import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred


@pytest.fixture(scope="module")
def fitted():
    model = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
    return vicheck.fit(model, num_starts=1)


def test_the_column_is_what_the_fit_says(fitted, tmp_path):
    checked = vicheck.check(fitted, num_draws=2000, chains=False)
    column = checked.moments["lr_sd"]
    assert (column == fitted.linear_response().sd).all()
    checked.save(tmp_path / "check.npz")
    assert (vicheck.check(tmp_path / "check.npz").moments["lr_sd"] == column).all()


def test_it_is_of_the_quantities_that_were_asked_for(fitted):
    functions = {"double": lambda theta: 2.0 * theta["mu"]}
    moments = vicheck.check(fitted, num_draws=2000, quantities=functions, chains=False).moments
    mu = fitted.linear_response(["mu"]).sd["mu"]
    assert moments.loc["double", "lr_sd"] == pytest.approx(2.0 * mu)


@pytest.mark.slow
def test_a_reference_keeps_it(fitted):
    reference = vicheck.reference(fitted.model, num_warmup=200, num_draws=200)
    checked = vicheck.check(fitted, num_draws=2000, reference=reference, chains=False)
    assert {"lr_sd", "ref_sd"} <= set(checked.moments.columns)


@pytest.mark.parametrize(("dim", "has_column"), [(32, True), (33, False)])
def test_there_are_at_most_32_parameters(dim, has_column):
    model = vicheck.from_log_density(lambda x: -jnp.sum(x**2) / 2, np.zeros(dim))
    fit = vicheck.fit(model, num_starts=1)
    moments = vicheck.check(fit, num_draws=1000, chains=False).moments
    assert ("lr_sd" in moments) == has_column


def test_other_families_do_without(fitted):
    full = vicheck.fit(fitted.model, family="full_rank", num_starts=1)
    assert "lr_sd" not in vicheck.check(full, num_draws=1000, chains=False).moments


def test_a_fit_that_is_no_optimum_has_nan(fitted):
    early = vicheck.fit(fitted.model, solver="stochastic", num_steps=20, num_starts=1)
    checked = vicheck.check(early, num_draws=1000, chains=False)
    assert checked.convergence.gradient.p_value < 0.01
    assert checked.moments["lr_sd"].isna().all()
