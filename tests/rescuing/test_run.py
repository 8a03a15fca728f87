"""Rescues of fits with known answers, and of what cannot be rescued."""

import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import t as student_t

import vicheck
from vicheck import errors
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred, horseshoe_logistic
from vicheck.rescuing import candidate, sampling, under_way
from vicheck.rescuing import run as rescuing
from vicheck.rescuing.believed import endless_sds
from vicheck.rescuing.candidate import NUM_SCREENED, Candidate, judged
from vicheck.rescuing.ladder import LADDER, Rung, ordered
from vicheck.rescuing.proposals import t_around
from vicheck.rescuing.ranking import can_be_used
from vicheck.runtime.tally import Tally, tallied
from vicheck.vi.families.students import Students

FEW = {"num_draws": 20_000}


def correlated(dim=4):
    precision = np.linalg.inv(0.95 * np.ones((dim, dim)) + 0.05 * np.eye(dim))
    return vicheck.from_log_density(lambda x: -0.5 * x @ precision @ x, np.zeros(dim))


@pytest.fixture(scope="module")
def of_correlated():
    return vicheck.rescue(vicheck.fit(correlated()), **FEW)


def test_correlations_are_followed(of_correlated):
    assert of_correlated.succeeded
    assert of_correlated.check.verdict.level == "good"
    assert of_correlated.check.khat < 0.5
    np.testing.assert_allclose(of_correlated.moments["mean"], 0.0, atol=0.05)
    np.testing.assert_allclose(of_correlated.moments["sd"], 1.0, atol=0.05)
    assert of_correlated.fit.family == "full_rank"
    assert set(of_correlated.moments["source"]) == {"psis"}


def test_the_trail_has_what_was_tried_and_what_it_cost(of_correlated):
    trail = of_correlated.trail
    assert trail["remedy"][0] == "none"
    assert trail["kept"].iloc[-1]
    assert trail["remedy"].iloc[-1] == "richer-family"
    assert (trail["khat_before"] > 0.7).all()
    assert trail["khat_after"].iloc[-1] < 0.5
    assert (trail["seconds"] >= 0.0).all()
    assert trail["evaluations"].iloc[-1] > 20_000


@pytest.mark.slow
def test_its_lines_repeat_it_without_a_search(of_correlated):
    namespace = {"vicheck": vicheck, "fit": vicheck.fit(correlated())}
    exec(of_correlated.code, namespace)
    again = namespace["rescued"]
    assert again.fit.family == "full_rank"
    assert again.check.verdict.level == "good"
    assert len(again.attempts) == 2


def test_a_good_fit_is_returned_as_it_is():
    model = vicheck.from_log_density(lambda x: -0.5 * x @ x, np.zeros(2))
    rescued = vicheck.rescue(vicheck.fit(model), **FEW)
    assert rescued.succeeded
    assert len(rescued.attempts) == 1
    assert rescued.sentence == "There was nothing to mend: the verdict is good."


@pytest.mark.slow
def test_the_centred_eight_schools_need_no_hint_at_the_parametrization():
    model = vicheck.from_numpyro(eight_schools_centred, **EIGHT_SCHOOLS)
    fit = vicheck.fit(model)
    assert vicheck.check(fit).verdict.level == "unreliable"
    rescued = vicheck.rescue(fit, budget=600.0)
    assert rescued.succeeded
    assert rescued.check.khat < 0.5
    assert "reparametrise" in set(rescued.trail["remedy"][rescued.trail["kept"]])
    tau = rescued.moments.loc["tau"]  # by quadrature 3.598, as in the demo
    assert tau["mean"] == pytest.approx(3.598, abs=4 * tau["mcse"])
    assert "LocScaleReparam" in rescued.code


