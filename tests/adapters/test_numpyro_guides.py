"""NumPyro guides after SVI, and VSBC of a user's own settings."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import SVI, Trace_ELBO, autoguide
from scipy import stats

import vicheck
from vicheck.adapters.numpyro.guides import rise_at_end
from vicheck.errors import ModelError
from vicheck.paper.models import (
    EIGHT_SCHOOLS,
    eight_schools_centred,
    eight_schools_noncentred,
    two_modes,
)

pytestmark = pytest.mark.usefixtures("compiled_plainly")
MODELS = {"centred": eight_schools_centred, "noncentred": eight_schools_noncentred}
ADAM = numpyro.optim.Adam(0.02)


def by_hand(sigma, y=None):
    """A guide without automatism, in another order than the model's."""
    loc = numpyro.param("loc", jnp.ones(8))
    scale = numpyro.param("scale", jnp.full(8, 2.0), constraint=dist.constraints.positive)
    numpyro.sample("theta", dist.Normal(loc, scale).to_event(1))
    log_tau = numpyro.param("log_tau", 1.0)
    numpyro.sample("tau", dist.LogNormal(log_tau, 0.4))
    numpyro.sample("mu", dist.Normal(numpyro.param("m", 3.0), 2.0))


def run(model, guide, **arguments):
    """Return parameters of a guide; that they are bad ones does not matter here."""
    svi = SVI(model, guide, ADAM, Trace_ELBO())
    return svi.get_params(svi.init(jax.random.key(1), **arguments))


def natively(model, checked, log_q_of):
    """Return khat of the same draws, with log p by vicheck's model and log q by SciPy."""
    latent = "theta" if model is eight_schools_centred else "theta_raw"
    draws = checked.draws
    z = np.column_stack([draws["mu"], np.log(draws["tau"]), draws[latent]])
    native = vicheck.from_numpyro(model, **EIGHT_SCHOOLS)
    return vicheck.psis(native.log_density(z) - log_q_of(z)).khat


@pytest.mark.parametrize("name", MODELS)
def test_a_mean_field_guide_has_the_khat_of_the_same_q(name):
    model, guide = MODELS[name], autoguide.AutoNormal(MODELS[name])
    result = run(model, guide, **EIGHT_SCHOOLS)
    checked = vicheck.check_numpyro(model, guide, result, **EIGHT_SCHOOLS, num_draws=4000)
    latent = "theta" if name == "centred" else "theta_raw"
    parts = [
        np.concatenate([np.atleast_1d(result[f"{site}_auto_{what}"]).astype(float)
                        for site in ("mu", "tau", latent)])
        for what in ("loc", "scale")
    ]  # fmt: skip
    expected = natively(model, checked, lambda z: stats.norm(*parts).logpdf(z).sum(axis=1))
    assert checked.khat == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_full_rank_guide_has_the_khat_of_the_same_q(name):
    model, guide = MODELS[name], autoguide.AutoMultivariateNormal(MODELS[name])
    result = run(model, guide, **EIGHT_SCHOOLS)
    checked = vicheck.check_numpyro(model, guide, result, **EIGHT_SCHOOLS, num_draws=4000)
    mean, chol = (np.asarray(result[f"auto_{what}"], float) for what in ("loc", "scale_tril"))
    q = stats.multivariate_normal(mean, chol @ chol.T)
    assert checked.khat == pytest.approx(natively(model, checked, q.logpdf), abs=1e-6)


