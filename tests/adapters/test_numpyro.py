from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints
from numpyro.infer.util import potential_energy
from scipy import stats
from scipy.special import expit, logsumexp

from vicheck.adapters.numpyro.models import from_numpyro
from vicheck.errors import ModelError
from vicheck.model import Model, double_precision, unravel
from vicheck.paper import models
from vicheck.runtime.compiling import num_compiled

# Without optimisation: that takes longer than the computation.
compiled = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})

SIGMA, Y = models.EIGHT_SCHOOLS["sigma"], models.EIGHT_SCHOOLS["y"]
DESIGN = np.random.default_rng(1).normal(size=(20, 2))


def constrained(y=None):
    numpyro.sample("simplex", dist.Dirichlet(jnp.ones(3)))
    numpyro.sample("positive", dist.HalfNormal(2.0).expand([2]).to_event(1))
    numpyro.sample("unit", dist.Beta(2.0, 3.0))
    base = dist.Normal(0.0, 1.0).expand([3]).to_event(1)
    numpyro.sample(
        "ordered", dist.TransformedDistribution(base, dist.transforms.OrderedTransform())
    )
    chol = numpyro.sample("chol", dist.LKJCholesky(3, 1.0))
    numpyro.deterministic("corr", chol @ chol.T)
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(3), scale_tril=chol), obs=y)


def regression(X, y=None, size=None):  # noqa: N803
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    with numpyro.plate("rows", len(X), subsample_size=size):
        rows = numpyro.subsample(X, event_dim=1)
        target = None if y is None else numpyro.subsample(y, event_dim=0)
        numpyro.sample("y", dist.Normal(rows @ w, 0.5), obs=target)


def scale_of_data(y=None):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Uniform(0.0, scale).expand([2]), obs=y)


def other_site(counts=None):
    p = numpyro.sample("p", dist.Uniform(0.0, 1.0))
    numpyro.sample("k", dist.Bernoulli(p).expand([4]), obs=counts)


@pytest.fixture
def schools():
    return from_numpyro(models.eight_schools_centred, SIGMA, Y)


# ---- log density


def test_centred_schools_against_scipy(schools, rng):
    assert schools.coordinates == ("mu", "tau", *(f"theta[{i}]" for i in range(8)))
    for z in rng.normal(size=(5, 10)):
        mu, log_tau, theta = z[0], z[1], z[2:]
        tau = np.exp(log_tau)
        expected = (
            stats.norm.logpdf(mu, 0.0, 5.0)
            + stats.halfcauchy.logpdf(tau, scale=5.0)
            + log_tau  # the Jacobian
            + stats.norm.logpdf(theta, mu, tau).sum()
            + stats.norm.logpdf(Y, theta, SIGMA).sum()
        )
        assert schools.log_density(z) == pytest.approx(expected, rel=1e-13)


def test_noncentred_schools_against_scipy(rng):
    model = from_numpyro(models.eight_schools_noncentred, SIGMA, y=Y, mu_scale=50.0)
    for z in rng.normal(size=(5, 10)):
        mu, log_tau, raw = z[0], z[1], z[2:]
        tau = np.exp(log_tau)
        expected = (
            stats.norm.logpdf(mu, 0.0, 50.0)
            + stats.halfcauchy.logpdf(tau, scale=5.0)
            + log_tau
            + stats.norm.logpdf(raw).sum()
            + stats.norm.logpdf(Y, mu + tau * raw, SIGMA).sum()
        )
        assert model.log_density(z) == pytest.approx(expected, rel=1e-13)


def test_linear_against_scipy(rng):
    y = rng.normal(size=20)
    model = from_numpyro(models.linear, DESIGN, y)
    z = np.array([0.3, -1.0, 0.2])
    sigma = np.exp(0.2)
    expected = (
        stats.norm.logpdf(z[:2]).sum()
        + stats.gamma.logpdf(sigma, 0.5, scale=2.0)
        + 0.2
        + stats.norm.logpdf(y, DESIGN @ z[:2], sigma).sum()
    )
    assert model.log_density(z) == pytest.approx(expected, rel=1e-13)