@pytest.mark.slow
def test_heavy_tails_get_a_t():
    model = vicheck.from_log_density(lambda x: dist.StudentT(4.0).log_prob(x).sum(), np.zeros(6))
    rescued = vicheck.rescue(vicheck.fit(model), remedies=["heavier-tails", "adapt"], **FEW)
    assert rescued.succeeded
    assert rescued.check.khat < 0.5
    np.testing.assert_allclose(rescued.moments["sd"], 2.0**0.5, rtol=0.1)


@pytest.mark.slow
def test_modes_that_the_search_found_get_a_part_each():
    def log_density(x):
        normal = dist.Normal(0.0, 1.0).log_prob
        apart = jnp.logaddexp(jnp.log(0.8) + normal(x[0]), jnp.log(0.2) + normal(x[0] - 7.0))
        return apart + normal(x[1])

    model = vicheck.from_log_density(log_density, np.zeros(2))
    rescued = vicheck.rescue(vicheck.fit(model), remedies=["cover-modes"], **FEW)
    assert rescued.succeeded
    first = rescued.moments.loc["x[0]"]
    assert first["mean"] == pytest.approx(1.4, abs=0.15)
    assert first["sd"] == pytest.approx((1.0 + 0.16 * 49.0) ** 0.5, rel=0.05)


def test_draws_with_a_model_can_be_rescued():
    model = correlated(2)
    checked = vicheck.check(vicheck.fit(model), num_draws=5000)
    rescued = vicheck.rescue(checked, remedies=["adapt"], **FEW)
    assert rescued.succeeded
    np.testing.assert_allclose(rescued.moments["sd"], 1.0, atol=0.05)


@pytest.mark.slow
def test_nuts_is_what_is_left_where_nothing_else_is_tried():
    model = vicheck.from_log_density(
        lambda x: -0.5 * (x[0] / 3.0) ** 2 - 0.5 * jnp.exp(-x[0]) * x[1] ** 2 - 0.5 * x[0],
        np.zeros(2),
    )
    rescued = vicheck.rescue(vicheck.fit(model), remedies=["mcmc"], budget=300.0, **FEW)
    row = rescued.trail.iloc[-1]
    assert row["remedy"] == "mcmc"
    assert row["evaluations"] > rescued.reference.num_gradients > 0
    assert rescued.succeeded == (rescued.reference.caution == "")


@pytest.mark.slow
def test_a_horseshoe_is_not_rescued_and_what_drifts_and_nuts_would_cost_is_said(monkeypatch):
    rng = np.random.default_rng(1)
    design = rng.normal(size=(40, 100))
    outcome = (design[:, 0] + 0.5 * rng.normal(size=40) > 0.0).astype(int)
    model = vicheck.from_numpyro(horseshoe_logistic, design, outcome)
    assert model.dim > 200
    monkeypatch.setattr(sampling, "_STEP_SECONDS", 100.0)  # as if it were large
    fit = vicheck.fit(model)
    asked = ["heavier-tails", "mcmc"]
    rescued = vicheck.rescue(fit, remedies=asked, budget=1000.0, num_draws=4000)
    assert not rescued.succeeded
    assert rescued.check.khat > 0.7
    assert "are too many for importance sampling" in rescued.trail["why"].iloc[1]
    chains = rescued.check.chains
    worst = chains.names[np.nanargmax(np.abs(chains.drift))]
    assert f"Short chains move the mean of {worst} by" in rescued.sentence
    assert rescued.trail["remedy"].iloc[-1] == "mcmc"
    would_take = rescued.trail["why"].iloc[-1]
    assert re.match(r"NUTS would take about \d+ h \(4 chains", would_take)
    assert rescued.sentence.endswith(f" {would_take}.")


