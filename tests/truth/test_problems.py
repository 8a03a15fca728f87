"""The truths of the scoreboard: closed forms against the densities that are fitted."""

import json
import math
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from truth.exact import by_importance_sampling, by_quadrature
from truth.problem import LIMIT, NO_VARIANCE
from truth.problems import all_problems, hierarchical, posteriordb

import vicheck

REFERENCE = Path(__file__).parents[1] / "reference"
PROBLEMS = all_problems()

# Coordinates of z and points in each, for closed forms that a grid can be held against. The t's
# with few degrees of freedom have too much of their variance beyond any grid.
WIDE = ([(-100.0, 100.0)], 200_001)
GRIDS = {
    "t(5), 1 independent": ([(-400.0, 400.0)], 400_001),
    "log of gamma(0.5), 1 independent": WIDE,
    "log of gamma(2.0), 1 independent": WIDE,
    "proportion, 9 of 10": WIDE,
    "proportion, 0 of 5": WIDE,
    "proportion, 3 of 40": WIDE,
    "Poisson mean, three counts": WIDE,
    "place next to its bound": WIDE,
    "changepoint, its time alone": WIDE,
    "normals at 0 and 2, 30% there": WIDE,
    "normals at 0 and 3, half there": WIDE,
    "normals at 0 and 5, 80% there": WIDE,
    "normals at 0 and 10, 80% there": WIDE,
    "normals at 0 and 20, 70% there": WIDE,
    "4.5% far away": WIDE,
    "normals at -3000 and 5000": ([(-9000.0, 11_000.0)], 200_001),
    "normal, 2 dimensions, correlation 0.9": ([(-20.0, 20.0)] * 2, 1001),
    "2% a little away": ([(-12.0, 18.0)] * 2, 401),
    "scale mixture, 2 dimensions": ([(-60.0, 60.0)] * 2, 801),
    "narrow and wide, far apart": ([(-15.0, 45.0)] * 2, 1201),
    "banana, bend 0.3": ([(-9.0, 9.0), (-12.0, 40.0)], 801),
    "banana, bend 3.0": ([(-9.0, 9.0), (-15.0, 250.0)], 1601),
}


def test_there_are_dozens_of_problems_of_every_kind():
    kinds = {problem.kind for problem in PROBLEMS.values()}
    assert kinds == {
        "normal", "shape", "mixture", "several modes", "model", "model by NUTS", "regression",
        "draws given", "known limit",
    }  # fmt: skip
    counted = [problem for problem in PROBLEMS.values() if LIMIT not in problem.tags]
    assert len(counted) > 85
    halves = [problem.half for problem in counted]
    assert 0.4 < halves.count("held out") / len(halves) < 0.6


def test_what_the_verdict_was_once_wrong_about_is_a_row():
    assert set(PROBLEMS) >= {
        "y ~ N(sin(w t), 0.3)",
        "Cauchy data at 0 and 30",
        "normals at 0 and 10, 80% there",
        "normals at 0 and 20, 70% there",
        "normals at -3000 and 5000",
        "4.5% far away",
        "16 dimensions, 3.6 sds apart in each",
        "16 dimensions, 4.4 sds apart in each",
        "label switching, 2 components",
        "label switching, 3 components",
        "sign flips of one factor",
        "twelve effects, prior scale 0.1 or 1",
        "y ~ N(a b, 0.5), y = 1",
        "Gaussian process, 8 points",
        "scale mixture, 2 dimensions",
        "scale mixture, 50 dimensions",
        "q ten times too wide, 1 dimensions",
        "changepoint, its time alone",
        "t(2), 1 independent",
        "Dirichlet, 12 counts in 18 categories",
        "AR(1), 30 values",
        "hierarchical logistic regression",
        "normal, 2 dimensions, offset -1e13",
    }


@pytest.mark.parametrize("name", GRIDS)
def test_closed_forms_are_those_of_the_density(name):
    problem = PROBLEMS[name]
    known, found = problem.truth(), by_quadrature(problem.make(), *GRIDS[name])
    assert known.found_by == "closed form"
    for quantity, moments in known.moments.items():
        if quantity == "total":  # a sum, which the model itself does not report
            continue
        assert found.moments[quantity].mean == pytest.approx(moments.mean, abs=2e-3 * moments.sd)
        assert found.moments[quantity].sd == pytest.approx(moments.sd, rel=2e-3)
    assert found.log_evidence == pytest.approx(known.log_evidence, abs=2e-3)


