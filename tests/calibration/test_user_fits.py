"""Fits that are not ours: draws, distribution functions, and whatever can go wrong with them.

Statistical tests have fixed seeds and allow four standard errors, or a p-value of 1e-3.
"""

import threading
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest, norm

import vicheck
from tests.calibration.problems import (
    X,
    bounded_model,
    draw_exactly,
    independent_model,
    pair_model,
    pair_posterior,
)
from vicheck.calibration.run import vsbc
from vicheck.results.status import FitStatus
from vicheck.stats.symmetry import leaving_probability

THETA = ("theta[0]", "theta[1]", "theta[2]", "theta[3]")
SIZE = 20


def run(fit, quantities=("theta",), model=None, **options):
    settings = {"num_datasets": SIZE, "chunk_size": SIZE}
    return vsbc(model or independent_model(), fit=fit, quantities=quantities, **settings | options)


def test_whether_a_users_fit_has_converged_is_not_known():
    """Unless it says so: draws with a status of their own, or a fit of vicheck's."""

    def with_status(data, seed):
        draws = draw_exactly(data, seed)
        zeros = np.zeros(len(draws["theta"]))
        return vicheck.Draws(draws, zeros, zeros, status=FitStatus.MAX_ITERATIONS)

    def without_status(data, seed):
        return replace(with_status(data, seed), status=FitStatus.UNKNOWN)

    def marginals(data, seed):
        return SimpleNamespace(marginal_cdf=lambda theta: {"theta": np.full(4, 0.5)})

    fits = (draw_exactly, without_status, marginals, with_status)
    statuses = [set(run(fit, num_datasets=2).status.to_numpy().tolist()) for fit in fits]
    assert statuses == [{"UNKNOWN"}, {"UNKNOWN"}, {"UNKNOWN"}, {"MAX_ITERATIONS"}]
    assert vicheck.Draws({"x": np.zeros(3)}, np.zeros(3), np.zeros(3)).status is FitStatus.UNKNOWN


# ---- what is right is seldom rejected, what is wrong is found ----


@pytest.mark.slow
def test_an_exact_sampler_is_rejected_as_often_as_the_test_says():
    """At 5%: 100 runs on 20 datasets, each with four independent quantities.

    The statistic is a whole number, so that the test rejects a little less often than 5%: as often
    as a random walk of 20 steps gets as far as that takes.
    """
    p_values = np.stack(
        [run(draw_exactly, seed=seed).tests["p_value"].to_numpy() for seed in range(100)]
    )
    chances = leaving_probability(np.arange(SIZE + 1), SIZE)
    size = chances[chances <= 0.05].max()
    assert 0.02 < size <= 0.05
    error = np.sqrt(size * (1.0 - size) / p_values.size)
    assert abs(np.mean(p_values <= 0.05) - size) < 4 * error
    # and at every other level
    for level in (0.1, 0.25, 0.5):
        size = chances[chances <= level].max()
        error = np.sqrt(size * (1.0 - size) / p_values.size)
        assert abs(np.mean(p_values <= level) - size) < 4 * error


def test_probabilities_of_an_exact_sampler_are_uniform():
    """Of parameters and, through draws of all of them, of functions and of the likelihood."""
    exact = partial(draw_exactly, num_draws=49)
    found = run(exact, None, num_datasets=200, chunk_size=200)
    assert found.quantities == (*THETA, "log_likelihood")
    p = found.probabilities.to_numpy()
    assert all(kstest(column, "uniform").pvalue > 1e-3 for column in p.T)
    assert found.verdict.level == "good"
    assert not found.data["exact"].any()
    assert np.isnan(found.khat).all()
    assert found.symmetric_kl.num_used == 0
    functions = {
        "largest": lambda theta: theta["theta"].max(),
        "miss": lambda theta, data: jnp.square(theta["theta"] - data["y"]).sum(),
    }
    found = run(exact, functions, num_datasets=200, chunk_size=200)
    assert found.quantities == ("largest", "miss")
    assert all(kstest(column, "uniform").pvalue > 1e-3 for column in found.probabilities.T)


@pytest.mark.parametrize(("shift", "direction"), [(0.5, "over"), (-0.5, "under")])
def test_a_biased_sampler_is_caught_with_its_direction(shift, direction):
    biased = partial(draw_exactly, num_draws=99, shift=shift)
    found = run(biased, num_datasets=200, chunk_size=200)
    assert (found.tests["direction"] == direction).all()
    assert (found.tests["bias"] * shift > 0.0).all()
    # The median of 200 has a standard error of 0.09 sds.
    np.testing.assert_allclose(found.tests["bias"], shift, atol=0.36)
    assert found.verdict.level == "unreliable"
    assert f"q {direction}-estimates" in str(found.verdict)


