"""What a run of `vsbc` computes, against answers that are known or computed by hand.

Statistical tests have fixed seeds and allow four standard errors, or a p-value of 1e-3.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import kstest, norm

import vicheck
from tests.calibration.problems import (
    X,
    pair_model,
    pair_posterior,
    saved,
)
from vicheck.calibration.run import vsbc
from vicheck.paper import models
from vicheck.runtime.compiling import num_compiled

CHUNK = 25
"""Datasets in a chunk: code is compiled for each length."""


def refit(calibration, model, row):
    """Simulate and fit a dataset again by what the calibration says of it."""
    seed = int(calibration.data["seed"][row])
    truth, data = model.simulate(seed)
    settings = calibration.settings
    return (
        truth,
        data,
        vicheck.fit(
            model,
            data,
            family=settings.family,
            solver=settings.solver,
            seed=seed,
            **settings.options,
        ),
    )


def schools(function):
    return vicheck.from_numpyro(function, sigma=models.EIGHT_SCHOOLS["sigma"])


@pytest.fixture(scope="module")
def centred():
    return vsbc(schools(models.eight_schools_centred), num_datasets=1000)


@pytest.fixture(scope="module")
def noncentred():
    return vsbc(
        schools(models.eight_schools_noncentred),
        num_datasets=1000,
        quantities=["tau", "theta", "log_likelihood"],
    )


@pytest.fixture(scope="module")
def mean_field():
    return vsbc(pair_model(), num_datasets=400, chunk_size=CHUNK)


@pytest.fixture(scope="module")
def full_rank():
    return vsbc(pair_model(), num_datasets=400, chunk_size=CHUNK, family="full_rank")


# ---- eight schools: what the paper shows, with fits that have converged ----


def test_centred_eight_schools_over_estimate_tau(centred):
    tau = centred.tests.loc["tau"]
    assert tau["direction"] == "over"
    assert tau["p_adjusted"] < 1e-6
    assert tau["bias"] > 0.0
    # 0.2540 over 20,000 datasets; a mean over 1000 has a standard error of 0.011
    mean = float(centred.probabilities.sel(quantity="tau").mean())
    assert mean == pytest.approx(0.254, abs=0.044)
    assert "q over-estimates tau" in str(centred.verdict)


def test_noncentred_eight_schools_under_estimate_tau(noncentred):
    tau = noncentred.tests.loc["tau"]
    assert tau["direction"] == "under"
    assert tau["p_adjusted"] < 1e-3
    assert tau["bias"] < 0.0
    # 0.5539 over 20,000 datasets
    mean = float(noncentred.probabilities.sel(quantity="tau").mean())
    assert mean == pytest.approx(0.554, abs=0.044)
    # Its mean on the log scale is nearly right; but it is too narrow as well, so that is no excuse.
    assert tau["mean_bias"] > -0.1
    assert "q under-estimates tau" in str(noncentred.verdict)


@pytest.mark.parametrize("which", ["centred", "noncentred"])
def test_eight_schools_are_right_about_theta_1_and_fits_converge(which, request):
    calibration = request.getfixturevalue(which)
    assert calibration.tests.loc["theta[0]", "direction"] == "none"
    assert calibration.tests.loc["theta[0]", "p_value"] > 0.05
    assert float(calibration.converged.mean()) > 0.99


@pytest.mark.parametrize("which", ["centred", "noncentred"])
def test_every_dataset_can_be_fitted_again_by_its_seed(which):
    """Simulated, fitted and compared by hand: the same probabilities up to the tolerance.

    On one number of draws with exact moments an optimum does not depend on the way to it, which
    differs: a batch is optimised by other code than a single fit.
    """
    model = schools(getattr(models, f"eight_schools_{which}"))
    exactly = {"num_draws": 256, "max_draws": 256, "sampling_tolerance": 10.0, "tolerance": 1e-6}
    calibration = vsbc(model, num_datasets=64, chunk_size=64, **exactly)
    exact = [name for name in calibration.quantities if name in model.coordinates]
    where = [model.coordinates.index(name) for name in exact]
    assert "tau" in exact
    for row in (0, 1, 57, 63):
        truth, _, fit = refit(calibration, model, row)
        by_hand = norm.cdf(truth, fit.mean, fit.sd)[where]
        np.testing.assert_allclose(
            calibration.probabilities.sel(quantity=exact)[row], by_hand, rtol=1e-4
        )
        assert fit.status.name == calibration.status[row]


def test_quantities_without_a_distribution_function_are_ranked_among_draws(noncentred):
    """By hand with 20,000 other draws; p from 1000 has a standard error of at most 0.016."""
    model = schools(models.eight_schools_noncentred)
    sigma = models.EIGHT_SCHOOLS["sigma"]
    for row in (0, 57):
        truth, data, fit = refit(noncentred, model, row)
        draws = fit.sample(20_000, seed=1)["theta"]
        true = fit.model.constrain(truth)["theta"]
        below = [np.mean(draws[:, 3] < true[3])]
        density = norm.logpdf(data["y"], draws, sigma).sum(axis=1)
        below.append(np.mean(density < norm.logpdf(data["y"], true, sigma).sum()))
        found = noncentred.probabilities.sel(quantity=["theta[3]", "log_likelihood"])[row]
        np.testing.assert_allclose(found, below, atol=0.07)


# ---- a normal posterior: everything is known ----


def test_a_family_that_holds_the_posterior_is_exact(full_rank):
    """Probabilities are uniform, the divergence is zero and khat low; the verdict says so."""
    for name in full_rank.quantities:
        p = full_rank.probabilities.sel(quantity=name).to_numpy()
        assert kstest(p, "uniform").pvalue > 1e-3, name
    assert full_rank.uniformity()["inside"].all()
    assert (full_rank.tests["direction"] == "none").all()
    assert full_rank.symmetric_kl.mean == pytest.approx(0.0, abs=1e-3)
    assert full_rank.khat_summary.share_above == 0.0
    assert full_rank.verdict.level == "good"


def test_probabilities_are_those_of_the_exact_posterior(full_rank):
    model = pair_model()
    for row in (0, 26, 399):
        truth, data = model.simulate(int(full_rank.data["seed"][row]))
        mean, covariance = pair_posterior(data["y"])
        exact = norm.cdf(truth, mean, np.sqrt(np.diagonal(covariance)))
        found = full_rank.probabilities.sel(quantity=["b[0]", "b[1]"])[row]
        np.testing.assert_allclose(found, exact, atol=1e-3)


def test_mean_field_is_too_narrow_for_a_correlated_posterior_but_not_biased(mean_field):
    _, covariance = pair_posterior(np.zeros(3))
    ratio = np.sqrt(np.diagonal(np.linalg.inv(covariance)) * np.diagonal(covariance))
    assert (ratio > 1.4).all()
    for name, stretch in zip(("b[0]", "b[1]"), ratio, strict=True):
        row = mean_field.tests.loc[name]
        assert row["direction"] == "none"
        assert row["dispersion"] == pytest.approx(stretch, rel=0.2)
        assert row["dispersion_p_adjusted"] < 1e-3
        p = mean_field.probabilities.sel(quantity=name).to_numpy()
        assert kstest(norm.ppf(p) / stretch, "norm").pvalue > 1e-3
    assert "too narrow for b[" in str(mean_field)


def test_the_symmetric_divergence_is_the_closed_form(mean_field):
    """For normals with the same mean and q's variances 1 / Lambda_ii it is known (Domke 2021)."""
    _, covariance = pair_posterior(np.zeros(3))
    precision = np.linalg.inv(covariance)
    expected = 0.5 * (np.diagonal(precision) @ np.diagonal(covariance) - 2.0)
    found = mean_field.symmetric_kl
    assert abs(found.mean - expected) < found.high - found.low  # four standard errors
    assert found.high - found.low < 0.5 * expected
    assert found.num_used == 400