@pytest.mark.parametrize("dim", [10, 50])
@pytest.mark.parametrize("kind", ["independent", "correlation 0.5", "correlation 0.9"])
def test_normals_have_the_density_of_their_truth(dim, kind):
    problem = PROBLEMS[f"normal, {dim} dimensions, {kind}"]
    model, correlation = problem.make(), 0.0 if kind == "independent" else float(kind[-3:])
    mean, sd = model.data["mean"], model.data["sd"]
    covariance = np.outer(sd, sd) * (correlation + (1.0 - correlation) * np.eye(dim))
    z = stats.multivariate_normal(mean, 2.0 * covariance, seed=1).rvs(20)
    exact = stats.multivariate_normal(mean, covariance)
    np.testing.assert_allclose(model.log_density(z), exact.logpdf(z), rtol=1e-9)
    known = problem.truth().moments
    assert known["x[0]"].mean == mean[0]
    assert known["x[0]"].sd == pytest.approx(np.sqrt(covariance[0, 0]))
    assert known["total"].sd == pytest.approx(np.sqrt(covariance.sum()))


def test_linear_regression_has_its_conjugate_posterior():
    """Joint density less the posterior's is the log evidence, wherever one looks."""
    problem = PROBLEMS["linear regression, 3 coefficients"]
    model, known = problem.make(), problem.truth()
    x, y = np.asarray(model.data["x"]), np.asarray(model.data["y"])
    precision = x.T @ x + np.eye(3) / 9.0
    mean = np.linalg.solve(precision, x.T @ y)
    shape, rate = 2.0 + len(y) / 2, 2.0 + 0.5 * (y @ y - mean @ precision @ mean)
    rng = np.random.default_rng(0)
    for _ in range(5):
        variance, beta = float(np.exp(0.3 * rng.normal())), mean + 0.3 * rng.normal(size=3)
        log_posterior = stats.invgamma.logpdf(variance, shape, scale=rate)
        log_posterior += stats.multivariate_normal.logpdf(
            beta, mean, variance * np.linalg.inv(precision)
        )
        z = model.unconstrain({"variance": variance, "beta": beta})
        log_joint = model.log_density(z) - np.log(variance)  # the Jacobian of the logarithm
        assert log_joint - log_posterior == pytest.approx(known.log_evidence, abs=1e-8)


def test_the_effects_are_a_narrow_normal_inside_a_wide_one():
    problem = PROBLEMS["twelve effects, prior scale 0.1 or 1"]
    model, known = problem.make(), problem.truth()
    y = np.random.default_rng(12).normal(size=12)
    y *= np.sqrt(18.9 / (y**2).sum())
    logs = [stats.norm.logpdf(y, 0, np.hypot(scale, 1.0)).sum() for scale in (0.1, 1.0)]
    masses = special.softmax(logs)
    assert masses[0] == pytest.approx(0.37, abs=0.01)
    at = np.random.default_rng(1).normal(size=(20, 12))
    parts = []
    for mass, scale in zip(masses, (0.1, 1.0), strict=True):
        pull = scale**2 / (scale**2 + 1.0)
        parts.append(np.log(mass) + stats.norm.logpdf(at, pull * y, np.sqrt(pull)).sum(axis=1))
    log_posterior = np.logaddexp(*parts)
    np.testing.assert_allclose(model.log_density(at) - log_posterior, known.log_evidence)
    mean = masses @ [y[0] * s**2 / (s**2 + 1.0) for s in (0.1, 1.0)]
    assert known.moments["x[0]"].mean == pytest.approx(mean)


def test_functions_of_normals_have_the_moments_of_draws():
    problem = PROBLEMS["functions of two correlated normals"]
    normal = stats.multivariate_normal([0.4, -1.0], [[1.0, 1.2], [1.2, 4.0]], seed=1)
    x = normal.rvs(200_000)
    np.testing.assert_allclose(problem.make().log_density(x[:20]), normal.logpdf(x[:20]))
    known = problem.truth().moments
    assert set(known) == set(problem.quantities)
    for name, function in problem.quantities.items():
        values = np.asarray(jax.vmap(lambda row: function({"x": row}))(x), float)  # noqa: B023
        moments = known[name]
        assert abs(values.mean() - moments.mean) < 5.0 * moments.sd / np.sqrt(len(x))
        assert values.std() == pytest.approx(moments.sd, rel=0.03)


def test_groups_of_counts_are_draws_of_the_prior_by_likelihood():
    problem = PROBLEMS["three groups of counts, noncentred"]
    known, y = problem.truth(), np.asarray(problem.make().data["y"])
    rng = np.random.default_rng(1)
    mu, tau = rng.normal(0.0, 2.0, 1_000_000), np.abs(rng.normal(size=1_000_000))
    level = mu[:, None] + tau[:, None] * rng.normal(size=(len(mu), 3))
    weights = np.exp(stats.poisson.logpmf(y, 3.0 * np.exp(level)).sum(axis=1))
    effective = weights.sum() ** 2 / np.square(weights).sum()
    assert effective > 10_000
    assert np.log(weights.mean()) == pytest.approx(known.log_evidence, abs=5 / np.sqrt(effective))
    for name, values in (("mu", mu), ("tau", tau)):
        mean = np.average(values, weights=weights)
        sd = np.sqrt(np.average((values - mean) ** 2, weights=weights))
        assert mean == pytest.approx(known.moments[name].mean, abs=5 * sd / np.sqrt(effective))
        assert sd == pytest.approx(known.moments[name].sd, rel=10 / np.sqrt(effective))


