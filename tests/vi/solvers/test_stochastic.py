"""The stochastic solver: known optima, its gradients, its diagnostics, and how it can fail."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest

from vicheck.adapters.log_density import from_log_density
from vicheck.adapters.numpyro.models import from_numpyro
from vicheck.errors import ModelError
from vicheck.model import double_precision
from vicheck.results.status import FitStatus
from vicheck.runtime.compiling import num_compiled
from vicheck.vi.families.full_rank import FullRank
from vicheck.vi.families.low_rank import LowRank
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.families.registry import kind_of
from vicheck.vi.solvers import stochastic
from vicheck.vi.solvers.reporting import silent
from vicheck.vi.solvers.stochastic import Stochastic

MEAN = np.array([1.0, -0.5, 2.0])
SD = np.array([0.3, 1.0, 1.5])

# Used by several tests: equal options are compiled once.
SHORT = Stochastic(num_steps=250, learning_rate=0.02)
RESTLESS = optax.adam(0.05)


def independent(z, data):
    return -0.5 * jnp.sum(((z - data["mean"]) / data["sd"]) ** 2)


def correlated(z, data):
    return -0.5 * (z - data["mean"]) @ data["precision"] @ (z - data["mean"])


@pytest.fixture(scope="module")
def gaussian():
    return from_log_density(independent, np.zeros(3), data={"mean": MEAN, "sd": SD})


def solve(options, model, family="mean_field", seed=0, report=silent):
    with double_precision():
        kind = kind_of(family, model.dim, None)
        solution = options.solve(model.snapshot(), kind, seed, report)
        return solution, np.asarray(solution.q.loc), np.asarray(solution.q.sd)


slope = jax.jit(jax.grad(stochastic._loss, argnums=2), static_argnums=(0, 1))


def error(loc, sd):
    return max(np.abs((loc - MEAN) / SD).max(), np.abs(np.log(sd / SD)).max())


# The noise of an average over 2500 steps of 8 draws is about 0.01 sd: 0.08 is never exceeded.
@pytest.mark.parametrize("family", ["mean_field", "full_rank", "low_rank"])
def test_gaussian_is_recovered(gaussian, family):
    solution, loc, sd = solve(Stochastic(num_steps=5000), gaussian, family)
    assert solution.status is FitStatus.CONVERGED
    assert error(loc, sd) < 0.08
    exact = 0.5 * 3 * np.log(2 * np.pi) + np.log(SD).sum()
    assert solution.elbo == pytest.approx(exact, abs=0.3)
    assert solution.num_evaluations == 5000 * 8 + 1
    assert solution.elbo_trace.shape == (50,)
    assert solution.sampling_error < 0.05
    assert solution.gradient_norm < 0.1


@pytest.mark.parametrize("family", ["mean_field", "full_rank"])
def test_path_gradient_leaves_no_noise(gaussian, family):
    # Without noise at the optimum there is nothing to keep the iterates from it.
    options = Stochastic(num_steps=5000, gradient="path")
    solution, loc, sd = solve(options, gaussian, family)
    assert solution.status is FitStatus.CONVERGED
    assert error(loc, sd) < 1e-3


def test_correlations_are_found_and_the_factor_stays_triangular():
    covariance = np.array([[1.0, 0.6, 0.2], [0.6, 0.8, 0.1], [0.2, 0.1, 0.5]])
    data = {"mean": MEAN, "precision": np.linalg.inv(covariance)}
    model = from_log_density(correlated, np.zeros(3), data=data)
    solution, loc, _ = solve(Stochastic(num_steps=5000), model, "full_rank")
    assert np.abs(loc - MEAN).max() < 0.05
    np.testing.assert_array_equal(np.triu(solution.q.scale_tril, 1), 0.0)
    scale = np.asarray(solution.q.scale_tril)
    np.testing.assert_allclose(scale @ scale.T, covariance, atol=0.08)


def test_averaging_helps(gaussian):
    # A rate that stays high leaves the last iterate where the noise has put it.
    options = partial(Stochastic, RESTLESS, num_steps=4000, num_draws=1)
    errors = {
        averaging: np.median(
            [error(*solve(options(averaging=averaging), gaussian, seed=s)[1:]) for s in range(5)]
        )
        for averaging in (True, False)
    }
    assert errors[True] < 0.3 * errors[False]


def test_the_last_iterate_is_judged_by_its_distance_from_the_average(gaussian):
    options = Stochastic(RESTLESS, num_steps=4000, num_draws=1, averaging=False)
    solution, *_ = solve(options, gaussian)
    assert solution.status is FitStatus.MAX_ITERATIONS
    assert solution.sampling_error > 0.05 > solution.settings["mcse"]


@pytest.mark.parametrize(
    "q",
    [
        MeanField(MEAN, np.log(SD)),
        FullRank(MEAN, np.array([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [-0.3, 0.1, 0.7]])),
        LowRank(MEAN, np.log(SD), np.array([[0.5], [-1.0], [2.0]])),
    ],
    ids=lambda q: type(q).__name__,
)
def test_path_gradient_vanishes_where_q_is_p(q):
    with double_precision():
        q = jax.tree.map(jnp.asarray, q)
        precision = np.linalg.inv(jax.jit(lambda q: q.covariance())(q))
        data = {"mean": np.asarray(q.loc), "precision": precision}
        program = from_log_density(correlated, np.zeros(3), data=data).program
        noise = np.random.default_rng(0).standard_normal((2, q.noise_dim))
        gradient = {
            name: slope(program, Stochastic(gradient=name), q, noise, jax.random.key(0), data)
            for name in stochastic.GRADIENTS
        }
    largest = {
        name: max(np.abs(np.asarray(leaf)).max() for leaf in jax.tree.leaves(tree))
        for name, tree in gradient.items()
    }
    assert largest["path"] < 1e-13
    assert largest["reparametrised"] > 0.1


def test_both_gradients_have_the_same_expectation(gaussian):
    with double_precision():
        q = MeanField(jnp.zeros(3), jnp.zeros(3))
        noise = np.random.default_rng(1).standard_normal((200_000, 3))
        reparametrised, path = (
            slope(
                gaussian.program,
                Stochastic(gradient=name),
                q,
                noise,
                jax.random.key(0),
                gaussian.data,
            )
            for name in stochastic.GRADIENTS
        )
        for one, other in zip(*map(jax.tree.leaves, (reparametrised, path)), strict=True):
            np.testing.assert_allclose(one, other, atol=0.03)  # 6 standard errors


def plated(y=None, size=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
    log_sigma = numpyro.sample("log_sigma", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", 400, subsample_size=size):
        batch = numpyro.subsample(y, event_dim=0) if y is not None else None
        numpyro.sample("y", dist.Normal(mu, jnp.exp(log_sigma)), obs=batch)


@pytest.mark.slow
def test_minibatches_agree_with_all_data():
    y = np.random.default_rng(2).normal(1.5, 2.0, 400)
    model = from_numpyro(plated, y=y, size=40)
    _, loc, sd = solve(Stochastic(num_steps=4000), model)
    solution, part_loc, part_sd = solve(Stochastic(num_steps=4000, minibatches=True), model)
    # The noise of the minibatches is about 3 times that of the draws; 0.25 is 8 of its sds.
    assert np.abs((part_loc - loc) / sd).max() < 0.25
    assert np.abs(np.log(part_sd / sd)).max() < 0.25
    assert np.isfinite(solution.elbo)


def test_new_data_does_not_compile_again(gaussian):
    solve(SHORT, gaussian)
    compiled = num_compiled()
    other = gaussian.given({"mean": MEAN + 1.0, "sd": 2 * SD})
    _, loc, _ = solve(Stochastic(num_steps=250, learning_rate=0.02), other, seed=3)
    assert num_compiled() == compiled
    assert np.isfinite(loc).all()


def test_same_seed_same_bits(gaussian):
    first, second, third = (solve(SHORT, gaussian, seed=seed)[1] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first != third).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "adam"}, "optimizer must be an optax.GradientTransformation.*got str"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, got 0.0"),
        ({"learning_rate": np.nan}, "learning_rate must be positive, got nan"),
        ({"num_steps": 0}, "num_steps must be an integer of at least 1, got 0"),
        ({"num_steps": 1e4}, "num_steps must be an integer of at least 1, got 10000.0"),
        ({"num_draws": -1}, "num_draws must be an integer of at least 1, got -1"),
        ({"eval_every": 0}, "eval_every must be an integer of at least 1, got 0"),
        ({"gradient": "score"}, "gradient must be 'reparametrised' or 'path', got 'score'"),
        ({"minibatches": 10}, "minibatches must be True or False, got 10"),
        ({"averaging": None}, "averaging must be True or False, got None"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        Stochastic(**options)


def test_minibatches_need_a_plate(gaussian):
    with pytest.raises(ValueError, match=r"minibatches must be False.*plate with subsample_size"):
        solve(Stochastic(minibatches=True), gaussian)


def interrupt_at(number):
    calls = []

    def report(sentence):
        calls.append(sentence)
        if len(calls) == number:
            raise KeyboardInterrupt

    return report


@pytest.mark.parametrize(("number", "steps"), [(1, 100), (2, 200)])
def test_interrupted_run_returns_what_there_is(gaussian, number, steps):
    solution, loc, _ = solve(SHORT, gaussian, report=interrupt_at(number))
    assert solution.status is FitStatus.INTERRUPTED
    assert solution.num_evaluations == steps * 8 + 1
    assert solution.elbo_trace.shape == (number,)
    assert np.isfinite(loc).all()


def test_start_without_density_is_a_model_error():
    model = from_log_density(lambda z: jnp.sum(z) * jnp.nan, np.zeros(2))
    with pytest.raises(ModelError, match="not finite at any of 21 starts; at z = 0 the trouble is"):
        solve(Stochastic(num_steps=10), model)


def test_start_moves_away_from_a_singular_zero():
    model = from_log_density(lambda z: -jnp.sum(z**2) / 2 + jnp.log(jnp.abs(z)).sum(), np.ones(1))
    solution, *_ = solve(Stochastic(num_steps=200), model)
    assert solution.num_evaluations > 200 * 8 + 1
    assert np.isfinite(solution.elbo)


def test_not_finite_keeps_the_last_finite_parameters():
    # A wall at 1, where the density pulls to: sooner or later a draw lands behind it.
    model = from_log_density(lambda z: jnp.sum(5.0 * z + jnp.log(1.0 - z)), np.zeros(1))
    solution, loc, sd = solve(Stochastic(num_steps=2000), model)
    assert solution.status is FitStatus.NOT_FINITE
    assert np.isfinite([loc, sd]).all()
    assert 8 < solution.num_evaluations < 2000 * 8
    assert np.isfinite(solution.elbo_trace).all()


def test_too_few_steps_do_not_converge(gaussian):
    solution, *_ = solve(SHORT, gaussian)
    assert solution.status is FitStatus.MAX_ITERATIONS
    assert solution.elbo_trace.shape == (3,)
    assert solution.iterates.shape == (125, 6)


def test_slow_drift_is_not_convergence():
    # An sd of 1000 and a mean at 5000, where 5000 steps of 0.01 do not lead: in units of the sd
    # the iterates hardly move, and only the gradient shows it.
    data = {"mean": np.array([5000.0]), "sd": np.array([1000.0])}
    model = from_log_density(independent, np.zeros(1), data=data)
    solution, *_ = solve(Stochastic(num_steps=5000), model)
    assert solution.settings["mcse"] < 0.05
    assert solution.gradient_norm > 1.0
    assert solution.status is FitStatus.MAX_ITERATIONS


@pytest.mark.parametrize("num_steps", [999, 2502])
def test_iterates_are_those_of_the_last_half(gaussian, num_steps, monkeypatch):
    monkeypatch.setattr(stochastic, "_NUMBERS_AT_ONCE", 7 * 8 * 3)  # a block in parts of 7 steps
    options = Stochastic(num_steps=num_steps, averaging=False)
    solution, loc, sd = solve(options, gaussian)
    stride = options.stride(3)
    expected = len(range(num_steps // 2, num_steps, stride))
    assert solution.iterates.shape == (expected, 6)
    assert expected <= 1000
    if (num_steps - num_steps // 2 - 1) % stride == 0:
        np.testing.assert_array_equal(solution.iterates[-1, :3], loc)
        np.testing.assert_allclose(solution.iterates[-1, 3:], np.log(sd))