def test_what_nuts_has_cost_in_vain_is_said(monkeypatch):
    z = np.random.default_rng(2).normal(size=(4, 100, 2))
    numbers = [dict.fromkeys(("x[0]", "x[1]"), each) for each in (1.4, 8.0, 0.4)]
    found = vicheck.Reference(z, {"x": z}, *numbers, num_divergent=0)
    monkeypatch.setattr(under_way, "sampled", lambda patient: found)
    rescued = vicheck.rescue(vicheck.fit(correlated(2)), remedies=["mcmc"], **FEW)
    assert not rescued.succeeded
    said = r"NUTS has not mixed in 0 gradients and \d s: the largest Rhat is 1.400, .* "
    assert re.search(said + "An ESS of 400 would take at least 50 times as long.", rescued.sentence)


def test_nuts_is_expected_to_take_more_steps_in_many_dimensions():
    assert [sampling._steps_expected(dim) for dim in (2, 100, 1600)] == [31, 31, 62]


def hopeless_rung(name, outcome):
    def run(patient):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Rung(name, frozenset(), run)


def test_a_remedy_that_raises_is_a_row_of_the_trail(monkeypatch):
    broken = hopeless_rung("adapt", RuntimeError("no such luck"))
    monkeypatch.setattr(rescuing, "LADDER", (broken,))
    rescued = vicheck.rescue(vicheck.fit(correlated(2)), remedies=["adapt"], **FEW)
    assert not rescued.succeeded
    assert rescued.trail["why"].iloc[1] == "failed: RuntimeError: no such luck"
    assert rescued.sentence.startswith("Not rescued: khat")


def test_an_interrupted_rescue_returns_the_best_so_far(monkeypatch):
    def interrupt(patient):
        raise KeyboardInterrupt

    first = next(rung for rung in LADDER if rung.name == "richer-family")
    monkeypatch.setattr(
        rescuing,
        "LADDER",
        (hopeless_rung("mixture", "not for now"), Rung("adapt", frozenset(), interrupt), first),
    )
    rescued = vicheck.rescue(vicheck.fit(correlated(2)), remedies=["mixture", "adapt"], **FEW)
    assert not rescued.succeeded
    assert "(interrupted)" in rescued.sentence


@pytest.mark.slow
def test_a_renyi_divergence_follows_correlations_when_asked_to():
    rescued = vicheck.rescue(vicheck.fit(correlated(3)), remedies=["renyi"], **FEW)
    assert list(rescued.trail["remedy"][rescued.trail["kept"]])[1:] == ["renyi"]
    assert rescued.check.khat < 0.5
    np.testing.assert_allclose(rescued.moments["sd"], 1.0, atol=0.05)


def test_a_renyi_divergence_is_not_tried_in_many_dimensions():
    rescued = vicheck.rescue(vicheck.fit(correlated(12)), remedies=["renyi"], **FEW)
    assert "12 parameters are too many for Renyi" in rescued.trail["why"].iloc[1]


def test_a_flow_needs_its_library_and_more_than_one_parameter(monkeypatch):
    flow = next(rung for rung in LADDER if rung.name == "flow")
    assert (
        flow.run(SimpleNamespace(model=correlated(1)))
        == "a flow changes coordinates by others, and there is only one"
    )
    assert "101 parameters are too many" in flow.run(SimpleNamespace(model=correlated(101)))
    monkeypatch.setitem(errors.EXTRAS, "flow", "no_such_library")
    rescued = vicheck.rescue(vicheck.fit(correlated(3)), remedies=["flow"], **FEW)
    assert not rescued.succeeded
    assert rescued.trail["why"].iloc[1] == (
        "this needs no_such_library, which is not installed: pip install 'vicheck[flow]'"
    )


def hierarchy(dim=12):
    """The last coordinate is the log width of all others: a funnel that is not deep."""

    def log_density(x):
        scale = dist.Normal(0.0, jnp.exp(x[-1]))
        return dist.Normal(0.0, 0.5).log_prob(x[-1]) + scale.log_prob(x[:-1]).sum()

    return vicheck.from_log_density(log_density, np.zeros(dim))