def test_flat_prior_of_logistic_regression(rng):
    y = rng.integers(0, 2, size=20)
    model = from_numpyro(models.logistic, DESIGN, y)
    z = np.array([0.5, -2.0])
    p = expit(DESIGN @ z)
    assert model.log_density(z) == pytest.approx(stats.bernoulli.logpmf(y, p).sum(), rel=1e-12)


def test_two_modes_against_scipy():
    model = from_numpyro(models.two_modes)
    parts = stats.norm.logpdf([[1.4], [0.1]], [0.0, 3.0], 0.2)
    expected = logsumexp(parts, b=[0.8, 0.2], axis=1)
    np.testing.assert_allclose(model.log_density([[1.4], [0.1]]), expected, rtol=1e-12)


CASES = {
    "constrained": (constrained, {"y": np.array([0.1, -0.2, 0.3])}),
    "horseshoe": (models.horseshoe_logistic, {"X": DESIGN, "y": np.arange(20) % 2}),
    "linear": (models.linear, {"X": DESIGN, "y": np.ones(20)}),
    "other site": (other_site, {"counts": np.array([0, 1, 1, 0])}),
}


@pytest.mark.parametrize("case", CASES)
def test_log_density_equals_numpyros_own(case, rng):
    function, data = CASES[case]
    model = from_numpyro(function, **data)
    z = rng.normal(size=(3, model.dim))

    def energy(z):
        return potential_energy(function, (), data, unravel(z, model.program.layout))

    with double_precision():
        energies = np.asarray(compiled(jax.vmap(energy))(z))
    np.testing.assert_allclose(model.log_density(z), -energies, rtol=1e-12)


def sums_to_one(y=None, counts=None):
    shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(3)))
    upper = numpyro.sample("upper", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Uniform(0.0, upper).expand([2]).to_event(1), obs=y)
    numpyro.sample("counts", dist.Multinomial(4, shares), obs=counts)