def test_a_guide_by_hand_has_the_khat_of_the_same_q():
    result = run(eight_schools_centred, by_hand, **EIGHT_SCHOOLS)
    checked = vicheck.check_numpyro(
        eight_schools_centred, by_hand, result, **EIGHT_SCHOOLS, num_draws=4000
    )
    values = {name: np.asarray(value, float) for name, value in result.items()}
    mean = np.array([values["m"], values["log_tau"], *values["loc"]])
    sd = np.array([2.0, 0.4, *values["scale"]])
    expected = natively(
        eight_schools_centred, checked, lambda z: stats.norm(mean, sd).logpdf(z).sum(axis=1)
    )
    assert checked.khat == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_densities_are_on_the_unconstrained_scale_and_the_elbo_is_numpyros():
    guide = autoguide.AutoNormal(eight_schools_noncentred)
    result = run(eight_schools_noncentred, guide, **EIGHT_SCHOOLS)
    check = partial(vicheck.check_numpyro, eight_schools_noncentred, guide, result)
    checked = check(**EIGHT_SCHOOLS, num_draws=20_000)
    loss = Trace_ELBO(num_particles=20_000).loss(
        jax.random.key(3), result, eight_schools_noncentred, guide, **EIGHT_SCHOOLS
    )
    assert checked.divergences.elbo.value == pytest.approx(-float(loss), abs=0.05)
    again = check(**EIGHT_SCHOOLS, num_draws=20_000)
    np.testing.assert_array_equal(again.log_q, checked.log_q)


def test_what_svi_returns_and_quantities_of_derived_values():
    guide = autoguide.AutoNormal(eight_schools_noncentred)
    svi = SVI(eight_schools_noncentred, guide, ADAM, Trace_ELBO())
    result = svi.run(jax.random.key(1), 200, progress_bar=False, **EIGHT_SCHOOLS)
    checked = vicheck.check_numpyro(
        eight_schools_noncentred, guide, result, **EIGHT_SCHOOLS, num_draws=1000,
        quantities={"largest": lambda theta: theta["theta"].max()},
    )  # fmt: skip
    assert list(checked.moments.index) == ["largest"]
    rise, steps = rise_at_end(-np.asarray(result.losses, float))
    assert checked.convergence.elbo_rise_steps == steps
    if steps:
        assert checked.findings[0].code == "still-rising"
        assert checked.convergence.elbo_rise == rise
    assert checked.elbo_trace.tolist() == (-np.asarray(result.losses, float)).tolist()


def test_a_check_of_a_guide_knows_its_model_and_q():
    guide = autoguide.AutoNormal(eight_schools_noncentred)
    params = run(eight_schools_noncentred, guide, **EIGHT_SCHOOLS)
    check = partial(vicheck.check_numpyro, eight_schools_noncentred, guide, params)
    checked = check(**EIGHT_SCHOOLS, num_draws=500, seed=4)
    assert checked.model.coordinates[:2] == ("mu", "tau")
    more = checked.q.draws(500, seed=4)
    np.testing.assert_array_equal(more.log_q, checked.log_q)
    z = np.column_stack([more.values["mu"], np.log(more.values["tau"]), more.values["theta_raw"]])
    np.testing.assert_allclose(checked.model.log_density(z), more.log_p, rtol=1e-8)
    some = check(**EIGHT_SCHOOLS, num_draws=100, quantities=["theta[2]", "log_likelihood"])
    assert some.names == ("theta[2]", "log_likelihood")
    with_data = check(
        **EIGHT_SCHOOLS,
        num_draws=100,
        quantities={
            "y": lambda theta, data: jax.scipy.stats.norm.logpdf(
                data["y"], theta["theta"], data["sigma"]
            ).sum()
        },
    )
    np.testing.assert_allclose(with_data.draws["y"], some.draws["log_likelihood"], rtol=1e-8)


def at_one_mode():
    numpyro.sample("x", dist.Normal(numpyro.param("loc", 0.0), 0.2))


def test_modes_can_be_looked_for_beyond_a_guide():
    """khat cannot see the other mode, which has a fifth of the mass; the search can."""
    checked = vicheck.check_numpyro(two_modes, at_one_mode, {"loc": 0.0}, num_draws=2000)
    assert checked.khat < 0.5
    assert checked.verdict.level == "unreliable"
    assert checked.modes.num_others == 1
    np.testing.assert_allclose(checked.modes.z[1], [3.0], atol=0.01)
    assert checked.modes.share_of_others == pytest.approx(0.2, abs=0.02)


def misses_tau(sigma, y=None):
    numpyro.sample("mu", dist.Normal(numpyro.param("m", 3.0), 2.0))
    numpyro.sample("theta", dist.Normal(0.0, 2.0).expand([8]).to_event(1))


