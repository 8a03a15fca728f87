"""NumPyro models in partly centred coordinates: the same posterior; degrees that are learned."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from numpyro.handlers import reparam
from numpyro.infer.reparam import LocScaleReparam
from scipy import stats

import vicheck
from vicheck.adapters.numpyro.reparametrise import (
    code_for,
    learn_degrees,
    location_scale_sites,
    with_degrees,
)
from vicheck.model import double_precision, simulate_many
from vicheck.paper.exact import eight_schools
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred, eight_schools_noncentred
from vicheck.quantities import choose_quantities
from vicheck.runtime.compiling import num_compiled

Y = np.array([0.3, -1.2, 0.8, 2.0])


def schools(**arguments):
    return vicheck.from_numpyro(eight_schools_centred, **(EIGHT_SCHOOLS | arguments))


def groups(family=dist.Normal, wrapped=False):
    """Return a model whose groups, four of them, are drawn from a family around a mean."""

    def model(y=None):
        centre = numpyro.sample("centre", dist.Normal(0.0, 2.0))
        spread = numpyro.sample("spread", dist.LogNormal(0.0, 0.5))
        law = family(centre, spread)
        if wrapped:
            group = numpyro.sample("group", law.expand([4]).to_event(1))
        else:
            with numpyro.plate("groups", 4):
                group = numpyro.sample("group", law)
        numpyro.sample("y", dist.Normal(group, 1.0), obs=y)

    return vicheck.from_numpyro(model, y=Y)


def vector_scales(y=None):
    level = numpyro.sample("level", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    spreads = numpyro.sample("spreads", dist.HalfNormal(1.0).expand([3]).to_event(1))
    with numpyro.plate("rows", 4, dim=-2), numpyro.plate("columns", 3, dim=-1):
        cell = numpyro.sample("cell", dist.Normal(level, spreads))
    numpyro.sample("y", dist.Normal(cell, 1.0), obs=y)


def student(location, scale):
    return dist.StudentT(4.0, location, scale)


MODELS = {
    "normal": groups,
    "to_event": lambda: groups(wrapped=True),
    "student": lambda: groups(student),
    "cauchy": lambda: groups(dist.Cauchy),
    "laplace": lambda: groups(dist.Laplace),
    "gumbel": lambda: groups(dist.Gumbel, wrapped=True),
    "logistic": lambda: groups(dist.Logistic),
    "asymmetric": lambda: groups(lambda loc, scale: dist.AsymmetricLaplace(loc, scale, 1.5)),
    "vector": lambda: vicheck.from_numpyro(vector_scales, y=np.outer(Y, [1.0, 0.5, 2.0])),
    "schools": schools,
}


@pytest.mark.parametrize("name", MODELS)
def test_the_density_is_the_same_in_other_coordinates(name):
    model = MODELS[name]()
    (site,) = location_scale_sites(model)
    moved = with_degrees(model, {site: 0.3})

    def back(z):
        return model.program.unconstrain(moved.program.constrain(z, moved.data), model.data)

    def by_change_of_variables(z):
        there = back(z)
        jacobian = jnp.linalg.slogdet(jax.jacfwd(back)(z))[1]
        return model.program.log_density(there, model.data) + jacobian, there

    z = np.random.default_rng(3).normal(size=(3, model.dim))
    with double_precision():
        expected, there = jax.jit(jax.vmap(by_change_of_variables))(z)
    np.testing.assert_allclose(moved.log_density(z), expected, rtol=1e-10)
    assert not np.allclose(there, z)


@pytest.mark.parametrize("name", ["normal", "student", "asymmetric", "vector"])
def test_the_code_makes_the_same_model(name):
    model = MODELS[name]()
    (site,) = location_scale_sites(model)
    code = code_for(model, {site: 0.25})
    assert ("shape_params" in code) == (name in {"student", "asymmetric"})
    by_code = model_by_code(code, model)
    moved = with_degrees(model, {site: 0.25})
    assert by_code.coordinates == moved.coordinates
    z = np.random.default_rng(4).normal(size=(3, model.dim))
    np.testing.assert_allclose(by_code.log_density(z), moved.log_density(z), rtol=1e-12)
    assert code_for(moved, {site: 0.25}) == code
    assert code_for(model, {site: 1.0}) == ""


def model_by_code(code, model):
    """Run the lines that were given back, with the model's function under its own name."""
    function = model.program.function
    names = {function.__name__: function}
    exec(code, names)
    return vicheck.from_numpyro(names["reparametrised"], **model.data)