@pytest.mark.parametrize(
    ("y", "counts", "inside"),
    [
        ([0.1, 0.2], [1, 1, 2], True),
        ([0.1, 9.0], [1, 1, 2], False),
        ([0.1, 0.2], [5, 1, -2], False),
    ],
)
def test_data_outside_the_support_have_no_density(y, counts, inside, rng):
    model = from_numpyro(sums_to_one, y=np.array(y), counts=np.array(counts))
    z = rng.normal(size=model.dim)

    def energy(z):
        data = {name: jnp.asarray(array) for name, array in model.data.items()}
        return potential_energy(sums_to_one, (), data, unravel(z, model.program.layout))

    with double_precision():
        expected = -float(compiled(energy)(z))
    assert np.isfinite(expected) == inside
    np.testing.assert_allclose(model.log_density(z), expected, rtol=1e-12)
    unchecked = Model(model.program.unchecked(), model.data)
    np.testing.assert_allclose(unchecked.log_density(z), expected, rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_without_checks_the_density_of_parameters_is_the_same(case, rng):
    function, data = CASES[case]
    model = from_numpyro(function, **data)
    unchecked = Model(model.program.unchecked(), model.data)
    z = 3.0 * rng.normal(size=(3, model.dim))
    np.testing.assert_allclose(unchecked.log_density(z), model.log_density(z), rtol=1e-12)
    with double_precision():
        quick = unchecked.program.computation("log_density", model.data)
        assert quick != model.program.computation("log_density", model.data)


# ---- data


def test_new_data_needs_no_new_program(schools):
    schools.log_density(np.zeros(10))
    compiled = num_compiled()
    other = schools.given({"y": 2 * Y})
    value = other.log_density(np.zeros(10))
    assert other.program is schools.program
    assert num_compiled() == compiled
    assert value == from_numpyro(models.eight_schools_centred, SIGMA, 2 * Y).log_density(
        np.zeros(10)
    )


def test_equal_programs_share_compiled_code(schools):
    schools.log_density(np.zeros(10))
    same = from_numpyro(models.eight_schools_centred, y=Y + 1.0, sigma=SIGMA)
    assert same.program == schools.program
    assert hash(same.program) == hash(schools.program)
    compiled = num_compiled()
    same.log_density(np.zeros(10))
    assert num_compiled() == compiled
    other = from_numpyro(models.eight_schools_centred, SIGMA, Y, tau_scale=1.0)
    assert other.program != schools.program
    assert other.log_density(np.zeros(10)) != schools.log_density(np.zeros(10))


def test_arrays_are_data_and_numbers_are_fixed(schools):
    assert set(schools.data) == {"sigma", "y"}
    model = from_numpyro(models.eight_schools_centred, SIGMA.tolist(), Y.tolist(), 1.0)
    assert set(model.data) == {"sigma", "y"}
    assert dict(model.program.fixed) == {"mu_scale": 1.0}


def test_defaults_of_the_model_apply(schools):
    explicit = from_numpyro(models.eight_schools_centred, SIGMA, Y, 5.0, 5.0)
    z = np.ones(10)
    assert explicit.log_density(z) == schools.log_density(z)


@pytest.mark.parametrize("observed", [None, ("counts",), {"counts": "k"}])
def test_observed_argument_of_another_name(observed):
    model = from_numpyro(other_site, observed=observed)
    assert model.missing == ("counts",)
    full = model.given({"counts": [0, 1, 1, 0]})
    expected = 4 * np.log(0.5) + np.log(0.25)  # the last is the Jacobian
    assert full.log_density([0.0]) == pytest.approx(expected, rel=1e-12)
    _, data = full.simulate(3)
    assert data["counts"].shape == (4,)
    assert data["counts"].dtype.kind == "i"


def test_a_dictionary_is_data(rng):
    def model(inputs, y=None):
        w = numpyro.sample("w", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(w * inputs["x"], inputs["s"]), obs=y)

    inputs = {"x": np.arange(3.0), "s": np.ones(3)}
    made = from_numpyro(model, inputs, np.zeros(3))
    expected = stats.norm.logpdf(0.5) + stats.norm.logpdf(0.0, 0.5 * np.arange(3.0)).sum()
    assert made.log_density([0.5]) == pytest.approx(expected, rel=1e-13)


def test_keyword_arguments_are_passed_on():
    def model(y=None, **rest):
        numpyro.sample("m", dist.Normal(0.0, rest["scale"]))
        numpyro.sample("y", dist.Normal(rest["shift"], 1.0), obs=y)

    made = from_numpyro(model, y=np.zeros(2), scale=2.0, shift=np.ones(2))
    assert set(made.data) == {"y", "shift"}
    assert made.coordinates == ("m",)


def test_the_callers_precision_is_left_alone(schools):
    before = jax.config.jax_enable_x64
    schools.simulate(0)
    schools.unconstrain(schools.constrain(np.zeros(10)))
    assert jax.config.jax_enable_x64 == before
    assert jnp.zeros(1).dtype == (jnp.float64 if before else jnp.float32)


def test_models_with_bare_observed_data_give_a_likelihood_of_each(schools):
    with double_precision():
        found = schools.program.log_likelihood(jnp.zeros(10), schools.data)
    np.testing.assert_allclose(found["y"], stats.norm.logpdf(Y, 0.0, SIGMA), rtol=1e-13)


# ---- constraints


def test_constrained_values_satisfy_their_constraints(rng):
    model = from_numpyro(constrained, y=CASES["constrained"][1]["y"])
    theta = model.constrain(rng.normal(size=(6, model.dim)))
    assert set(theta) == {"simplex", "positive", "unit", "ordered", "chol", "corr"}
    np.testing.assert_allclose(theta["simplex"].sum(axis=-1), 1.0, rtol=1e-12)
    assert (theta["simplex"] > 0.0).all()
    assert (theta["positive"] > 0.0).all()
    assert ((theta["unit"] > 0.0) & (theta["unit"] < 1.0)).all()
    assert (np.diff(theta["ordered"]) > 0.0).all()
    np.testing.assert_array_equal(theta["chol"], np.tril(theta["chol"]))
    np.testing.assert_allclose(np.einsum("...ii->...i", theta["corr"]), 1.0, rtol=1e-12)


def test_round_trip_through_the_constraints(rng):
    model = from_numpyro(constrained, y=CASES["constrained"][1]["y"])
    assert model.dim == 2 + 2 + 1 + 3 + 3
    z = rng.normal(size=(6, model.dim))

    def there_and_back(z):
        return model.program.unconstrain(model.program.constrain(z, model.data), model.data)

    with double_precision():
        back = np.asarray(compiled(jax.vmap(there_and_back))(z))
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, z, rtol=1e-8, atol=1e-8)