@pytest.mark.slow
def test_widths_that_follow_another_coordinate_are_learned():
    rescued = vicheck.rescue(vicheck.fit(hierarchy()), remedies=["condition"], **FEW)
    before, after = rescued.trail["khat_after"].iloc[[0, 1]]
    assert before > 0.7
    assert after < 0.4
    assert rescued.succeeded
    known = rescued.moments.loc["x[11]"]
    assert known["mean"] == pytest.approx(0.0, abs=0.03)
    assert known["sd"] == pytest.approx(0.5, rel=0.05)
    # The variance of the others is the mean of exp(2 x[11]).
    assert rescued.moments.loc["x[0]", "sd"] == pytest.approx(np.exp(0.25), rel=0.1)


@pytest.mark.slow
def test_the_centred_eight_schools_are_rescued_where_nothing_can_be_reparametrised():
    """As a bare density, as a model of Stan is one; the exact mean and sd of tau are 3.60, 3.20."""
    known = vicheck.from_numpyro(eight_schools_centred, **EIGHT_SCHOOLS)
    place = list(known.coordinates).index("tau")

    def log_density(z):
        return known.program.log_density(z, known.data)

    def tau(theta):
        return jnp.exp(theta["x"][place])

    model = vicheck.from_log_density(log_density, np.zeros(10))
    rescued = vicheck.rescue(vicheck.fit(model), quantities={"tau": tau}, seed=3)
    assert rescued.succeeded
    assert rescued.remedies == ("condition",)
    assert rescued.check.khat < 0.5
    assert rescued.check.psis.ess > 0.6 * len(rescued.check.psis.log_weights)
    moments = rescued.moments.loc["tau"]
    assert moments["mean"] == pytest.approx(3.60, abs=0.1)
    assert moments["sd"] == pytest.approx(3.20, rel=0.05)


@pytest.mark.parametrize(
    ("moves", "level", "code", "khat", "calls"),
    [
        ((0.01, 0.5), "usable", "chains-agree", 0.3, [128, 512]),
        ((0.3, 0.5), "usable", "chains-agree", 0.3, [128]),
        ((0.3, 0.5), "unreliable", "chains-undecided", 0.3, [128, 512]),
        ((0.3, 0.5), "unreliable", "chains-undecided", 0.6, [128]),
        ((0.3, 0.5), "unreliable", "chains-drift", 0.3, [128, 512]),  # of plain draws
        ((0.01, 0.5), "unreliable", "chains-drift-weighted", 0.3, [128]),
    ],
)
def test_what_is_open_is_looked_at_by_more_chains(monkeypatch, moves, level, code, khat, calls):
    asked = []

    def checked(made, title, quantities, num_draws, seed, chains, chains_below):
        asked.append((seed, chains))
        drift = SimpleNamespace(shift_p=np.array([*moves, np.nan]))
        return SimpleNamespace(
            verdict=SimpleNamespace(level=level),
            moments={"use": np.array(["psis"])},
            findings=[SimpleNamespace(code=code)],
            kept_log_weights=np.empty(0),
            khat=khat,
            chains=SimpleNamespace(starts="weighted", from_starts=drift),
        )

    monkeypatch.setattr(candidate, "_checked", checked)
    judged(Candidate(None, None), "", None, 1000, 7)
    assert [chains for _, chains in asked] == calls
    assert len({seed for seed, _ in asked}) == len(asked)


def test_an_sd_that_may_not_exist_is_no_rescue():
    """Weights of a heavier t are bounded, and a t with 2 degrees of freedom has no variance."""
    rng = np.random.default_rng(2)
    z = rng.standard_t(1.5, size=(20_000, 2))
    log_q = student_t(1.5).logpdf(z).sum(axis=1)
    for df, names in ((2.0, ["x[0]", "x[1]"]), (9.0, [])):
        log_p = student_t(df).logpdf(z).sum(axis=1)
        checked = vicheck.check_draws({"x": z}, log_p, log_q)
        assert checked.khat < 0.3
        assert endless_sds(checked) == names
        assert can_be_used(checked) <= (not names)


