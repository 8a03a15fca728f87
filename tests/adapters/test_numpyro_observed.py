"""What a NumPyro model observes is found from what reaches ``obs=``, whatever it is called."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.infer.autoguide import AutoNormal
from scipy import stats

import vicheck
from vicheck.errors import ModelError

NUM_COUNTIES = 12
RNG = np.random.default_rng(0)
COUNTY = RNG.integers(0, NUM_COUNTIES, 80)
FLOOR = RNG.integers(0, 2, 80)
LOG_RADON = 1.3 - 0.6 * FLOOR + RNG.normal(0.0, 0.8, 80)
X = np.linspace(0.5, 2.0, 5)
SCORES = np.array([1.0, 3.0, 0.0, 4.0, 2.0])
SEEN = np.array([True, True, False, True, False])


def radon(county, floor, log_radon=None):
    mu = numpyro.sample("mu_a", dist.Normal(0.0, 2.0))
    spread = numpyro.sample("sigma_a", dist.HalfNormal(1.0))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("counties", NUM_COUNTIES):
        a = numpyro.sample("a", dist.Normal(mu, spread))
    with numpyro.plate("houses", len(county)):
        numpyro.sample("level", dist.Normal(a[county] + b * floor, sigma), obs=log_radon)


def radon_without_default(county, floor, log_radon):
    radon(county, floor, log_radon)


# ---- models that observe something by another name than y


def line(x, score=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("outcome", dist.Normal(slope * x, 1.0), obs=score)


def line_of_dictionary(inputs):
    line(inputs["x"], inputs["score"])


def without_plate(score):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    numpyro.sample("outcome", dist.Normal(mu, 1.0), obs=score)


def as_long_as_the_data(score):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    with numpyro.plate("rows", len(score)):
        numpyro.sample("outcome", dist.Normal(mu, 1.0), obs=score)


def indexed_by_a_plate(score):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    with numpyro.plate("rows", len(score), subsample_size=2) as rows:
        numpyro.sample("outcome", dist.Normal(mu, 1.0), obs=score[rows])


def in_a_minibatch(score=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    with numpyro.plate("rows", 5, subsample_size=2):
        part = None if score is None else numpyro.subsample(score, event_dim=0)
        numpyro.sample("outcome", dist.Normal(mu, 1.0), obs=part)


def copied(score):
    without_plate(jnp.array(score).reshape(-1))


def counts(score):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    numpyro.sample("outcome", dist.Poisson(rate).expand([5]), obs=score.astype(int))


def two(first=None, second=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.sample("a", dist.Normal(mu, 1.0).expand([3]), obs=first)
    numpyro.sample("b", dist.Poisson(jnp.exp(mu)).expand([4]), obs=second)


def partly_seen(x, seen, score=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("outcome", dist.Normal(slope * x, 1.0), obs=score, obs_mask=seen)


def masked(x, seen, score=None):
    with handlers.mask(mask=seen):
        line(x, score)


def shifted_by_a_constant(x, score=None):
    line(x, score)
    numpyro.factor("constant", -1.0)


def walk(num_steps, score=None):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))

    def step(place, seen):
        place = numpyro.sample("place", dist.Normal(place, scale))
        numpyro.sample("outcome", dist.Normal(place, 1.0), obs=seen)
        return place, None

    scan(step, 0.0, score, length=num_steps)


def one_number(score=None, scale=1.0):
    mu = numpyro.sample("mu", dist.Normal(0.0, scale))
    numpyro.sample("outcome", dist.Normal(mu, 1.0), obs=score)


FOUND = {
    "positional": (partial(vicheck.from_numpyro, line, X, SCORES), {"score": (5,)}),
    "missing": (partial(vicheck.from_numpyro, line, X), {"score": (5,)}),
    "missing, said": (partial(vicheck.from_numpyro, line, X, score=None), {"score": (5,)}),
    "no plate": (partial(vicheck.from_numpyro, without_plate, SCORES), {"score": (5,)}),
    "length": (partial(vicheck.from_numpyro, as_long_as_the_data, SCORES), {"score": (5,)}),
    "index": (partial(vicheck.from_numpyro, indexed_by_a_plate, SCORES), {"score": (5,)}),
    "minibatch": (partial(vicheck.from_numpyro, in_a_minibatch, SCORES), {"score": (5,)}),
    "minibatch, missing": (partial(vicheck.from_numpyro, in_a_minibatch), {"score": (5,)}),
    "copy": (partial(vicheck.from_numpyro, copied, SCORES[:, None]), {"score": (5, 1)}),
    "cast": (partial(vicheck.from_numpyro, counts, SCORES), {"score": (5,)}),
    "two": (
        partial(vicheck.from_numpyro, two, np.ones(3), np.arange(4)),
        {"first": (3,), "second": (4,)},
    ),
    "two, one missing": (
        partial(vicheck.from_numpyro, two, second=np.arange(4)),
        {"first": (3,), "second": (4,)},
    ),
    "two, missing": (partial(vicheck.from_numpyro, two), {"first": (3,), "second": (4,)}),
    "obs_mask": (partial(vicheck.from_numpyro, partly_seen, X, SEEN, SCORES), {"score": (5,)}),
    "obs_mask, missing": (partial(vicheck.from_numpyro, partly_seen, X, SEEN), {"score": (5,)}),
    "mask": (partial(vicheck.from_numpyro, masked, X, SEEN, SCORES), {"score": (5,)}),
    "factor": (
        partial(vicheck.from_numpyro, shifted_by_a_constant, X, SCORES),
        {"score": (5,)},
    ),
    "scan": (partial(vicheck.from_numpyro, walk, 5, SCORES), {"score": (5,)}),
    "scan, missing": (partial(vicheck.from_numpyro, walk, 5), {"score": (5,)}),
    "number": (partial(vicheck.from_numpyro, one_number, 2.0), {"score": ()}),
    "equal numbers": (partial(vicheck.from_numpyro, one_number, 1.0, scale=1.0), {"score": ()}),
}


@pytest.mark.parametrize("case", FOUND)
def test_what_reaches_obs_is_simulated(case):
    make, shapes = FOUND[case]
    model = make()
    assert set(model.observed) == set(shapes)
    drawn = [model.simulate(seed)[1] for seed in (1, 2)]
    for name, shape in shapes.items():
        own, (first, second) = model.data.get(name), (data[name] for data in drawn)
        assert first.shape == second.shape == shape
        assert not np.array_equal(first, second)
        assert own is None or not np.array_equal(own, first)
    assert set(model.missing) == set(shapes) - set(model.data)
    for name in set(model.data) - set(shapes):
        np.testing.assert_array_equal(drawn[0][name], model.data[name])
    assert not set(model.coordinates) & set(model.observed)
    z, data = model.simulate(3)
    assert np.isfinite(model.given(data).log_density(z))


def test_an_array_in_a_dictionary_is_simulated_alone():
    model = vicheck.from_numpyro(line_of_dictionary, {"x": X, "score": SCORES})
    assert model.observed == ("inputs.score",)
    (_, first), (_, second) = (model.simulate(seed) for seed in (1, 2))
    np.testing.assert_array_equal(first["inputs"]["x"], X)
    assert not np.isin(first["inputs"]["score"], second["inputs"]["score"]).any()
    assert not np.isin(first["inputs"]["score"], SCORES).any()
    plain = vicheck.from_numpyro(line, X, SCORES)
    expected = plain.simulate(1)[1]["score"]
    np.testing.assert_array_equal(first["inputs"]["score"], expected)

    def exact(data, seed):
        """Draw from the posterior of the slope."""
        inputs = data.get("inputs", data)
        precision = 1.0 + inputs["x"] @ inputs["x"]
        noise = np.random.default_rng(seed).normal(size=99) / np.sqrt(precision)
        return {"slope": inputs["x"] @ inputs["score"] / precision + noise}

    options = {"num_datasets": 40, "quantities": ["slope"], "fit": exact, "progress": False}
    ours, native = vicheck.vsbc(model, **options), vicheck.vsbc(plain, **options)
    np.testing.assert_array_equal(ours.probabilities, native.probabilities)
    # Exact draws have uniform ranks; level 1e-4.
    assert stats.kstest(ours.probabilities.to_numpy()[:, 0], "uniform").pvalue > 1e-4


def test_observed_again_it_has_the_same_bits_however_it_is_drawn():
    """The model draws what is None, or vicheck draws the site: the random numbers are the same."""
    own = vicheck.from_numpyro(as_long_as_the_data, SCORES)

    def told(num_rows, score=None):
        mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
        with numpyro.plate("rows", num_rows):
            numpyro.sample("outcome", dist.Normal(mu, 1.0), obs=score)

    (z, data), (other_z, other) = own.simulate(1), vicheck.from_numpyro(told, 5).simulate(1)
    np.testing.assert_array_equal(z, other_z)
    np.testing.assert_array_equal(data["score"], other["score"])


def test_without_a_plate_every_observation_is_drawn_for_itself():
    model = vicheck.from_numpyro(without_plate, np.zeros(2000))
    z, data = model.simulate(0)
    # Level 1e-4.
    assert stats.kstest(data["score"] - z[0], "norm").pvalue > 1e-4


def test_data_of_another_length_are_simulated_in_that():
    model = vicheck.from_numpyro(as_long_as_the_data, SCORES).given({"score": np.ones(9)})
    assert model.simulate(0)[1]["score"].shape == (9,)
    longer = vicheck.from_numpyro(line, X, SCORES).given({"x": np.ones(9), "score": np.ones(9)})
    assert longer.simulate(0)[1]["score"].shape == (9,)


# ---- radon, as a new user has it


@pytest.mark.slow
def test_radon_is_simulated_and_calibrated():
    model = vicheck.from_numpyro(radon, county=COUNTY, floor=FLOOR, log_radon=LOG_RADON)
    assert model.observed == ("log_radon",)
    assert model.dim == 4 + NUM_COUNTIES
    drawn = np.stack([model.simulate(seed)[1]["log_radon"] for seed in range(5)])
    assert len(np.unique(drawn)) == drawn.size
    assert not np.isin(drawn, LOG_RADON).any()
    found = vicheck.vsbc(model, num_datasets=100, quantities=["b", "sigma"], progress=False)
    assert "100 simulated datasets (log_radon), over the prior" in str(found)
    # Both are well known from 80 houses, and mean field is about right for them.
    assert (found.tests["bias"].abs() < 0.5).all()
    assert found.tests["dispersion"].between(0.6, 1.8).all()
    left_out = vicheck.from_numpyro(radon, county=COUNTY, floor=FLOOR)
    again = vicheck.vsbc(left_out, num_datasets=100, quantities=["b", "sigma"], progress=False)
    np.testing.assert_array_equal(found.probabilities, again.probabilities)
    assert found.settings.model == again.settings.model


@pytest.mark.parametrize("function", [radon, radon_without_default])
def test_data_left_out_are_missing_and_no_parameters(function):
    model = vicheck.from_numpyro(function, COUNTY, FLOOR)
    assert model.missing == ("log_radon",)
    assert model.dim == 4 + NUM_COUNTIES
    with pytest.raises(ModelError, match=r"no data for log_radon: pass data=\{'log_radon'"):
        vicheck.fit(model)
    whole = model.given({"log_radon": LOG_RADON})
    z = np.zeros(model.dim)
    expected = vicheck.from_numpyro(radon, COUNTY, FLOOR, LOG_RADON).log_density(z)
    assert whole.log_density(z) == expected


def test_a_covariate_left_out_is_said():
    with pytest.raises(ModelError, match="missing a required argument: 'floor'"):
        vicheck.from_numpyro(radon_without_default, COUNTY)


# ---- what a draw of a site cannot stand for


def logarithm(score=None):
    without_plate(None if score is None else jnp.log(score))


def standardised(score):
    without_plate((score - score.mean()) / score.std())


def lagged(score):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("outcome", dist.Normal(slope * score[:-1], 1.0), obs=score[1:])


def lagged_with_a_start(score):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    before = jnp.concatenate([jnp.zeros(1), score[:-1]])
    numpyro.sample("outcome", dist.Normal(slope * before, 1.0), obs=score)


def prior_from_the_data(score):
    mu = numpyro.sample("mu", dist.Normal(score.mean(), 5.0))
    numpyro.sample("outcome", dist.Normal(mu, 1.0).expand([5]), obs=score)


def two_columns(score):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.sample("left", dist.Normal(mu, 1.0).expand([5]), obs=score[:, 0])
    numpyro.sample("right", dist.Normal(mu, 2.0).expand([5]), obs=score[:, 1])


def twice(score=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.sample("left", dist.Normal(mu, 1.0).expand([5]), obs=score)
    numpyro.sample("right", dist.Normal(mu, 2.0).expand([5]), obs=score)


def closed_over(x):
    line(x, SCORES)


def penalised(x, score=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.factor("penalty", -(slope**2))
    numpyro.sample("outcome", dist.Normal(slope * x, 1.0), obs=score)


def likelihood_as_a_factor(x, score):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.factor("likelihood", dist.Normal(slope * x, 1.0).log_prob(score).sum())


def sees_nothing(x):
    numpyro.sample("slope", dist.Normal(0.0, 1.0).expand([len(x)]).to_event(1))


def optional_scale(x, tau=None, score=None):
    tau = numpyro.sample("tau", dist.HalfNormal(1.0), obs=tau)
    slope = numpyro.sample("slope", dist.Normal(0.0, tau))
    numpyro.sample("outcome", dist.Normal(slope * x, 1.0), obs=score)


CHANGED = "'outcome' observes something that the model computes from 'score'"
REFUSED = {
    "logarithm": (partial(vicheck.from_numpyro, logarithm, SCORES + 1.0), CHANGED),
    "logarithm, missing": (partial(vicheck.from_numpyro, logarithm), CHANGED),
    "standardised": (partial(vicheck.from_numpyro, standardised, SCORES), CHANGED),
    "named": (
        partial(vicheck.from_numpyro, logarithm, SCORES + 1.0, observed=("score",)),
        CHANGED,
    ),
    "lag": (partial(vicheck.from_numpyro, lagged, SCORES), CHANGED),
    "lag and all": (
        partial(vicheck.from_numpyro, lagged_with_a_start, SCORES),
        "cannot draw 'score': site 'outcome' needs its values",
    ),
    "prior": (
        partial(vicheck.from_numpyro, prior_from_the_data, SCORES),
        "the prior of 'mu' depends on 'score', which is observed",
    ),
    "columns": (
        partial(vicheck.from_numpyro, two_columns, np.ones((5, 2))),
        "'left' observes something that the model computes from 'score'",
    ),
    "twice": (
        partial(vicheck.from_numpyro, twice, SCORES),
        "'score' is observed at several sites, left and right",
    ),
    "closure": (
        partial(vicheck.from_numpyro, closed_over, X),
        "'outcome' observes an array that was not given as an argument.*: make it an argument",
    ),
    "condition": (
        partial(vicheck.from_numpyro, handlers.condition(line, data={"outcome": SCORES}), X),
        "'outcome' observes an array that was not given as an argument",
    ),
    "factor": (
        partial(vicheck.from_numpyro, penalised, X, SCORES),
        "nothing can be drawn from the numpyro.factor 'penalty'",
    ),
    "likelihood as a factor": (
        partial(vicheck.from_numpyro, likelihood_as_a_factor, X, SCORES),
        "nothing can be drawn from the numpyro.factor 'likelihood'",
    ),
    "nothing": (partial(vicheck.from_numpyro, sees_nothing, X), "the model observes nothing"),
    "nothing, by word": (
        partial(vicheck.from_numpyro, line, X, SCORES, observed=()),
        r"nothing is observed, by observed=\(\)",
    ),
    "one of two": (
        partial(vicheck.from_numpyro, two, np.ones(3), np.arange(4), observed=("first",)),
        "'b' observes 'second', which observed= leaves out.*: name 'second' in observed= too",
    ),
    "a covariate": (
        partial(vicheck.from_numpyro, line, X, SCORES, observed=("x", "score")),
        "'x' reaches no obs= of the model",
    ),
    "in doubt": (
        partial(vicheck.from_numpyro, optional_scale, X, score=SCORES),
        "'tau' was left out, and 'slope' depends on it, so it may be data or a parameter",
    ),
    "drawn otherwise": (
        lambda: vicheck.from_numpyro(without_plate).given({"score": SCORES}),
        r"draws 'score' with shape \(\), but has it with shape \(5,\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_simulated_is_refused(case):
    make, message = REFUSED[case]
    model = make()
    with pytest.raises(ModelError, match=message):
        model.simulate(1)
    with pytest.raises(ModelError, match=message):
        vicheck.vsbc(model, num_datasets=2, progress=False)


@pytest.mark.parametrize("function", [standardised, lagged, prior_from_the_data])
def test_what_cannot_be_simulated_has_a_density(function):
    model = vicheck.from_numpyro(function, SCORES)
    assert np.isfinite(model.log_density(np.zeros(model.dim)))


def test_a_fixed_parameter_is_no_hindrance():
    fixed = handlers.condition(optional_scale, data={"tau": 0.5})
    model = vicheck.from_numpyro(fixed, X, score=SCORES)
    assert model.coordinates == ("slope",)
    assert not np.isin(model.simulate(0)[1]["score"], SCORES).any()


# ---- fits by SVI


@pytest.mark.slow
def test_svi_is_calibrated_on_simulated_data_of_any_name():
    adam, options = numpyro.optim.Adam(0.1), {"num_datasets": 12, "progress": False}
    found = vicheck.vsbc_numpyro(line, AutoNormal(line), adam, 300, X, SCORES, **options)
    assert "12 simulated datasets (score)" in found.title
    # The posterior sd of the slope is 0.3, the truths' is 1: with the same data every time almost
    # all probabilities would be 0 or 1.
    assert ((found.probabilities[:, 0] > 0.01) & (found.probabilities[:, 0] < 0.99)).mean() > 0.7
    guide = AutoNormal(closed_over)
    with pytest.raises(ModelError, match="an array that was not given as an argument"):
        vicheck.vsbc_numpyro(closed_over, guide, adam, 10, X, **options)


def test_data_left_out_of_a_check_are_named():
    guide, adam = AutoNormal(line), numpyro.optim.Adam(0.1)
    loss = numpyro.infer.Trace_ELBO()
    svi = numpyro.infer.SVI(line, guide, adam, loss)
    state = svi.init(jax.random.key(0), X, SCORES)
    with pytest.raises(
        ModelError, match=r"site 'outcome' of the model.*: if 'outcome' was observed"
    ):
        vicheck.check_numpyro(line, guide, svi.get_params(state), X)


# ---- what the user says


def test_an_optional_argument_can_be_a_parameter():
    waiting = vicheck.from_numpyro(optional_scale, X, score=SCORES)
    assert waiting.missing == ("tau",)
    with pytest.raises(ModelError, match=r"no data for tau: .*observed= what is observed instead"):
        waiting.require_data()
    model = vicheck.from_numpyro(optional_scale, X, score=SCORES, observed=("score",))
    assert model.missing == ()
    assert model.coordinates == ("tau", "slope")
    assert model.observed == ("score",)
    assert not np.isin(model.simulate(0)[1]["score"], SCORES).any()


def test_a_site_can_be_named_for_an_argument():
    """The user's word counts where it cannot be seen: positive scores are left alone."""

    def at_least(score):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("outcome", dist.LogNormal(mu, 1.0).expand([5]), obs=score + 0.0 * mu)

    with pytest.raises(ModelError, match="computes from 'score'"):
        vicheck.from_numpyro(at_least, SCORES + 1.0).simulate(0)
    model = vicheck.from_numpyro(at_least, SCORES + 1.0, observed={"score": "outcome"})
    first, second = (model.simulate(seed)[1]["score"] for seed in (1, 2))
    assert not np.isin(first, second).any()


def test_nothing_said_to_be_observed_makes_parameters_of_what_is_left_out():
    model = vicheck.from_numpyro(line, X, observed=())
    assert model.missing == ()
    assert model.coordinates == ("slope", *(f"outcome[{i}]" for i in range(5)))