def test_code_for_a_function_without_a_name_says_so():
    model = vicheck.from_numpyro(partial(eight_schools_centred, mu_scale=2.0), **EIGHT_SCHOOLS)
    assert "reparam(model_fn, " in code_for(model, {"theta": 0.0})
    assert '{"theta": LocScaleReparam(0)}' in code_for(model, {"theta": 0.0})


def test_degree_1_is_the_original():
    model = schools()
    z = np.random.default_rng(1).normal(size=(20, model.dim))
    centred = with_degrees(model, {"theta": 1.0})
    np.testing.assert_allclose(centred.log_density(z), model.log_density(z), rtol=1e-13)
    np.testing.assert_allclose(centred.constrain(z)["theta"], model.constrain(z)["theta"])


def test_degree_0_is_the_model_written_without_a_centre():
    by_hand = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
    z = np.random.default_rng(2).normal(size=(20, by_hand.dim))
    away = with_degrees(schools(), {"theta": 0.0})
    np.testing.assert_allclose(away.log_density(z), by_hand.log_density(z), rtol=1e-12)
    np.testing.assert_allclose(away.constrain(z)["theta"], by_hand.constrain(z)["theta"])


def test_degrees_are_data_and_one_compiled_density_serves_them_all():
    model = schools()
    z = np.ones(model.dim)
    values = [with_degrees(model, {"theta": 0.9}).log_density(z)]
    before = num_compiled()
    values += [with_degrees(model, {"theta": d}).log_density(z) for d in (0.7, 0.2, 0.0)]
    assert num_compiled() == before
    assert len(set(values)) == 4


def test_degrees_can_be_replaced_and_the_original_sites_are_still_known():
    model = schools()
    moved = with_degrees(with_degrees(model, {"theta": 0.9}), {"theta": 0.2})
    assert moved.data.keys() == {*model.data, "degree of theta"}
    assert moved.data["degree of theta"] == 0.2
    assert location_scale_sites(moved) == ("theta",)
    assert with_degrees(moved, {}).coordinates == model.coordinates


def test_constants_loops_factors_and_what_is_observed_are_not_listed():
    def model(x, y=None):
        one = numpyro.sample("one", dist.Normal(0.0, 2.0))
        numpyro.sample("given", dist.Normal(x, jnp.exp(x)).to_event(1))
        freedom = numpyro.sample("freedom", dist.Gamma(2.0, 1.0))
        numpyro.sample("tail", dist.StudentT(2.0 + freedom, 0.0, 1.0))
        numpyro.sample("positive", dist.LogNormal(one, 1.0))
        numpyro.sample("joint", dist.MultivariateNormal(one * jnp.ones(2), jnp.eye(2)))
        numpyro.sample("apart", dist.Normal(one, 1.0))
        numpyro.sample("wide", dist.Normal(0.0, jnp.exp(one)))
        scan(lambda at, _: (numpyro.sample("walk", dist.Normal(at, 1.0)),) * 2, one, None, 3)
        numpyro.sample("y", dist.Normal(one, 1.0), obs=y)

    found = location_scale_sites(vicheck.from_numpyro(model, x=Y, y=Y))
    assert found == ("apart", "wide")


def test_models_without_such_sites_have_none():
    by_hand = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
    by_handler = reparam(eight_schools_centred, config={"theta": LocScaleReparam(0.0)})
    assert location_scale_sites(by_hand) == ()
    assert location_scale_sites(vicheck.from_numpyro(by_handler, **EIGHT_SCHOOLS)) == ()
    bare = vicheck.from_log_density(lambda z: -0.5 * (z**2).sum(), 2)
    assert location_scale_sites(bare) == ()


def test_a_class_of_the_users_own_is_not_taken_for_its_base():
    class Doubled(dist.Normal):
        def log_prob(self, value, intermediates=None):
            return 2 * super().log_prob(value)

    assert location_scale_sites(groups(Doubled)) == ()


def test_a_name_that_is_taken_already_leaves_a_site_as_it_is():
    def model(y=None):
        at = numpyro.sample("at", dist.Normal(0.0, 1.0))
        numpyro.sample("group_decentered", dist.Normal(0.0, 1.0))
        group = numpyro.sample("group", dist.Normal(at, 1.0))
        numpyro.sample("y", dist.Normal(group, 1.0), obs=y)

    assert location_scale_sites(vicheck.from_numpyro(model, y=Y)) == ()