def test_a_sampler_that_is_too_sure_is_too_narrow():
    sure = partial(draw_exactly, num_draws=999, stretch=0.5)
    found = run(sure, num_datasets=200, chunk_size=200)
    np.testing.assert_allclose(found.tests["dispersion"], 2.0, rtol=0.3)
    assert (found.tests["dispersion_p_adjusted"] < 1e-3).all()
    assert (found.tests["direction"] == "none").all()


# ---- what a fit may return ----


def test_the_fit_gets_data_and_the_seed_that_is_reported():
    calls = []

    def note(data, seed):
        calls.append((data, seed))
        return {"b": np.zeros((1, 2))}

    found = run(note, ["b"], pair_model(), seed=5)
    assert [seed for _, seed in calls] == found.data["seed"].to_numpy().tolist()
    for data, seed in calls:
        assert sorted(data) == ["x", "y"]
        np.testing.assert_array_equal(data["x"], X)
        np.testing.assert_array_equal(data["y"], pair_model().simulate(seed)[1]["y"])


class Normals:
    """Exact marginal distribution functions, as other software could have them."""

    def __init__(self, data):
        self.data = data

    def marginal_cdf(self, theta):
        mean, covariance = pair_posterior(self.data["y"])
        return {"b": norm.cdf(theta["b"], mean, np.sqrt(np.diagonal(covariance)))}


def test_marginal_distribution_functions_are_asked_at_the_truth():
    found = run(lambda data, seed: Normals(data), ["b[1]", "b[0]"], pair_model())
    for row in range(3):
        truth, data = pair_model().simulate(int(found.data["seed"][row]))
        np.testing.assert_array_equal(
            found.probabilities[row].sel(quantity=["b[0]", "b[1]"]),
            Normals(data).marginal_cdf({"b": truth})["b"],
        )


def test_distribution_functions_are_of_parameters_on_their_own_scale():
    """One that is bounded above falls where z rises: its distribution function does not."""
    seen = []

    class Own:
        def marginal_cdf(self, theta):
            seen.append(theta)
            return {"top": 0.9, "scale": 0.2, "loc": np.array(0.5)}

    found = run(lambda data, seed: Own(), ["top", "scale", "loc"], bounded_model())
    assert (found.probabilities == np.array([0.9, 0.2, 0.5])).all()
    assert all(theta["top"] < 0.5 and theta["scale"] > 0.0 for theta in seen)


def test_draws_are_of_parameters_on_their_own_scale():
    """All draws below the truth or all above it, for every kind of bound."""

    def low(data, seed):
        return {"top": np.full(9, -50.0), "scale": np.full(9, 1e-9), "loc": np.full(9, -50.0)}

    def high(data, seed):
        return {"top": np.full(9, 0.5 - 1e-12), "scale": np.full(9, 1e9), "loc": np.full(9, 50.0)}

    names = ["top", "scale", "loc"]
    assert (run(low, names, bounded_model()).probabilities > 0.9).all()
    assert (run(high, names, bounded_model()).probabilities < 0.1).all()


def test_a_fit_of_ours_is_taken_as_it_is():
    """Through fit= and by a run's own fits: the same numbers up to rounding."""
    model = pair_model()
    own = vsbc(model, num_datasets=5, chunk_size=5)
    options = own.settings.options

    def ours(data, seed):
        return vicheck.fit(model, data, seed=seed, num_starts=1, **options)

    theirs = run(ours, None, model, num_datasets=5)
    for name in ("probability", "khat", "symmetric_kl", "sampling_error"):
        np.testing.assert_allclose(theirs.data[name], own.data[name], rtol=1e-5, atol=1e-9)
    np.testing.assert_array_equal(theirs.status, own.status)
    # By another loop, which may end a round some evaluations earlier or later; and a fit alone
    # does not evaluate draws again where it is.
    ratio = theirs.data["num_evaluations"] / own.data["num_evaluations"]
    assert ((ratio > 0.6) & (ratio < 1.1)).all()


