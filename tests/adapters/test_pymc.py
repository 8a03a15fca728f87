"""PyMC models and fits against NumPyro's, SciPy's and PyMC's own numbers."""

import pickle
import threading
import warnings

import cloudpickle
import jax
import numpy as np
import pytest
import xarray as xr
from scipy import stats

with warnings.catch_warnings():
    # PyTensor wants a BLAS it could link C code to; nothing here is compiled in C.
    warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
    import pymc as pm
    import pytensor
    import pytensor.tensor as pt


import vicheck
from vicheck.adapters.pymc import draws_of_approximation, from_pymc
from vicheck.errors import ModelError
from vicheck.model import double_precision, simulate_many
from vicheck.paper import models

# What PyMC and PyTensor themselves warn of when they compile in C.
pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pytensor"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pymc"),
]

SIGMA, Y = models.EIGHT_SCHOOLS["sigma"], models.EIGHT_SCHOOLS["y"]
DESIGN = np.random.default_rng(1).normal(size=(20, 2))
TARGET = DESIGN @ [1.0, -1.0] + np.random.default_rng(2).normal(size=20)
NUMPYRO = {"centred": models.eight_schools_centred, "noncentred": models.eight_schools_noncentred}


def schools(kind):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        sigma = pm.Data("sigma", SIGMA)
        if kind == "centred":
            theta = pm.Normal("theta", mu, tau, shape=8)
        else:
            raw = pm.Normal("theta_raw", 0, 1, shape=8)
            theta = pm.Deterministic("theta", mu + tau * raw)
        pm.Normal("y", theta, sigma, observed=Y)
    return model


def regression(minibatch=False):
    with pm.Model() as model:
        if minibatch:
            x, y = pm.Minibatch(DESIGN, TARGET, batch_size=5)
        else:
            x, y = pm.Data("x", DESIGN), pm.Data("target", TARGET)
        slope = pm.Normal("slope", 0, 1, shape=2)
        scale = pm.HalfNormal("scale", 1)
        pm.Normal("y", x @ slope, scale, observed=y, total_size=20 if minibatch else None)
    return model


@pytest.fixture(scope="module", params=["centred", "noncentred"])
def pair(request):
    """A PyMC model, and the same as Models from PyMC and from NumPyro."""
    model = schools(request.param)
    return model, from_pymc(model), vicheck.from_numpyro(NUMPYRO[request.param], SIGMA, Y)


@pytest.fixture(scope="module")
def approximations():
    """Fits by PyMC; a C compiler takes longer than they do."""
    with schools("noncentred"), pytensor.config.change_flags(mode="FAST_COMPILE"):
        return {
            method: pm.fit(n=1000, method=method, progressbar=False, random_seed=1)
            for method in ("advi", "fullrank_advi")
        }


# ---- log density


def test_the_density_is_that_of_the_same_model_in_numpyro(pair, rng):
    _, model, same = pair
    assert model.coordinates == same.coordinates
    z = rng.normal(size=(20, 10))
    np.testing.assert_allclose(model.log_density(z), same.log_density(z), rtol=0, atol=1e-11)


def test_derived_quantities_are_those_of_numpyro(pair, rng):
    _, model, same = pair
    z = rng.normal(size=(3, 10))
    found, expected = model.constrain(z), same.constrain(z)
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-13)


def test_the_likelihood_of_each_observation(pair):
    _, model, _ = pair
    with double_precision():
        found = model.program.log_likelihood(np.zeros(10), model.data)
    np.testing.assert_allclose(found["y"], stats.norm.logpdf(Y, 0.0, SIGMA), rtol=1e-12)