@pytest.mark.parametrize(
    ("degrees", "problem"),
    [
        ({"mu": 0.5}, "has 'mu', but the model's location-scale sites are: theta"),
        ({"theta": 1.5}, "must lie within 0 and 1, got 1.5 for 'theta'"),
        ({"theta": float("nan")}, "must lie within 0 and 1, got nan"),
        ({"theta": "0.5"}, "must lie within 0 and 1, got '0.5'"),
    ],
)
def test_degrees_that_make_no_sense_are_refused(degrees, problem):
    with pytest.raises(ValueError, match=problem):
        with_degrees(schools(), degrees)


def test_reports_keep_the_names_of_the_model():
    moved = with_degrees(schools(), {"theta": 0.1})
    checked = vicheck.check(vicheck.fit(moved, num_starts=1), num_draws=500, chains=False)
    assert checked.names[:3] == ("mu", "tau", "theta[0]")
    assert len(checked.names) == 10
    calibrated = choose_quantities(moved, moved.data, None)
    assert calibrated.exact_names == ("mu", "tau")
    assert calibrated.drawn_names == (*(f"theta[{i}]" for i in range(8)), "log_likelihood")
    asked = choose_quantities(moved, moved.data, ["theta_decentered"])
    assert asked.exact_names[0] == "theta_decentered[0]"


def test_simulations_are_of_the_same_model():
    model = schools(tau_prior="half_normal")
    moved = with_degrees(model, {"theta": 0.4})
    assert moved.observed == ("y",)
    with double_precision():
        z, drawn = jax.device_get(simulate_many(moved.program, np.arange(500), moved.data))
    there = moved.constrain(z)
    noise = (drawn["y"] - there["theta"]) / EIGHT_SCHOOLS["sigma"]
    raw = (there["theta"] - there["mu"][:, None]) / there["tau"][:, None]
    for standard in (noise, raw, there["mu"] / 5.0):
        assert stats.kstest(np.ravel(standard), "norm").pvalue > 1e-4
    assert stats.kstest(there["tau"] / 5.0, "halfnorm").pvalue > 1e-4


def test_data_that_are_missing_can_be_given_later():
    waiting = vicheck.from_numpyro(eight_schools_centred, sigma=EIGHT_SCHOOLS["sigma"])
    moved = with_degrees(waiting, {"theta": 0.5})
    assert moved.missing == ("y",)
    z = np.zeros(moved.dim)
    given = moved.given({"y": EIGHT_SCHOOLS["y"]})
    assert given.log_density(z) == with_degrees(schools(), {"theta": 0.5}).log_density(z)


@pytest.mark.slow
def test_a_calibration_runs_in_other_coordinates():
    moved = with_degrees(schools(tau_prior="half_normal"), {"theta": 0.0})
    calibrated = vicheck.vsbc(moved, num_datasets=20)
    names = {name.partition("[")[0] for name in calibrated.quantities}
    assert names == {"mu", "tau", "theta", "log_likelihood"}


def two_levels(near, far):
    """Groups in two sets, whose best degrees are known: there q is the posterior itself.

    With unit scales, log p has the term (t - d m)^2 of the prior and ((1 - d) m + t - y)^2 / s^2
    of the data: m and t are independent for d = 1 / (1 + s^2), which is 0.8 for s = 0.5 and 0.2
    for s = 2.
    """
    for name, data, noise in (("near", near, 0.5), ("far", far, 2.0)):
        mean = numpyro.sample(f"mean_{name}", dist.Normal(0.0, 3.0))
        with numpyro.plate(f"groups_{name}", 5):
            group = numpyro.sample(name, dist.Normal(mean, 1.0))
            numpyro.sample(f"y_{name}", dist.Normal(group, noise), obs=data)