def test_unconstrain(schools):
    z = np.linspace(-1.0, 1.0, 10)
    back = schools.unconstrain(schools.constrain(z))
    assert isinstance(back, np.ndarray)
    np.testing.assert_allclose(back, z, rtol=1e-12)


def test_derived_quantities_come_too(rng):
    model = from_numpyro(models.eight_schools_noncentred, SIGMA, Y)
    theta = model.constrain(rng.normal(size=(2, 3, 10)))
    assert theta["theta"].shape == (2, 3, 8)
    assert theta["tau"].shape == (2, 3)


def test_constrained_values_keep_the_order_of_the_model():
    model = from_numpyro(models.eight_schools_noncentred, SIGMA, Y)
    assert list(model.constrain(np.zeros(10))) == ["mu", "tau", "theta_raw", "theta"]


@pytest.mark.parametrize("call", ["constrain", "unconstrain"])
def test_constraints_of_a_model_without_data(call):
    model = from_numpyro(models.eight_schools_centred, SIGMA)
    theta = {"mu": 0.0, "tau": 1.0, "theta": np.zeros(8)}
    with pytest.raises(ModelError, match="no data for y"):
        getattr(model, call)(theta if call == "unconstrain" else np.zeros(10))


# ---- simulation


@pytest.mark.parametrize("given_y", [True, False], ids=["with y", "without y"])
def test_simulate(given_y):
    model = from_numpyro(models.linear, DESIGN, np.ones(20) if given_y else None)
    z, data = model.simulate(3)
    assert z.shape == (3,)
    assert z.dtype == np.float64
    assert data["y"].shape == (20,)
    np.testing.assert_array_equal(data["X"], DESIGN)
    again, other = model.simulate(3), model.simulate(4)
    np.testing.assert_array_equal(z, again[0])
    np.testing.assert_array_equal(data["y"], again[1]["y"])
    assert not np.isin(z, other[0]).any()
    assert np.isfinite(model.given(data).log_density(z))


def test_simulated_parameters_follow_the_prior():
    # 400 draws; 4 tests at level 1e-4 each: a false alarm in 1 of 2500 seeds.
    model = from_numpyro(models.eight_schools_centred, SIGMA)
    with double_precision():
        simulate = compiled(jax.vmap(lambda key: model.program.simulate(key, model.data)))
        z, data = map(jax.device_get, simulate(jax.random.split(jax.random.key(0), 400)))
    assert stats.kstest(z[:, 0] / 5.0, "norm").pvalue > 1e-4
    assert stats.kstest(np.exp(z[:, 1]) / 5.0, "halfcauchy").pvalue > 1e-4
    raw = (z[:, 2] - z[:, 0]) / np.exp(z[:, 1])
    assert stats.kstest(raw, "norm").pvalue > 1e-4
    assert stats.kstest((data["y"] - z[:, 2:])[:, 0] / 15.0, "norm").pvalue > 1e-4


# ---- minibatches


@pytest.fixture(scope="module")
def target():
    return DESIGN @ [1.0, -1.0] + np.random.default_rng(2).normal(size=20) * 0.5


def test_minibatches_are_unbiased(target):
    model = from_numpyro(regression, DESIGN, target, size=5)
    assert model.program.has_minibatches
    z = np.array([0.8, -0.7])
    with double_precision():
        keys = jax.random.split(jax.random.key(1), 4000)
        values = compiled(
            jax.vmap(lambda key: model.program.log_density_of_minibatch(z, model.data, key))
        )(keys)
        values = np.asarray(values)
    error = np.std(values) / np.sqrt(len(keys))
    assert error > 0.0
    # 4 standard errors: a false alarm in 1 of 16000 seeds.
    assert abs(np.mean(values) - model.log_density(z)) < 4.0 * error


def test_the_whole_data_whatever_the_plate_asks_for(target):
    part, whole = (from_numpyro(regression, DESIGN, target, size=size) for size in (5, None))
    z = np.array([0.8, -0.7])
    expected = stats.norm.logpdf(z).sum() + stats.norm.logpdf(target, DESIGN @ z, 0.5).sum()
    assert part.log_density(z) == pytest.approx(expected, rel=1e-13)
    assert whole.log_density(z) == pytest.approx(expected, rel=1e-13)