def test_a_fit_that_is_an_object_has_a_name():
    class Sampler:
        def __call__(self, data, seed):
            return draw_exactly(data, seed)

    for fit, name in ((Sampler(), "Sampler"), (partial(draw_exactly, shift=1.0), "draw_exactly")):
        assert name in run(fit).title
    assert "test_user_fits" in run(Sampler()).settings.fit


# ---- what can go wrong with a single fit ----


def bad_rows(found, status):
    return np.flatnonzero(found.status.to_numpy() == status).tolist()


def sometimes(trouble, every=5):
    """Return an exact fit that gets into trouble with the first dataset and every fifth after."""
    calls = iter(range(10**6))

    def fit(data, seed):
        return trouble(data) if next(calls) % every == 0 else draw_exactly(data, seed)

    return fit


def raise_error(data):
    raise ZeroDivisionError("a singular matrix")


def nan_draws(data):
    return {"theta": np.full((19, 4), np.nan)}


def one_nan(data):
    draws = np.zeros((19, 4))
    draws[3, 2] = np.nan
    return {"theta": draws}


def time_out(data):
    raise TimeoutError("the licence server does not answer")


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (raise_error, "ZeroDivisionError: a singular matrix"),
        (time_out, "TimeoutError: the licence server does not answer"),
        (nan_draws, "NaN among the draws of theta"),
        (one_nan, "NaN among the draws of theta"),
    ],
)
def test_what_fails_is_listed_and_leaves_the_others_alone(trouble, message):
    good, found = run(draw_exactly), run(sometimes(trouble))
    bad = np.arange(0, SIZE, 5)
    assert bad_rows(found, "FAILED") == bad.tolist()
    assert found.failures["dataset"].tolist() == bad.tolist()
    assert found.failures["seed"].tolist() == good.data["seed"].to_numpy()[bad].tolist()
    assert found.failures["message"].str.contains(message).all()
    assert np.isnan(found.probabilities[bad]).all()
    rest = np.setdiff1d(np.arange(SIZE), bad)
    np.testing.assert_array_equal(found.probabilities[rest], good.probabilities[rest])
    assert (found.tests["num_datasets"] == rest.size).all()


def test_a_fit_that_hangs_is_left_to_itself():
    """Here it hangs until the test is over."""
    over = threading.Event()

    def hang(data):
        over.wait(600.0)
        return {}

    try:
        found = run(sometimes(hang, every=10), time_limit=0.5)
    finally:
        over.set()
    assert bad_rows(found, "TIMED_OUT") == [0, 10]
    assert found.failures["message"].str.contains("longer than its limit of 0.5 s").all()
    rest = np.setdiff1d(np.arange(SIZE), [0, 10])
    np.testing.assert_array_equal(found.probabilities[rest], run(draw_exactly).probabilities[rest])
    assert np.isnan(found.probabilities[[0, 10]]).all()


@pytest.mark.parametrize(("every", "level"), [(10, "none"), (25, "good")])
def test_too_many_failures_withhold_the_verdict(every, level):
    """10% are too many, 4% are not; both are told."""
    found = run(sometimes(raise_error, every), num_datasets=100, chunk_size=100)
    assert found.verdict.level == level
    assert f"{100 // every} of 100 fits" in str(found)
    assert "FAILED" in str(found)


def test_every_fit_may_fail():
    found = run(sometimes(raise_error, 1))
    assert bad_rows(found, "FAILED") == list(range(SIZE))
    assert found.verdict.level == "none"
    assert np.isnan(found.tests["p_value"]).all()
    assert len(found.failures) == SIZE


@pytest.mark.parametrize("time_limit", [None, 60.0])
def test_an_interrupt_is_no_failure_of_a_fit(time_limit):
    def interrupt(data):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(sometimes(interrupt), time_limit=time_limit)


def test_an_interrupt_that_a_fit_of_ours_has_caught_ends_the_run():
    """An interrupted fit is returned as far as it got, which is no reason to go on."""
    model = pair_model()

    def ours(data, seed):
        def interrupt(sentence):
            raise KeyboardInterrupt

        fit = vicheck.fit(model, data, seed=seed, progress=interrupt)
        assert fit.status.name == "INTERRUPTED"
        return fit

    with pytest.raises(KeyboardInterrupt):
        run(ours, ["b"], model)