@pytest.mark.slow
def test_constraints_of_many_kinds_against_pymcs_own_density(rng):
    with pm.Model() as model:
        pm.Dirichlet("simplex", np.ones(3))
        scale = pm.HalfNormal("scale", 2.0)
        pm.Uniform("below_scale", 0.0, scale)
        pm.Uniform("interval", -1.0, 2.0, shape=2)
        pm.VonMises("angle", 0.0, 1.0)
        pm.TruncatedNormal("bounded_above", 0.0, 1.0, upper=3.0)
    made = from_pymc(model)
    program = made.program
    assert dict(program.layout)["simplex"] == (2,)
    elementwise = [name for name, _ in program.layout if program.is_elementwise(name)]
    # An angle goes round, and a bound that is a parameter ties two entries of z together.
    assert elementwise == ["scale", "interval", "bounded_above"]
    assert [name for name in elementwise if program.is_decreasing(name)] == ["bounded_above"]
    own = model.compile_logp(mode="FAST_COMPILE")
    for z in rng.normal(size=(3, made.dim)):
        parts, start = {}, 0
        for (_, shape), value in zip(program.layout, model.value_vars, strict=True):
            size = int(np.prod(shape))
            parts[value.name] = z[start : start + size].reshape(shape)
            start += size
        # PyMC has the logarithms of small integers in float32.
        assert made.log_density(z) == pytest.approx(float(own(parts)), abs=1e-6)
        np.testing.assert_allclose(made.unconstrain(made.constrain(z)), z, atol=1e-10)


def test_parameters_out_of_bounds_have_no_density():
    with pm.Model() as model:
        scale = pm.Normal("scale", 0.0, 1.0)
        pm.Normal("y", 0.0, scale, observed=1.0)
    made = from_pymc(model)
    assert made.log_density([-1.0]) == -np.inf
    with double_precision():
        assert made.program.locate_trouble(np.array([-1.0]), made.data).startswith("variable 'y'")


# ---- data


def test_new_data_changes_the_density_and_not_the_program(pair, rng):
    _, model, same = pair
    z = rng.normal(size=10)
    other = model.given({"y": 2.0 * Y, "sigma": SIGMA + 1.0})
    assert other.program is model.program
    expected = same.given({"y": 2.0 * Y, "sigma": SIGMA + 1.0}).log_density(z)
    assert other.log_density(z) == pytest.approx(expected, abs=1e-11)
    assert other.log_density(z) != model.log_density(z)


def test_the_same_model_shares_compiled_code(pair):
    pymc_model, model, _ = pair
    again = from_pymc(pymc_model)
    assert again.program == model.program
    assert hash(again.program) == hash(model.program)


def test_data_of_another_length():
    made = from_pymc(regression())
    part = made.given({"x": DESIGN[:7], "target": TARGET[:7]})
    expected = stats.norm.logpdf(TARGET[:7]).sum() + 2 * stats.norm.logpdf(0.0)
    assert part.log_density(np.zeros(3)) == pytest.approx(
        expected + stats.halfnorm.logpdf(1.0), rel=1e-12
    )


def test_minibatches_have_the_density_of_all_data():
    made = from_pymc(regression(minibatch=True))
    whole = from_pymc(regression())
    z = np.array([0.5, -0.5, 0.1])
    assert made.log_density(z) == pytest.approx(whole.log_density(z), rel=1e-12)
    with pytest.raises(ModelError, match="its data come in minibatches"):
        made.simulate(0)


def test_free_variables_can_be_observed():
    with pm.Model() as model:
        rate = pm.Normal("rate", 0.0, 1.0)
        pm.Poisson("count", pt.exp(rate), shape=3)
    made = from_pymc(model, observed=("count",))
    assert made.missing == ("count",)
    expected = stats.norm.logpdf(0.0) + stats.poisson.logpmf([0, 1, 2], 1.0).sum()
    assert made.given({"count": [0, 1, 2]}).log_density([0.0]) == pytest.approx(expected)
    whole = from_pymc(model, observed={"count": [0, 1, 2]})
    assert whole.log_density([0.0]) == pytest.approx(expected)
    assert made.simulate(1)[1]["count"].dtype == np.int64