def draws_too_much(sigma, y=None):
    by_hand(sigma, y)
    numpyro.sample("nothing", dist.Normal(0.0, 1.0))


def in_part_a_point(sigma, y=None):
    misses_tau(sigma)
    numpyro.sample("tau", dist.Delta(3.0))


def with_auxiliary_noise(sigma, y=None):
    noise = numpyro.sample("noise", dist.Normal(0.0, 1.0), infer={"is_auxiliary": True})
    misses_tau(sigma)
    numpyro.sample("tau", dist.LogNormal(noise, 1.0))


def of_another_shape(sigma, y=None):
    numpyro.sample("mu", dist.Normal(0.0, 2.0))
    numpyro.sample("theta", dist.Normal(jnp.zeros((8, 1)), 1.0).to_event(2))
    numpyro.sample("tau", dist.LogNormal(0.0, 1.0))


@pytest.mark.parametrize(
    ("guide", "message"),
    [
        (misses_tau, "does not cover the latent site 'tau' of the model; it has: mu, theta"),
        (draws_too_much, "draws a site 'nothing' that the model does not have"),
        (
            autoguide.AutoDelta(eight_schools_centred),
            "is a point, which has no density, so there is nothing to check",
        ),
        (in_part_a_point, r"9 random numbers for 10 parameters: it is a point .* \(of tau\)"),
        (with_auxiliary_noise, r"an integral over auxiliary numbers \(noise\)"),
        (of_another_shape, r"draw site 'theta' with shape \(8,\), as the model does, got \(8, 1\)"),
    ],
)
def test_guides_that_cannot_be_checked(guide, message):
    svi = SVI(
        eight_schools_centred, autoguide.AutoNormal(eight_schools_centred), ADAM, Trace_ELBO()
    )
    params = svi.get_params(svi.init(jax.random.key(0), **EIGHT_SCHOOLS)) | {
        "m": 0.0, "loc": np.zeros(8), "scale": np.ones(8), "log_tau": 0.0,
    }  # fmt: skip
    with pytest.raises(ModelError, match=message):
        vicheck.check_numpyro(eight_schools_centred, guide, params, **EIGHT_SCHOOLS)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({}, ModelError, "params lacks loc, scale, log_tau, m, which the guide needs"),
        (3, TypeError, "params must be the dictionary that svi.get_params returns"),
    ],
)
def test_parameters_that_do_not_fit(params, error, message):
    with pytest.raises(error, match=message):
        vicheck.check_numpyro(eight_schools_centred, by_hand, params, **EIGHT_SCHOOLS)


COUNTS = np.array([50, 20, 0, 0, 0, 0, 0, 0, 0, 0])


def shares(counts):
    p = numpyro.sample("p", dist.Dirichlet(jnp.full(10, 0.1)))
    numpyro.sample("counts", dist.Multinomial(70, p), obs=counts)


def exact_shares(counts):
    numpyro.sample("p", dist.Dirichlet(0.1 + counts))


@pytest.mark.slow
def test_values_at_the_edge_of_a_simplex_keep_their_digits():
    checked = vicheck.check_numpyro(shares, exact_shares, {}, COUNTS, num_draws=4000)
    assert checked.log_ratios.std() < 1e-9


def named_otherwise(numbers):
    exact_shares(numbers)


def test_arguments_by_position_may_have_other_names_in_the_guide():
    checked = vicheck.check_numpyro(shares, named_otherwise, {}, COUNTS, num_draws=500)
    assert checked.log_ratios.std() < 1e-9


SCALE = 1.0


def scaled():
    numpyro.sample("x", dist.Normal(0.0, SCALE))


def unscaled():
    numpyro.sample("x", dist.Normal(0.0, 1.0))


def test_what_has_changed_outside_of_the_model_is_seen(monkeypatch):
    assert vicheck.check_numpyro(scaled, unscaled, {}, num_draws=500).khat == 0.0
    monkeypatch.setattr(f"{__name__}.SCALE", 2.0)
    assert vicheck.check_numpyro(scaled, unscaled, {}, num_draws=500).khat != 0.0