def test_conditions_need_drivers_and_a_few_parameters():
    rung = next(rung for rung in LADDER if rung.name == "condition")
    few, many = (SimpleNamespace(model=correlated(dim)) for dim in (2, 101))
    assert rung.run(few) == "2 parameters are too few for some to depend on others"
    assert "101 parameters are too many" in rung.run(many)
    fit = vicheck.fit(correlated(4), family="full_rank")
    patient = SimpleNamespace(model=fit.model, seed=0, candidate=Candidate(fit.model, fit.q, fit))
    assert rung.run(patient) == "no coordinate changes the widths of others"


def test_what_no_chain_has_seen_is_not_called_usable(monkeypatch):
    """Of two variables with correlation 0.5 the best q has khat 0.5, and the weights work."""
    model = vicheck.from_log_density(
        lambda x: -0.5 * (x[0] ** 2 + x[1] ** 2 - x[0] * x[1]) / 0.75, np.zeros(2)
    )
    fit = vicheck.fit(model)
    monkeypatch.setattr(rescuing, "is_promising", lambda seen: False)  # so that no chains are run
    cut_off = vicheck.rescue(fit, budget=0)
    assert cut_off.check.verdict.level == "usable"
    assert cut_off.check.chains is None
    assert not cut_off.succeeded
    assert "the budget is used up" in cut_off.sentence
    assert cut_off.sentence.endswith("It was not looked at by short chains.")
    looked_at = vicheck.rescue(fit, remedies=["converge"], **FEW)
    assert looked_at.check.chains is not None
    # A check that was brought is taken as it is, with the khat that its user has seen.
    checked = vicheck.check(fit, num_draws=20_000, chains=False)
    brought = vicheck.rescue(checked, budget=0)
    assert brought.check is checked
    assert (brought.trail["draws"][0], brought.trail["khat_after"][0]) == (20_000, checked.khat)


def test_khats_of_different_numbers_of_draws_say_so(of_correlated):
    assert list(of_correlated.trail["draws"]) == [NUM_SCREENED, 20_000]
    assert f"khat {of_correlated.before.khat:.2f} of 8,000 draws before" in of_correlated.sentence
    assert f"{of_correlated.check.khat:.2f} of 20,000 draws after" in of_correlated.sentence


def test_draws_of_a_fit_are_evaluated_once_where_chains_follow():
    fit = vicheck.fit(correlated(2), family="full_rank")
    with tallied(Tally()) as tally:
        found = judged(Candidate(fit.model, fit.q, fit), "", None, 4000, 0, chains_below=0.5)
    assert found.chains is not None
    assert tally.densities == 4000


@pytest.mark.parametrize("chains_below", [np.inf, 0.7, -9.0])
def test_draws_of_a_proposal_are_evaluated_once(chains_below, monkeypatch):
    monkeypatch.setattr(candidate, "has_perhaps_moved", lambda checked: False)
    monkeypatch.setattr(candidate, "_is_open", lambda checked: False)
    model = correlated(2)
    q = Students.made_of(**vars(t_around(np.zeros(2), np.eye(2))))
    with tallied(Tally()) as tally:
        found = judged(Candidate(model, q), "", None, 4000, 0, chains_below=chains_below)
    assert (found.chains is not None) == (found.khat < chains_below)
    screened = judged(Candidate(model, q), "", None, 4000, 0, chains_below=-9.0)
    np.testing.assert_array_equal(found.log_p, screened.log_p)
    assert tally.densities == 4000


def test_moments_are_computed_once(of_correlated):
    assert of_correlated.moments is of_correlated.moments