@pytest.mark.slow
def test_two_sites_have_the_degrees_that_are_known_to_be_best():
    rng = np.random.default_rng(5)
    data = {"near": 1.0 + rng.normal(size=5), "far": -2.0 + 2.0 * rng.normal(size=5)}
    model = vicheck.from_numpyro(two_levels, **data)
    found = learn_degrees(model)
    assert found.degrees.keys() == {"near", "far"}
    assert found.degrees["near"] == pytest.approx(0.8, abs=0.05)
    assert found.degrees["far"] == pytest.approx(0.2, abs=0.05)
    log_evidence = sum(
        stats.multivariate_normal.logpdf(data[name], cov=9.0 + (1.0 + noise**2) * np.eye(5))
        for name, noise in (("near", 0.5), ("far", 2.0))
    )
    assert log_evidence - found.fit.elbo < 0.02
    assert log_evidence - vicheck.fit(model, num_starts=1).elbo > 0.5
    assert found.model.data["degree of far"] == found.degrees["far"]
    assert len({trial.values for trial in found.trials}) == len(found.trials)
    assert found.num_evaluations > sum(trial.fit.solution.num_evaluations for trial in found.trials)

    kept = vicheck.fit(model_by_code(found.code, model))
    assert kept.elbo == pytest.approx(found.fit.elbo, abs=0.01)


def test_the_slope_of_the_best_elbo_is_that_at_fixed_draws():
    from vicheck.vi.tuning import Tuning

    moved = with_degrees(schools(), {"theta": 1.0})
    tuning = Tuning(moved, ("degree of theta",), seed=0, max_fits=9, num_draws=512)
    at, below, above = (tuning.at((degree,)) for degree in (0.3, 0.28, 0.32))
    assert at.slopes[0] == pytest.approx((above.elbo - below.elbo) / 0.04, rel=0.05)


@pytest.mark.slow
def test_eight_schools_are_learned_to_be_non_centred():
    model = schools()
    found = learn_degrees(model)
    assert found.degrees["theta"] < 0.1
    assert len(found.trials) < 10
    before, after = vicheck.check(vicheck.fit(model)), vicheck.check(found.fit)
    assert before.khat > 0.9
    assert after.khat < 0.65
    kept = vicheck.fit(model_by_code(found.code, model))
    assert kept.elbo == pytest.approx(found.fit.elbo, abs=0.01)

    log_prior = stats.halfcauchy(scale=5.0).logpdf
    exact = eight_schools(EIGHT_SCHOOLS["y"], EIGHT_SCHOOLS["sigma"], 5.0, log_prior)
    for name in ("mu", "theta[0]", "theta[4]"):
        row = after.moments.loc[name]
        assert abs(row["psis_mean"] - exact.mean(name)) < 0.05 * exact.sd(name)


@pytest.mark.slow
def test_groups_with_much_data_stay_centred():
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(20), 30)

    def rich(g, y=None):
        level = numpyro.sample("level", dist.Normal(0.0, 5.0))
        between = numpyro.sample("between", dist.HalfNormal(2.0))
        with numpyro.plate("groups", 20):
            effect = numpyro.sample("effect", dist.Normal(level, between))
        within = numpyro.sample("within", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(effect[g], within), obs=y)

    y = rng.normal(2.0, 1.0, size=20)[g] + 0.3 * rng.normal(size=600)
    model = vicheck.from_numpyro(rich, g=g, y=y)
    found = learn_degrees(model)
    assert found.degrees == {"effect": 1.0}
    assert found.code == ""
    assert found.model is model
    assert found.fit.elbo == vicheck.fit(model).elbo


def test_a_model_without_such_sites_is_only_fitted():
    model = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
    found = learn_degrees(model)
    assert (found.degrees, found.code, found.trials) == ({}, "", ())
    assert found.model is model
    assert found.fit.converged


def test_degrees_whose_fits_fail_are_passed_over(monkeypatch):
    from vicheck.errors import ModelError
    from vicheck.vi import tuning

    right = tuning.fit

    def fails_unless_centred(model, **options):
        if model.data["degree of group"] < 1.0:
            raise ModelError("nowhere finite")
        return right(model, **options)

    monkeypatch.setattr(tuning, "fit", fails_unless_centred)
    found = learn_degrees(groups())
    assert found.degrees == {"group": 1.0}
    assert [trial.status.name for trial in found.trials[:3]] == ["CONVERGED", "FAILED", "FAILED"]
    assert found.trials[1].elbo == -np.inf
    assert found.fit.converged


def test_an_interrupted_search_returns_the_best_so_far(monkeypatch):
    from vicheck.vi import tuning

    right, calls = tuning.fit, []

    def stopped(model, **options):
        calls.append(model)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return right(model, **options)

    monkeypatch.setattr(tuning, "fit", stopped)
    found = learn_degrees(groups())
    assert len(found.trials) == 2
    best = max(found.trials, key=lambda trial: trial.elbo)
    assert found.degrees["group"] == best.values[0]