def test_missing_data_are_parameters():
    values = TARGET.copy()
    values[3] = np.nan
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
        slope = pm.Normal("slope", 0.0, 1.0, shape=2)
        pm.Normal("y", DESIGN @ slope, 1.0, observed=values)
    made = from_pymc(model)
    assert made.program.layout == (("slope", (2,)), ("y_unobserved", (1,)))
    values[3] = 0.7
    expected = stats.norm.logpdf(values).sum() + 2 * stats.norm.logpdf(0.0)
    assert made.log_density([0.0, 0.0, 0.7]) == pytest.approx(expected, rel=1e-12)


def test_the_callers_settings_are_left_alone():
    before = jax.config.jax_enable_x64
    from_pymc(schools("centred")).simulate(0)
    assert jax.config.jax_enable_x64 == before


# ---- simulation


def test_simulated_parameters_and_data_follow_the_model():
    # 400 draws; 4 tests at level 1e-4 each: a false alarm in 1 of 2500 seeds.
    model = from_pymc(schools("centred"))
    with double_precision():
        z, data = map(jax.device_get, simulate_many(model.program, np.arange(400), model.data))
    assert stats.kstest(z[:, 0] / 5.0, "norm").pvalue > 1e-4
    assert stats.kstest(np.exp(z[:, 1]) / 5.0, "halfcauchy").pvalue > 1e-4
    assert stats.kstest((z[:, 2] - z[:, 0]) / np.exp(z[:, 1]), "norm").pvalue > 1e-4
    assert stats.kstest((data["y"] - z[:, 2:])[:, 0] / 15.0, "norm").pvalue > 1e-4


def test_all_that_is_observed_is_simulated_under_any_name():
    values = np.arange(6.0)
    with pm.Model() as model:
        x, log_radon = pm.Data("x", np.linspace(0.0, 1.0, 6)), pm.Data("log_radon", values)
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Normal("level", slope * x, 1.0, observed=log_radon)
        pm.Poisson("count", pm.math.exp(slope), observed=[1, 2, 3])
    made = from_pymc(model)
    assert made.observed == ("log_radon", "count")
    (_, first), (_, second) = (made.simulate(seed) for seed in (1, 2))
    assert not np.isin(first["log_radon"], [*values, *second["log_radon"]]).any()
    assert not np.array_equal(first["count"], second["count"])
    np.testing.assert_array_equal(first["x"], np.linspace(0.0, 1.0, 6))


def test_the_seed_decides_every_bit_in_another_process_too():
    model = from_pymc(regression())
    sent = pickle.loads(cloudpickle.dumps(model))
    (z, data), (again, same) = model.simulate(3), sent.simulate(3)
    np.testing.assert_array_equal(z, again)
    np.testing.assert_array_equal(data["target"], same["target"])
    assert not np.isin(z, model.simulate(4)[0]).any()


@pytest.mark.slow
def test_large_data_and_many_threads_do_not_wait_for_each_other():
    # JAX hands large arrays to callbacks by threads that the callbacks themselves may hold.
    design = np.random.default_rng(3).normal(size=(20_000, 50))
    with pm.Model() as model:
        x = pm.Data("x", design)
        slope = pm.Normal("slope", 0.0, 1.0, shape=50)
        pm.Normal("y", x @ slope, 1.0, observed=design[:, 0])
    made = from_pymc(model)

    def simulated():
        with double_precision():
            return np.asarray(simulate_many(made.program, np.arange(8), made.data)[0])

    expected, found = simulated(), []
    for _ in range(4):  # it does not happen every time
        threads = [
            threading.Thread(target=lambda: found.append(simulated()), daemon=True)
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60.0)
    np.testing.assert_array_equal(found, [expected] * 16)


def test_replicates_come_from_the_given_parameters():
    model = from_pymc(regression())
    z = np.array([3.0, -2.0, -9.0])  # a scale of exp(-9): as good as no noise
    with double_precision():
        found = model.program.replicate(jax.random.key(0), z, model.data)
    np.testing.assert_allclose(found["target"], DESIGN @ z[:2], atol=1e-3)