def test_a_plate_of_full_size_is_no_minibatch(target):
    model = from_numpyro(regression, DESIGN, target, size=20)
    assert not model.program.has_minibatches
    z = np.array([0.8, -0.7])
    with double_precision():
        key = jax.random.key(0)
        value = model.program.log_density_of_minibatch(z, model.data, key)
    assert float(value) == pytest.approx(model.log_density(z), rel=1e-13)


def test_simulate_fills_a_subsampled_plate(target):
    _, data = from_numpyro(regression, DESIGN, target, size=5).simulate(0)
    assert data["y"].shape == (20,)


# ---- trouble


def trouble(model, z):
    with double_precision():
        return model.program.locate_trouble(jnp.asarray(z), model.data)


def test_locate_trouble_names_the_site():
    model = from_numpyro(scale_of_data, y=np.array([0.5, 2.0]))
    assert model.log_density([0.0]) == -np.inf
    assert trouble(model, [0.0]) == "site 'y' (log density -inf)"


def test_locate_trouble_names_a_factor():
    def model(y=None):
        x = numpyro.sample("x", dist.Normal(0.0, 1.0))
        numpyro.factor("penalty", jnp.log(x))
        numpyro.sample("y", dist.Normal(x, 1.0), obs=y)

    made = from_numpyro(model, y=1.0)
    assert "site 'penalty' (log density nan)" in trouble(made, [-1.0])


def test_locate_trouble_at_an_overflow():
    made = from_numpyro(models.eight_schools_centred, SIGMA, Y)
    assert "'theta'" in trouble(made, np.r_[0.0, 800.0, np.zeros(8)])


# ---- what cannot be used


def discrete(y=None):
    k = numpyro.sample("k", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Normal(k, 1.0), obs=y)


def with_param(y=None):
    loc = numpyro.param("loc", 0.0)
    x = numpyro.sample("x", dist.Normal(loc, 1.0))
    numpyro.sample("y", dist.Normal(x, 1.0), obs=y)


def positional(*args):
    numpyro.sample("x", dist.Normal(0.0, 1.0))


def latent_in_minibatch(y=None):
    with numpyro.plate("rows", 10, subsample_size=2):
        x = numpyro.sample("x", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(x, 1.0), obs=y)


def all_observed(y=None):
    numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y)


def grows(x, y=None):
    numpyro.sample("b", dist.Normal(0.0, 1.0).expand([len(x)]).to_event(1))
    numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y)


CENTRED = models.eight_schools_centred