# ---- what is a fault of the function, and not of a fit ----


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (None, TypeError, "fit must return named draws .* got NoneType"),
        (np.zeros((19, 4)), TypeError, "fit must return named draws .* got ndarray"),
        ({}, ValueError, r"nothing for the quantity 'theta\[0\]'; it returned: nothing"),
        ({"mu": np.zeros(9)}, ValueError, r"'theta\[0\]'; it returned: mu"),
        ({"theta": np.zeros((9, 3))}, ValueError, r"'theta' of shape \(draws, 4\), got \(9, 3\)"),
        ({"theta": np.zeros(9)}, ValueError, r"'theta' of shape \(draws, 4\), got \(9,\)"),
        ({"theta": 1.0}, ValueError, r"draws of 'theta' along the first axis, got shape \(\)"),
        ({"theta": np.zeros((0, 4))}, ValueError, r"along the first axis, got shape \(0, 4\)"),
        ({"theta": "high"}, ValueError, "fit must return numbers for 'theta': .*high"),
        ({"theta": [[1.0, 2.0], [1.0]]}, ValueError, "fit must return numbers for 'theta'"),
    ],
)
def test_an_answer_that_no_dataset_could_have_ends_the_run(answer, error, message):
    with pytest.raises(error, match=message):
        run(lambda data, seed: answer)


def test_draws_must_be_of_one_number():
    def uneven(data, seed):
        return {"top": np.zeros(9), "scale": np.ones(8), "loc": np.zeros(9)}

    with pytest.raises(ValueError, match=r"same number of draws .*got top 9, scale 8, loc 9"):
        run(uneven, ["top"], bounded_model())


def test_what_the_model_does_not_know_is_not_looked_at():
    def verbose(data, seed):
        return draw_exactly(data, seed) | {"message": "ok", "divergences": np.nan}

    np.testing.assert_array_equal(run(verbose).probabilities, run(draw_exactly).probabilities)


def test_derived_values_are_computed_where_they_are_not_given():
    def without(data, seed):
        draws = np.random.default_rng(seed).normal(size=(3, 9))
        return {"top": -np.abs(draws[0]), "scale": np.exp(draws[1]), "loc": draws[2]}

    def given(data, seed):
        draws = without(data, seed)
        ends = np.array([1.0, -1.0]) * draws["scale"][:, None] + draws["top"][:, None]
        return {"ends": ends}

    computed = run(without, ["ends"], bounded_model())
    assert computed.quantities == ("ends[0]", "ends[1]")
    np.testing.assert_array_equal(
        computed.probabilities, run(given, ["ends"], bounded_model()).probabilities
    )


def test_functions_need_draws_of_all_parameters():
    def some(data, seed):
        return {"top": np.zeros(9)}

    quantities = {"a": lambda theta: theta["top"]}
    with pytest.raises(ValueError, match="no draws of scale, loc, which the quantities a need"):
        run(some, quantities, bounded_model())


def test_distribution_functions_are_no_draws():
    """They say nothing of the likelihood, which is there by default."""
    with pytest.raises(ValueError, match=r"marginal_cdf returned nothing for .*'log_likelihood'"):
        run(lambda data, seed: Normals(data), None, pair_model())


class Cdf:
    def __init__(self, value):
        self.value = value

    def marginal_cdf(self, theta):
        if isinstance(self.value, Exception):
            raise self.value
        return {"theta": self.value + 0.0 * theta["theta"]}


@pytest.mark.parametrize(
    ("value", "message"),
    [(1.5, "between 0 and 1, got 1.5 to 1.5"), (np.zeros((2, 1)), r"shape \(4\), got \(2, 4\)")],
)
def test_a_distribution_function_that_is_none_ends_the_run(value, message):
    with pytest.raises(ValueError, match=f"marginal_cdf must return.*{message}"):
        run(lambda data, seed: Cdf(value))


@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "marginal_cdf returned NaN for theta"), (KeyError("mu"), "KeyError: 'mu'")],
)
def test_a_distribution_function_may_fail_on_some_data(value, message):
    def fit(data, seed):
        return Cdf(value if data["y"][0] > 0 else 0.5)

    found = run(fit)
    assert 0 < len(found.failures) < SIZE
    assert set(found.failures["status"]) == {"FAILED"}
    assert found.failures["message"].str.contains(message).all()
    assert (found.probabilities[found.converged.to_numpy()] == 0.5).all()


def test_a_function_of_the_data_alone_is_refused():
    with pytest.raises(
        TypeError, match=r"fit must take two arguments.* got a function of \(data\)"
    ):
        vsbc(pair_model(), fit=lambda data: {}, num_datasets=4)