# ---- fits


@pytest.mark.slow
def test_fit_and_check_agree_with_numpyro():
    model = from_pymc(schools("noncentred"))
    same = vicheck.from_numpyro(NUMPYRO["noncentred"], SIGMA, Y)
    fitted, expected = vicheck.fit(model), vicheck.fit(same)
    # Another code for the same density: fits end within the tolerance of the gradient, 1e-3 sd.
    assert fitted.elbo == pytest.approx(expected.elbo, abs=1e-5)
    ours, theirs = (vicheck.check(each, num_draws=2000) for each in (fitted, expected))
    assert ours.khat == pytest.approx(theirs.khat, abs=0.01)


@pytest.mark.slow
def test_vsbc_gives_the_same_bits_twice():
    model = from_pymc(schools("noncentred"))
    first, second = (
        vicheck.vsbc(model, num_datasets=8, num_draws=200, progress=False) for _ in range(2)
    )
    np.testing.assert_array_equal(first.data["probability"], second.data["probability"])
    assert "log_likelihood" in first.tests.index


# ---- approximations


@pytest.mark.slow
@pytest.mark.parametrize("method", ["advi", "fullrank_advi"])
def test_checks_of_pymcs_fits_are_those_of_the_same_q(approximations, method):
    approx = approximations[method]
    mean, cov = pytensor.function(
        [], [approx.groups[0].mean, approx.groups[0].cov], mode="FAST_COMPILE"
    )()
    drawn = draws_of_approximation(approx, 5000, seed=3)
    native = vicheck.from_numpyro(NUMPYRO["noncentred"], SIGMA, Y)
    z = np.column_stack(
        [drawn.values["mu"], np.log(drawn.values["tau"]), drawn.values["theta_raw"]]
    )
    log_q = stats.multivariate_normal(mean, cov).logpdf(z)
    np.testing.assert_allclose(drawn.log_q, log_q, atol=1e-8)
    np.testing.assert_allclose(drawn.log_p, native.log_density(z), atol=1e-8)
    checked = vicheck.check(approx, num_draws=5000, seed=3)
    expected = vicheck.check_draws(z, native.log_density(z), log_q)
    assert checked.khat == pytest.approx(expected.khat, abs=1e-6)
    assert checked.elbo_trace.tolist() == (-approx.hist).tolist()
    assert len(checked.elbo_trace) == 1000
    np.testing.assert_allclose(
        drawn.values["theta"], z[:, :1] + np.exp(z[:, 1:2]) * z[:, 2:], rtol=1e-10
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["advi", "fullrank_advi"])
def test_log_q_is_pymcs_own(approximations, method, rng):
    group = approximations[method].groups[0]
    # One function, so that both are of the same draws.
    function = pytensor.function(
        [group.symbolic_initial],
        [group.symbolic_random, group.symbolic_logq_not_scaled],
        mode="FAST_COMPILE",
    )
    noise = rng.normal(size=(50, 10))
    z, log_q = function(noise)
    from vicheck.adapters.pymc.approximations import _of_group

    ours = _of_group(group)
    covariance = np.diag(ours.scale**2) if ours.scale.ndim == 1 else ours.scale @ ours.scale.T
    expected = stats.multivariate_normal(ours.mean, covariance).logpdf(z)
    np.testing.assert_allclose(log_q, expected, atol=1e-8)