ERRORS = {
    "discrete": (lambda: from_numpyro(discrete, y=1.0), "site 'k' is a discrete latent variable"),
    "hint": (lambda: from_numpyro(discrete, y=1.0), "marginalise it out"),
    "param": (lambda: from_numpyro(with_param, y=1.0), "site 'loc' is a numpyro.param"),
    "*args": (lambda: from_numpyro(positional, 1.0), r"a model with \*args has no names"),
    "latent": (
        lambda: from_numpyro(latent_in_minibatch, y=np.zeros(10)),
        "site 'x' is a latent variable in a subsampled plate",
    ),
    "all observed": (lambda: from_numpyro(all_observed, y=1.0), "the model has no parameters"),
    "NaN": (lambda: from_numpyro(CENTRED, SIGMA, Y * np.nan), "y must be finite, got 8 of 8"),
    "NaN in a covariate": (
        lambda: from_numpyro(CENTRED, SIGMA * np.inf, Y),
        "sigma must be finite",
    ),
    "text": (lambda: from_numpyro(CENTRED, SIGMA, ["a"] * 8), "y must hold numbers"),
    "column": (
        lambda: from_numpyro(CENTRED, SIGMA, Y[:, None]),
        r"(site 'y' must have shape \(8,\), got \(8, 1\)|cannot take data of shapes .*y \(8, 1\))",
    ),
    "scalar": (lambda: from_numpyro(CENTRED, SIGMA, 1.0), r"site 'y' must have shape \(8,\), got"),
    "too short": (
        lambda: from_numpyro(CENTRED, SIGMA, Y[:7]),
        r"'y' must have shape \(8,\), got \(7",
    ),
    "given too short": (lambda: from_numpyro(CENTRED, SIGMA, Y).given({"y": Y[:7]}), r"got \(7,\)"),
    "unknown": (lambda: from_numpyro(CENTRED, SIGMA, z=Y), "arguments do not fit the model: .*'z'"),
    "too many": (lambda: from_numpyro(CENTRED, *range(6)), "arguments do not fit the model"),
    "unhashable": (
        lambda: from_numpyro(CENTRED, SIGMA, Y, mu_scale={5.0}),
        "argument 'mu_scale' must be an array or hashable, got set",
    ),
    "observed is a string": (
        lambda: from_numpyro(CENTRED, SIGMA, Y, observed="y"),
        "observed must be a tuple of names, got the string 'y'",
    ),
    "observed is unknown": (
        lambda: from_numpyro(CENTRED, SIGMA, Y, observed=("target",)),
        "observed has 'target', but the model's arguments are: sigma, y, mu_scale, tau_scale",
    ),
    "no such site": (
        lambda: from_numpyro(other_site, observed={"counts": "counts"}),
        "no site 'counts' to draw 'counts' at: .* observed={'counts': 'site'}",
    ),
    "simulate no such site": (
        lambda: from_numpyro(
            other_site, counts=[0, 1, 1, 0], observed={"counts": "counts"}
        ).simulate(0),
        "the model has no site 'counts' to draw 'counts' at",
    ),
    "flat": (
        lambda: from_numpyro(models.logistic, DESIGN).simulate(0),
        "site 'beta' has a flat prior that cannot be drawn from",
    ),
    "parameters change": (
        lambda: from_numpyro(grows, np.zeros(3), 1.0).given({"x": np.zeros(4)}),
        r"parameter 'b' has shape \(4,\), before \(3,\): make a new model",
    ),
    "given unknown": (
        lambda: from_numpyro(CENTRED, SIGMA, Y).given({"mu_scale": 1.0}),
        "data has mu_scale, but the model's data are: sigma, y",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, message = ERRORS[case]
    with pytest.raises(ModelError, match=message):
        call()


def test_an_improper_prior_is_no_hindrance_to_a_density():
    def model(y=None):
        x = numpyro.sample("x", dist.ImproperUniform(constraints.positive, (), ()))
        numpyro.sample("y", dist.Normal(x, 1.0), obs=y)

    made = from_numpyro(model, y=1.0)
    expected = stats.norm.logpdf(1.0, np.e, 1.0) + 1.0
    assert made.log_density([1.0]) == pytest.approx(expected, rel=1e-12)


def test_what_a_users_function_raises_is_a_model_error():
    def broken(x, y=None):
        numpyro.sample("y", dist.Normal(undefined_name, 1.0), obs=y)  # noqa: F821

    with pytest.raises(ModelError, match=r"cannot be run.*NameError.*undefined_name"):
        from_numpyro(broken, np.ones(3), y=np.ones(3))
    with pytest.raises(ModelError, match="missing a required argument: 'sigma'"):
        from_numpyro(models.eight_schools_centred, y=np.ones(8))


def test_observed_data_without_a_default_may_come_later():
    def regression(x, y):
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)

    model = from_numpyro(regression, np.ones(3))
    assert model.missing == ("y",)
    assert model.coordinates == ("slope",)
    assert model.given({"y": np.ones(3)}).missing == ()


def test_columns_of_a_data_frame_are_data():
    import pandas as pd

    frame = pd.DataFrame({"sigma": SIGMA, "y": np.arange(8.0)})
    model = from_numpyro(models.eight_schools_centred, frame["sigma"], y=frame["y"])
    assert isinstance(model.data["sigma"], np.ndarray)


def test_parameters_whose_entries_are_tied_are_known():
    def model():
        numpyro.sample("p", dist.Dirichlet(jnp.ones(3)))
        numpyro.sample("x", dist.HalfNormal(1.0).expand([2]).to_event(1))

    program = from_numpyro(model).program
    assert not program.is_elementwise("p")
    assert program.is_elementwise("x")