@pytest.mark.slow
@pytest.mark.parametrize("family", [("low_rank", 1), ("full_rank", None)])
def test_richer_families(family, full_rank):
    """A diagonal and one direction hold any covariance of two parameters."""
    name, rank = family
    found = vsbc(pair_model(), num_datasets=CHUNK, chunk_size=CHUNK, family=name, rank=rank, seed=0)
    assert found.converged.all()
    exact = full_rank.probabilities[:CHUNK].sel(quantity=["b[0]", "b[1]"])
    np.testing.assert_allclose(found.probabilities.sel(quantity=["b[0]", "b[1]"]), exact, atol=0.02)
    assert found.settings.family == name
    assert name in found.title


# ---- runs ----


def run(model=None, **options):
    """Run on few datasets, with code that is compiled already."""
    settings = {"num_datasets": CHUNK, "chunk_size": CHUNK, "progress": False}
    return vsbc(model or pair_model(), **settings | options)


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path):
    one, two, other = run(seed=3), run(seed=3), run(seed=4)
    assert saved(one, tmp_path / "one") == saved(two, tmp_path / "two")
    assert not np.isin(one.data["seed"], other.data["seed"]).any()
    assert not np.isin(one.probabilities, other.probabilities).any()


def test_a_longer_run_begins_like_a_shorter_one(mean_field):
    shorter = run(num_datasets=40)
    for name in ("seed", "probability", "khat", "symmetric_kl"):
        np.testing.assert_array_equal(shorter.data[name], mean_field.data[name][:40])


def test_observed_data_make_no_difference(tmp_path):
    """What is observed is simulated, so it may be there or missing."""
    with_data = run(pair_model(y=np.array([100.0, -100.0, 3.0])))
    assert saved(with_data, tmp_path / "one") == saved(run(), tmp_path / "two")