@pytest.mark.slow
def test_a_seed_gives_the_same_draws(approximations):
    first, again, other = (
        draws_of_approximation(approximations["advi"], 50, seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.log_p, again.log_p)
    assert not np.isin(first.log_p, other.log_p).any()


@pytest.mark.parametrize("method", ["advi", "fullrank_advi"])
def test_a_check_of_pymcs_fit_knows_its_model_and_q(approximations, method):
    checked = vicheck.check(approximations[method], num_draws=500, seed=3)
    assert checked.model.coordinates[:2] == ("mu", "tau")
    again = checked.q.draws(500, 3)
    np.testing.assert_array_equal(again.log_q, checked.log_q)
    z = np.column_stack([checked.draws["mu"], np.log(checked.draws["tau"]),
                         checked.draws["theta_raw"]])  # fmt: skip
    with double_precision():
        log_q = jax.vmap(checked.q.family().log_prob)(z)
    np.testing.assert_allclose(log_q, checked.log_q, rtol=1e-8)
    some = vicheck.check(approximations[method], num_draws=100, quantities=["log_likelihood"])
    assert np.isfinite(some.values).all()


def test_by_default_there_are_as_many_draws_as_for_fits_of_vicheck(approximations):
    assert vicheck.check(approximations["advi"]).psis.num_draws == 100_000


def test_right_fits_of_few_parameters_are_usable_by_default():
    # With 10,000 draws the tail of such ratios is not Pareto yet.
    y = np.random.default_rng(1).normal(2.0, 1.5, 40)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 10.0)
        sigma = pm.HalfNormal("sigma", 5.0)
        pm.Normal("y", mu, sigma, observed=y)
        approx = pm.MeanField()
    optimum = vicheck.fit(vicheck.from_pymc(model)).q
    values = {"mu": optimum.loc, "rho": np.log(np.expm1(np.exp(optimum.log_scale)))}
    for shared in approx.params:
        shared.set_value(np.asarray(values[shared.name]))
    assert vicheck.check(approx).verdict.level == "good"


# ---- pymc-extras


def test_results_of_dadvi_are_rebuilt_from_means_and_sds():
    pytest.importorskip("pymc_extras", reason="make test-large installs it")
    from pymc_extras.inference import fit_dadvi

    with schools("noncentred") as model:
        result = fit_dadvi(progressbar=False, random_seed=1, n_draws=10)
    with pytest.raises(TypeError, match="call this in the model's context"):
        draws_of_approximation(result, 100, 0)
    with model:
        drawn = draws_of_approximation(result, 20_000, 0)
    means, log_sds = np.split(result["optimizer_result"]["x"].values, 2)
    assert drawn.values["mu"].mean() == pytest.approx(means[0], abs=5 * np.exp(log_sds[0]) / 140)
    assert np.isfinite(drawn.log_p - drawn.log_q).all()


def normal_model():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        pm.Normal("x", 0.0, scale, shape=2)
    return model


def dadvi(mean, log_sd):
    labels = ["scale_log__", "x[0]", "x[1]"] * 2
    x = xr.DataArray(np.r_[mean, log_sd], dims="variables", coords={"variables": labels})
    return {"posterior": xr.Dataset(), "optimizer_result": xr.Dataset({"x": x})}


def laplace(mean, covariance):
    # In another order than the model's.
    labels = ["x[0]", "x[1]", "scale_log__"]
    fitted = xr.Dataset(
        {"mean_vector": ("rows", mean), "covariance_matrix": (("rows", "columns"), covariance)},
        {"rows": labels, "columns": labels},
    )
    return {"posterior": xr.Dataset(), "fit": fitted}


def pathfinder(samples, log_p, log_q):
    axes = ("path", "draw_per_path")
    found = xr.Dataset(
        {
            "paths_lbfgs_niter": ("path", np.ones(len(samples))),
            "diagnostics_samples_full": ((*axes, "param"), samples),
            "diagnostics_logP_full": (axes, log_p),
            "diagnostics_logQ_full": (axes, log_q),
        },
        {"param": ["scale_log__", "x[0]", "x[1]"]},
    )
    return {"posterior": xr.Dataset(), "sample_stats": found}


def in_context(groups, num_draws=100):
    with normal_model():
        return draws_of_approximation(xr.DataTree.from_dict(groups), num_draws)


def flat_of(drawn):
    return np.column_stack([np.log(drawn.values["scale"]), drawn.values["x"]])