class Doubled(dist.transforms.Transform):
    """A transform that cannot be inverted, as those of some flows."""

    domain = codomain = dist.constraints.real

    def __call__(self, x):
        return 2.0 * x

    def _inverse(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        return jnp.full(jnp.shape(x), jnp.log(2.0))

    def tree_flatten(self):
        return (), ((), {})


def without_inverse():
    numpyro.sample("x", dist.TransformedDistribution(dist.Normal(0.0, 0.5), Doubled()))


def test_a_flow_without_an_inverse():
    checked = vicheck.check_numpyro(scaled, without_inverse, {}, num_draws=1000)
    np.testing.assert_allclose(checked.log_ratios, 0.0, atol=1e-12)


def test_the_number_of_draws_is_checked():
    with pytest.raises(ValueError, match="num_draws must be a positive integer, got 0"):
        vicheck.check_numpyro(scaled, unscaled, {}, num_draws=0)


def test_arguments_that_do_not_fit():
    with pytest.raises(ModelError, match=r"arguments do not fit the model: missing .* 'counts'"):
        vicheck.check_numpyro(shares, exact_shares, {})


def in_parts(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    noise = numpyro.param("noise", 0.5, constraint=dist.constraints.positive)
    with numpyro.plate("data", 100, subsample_size=10):
        rows = numpyro.subsample(x, event_dim=0)
        numpyro.sample("y", dist.Normal(slope * rows, noise), obs=numpyro.subsample(y, event_dim=0))


def in_full(x, noise, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(slope * x, noise).to_event(1), obs=y)


@pytest.mark.slow
def test_minibatches_see_all_data_and_parameters_of_the_model_are_fixed():
    x = np.linspace(-1.0, 1.0, 100)
    y = 0.7 * x + 0.3 * np.random.default_rng(0).normal(size=100)
    guide = autoguide.AutoNormal(in_parts)
    result = run(in_parts, guide, x=x, y=y)
    checked = vicheck.check_numpyro(in_parts, guide, result, x=x, y=y, num_draws=500)
    noise = float(result["noise"])
    native = vicheck.from_numpyro(in_full, x, noise, y=y)
    expected = native.log_density(checked.draws["slope"][:, None])
    np.testing.assert_allclose(checked.log_p, expected, rtol=1e-6)


def test_a_rising_elbo_is_measured():
    noise = np.random.default_rng(0).normal(size=1000)
    assert rise_at_end(noise)[1] == 0
    assert rise_at_end(np.empty(0))[1] == 0
    rise, steps = rise_at_end(noise / 9 + 0.05 * np.arange(1000))
    assert rise == pytest.approx(5.0, abs=0.3)
    assert steps == 100
    assert rise_at_end(np.append(noise, np.nan))[1] == 0


def normal(x):
    """A posterior that mean field fits exactly: independent normals."""
    with numpyro.plate("three", 3):
        numpyro.sample("z", dist.Normal(x, 2.0))
    numpyro.sample("s", dist.LogNormal(0.0, 0.5))


EXACT = {
    "z_auto_loc": np.array([1.0, 2.0, 3.0]),
    "z_auto_scale": np.full(3, 2.0),
    "s_auto_loc": 0.0,
    "s_auto_scale": 0.5,
}


@pytest.mark.parametrize(
    ("changed", "distance", "code"),
    [
        ({}, 0.0, "converged"),
        ({"z_auto_loc": np.array([1.0, 2.1, 3.0])}, 0.05, "converged"),
        ({"z_auto_loc": np.array([1.0, 3.0, 3.0])}, 0.5, "gradient-not-zero"),
        ({"s_auto_scale": 0.25}, 0.75, "gradient-not-zero"),
    ],
)
def test_the_gradient_of_a_guide_says_how_far_it_is_from_its_optimum(changed, distance, code):
    guide, x = autoguide.AutoNormal(normal), np.array([1.0, 2.0, 3.0])
    checked = vicheck.check_numpyro(normal, guide, EXACT | changed, x, num_draws=1000)
    test = checked.convergence.gradient
    # In sds of q: a mean one half too high has gradient -1/2; the log of a scale s has 1 - s^2.
    assert test.size == pytest.approx(distance, abs=0.15)
    assert code in {finding.code for finding in checked.findings}
    assert str(checked.verdict.converged) == ("yes" if code == "converged" else "no")
    if changed and code != "converged":
        assert test.worst.startswith(next(iter(changed)))


def test_a_fit_that_ended_early_is_told_from_a_family_that_is_too_poor():
    guide = autoguide.AutoNormal(eight_schools_centred)
    early = run(eight_schools_centred, guide, **EIGHT_SCHOOLS)
    checked = vicheck.check_numpyro(
        eight_schools_centred, guide, early, **EIGHT_SCHOOLS, num_draws=2000
    )
    assert "gradient-not-zero" in {finding.code for finding in checked.findings}
    assert "run SVI longer" in checked.verdict.hint


def test_laplace_is_the_normal_at_the_mode():
    guide, x = autoguide.AutoLaplaceApproximation(normal), np.array([1.0, 2.0, 3.0])
    run(normal, guide, x=x)
    mode = {"auto_loc": np.array([1.0, 2.0, 3.0, 0.0])}
    checked = vicheck.check_numpyro(normal, guide, mode, x, num_draws=1000)
    assert checked.khat < 0.1
    assert checked.convergence is None
    assert "AutoLaplaceApproximation" in checked.title
    np.testing.assert_allclose(checked.draws["z"].std(axis=0), 2.0, rtol=0.1)


def test_arguments_may_be_tuples_of_arrays():
    def line(data, y=None):
        x, offset = data
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(slope * x + offset, 1.0), obs=y)

    rng = np.random.default_rng(0)
    data, y = (rng.normal(size=10), rng.normal(size=(10,))), rng.normal(size=10)
    guide = autoguide.AutoNormal(line)
    params = run(line, guide, data=data, y=y)
    checked = vicheck.check_numpyro(line, guide, params, data, y=y, num_draws=500)
    native = vicheck.from_numpyro(line, data, y=y)
    expected = native.log_density(checked.draws["slope"][:, None])
    np.testing.assert_allclose(checked.log_p, expected, rtol=1e-6)


def calibrate(steps, **options):
    return vicheck.vsbc_numpyro(
        eight_schools_centred,
        autoguide.AutoNormal(eight_schools_centred),
        numpyro.optim.Adam(0.02),
        steps,
        sigma=EIGHT_SCHOOLS["sigma"],
        num_datasets=40,
        quantities=["tau"],
        progress=False,
        **options,
    )


@pytest.mark.slow
def test_stopping_early_turns_the_finding_round_and_is_noticed(tmp_path):
    early, late = calibrate(500, store=tmp_path), calibrate(12_000)
    assert early.tests.loc["tau", "direction"] == "under"
    assert early.verdict.level == "none"
    assert (early.status == "MAX_ITERATIONS").mean() > 0.7
    assert late.tests.loc["tau", "direction"] == "over"
    assert (late.status == "CONVERGED").mean() > 0.8
    assert np.isfinite(late.khat).all()
    again = calibrate(500, store=tmp_path)
    np.testing.assert_array_equal(early.probabilities, again.probabilities)


def test_the_number_of_steps_is_checked():
    with pytest.raises(ValueError, match="num_steps must be a positive integer, got 0"):
        calibrate(0)


def test_the_shortest_run_has_not_converged():
    found = vicheck.vsbc_numpyro(
        eight_schools_centred, autoguide.AutoNormal(eight_schools_centred), ADAM, 1,
        sigma=EIGHT_SCHOOLS["sigma"], num_datasets=8, quantities=["tau"], progress=False,
    )  # fmt: skip
    assert (found.status == "MAX_ITERATIONS").mean() > 0.5


@pytest.mark.parametrize("name", ["model", "guide"])
def test_what_is_no_function_is_named(name):
    functions = {"model": lambda: None, "guide": lambda: None} | {name: 3}
    with pytest.raises(TypeError, match=f"{name} must be a function, got int"):
        vicheck.check_numpyro(**functions, params={})