def test_eight_schools_are_those_of_the_reference():
    stored = json.loads((REFERENCE / "eight_schools_stan.json").read_text())
    exact = stored["reference_moments"]["paper"]["exact_quadrature"]
    for name in ("centred", "noncentred"):
        known = PROBLEMS[f"eight schools, {name}"].truth()
        assert known.moments["tau"].mean == pytest.approx(exact["mean"]["tau"], rel=1e-4)
        assert known.moments["theta[6]"].sd == pytest.approx(exact["sd"]["theta7"], rel=1e-4)
        assert known.log_evidence == pytest.approx(exact["log_evidence"], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "AR(1), 30 values",
        "Gaussian process, 8 points",
        "ordinal, 12 answers",
        "censored sample",
        "three groups of counts, noncentred",
        "random walk, 12 steps",
        "exponential decay, 8 rows",
    ],
)
def test_quadrature_agrees_with_nuts(name):
    problem = PROBLEMS[name]
    known, draws = problem.truth(), vicheck.reference(problem.make(), num_draws=4000, seed=3)
    for quantity, moments in known.moments.items():
        sampled = draws.moments.loc[quantity]
        assert sampled["ess"] > 1000
        assert abs(sampled["mean"] - moments.mean) < 5.0 * sampled["mcse"]
        if quantity != "length":  # which has no fourth moment: its sampled sd is very noisy
            assert sampled["sd"] == pytest.approx(moments.sd, rel=0.1)


def test_a_grid_that_cuts_the_posterior_is_refused():
    model = vicheck.from_log_density(lambda x: -jnp.sum(x**2) / 2, jnp.zeros(1))
    with pytest.raises(ValueError, match="border of the grid"):
        by_quadrature(model, [(-1.0, 9.0)], 101)


def test_importance_sampling_finds_the_moments_of_a_skewed_posterior():
    problem = PROBLEMS["log of gamma(10.0), 3 independent"]
    known, found = problem.truth(), by_importance_sampling(problem.make(), 100_000)
    assert found.num_draws > 30_000
    for quantity, moments in known.moments.items():
        error = moments.sd / math.sqrt(found.num_draws)
        assert abs(found.moments[quantity].mean - moments.mean) < 5.0 * error
        assert abs(found.moments[quantity].sd - moments.sd) < 5.0 * error


def test_only_those_without_a_variance_have_none():
    for name, problem in PROBLEMS.items():
        if problem.kind in ("shape", "mixture") and "spike" not in name:
            infinite = any(math.isinf(m.sd) for m in problem.truth().moments.values())
            assert infinite == (NO_VARIANCE in problem.tags), name


def test_stored_references_are_of_chains_that_mixed():
    stored = json.loads(hierarchical.REFERENCES.read_text())
    by_nuts = {name for name, problem in PROBLEMS.items() if problem.kind == hierarchical.KIND}
    assert set(stored) == by_nuts
    for name in by_nuts:
        assert stored[name]["largest_rhat"] < 1.005
        assert stored[name]["least_ess"] > 5000
        assert stored[name]["divergences"] < 120  # of 40,000
        assert set(PROBLEMS[name].truth().moments) == set(stored[name]["moments"])


def test_a_checkout_of_posteriordb_is_read(tmp_path):
    database = tmp_path / "posterior_database"
    draws = [{"mu": [0.0, 2.0], "b[1,2]": [1.0, 1.0]}, {"mu": [4.0, 6.0], "b[1,2]": [3.0, 3.0]}]
    described = {"name": "d-m", "model_name": "m", "data_name": "d"}
    (database / "posteriors").mkdir(parents=True)
    (database / "posteriors" / "d-m.json").write_text(
        json.dumps(described | {"reference_posterior_name": "d-m"})
    )
    (database / "posteriors" / "none.json").write_text(
        json.dumps(described | {"reference_posterior_name": None})
    )
    folder = database / "reference_posteriors" / "draws" / "draws"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "d-m.json.zip", "w") as archive:
        archive.writestr("d-m.json", json.dumps(draws))
    (problem,) = posteriordb.stan_problems(tmp_path)
    known = problem.truth()
    assert known.num_draws == 4
    assert known.moments["mu"].mean == 3.0
    assert known.moments["b[1,2]"].sd == 1.0


def test_another_directory_is_no_checkout_of_posteriordb(tmp_path):
    with pytest.raises(ValueError, match="no checkout of posteriordb"):
        list(posteriordb.stan_problems(tmp_path))