def test_dadvi_is_rebuilt_from_means_and_log_sds():
    mean, log_sd = np.array([0.1, 0.2, 0.3]), np.array([-1.0, 0.0, 0.5])
    drawn = in_context(dadvi(mean, log_sd))
    z = flat_of(drawn)
    expected = stats.norm.logpdf(z, mean, np.exp(log_sd)).sum(axis=1)
    np.testing.assert_allclose(drawn.log_q, expected, rtol=1e-10)
    np.testing.assert_allclose(drawn.log_p, from_pymc(normal_model()).log_density(z), rtol=1e-10)


def test_laplace_is_rebuilt_from_its_mean_and_covariance():
    mean, root = np.array([0.2, 0.3, 0.1]), np.array([[1.0, 0, 0], [0.5, 1.0, 0], [0.2, 0.1, 0.7]])
    drawn = in_context(laplace(mean, root @ root.T))
    z = flat_of(drawn)
    expected = stats.multivariate_normal(mean, root @ root.T).logpdf(z[:, [1, 2, 0]])
    np.testing.assert_allclose(drawn.log_q, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="not positive definite"):
        in_context(laplace(mean, -np.eye(3)))


def test_pathfinder_keeps_its_own_draws(rng):
    z = rng.normal(size=(2, 5, 3))
    log_p = from_pymc(normal_model()).log_density(z)
    log_q = rng.normal(size=(2, 5))
    drawn = in_context(pathfinder(z, log_p, log_q), None)
    with pytest.raises(TypeError, match="num_draws does not apply to a result of Pathfinder"):
        in_context(pathfinder(z, log_p, log_q))
    np.testing.assert_array_equal(drawn.log_q, log_q.ravel())
    np.testing.assert_allclose(drawn.log_p, log_p.ravel(), rtol=1e-12)
    np.testing.assert_allclose(flat_of(drawn), z.reshape(-1, 3), rtol=1e-10)
    assert "own path" in drawn.notes[1]
    with pytest.raises(ValueError, match="other log densities than the model in this context"):
        in_context(pathfinder(z, log_p + 1.0, log_q), None)


def test_results_without_densities_say_what_to_do(rng):
    groups = pathfinder(rng.normal(size=(2, 5, 3)), np.zeros((2, 5)), np.zeros((2, 5)))
    groups["sample_stats"] = groups["sample_stats"].drop_vars("diagnostics_logQ_full")
    with pytest.raises(TypeError, match="importance_sampling=None, store_diagnostics=True"):
        in_context(groups, None)
    with pytest.raises(TypeError, match="whose density is known, got a result with the groups"):
        in_context({"posterior": xr.Dataset()})
    with pytest.raises(TypeError, match="call this in the model's context"):
        draws_of_approximation(xr.DataTree.from_dict(dadvi(np.zeros(3), np.zeros(3))), 10, 0)
    with unobserved(), pytest.raises(ValueError, match=r"approx has 3 values of scale_log__, x"):
        draws_of_approximation(xr.DataTree.from_dict(dadvi(np.zeros(3), np.zeros(3))), 10, 0)


# ---- what cannot be used


def discrete():
    with pm.Model() as model:
        k = pm.Bernoulli("k", 0.5)
        pm.Normal("y", k, 1.0, observed=1.0)
    return model


def with_potential():
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Potential("penalty", -(x**2))
        pm.Normal("y", x, 1.0, observed=1.0)
    return model


def unobserved():
    with pm.Model() as model:
        pm.Normal("x", 0.0, 1.0)
    return model


def flat():
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Normal("y", x, 1.0, observed=1.0)
    return model


def ordered():
    with pm.Model() as model:
        x = pm.Normal(
            "x", 0.0, 1.0, shape=2, transform=pm.distributions.transforms.ordered, initval=[0, 1]
        )
        pm.Normal("y", x, 1.0, observed=[0.0, 1.0])
    return model


