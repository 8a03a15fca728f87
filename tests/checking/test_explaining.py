"""Why a check came out as it did: each cause in a model where it is known to be the cause."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

import vicheck
from vicheck.paper import models
from vicheck.results.check import Check
from vicheck.results.explanation import Explanation


def explained(model, *, draws=8192, seed=0, **options):
    fit = vicheck.fit(model, seed=seed, **{"num_starts": 1} | options)
    checked = vicheck.check(fit, num_draws=draws, seed=seed, chains=False)
    return checked.explain()


def gaussian(dim, correlation):
    apart = np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    precision = np.linalg.inv(correlation**apart)
    return vicheck.from_log_density(
        lambda x, data: -0.5 * x @ data["precision"] @ x,
        np.zeros(dim),
        data={"precision": precision},
    )


def groups(y=None):
    """A hierarchy with a user's own names, centred."""
    level = numpyro.sample("level", dist.Normal(0.0, 3.0))
    sigma_group = numpyro.sample("sigma_group", dist.HalfNormal(1.0))
    with numpyro.plate("groups", 12):
        effects = numpyro.sample("effects", dist.Normal(level, sigma_group))
        numpyro.sample("y", dist.Normal(effects, 1.0), obs=y)


def precisions(y=None):
    """The same with a precision for its scale, and other names."""
    prec = numpyro.sample("prec", dist.Gamma(2.0, 1.0))
    with numpyro.plate("units", 12):
        alpha = numpyro.sample("alpha", dist.Normal(0.0, 1.0 / jnp.sqrt(prec)))
        numpyro.sample("y", dist.Normal(alpha, 1.5), obs=y)


def independent(distribution, dim):
    def model():
        numpyro.sample("x", distribution.expand([dim]).to_event(1))

    return vicheck.from_numpyro(model, observed=())


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("family", ["mean_field", "full_rank"])
def test_eight_schools_centred_are_a_funnel_of_tau_with_theta(family, seed):
    model = vicheck.from_numpyro(models.eight_schools_centred, **models.EIGHT_SCHOOLS)
    worst = explained(model, family=family, seed=seed).causes[0]
    assert (worst.code, worst.remedy) == ("funnel", "reparametrise")
    assert worst.names[0] == "tau"
    assert set(worst.names[1:]) == {f"theta[{i}]" for i in range(8)}
    assert worst.share > 0.6
    assert worst.hint == "Non-centre theta: sample it in units of tau."


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_funnel_has_the_names_of_its_model(seed):
    y = np.random.default_rng(seed).normal(0.0, [0.5] * 12) + np.random.default_rng(9).normal(
        size=12
    )
    worst = explained(vicheck.from_numpyro(groups, y=y), seed=seed).causes[0]
    assert worst.code == "funnel"
    assert worst.names[0] == "sigma_group"
    assert {name.split("[")[0] for name in worst.names[1:]} == {"effects"}


def test_a_bent_posterior_is_called_a_funnel_and_the_hint_says_so():
    model = vicheck.from_log_density(
        lambda theta: -0.5 * theta["a"] ** 2 - 2.0 * (theta["b"] - theta["a"] ** 2) ** 2,
        {"a": np.zeros(()), "b": np.zeros(())},
    )
    worst = explained(model).causes[0]
    assert (worst.code, worst.names) == ("funnel", ("b", "a"))
    assert "the posterior is bent" in worst.hint


def test_a_precision_is_the_scale_of_a_funnel_too():
    y = np.random.default_rng(4).normal(0.0, 1.0, 12)
    worst = explained(vicheck.from_numpyro(precisions, y=y)).causes[0]
    assert worst.code == "funnel"
    assert worst.names[0] == "prec"
    assert {name.split("[")[0] for name in worst.names[1:]} == {"alpha"}
    assert "if prec is a precision, non-centre alpha" in worst.hint


@pytest.mark.parametrize(
    ("dim", "correlation"), [(2, 0.9), (20, 0.95), pytest.param(200, 0.8, marks=pytest.mark.slow)]
)
def test_a_correlated_gaussian_lacks_correlation_by_mean_field(dim, correlation):
    why = explained(gaussian(dim, correlation))
    (cause,) = why.causes
    assert (cause.code, cause.remedy) == ("correlation", "richer-family")
    assert cause.share > 0.8
    # Neighbours are what is correlated, given all others.
    worst = why.pairs.iloc[0]
    assert abs(int(worst["first"][2:-1]) - int(worst["second"][2:-1])) == 1


@pytest.mark.parametrize("dim", [1, 10])
def test_students_t_has_heavy_tails(dim):
    (cause,) = explained(independent(dist.StudentT(3.0, 0.0, 1.0), dim)).causes
    assert cause.code == "heavy-tails"


def test_an_elliptical_t_has_heavy_tails_by_full_rank_too():
    model = vicheck.from_log_density(lambda x: -7.5 * jnp.log1p(x @ x / 5.0), np.zeros(10))
    for family in ("mean_field", "full_rank"):
        assert explained(model, family=family).causes[0].code == "heavy-tails"


@pytest.mark.parametrize("dim", [1, 10])
@pytest.mark.parametrize("shape", [0.7, 2.0])
def test_a_gamma_is_skewed_on_the_log_scale(dim, shape):
    (cause,) = explained(independent(dist.Gamma(shape, 1.0), dim)).causes
    assert cause.code == "skewness"
    assert "to the left" in cause.sentence


@pytest.mark.parametrize("seed", [0, 1])
def test_a_fit_that_was_stopped_early_has_not_converged(seed):
    worst = explained(gaussian(5, 0.3), solver="stochastic", num_steps=150, seed=seed).causes[0]
    assert (worst.code, worst.remedy) == ("not-converged", "converge")
    assert worst.share > 0.8