def test_covariates_stay_as_they_are():
    seen = []

    def look(data, seed):
        seen.append(data)
        return {"b": np.zeros((1, 2))}

    run(fit=look, quantities=["b"], num_datasets=3)
    assert all(np.array_equal(data["x"], X) for data in seen)
    assert not np.array_equal(seen[0]["y"], seen[1]["y"])


def test_the_callers_precision_is_left_alone():
    run()
    assert jnp.ones(1).dtype == jnp.float32


def test_progress_is_told_to_the_end():
    heard = []
    run(num_datasets=70, progress=lambda *now: heard.append(now))
    done, total, seconds = map(list, zip(*heard, strict=True))
    assert sorted(np.diff([0, *done])) == [20, CHUNK, CHUNK]
    assert done[-1] == 70
    assert set(total) == {70}
    assert seconds == sorted(seconds)


def test_one_dataset():
    calibration = vsbc(pair_model(), num_datasets=1)
    assert calibration.probabilities.shape == (1, 3)
    assert np.isfinite(calibration.probabilities).all()
    assert calibration.verdict.level == "none"
    assert "No verdict: 1 dataset has" in str(calibration.verdict)


def test_one_draw_is_too_few_for_khat_but_gives_probabilities():
    calibration = run(num_draws=1)
    assert np.isnan(calibration.khat).all()
    likelihood = calibration.probabilities.sel(quantity="log_likelihood")
    assert ((likelihood > 0.0) & (likelihood < 1.0)).all()
    assert calibration.khat_summary.num_undefined == CHUNK


# ---- fits that do not come off ----


@pytest.mark.slow
def test_fits_that_do_not_converge_are_counted_and_listed_with_their_seeds():
    """No gradient is so small."""
    calibration = run(tolerance=1e-300, sampling_tolerance=1e-300)
    assert set(calibration.status.to_numpy()) == {"STALLED"}
    assert calibration.verdict.level == "none"
    assert "25 of 25 fits" in str(calibration.verdict)
    assert calibration.failures["seed"].tolist() == calibration.data["seed"].to_numpy().tolist()
    assert calibration.failures["message"].str.contains("no step improves the fit").all()
    assert refit(calibration, pair_model(), 3)[2].status.name == "STALLED"


def overflowing(y=None):
    """Data whose logarithm is normal with sd 400: some are infinite and some are zero."""
    theta = numpyro.sample("theta", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.LogNormal(400.0 * theta, 400.0), obs=y)


def assert_that_only_impossible_data_failed(found, model):
    data = np.array([model.simulate(int(seed))[1]["y"] for seed in found.data["seed"]])
    bad = np.isinf(data) | (data == 0.0)
    assert np.isinf(data).any()
    assert (data == 0.0).any()
    assert bad.sum() < 20
    np.testing.assert_array_equal(~found.converged, bad)
    np.testing.assert_array_equal(np.isnan(found.probabilities).all("quantity"), bad)
    np.testing.assert_array_equal(np.isnan(found.khat), bad)
    assert found.failures["dataset"].tolist() == np.flatnonzero(bad).tolist()
    assert (found.failures["message"] != "").all()
    assert found.tests["num_datasets"].tolist() == [40 - bad.sum()] * 2
    assert found.verdict.level == "none"


@pytest.mark.slow
def test_data_without_a_finite_density_are_the_trouble_of_their_own_fits():
    model = vicheck.from_numpyro(overflowing)
    found = vsbc(model, num_datasets=40, chunk_size=40)
    assert_that_only_impossible_data_failed(found, model)


@pytest.mark.slow
def test_a_fit_at_a_time_is_compiled_before_its_time_is_taken(monkeypatch):
    """The same data one by one; nothing is compiled while a fit runs."""

    def noting(*args, **options):
        before = num_compiled()
        fit = vicheck.fit(*args, **options)
        compiled.append(num_compiled() - before)
        return fit

    compiled = []
    monkeypatch.setattr("vicheck.calibration.work.fit", noting)
    model = vicheck.from_numpyro(overflowing)
    found = vsbc(model, num_datasets=40, chunk_size=40, time_limit=600.0)
    assert_that_only_impossible_data_failed(found, model)
    assert len(compiled) > 20
    assert not any(compiled)


def refusing(y=None):
    """Compute a part of the density outside JAX, where some data raise."""
    theta = numpyro.sample("theta", dist.Normal(0.0, 1.0))
    value = numpyro.sample("y", dist.Normal(theta, 1.0), obs=y)
    # An integer, because callbacks run in threads that know nothing of float64.
    zero = jax.ShapeDtypeStruct((), jnp.int32)
    seen = jax.pure_callback(_refuse, zero, value, vmap_method="sequential")
    numpyro.factor("nothing", 0.0 * seen)