def logarithm():
    with pm.Model() as model:
        x, data = pm.Normal("x"), pm.Data("score", [1.0, 2.0])
        pm.Normal("y", x, 1.0, observed=pm.math.log(data))
    return model


def only_observed():
    with pm.Model() as model:
        pm.Normal("y", 0.0, 1.0, observed=1.0)
    return model


ERRORS = {
    "discrete": (lambda: from_pymc(discrete()), "variable 'k' is a discrete parameter: marginalis"),
    "all observed": (lambda: from_pymc(only_observed()), "the model has no parameters"),
    "nothing observed": (lambda: from_pymc(unobserved()).simulate(0), "it observes nothing"),
    "potential": (lambda: from_pymc(with_potential()).simulate(0), "pm.Potential 'penalty'"),
    "expression": (
        lambda: from_pymc(logarithm()).simulate(0),
        "variable 'y' observes an expression instead of data",
    ),
    "flat": (lambda: from_pymc(flat()).simulate(0), "'x' has a flat prior"),
    "ordered": (lambda: from_pymc(ordered()).simulate(0), "'x' has a transform of its own"),
    "unknown observed": (
        lambda: from_pymc(unobserved(), observed=("z",)),
        "observed has 'z', but the model's free variables are: x",
    ),
    "string": (lambda: from_pymc(unobserved(), observed="x"), "must be a tuple of names"),
    "too short": (
        lambda: from_pymc(regression()).given({"target": TARGET[:7]}),
        r"data of shapes .*target \(7,\)",
    ),
    "column": (
        lambda: from_pymc(regression()).given({"target": TARGET[:, None]}),
        "'target' must have 1 dimensions",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, message = ERRORS[case]
    with pytest.raises(ModelError, match=message):
        call()


def test_a_potential_is_part_of_the_density():
    expected = stats.norm.logpdf(1.0) - 1.0 + stats.norm.logpdf(0.0)
    assert from_pymc(with_potential()).log_density([1.0]) == pytest.approx(expected)


def test_a_model_without_observations_has_a_density():
    assert from_pymc(unobserved()).log_density([1.0]) == pytest.approx(stats.norm.logpdf(1.0))


def test_wrong_types():
    with pytest.raises(TypeError, match=r"model must be a pymc.Model, got function"):
        from_pymc(discrete)
    with pytest.raises(TypeError, match=r"approx must be what pymc.fit .* got dict"):
        draws_of_approximation({}, 10, 0)
    with unobserved():
        points = pm.Empirical(size=10)
        inference = pm.ADVI()
    with pytest.raises(TypeError, match="got Empirical, a set of points without a density"):
        draws_of_approximation(points, 10, 0)
    with pytest.raises(TypeError, match="got ADVI: give what its method fit returned"):
        draws_of_approximation(inference, 10, 0)


@pytest.mark.slow
def test_wrong_numbers(approximations):
    with pytest.raises(ValueError, match="num_draws must be a positive integer, got 0"):
        draws_of_approximation(approximations["advi"], 0, 0)


@pytest.mark.slow
def test_a_fit_that_diverged(approximations):
    with unobserved():
        approx = pm.MeanField()
    approx.params[0].set_value(np.array([np.nan]))
    with pytest.raises(ValueError, match="means or scales that are not finite"):
        draws_of_approximation(approx, 10, 0)


def test_a_changed_value_in_the_model_is_seen():
    """Exact: 15 / (3 + 1 / sd^2)."""
    with pm.Model() as model:
        sd = pm.Data("sd", 1.0)
        mu = pm.Normal("mu", 0.0, sd)
        pm.Normal("outcome", mu, 1.0, observed=np.full(3, 5.0))
    for value in (1.0, 100.0, 1.0):
        with model:
            pm.set_data({"sd": value})
        fit = vicheck.fit(vicheck.from_pymc(model), num_starts=1)
        assert fit.mean[0] == pytest.approx(15.0 / (3.0 + value**-2), abs=0.05)