def test_a_budget_of_zero_tries_nothing():
    rescued = vicheck.rescue(vicheck.fit(correlated(2)), budget=0, **FEW)
    assert len(rescued.attempts) == 1
    assert "the budget is used up" in rescued.sentence


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        (3, {}, "what must be a Fit, a Check, Draws with their model, or a Model, got int"),
        (None, {"budget": -1}, "budget must be a number of seconds, zero or more, got -1"),
        (None, {"budget": "long"}, "budget must be a number of seconds, zero or more, got 'long'"),
        (None, {"remedies": "adapt"}, "remedies must be a list of names, got the string 'adapt'"),
        (None, {"remedies": ["prayer"]}, "remedies must be among converge, .* got 'prayer'"),
        (None, {"num_draws": 10}, "num_draws must be an integer from 1000 on, got 10"),
    ],
)
def test_wrong_arguments_are_named(what, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        vicheck.rescue(vicheck.fit(correlated(2)) if what is None else what, **options)


def test_draws_without_a_model_are_refused():
    z = np.random.default_rng(1).normal(size=(2000, 1))
    draws = vicheck.Draws({"x": z}, -(z[:, 0] ** 2), -0.5 * z[:, 0] ** 2)
    with pytest.raises(ValueError, match="what must come with its model"):
        vicheck.rescue(draws)


def test_remedies_against_the_worst_cause_come_first():
    names = [rung.name for rung in ordered(LADDER, ["correlation", "funnel"])]
    assert names[:2] == ["richer-family", "reparametrise"]
    assert [rung.name for rung in ordered(LADDER, [])] == [rung.name for rung in LADDER]


@pytest.mark.slow
def test_a_funnel_that_no_proposal_can_follow_is_never_called_rescued():
    """Without other coordinates there is nothing to be done, though khat may be below 0.7."""

    def log_density(x):
        scale = dist.Normal(0.0, jnp.exp(0.5 * x[0]))
        return dist.Normal(0.0, 3.0).log_prob(x[0]) + scale.log_prob(x[1:]).sum()

    fit = vicheck.fit(vicheck.from_log_density(log_density, np.zeros(15)))
    remedies = ["heavier-tails", "adapt"]
    rescues = [
        vicheck.rescue(fit, remedies=remedies, seed=seed, num_draws=10_000) for seed in range(10)
    ]
    assert [each.succeeded for each in rescues] == [False] * 10


@pytest.mark.slow
def test_skewed_and_heavy_tailed_axes_are_bent():
    """A product of t is no multivariate t: each axis needs a tail of its own."""

    def log_density(x):
        return dist.StudentT(5.0).log_prob(x[:5]).sum() + dist.Gumbel().log_prob(x[5:]).sum()

    model = vicheck.from_log_density(log_density, np.zeros(8))
    rescued = vicheck.rescue(vicheck.fit(model), remedies=["bend"], **FEW)
    assert rescued.succeeded
    assert rescued.check.khat < 0.5
    assert rescued.fit.family == "bent"
    expected = [(5 / 3) ** 0.5] * 5 + [np.pi / 6**0.5] * 3
    np.testing.assert_allclose(rescued.moments["sd"], expected, rtol=0.1)


def test_parameters_far_away_and_narrow_need_no_other_scale():
    """One at a million with an sd of a thousandth, one as far on the other side and wide."""
    far, sds = np.array([1e6, -1e6, 1e3]), np.array([1e-3, 1e3, 1.0])

    def plain(e):
        return -0.5 * (e @ e + 0.8 * e[0] * e[1])

    fits = [
        vicheck.fit(vicheck.from_log_density(each, np.zeros(3)), num_starts=1)
        for each in (plain, lambda x: plain((x - far) / sds))
    ]
    assert [each.status.name for each in fits] == ["CONVERGED", "CONVERGED"]
    np.testing.assert_allclose((np.asarray(fits[1].q.mean) - far) / sds, 0.0, atol=1e-5)
    np.testing.assert_allclose(np.asarray(fits[1].q.sd) / sds, fits[0].q.sd, rtol=1e-5)


def test_gradients_are_counted_apart_from_densities(of_correlated):
    trail = of_correlated.trail
    assert (trail["gradients"] <= trail["evaluations"]).all()
    assert of_correlated.num_gradients == trail["gradients"].sum()
    assert of_correlated.num_evaluations - of_correlated.num_gradients >= 20_000
    last = of_correlated.check.chains
    assert trail["gradients"].iloc[-1] > last.num_chains * last.num_gradients


def test_a_hopeless_candidate_costs_few_draws_and_no_gradients(monkeypatch):
    """It is screened, and only what is promising is judged by all draws and chains."""
    model = correlated(2)
    wrong = vicheck.fit(vicheck.from_log_density(lambda x: -8.0 * x @ x, np.zeros(2))).q
    poor = hopeless_rung("adapt", Candidate(model, wrong))
    monkeypatch.setattr(rescuing, "LADDER", (poor,))
    rescued = vicheck.rescue(vicheck.fit(model), remedies=["adapt"], budget=1e6, num_draws=32_000)
    row = rescued.trail.iloc[1]
    assert (row["gradients"], row["evaluations"], row["level"]) == (0, NUM_SCREENED, "")
    assert rescued.check.chains is not None  # what is left is judged in full


def test_a_model_without_a_gradient_is_a_row_of_the_trail():
    """Every remedy that needs a gradient says so, and none of them raises."""

    def log_density(x):
        shape = jax.ShapeDtypeStruct((), x.dtype)
        return jax.pure_callback(
            lambda z: -0.5 * np.sum(np.asarray(z) ** 2, axis=-1),
            shape, x, vmap_method="expand_dims",
        )  # fmt: skip

    model = vicheck.from_log_density(log_density, np.zeros(2))
    z = 0.3 * np.random.default_rng(1).normal(size=(4000, 2))
    log_q = -0.5 * (z**2 / 0.09).sum(axis=1) - 2 * np.log(0.3) - np.log(2 * np.pi)
    draws = vicheck.Draws({"x": z}, -0.5 * (z**2).sum(axis=1), log_q, model=model)
    rescued = vicheck.rescue(draws, remedies=["richer-family", "mcmc"], **FEW)
    assert not rescued.succeeded
    assert rescued.trail["why"].iloc[1].startswith("failed: ")


def test_a_model_that_cannot_simulate_is_rescued_all_the_same():
    model = correlated(2)
    with pytest.raises(Exception, match="simulat"):
        vicheck.vsbc(model, num_datasets=4)
    assert vicheck.rescue(vicheck.fit(model), remedies=["richer-family"], **FEW).succeeded


@pytest.mark.slow
def test_a_rescue_is_something_that_fits():
    """So that its calibration can be tested; by mean field the sds are far too small."""
    x = np.column_stack([np.ones(20), np.linspace(0.9, 1.1, 20)])

    def line(x, y=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1).expand([2]).to_event(1))
        numpyro.sample("y", dist.Normal(x @ slope, 0.5).to_event(1), obs=y)

    model = vicheck.from_numpyro(line, x, y=x @ np.ones(2))
    fitter = vicheck.rescue_fitter(model, ["richer-family"], num_draws=500, judged_by=4000)
    drawn = fitter(model.data, 3)
    assert drawn["slope"].shape == (500, 2)
    precision = x.T @ x / 0.25 + np.eye(2)
    sd = np.sqrt(np.diagonal(np.linalg.inv(precision)))
    np.testing.assert_allclose(drawn["slope"].std(axis=0), sd, rtol=0.15)
    calibration = vicheck.vsbc(model, num_datasets=8, fit=fitter, progress=False)
    assert np.isfinite(calibration.probabilities).all()


@pytest.mark.parametrize(
    ("remedies", "message"),
    [("adapt", "must be a list of names"), ([], "must be a list"), (["prayer"], "must be among")],
)
def test_a_fitter_needs_names_of_remedies(remedies, message):
    with pytest.raises(ValueError, match=f"remedies {message}"):
        vicheck.rescue_fitter(correlated(2), remedies)