def _refuse(value):
    if value > 1.0:
        raise RuntimeError("no density beyond 1")
    return np.zeros((), np.int32)


@pytest.mark.slow
def test_a_model_that_raises_on_some_data_fails_there_alone():
    model = vicheck.from_numpyro(refusing)
    found = vsbc(model, num_datasets=20, chunk_size=20, quantities=["theta"])
    data = np.array([model.simulate(int(seed))[1]["y"] for seed in found.data["seed"]])
    np.testing.assert_array_equal(found.status == "FAILED", data > 1.0)
    np.testing.assert_array_equal(found.converged, data <= 1.0)
    assert 0 < len(found.failures) < 20
    assert found.failures["message"].str.contains("no density beyond 1").all()


# ---- other solvers ----


@pytest.mark.slow
def test_stan_advi_one_by_one():
    """It stops early, so that its statuses and probabilities are its own."""
    found = run(solver="stan_advi", num_datasets=5, iter=200)
    assert set(found.status.to_numpy()) == {"MAX_ITERATIONS"}
    assert np.isfinite(found.probabilities).all()
    assert np.isfinite(found.khat).all()
    assert found.settings.solver == "stan_advi"
    truth, _, fit = refit(found, pair_model(), 2)
    np.testing.assert_allclose(
        found.probabilities[2, :2], norm.cdf(truth, fit.mean, fit.sd), rtol=1e-6
    )


def test_stochastic_fits_agree_with_deterministic_ones(mean_field):
    found = run(solver="stochastic", num_datasets=5)
    assert found.converged.all()
    both = found.probabilities[:, :2].to_numpy(), mean_field.probabilities[:5, :2].to_numpy()
    np.testing.assert_allclose(*both, atol=0.05)


def test_a_time_limit_that_is_kept_changes_nothing_but_the_way(mean_field):
    found = run(num_datasets=5, time_limit=600.0)
    assert found.converged.all()
    np.testing.assert_allclose(found.probabilities, mean_field.probabilities[:5], rtol=1e-6)


# ---- what is refused ----


def improper(y=None):
    slope = numpyro.sample("slope", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.sample("y", dist.Normal(slope, 1.0), obs=y)


def test_a_flat_prior_cannot_be_drawn_from_and_its_site_is_named():
    with pytest.raises(vicheck.ModelError, match="site 'slope' has a flat prior"):
        vsbc(vicheck.from_numpyro(improper))


def test_a_bare_density_simulates_nothing():
    model = vicheck.from_log_density(lambda x: -jnp.sum(x**2), np.zeros(2))
    with pytest.raises(vicheck.ModelError, match="cannot simulate data: it is a bare log density"):
        vsbc(model)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_datasets": 0}, ValueError, "num_datasets must be an integer from 1 on, got 0"),
        ({"num_datasets": 1.5}, ValueError, "num_datasets must be an integer from 1 on, got 1.5"),
        ({"num_datasets": True}, ValueError, "num_datasets must be an integer"),
        ({"num_draws": 0}, ValueError, "num_draws must be an integer from 1 on, got 0"),
        ({"chunk_size": 0}, ValueError, "chunk_size must be an integer from 1 on, got 0"),
        ({"seed": -1}, ValueError, "seed must be an integer from 0 on or a JAX key, got -1"),
        ({"time_limit": 0.0}, ValueError, "time_limit must be a positive number of seconds"),
        ({"time_limit": np.nan}, ValueError, "time_limit must be a positive number of seconds"),
        ({"family": "student"}, ValueError, "family must be one of mean_field, full_rank"),
        ({"family": "low_rank", "rank": 9}, ValueError, "rank must lie between 1 and the 2"),
        ({"solver": "adam"}, ValueError, "solver must be one of deterministic"),
        ({"num_steps": 5}, TypeError, "num_steps.*deterministic.*are: tolerance"),
        ({"max_draws": 33}, ValueError, "max_draws must be a power of 2 from 32 on, got 33"),
        ({"fit": "advi"}, TypeError, "fit must be a function of data and seed, got str"),
        ({"fit": print, "tolerance": 1.0}, TypeError, "got both fit and tolerance, which"),
        ({"fit": print, "family": "mean_field"}, TypeError, "got both fit and family, which"),
        ({"fit": print, "solver": "deterministic"}, TypeError, "got both fit and solver, which"),
        ({"fit": print, "rank": 2}, TypeError, "got both fit and rank, which"),
        ({"executor": "dask"}, TypeError, "executor must be an Executor .*got str"),
    ],
)  # fmt: skip
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        vsbc(pair_model(), **options)


def test_what_is_not_a_model_is_refused():
    with pytest.raises(TypeError, match="model must be a vicheck Model, got function"):
        vsbc(models.eight_schools_centred)