def test_stans_advi_has_not_converged_where_the_family_would_do():
    (cause,) = explained(gaussian(20, 0.0), solver="stan_advi").causes
    assert cause.code == "not-converged"


def test_a_mode_that_no_draw_reaches_comes_first():
    why = explained(vicheck.from_numpyro(models.two_modes, observed=()), num_starts=48)
    assert why.causes[0].code == "mode"
    assert why.causes[0].names == ("x",)
    assert why.causes[0].share == pytest.approx(0.2, abs=0.02)


def test_mixed_causes_are_ranked():
    """Skewness and a correlation, of which the one or the other is larger."""

    def model(correlation):
        precision = np.linalg.inv([[1.0, correlation], [correlation, 1.0]])

        def log_density(theta, data):
            pair, log_x = theta["pair"], theta["log_x"]
            return -0.5 * pair @ data["precision"] @ pair + jnp.sum(2.0 * log_x - jnp.exp(log_x))

        example = {"pair": np.zeros(2), "log_x": np.zeros(3)}
        return vicheck.from_log_density(log_density, example, data={"precision": precision})

    for correlation, order in ((0.95, ["correlation", "skewness"]),
                               (0.3, ["skewness", "correlation"])):  # fmt: skip
        causes = explained(model(correlation)).causes
        assert [cause.code for cause in causes] == order
        named = {cause.code: {name.split("[")[0] for name in cause.names} for cause in causes}
        assert named == {"correlation": {"pair"}, "skewness": {"log_x"}}


def test_where_q_is_the_posterior_there_is_no_cause():
    why = explained(gaussian(4, 0.0))
    assert why.causes == ()
    assert str(why).startswith("No cause stands out")


def arrays(log_ratios_of, dim=3, num_draws=16_384):
    e = np.random.default_rng(3).standard_normal((num_draws, dim))
    log_q = stats.norm.logpdf(e).sum(axis=1)
    return vicheck.check_draws({"x": e}, log_q + log_ratios_of(e), log_q)


@pytest.mark.parametrize(
    ("log_ratios_of", "code"),
    [
        (lambda e: stats.norm.logpdf(e, 0.0, 1.5).sum(axis=1) + 0.5 * (e**2).sum(axis=1), "scale"),
        (lambda e: 0.6 * e[:, 0] * e[:, 1], "correlation"),
        (lambda e: 0.7 * e[:, 2], "not-converged"),
        (lambda e: 0.02 * (e**4 - 6.0 * e**2).sum(axis=1), "heavy-tails"),
    ],
)
def test_draws_without_a_model_are_explained_by_their_ratios(log_ratios_of, code):
    why = arrays(log_ratios_of).explain()
    assert [cause.code for cause in why.causes] == [code]
    assert "no gradients (no model)" in why.notes[-1]
    assert np.isnan(why.table["score"]).all()


def test_a_funnel_is_found_in_draws_on_their_own_scale():
    e = np.random.default_rng(3).standard_normal((16_384, 5))
    width, theta = np.exp(0.4 * e[:, 0]), e[:, 1:]
    log_p = stats.norm.logpdf(0.4 * e[:, 0], 0.0, 0.4) + stats.norm.logpdf(
        theta, 0.0, width[:, None]
    ).sum(axis=1)
    log_q = stats.norm.logpdf(0.4 * e[:, 0], 0.0, 0.4) + stats.norm.logpdf(theta).sum(axis=1)
    worst = vicheck.check_draws({"spread": width, "unit": theta}, log_p, log_q).explain().causes[0]
    assert worst.code == "funnel"
    assert worst.names == ("spread", "unit[0]", "unit[1]", "unit[2]", "unit[3]")


def test_a_few_draws_in_a_far_place_are_said_to_be_just_that():
    def jump(e):
        return np.logaddexp(0.0, 30.0 * (e[:, 1] - 3.0))

    why = arrays(jump).explain()
    assert why.causes == ()
    assert "khat is high because of a few draws, which lie above the others in x[1]" in str(why)


def test_few_draws_say_nothing():
    why = arrays(lambda e: e[:, 0], num_draws=60).explain()
    assert why.causes == ()
    assert "fewer than 100 draws" in why.notes[-1]


def test_draws_without_a_finite_ratio_are_left_out():
    checked = arrays(lambda e: np.where(e[:, 0] > 3.0, -np.inf, 0.6 * e[:, 1] * e[:, 2]))
    assert [cause.code for cause in checked.explain().causes] == ["correlation"]


def test_an_explanation_is_the_same_bits_each_time_and_survives_json(tmp_path):
    model = gaussian(3, 0.8)
    checked = vicheck.check(vicheck.fit(model, num_starts=1), num_draws=8192, chains=False)
    why, again = checked.explain(), vicheck.check(
        vicheck.fit(model, num_starts=1), num_draws=8192, chains=False
    ).explain()  # fmt: skip
    assert checked.explain() is why
    assert why.to_dict() == again.to_dict()
    back = Explanation.from_dict(why.to_dict())
    assert str(back) == str(why)
    np.testing.assert_array_equal(back.table.to_numpy(), why.table.to_numpy())
    assert back.pairs["first"].tolist() == why.pairs["first"].tolist()
    # A check that was saved has no model any more: its draws must do.
    checked.save(tmp_path / "check.npz")
    loaded = Check.load(tmp_path / "check.npz").explain()
    assert [cause.code for cause in loaded.causes] == [cause.code for cause in why.causes]
    assert "correlation" in why._repr_html_()
