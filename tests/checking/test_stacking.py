"""Stacked modes against quadrature, and what is said where there is nothing to stack."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.scipy.stats import cauchy
from scipy import stats

import vicheck
from vicheck.errors import ArgumentError, ModelError, UnreliableWarning
from vicheck.model import double_precision
from vicheck.results.stacking import StackingStatus
from vicheck.stats.stacking import stacking_weights
from vicheck.vi.families.mean_field import MeanField

Y = np.concatenate([np.linspace(-9.0, -7.0, 8), np.linspace(7.0, 9.0, 7)])


def one_place(y=None, size=15):
    place = numpyro.sample("place", dist.Normal(0.0, 10.0))
    with numpyro.plate("rows", size):
        numpyro.sample("y", dist.Cauchy(place, 1.0), obs=y)


def places_of(theta):
    return cauchy.logpdf(jnp.asarray(Y), theta["place"])


@pytest.fixture(scope="module")
def fitted():
    return vicheck.fit(vicheck.from_numpyro(one_place, y=Y))


@pytest.fixture(scope="module")
def stacked(fitted):
    return fitted.stack_modes()


def by_quadrature():
    """Return the mass of each mode, and what each predicts of an observation from the others."""
    x = np.linspace(-40.0, 40.0, 160_001)
    terms = stats.cauchy.logpdf(Y, x[:, None])
    log_p = stats.norm.logpdf(x, 0.0, 10.0) + terms.sum(axis=1)
    masses, elpds = [], []
    for here in (x < 0.0, x > 0.0):
        without = log_p[here, None] - terms[here]
        elpds.append(np.logaddexp.reduce(log_p[here]) - np.logaddexp.reduce(without, axis=0))
        masses.append(np.exp(log_p[here] - log_p.max()).sum())
    return np.array(masses) / sum(masses), np.stack(elpds, axis=1)


def test_masses_predictions_and_weights_are_those_of_quadrature(stacked):
    masses, elpd = by_quadrature()
    assert stacked.status is StackingStatus.OK
    np.testing.assert_allclose(stacked.mass, masses, atol=5e-4)
    np.testing.assert_allclose(stacked.pointwise, elpd, atol=0.02)
    np.testing.assert_allclose(stacked.weight, stacking_weights(elpd), atol=1e-3)
    np.testing.assert_allclose(stacked.weight, [8 / 15, 7 / 15], atol=5e-3)
    exact = np.logaddexp.reduce(elpd + np.log(stacking_weights(elpd)), axis=1).sum()
    assert stacked.elpd == pytest.approx(exact, abs=0.1)
    assert stacked.elpd > stacked.elpd_by_mass + 15.0


def test_the_table_and_what_is_printed(stacked):
    table = stacked.weights
    assert table.index.tolist() == ["fit", "other 1"]
    assert table.columns.tolist() == ["weight", "mass", "elpd_loo", "khat_loo", "num_high", "khat"]
    assert (table["khat_loo"] == stacked.khat_loo.max(axis=1)).all()
    assert stacked.pointwise.index.tolist()[:2] == ["y[0]", "y[1]"]
    assert stacked.locations["place"].round(1).tolist() == [-7.9, 7.8]
    lines = repr(stacked).splitlines()
    assert lines[0] == "Stacking(OK, 2 modes, 15 observations)"
    assert "elpd -34.3; by the masses of the posterior -55" in repr(stacked)
    assert stacked.to_dict()["weights"]["fit"]["weight"] == stacked.weight[0]


def test_a_function_does_what_the_model_does(fitted, stacked):
    again = fitted.stack_modes(places_of)
    np.testing.assert_allclose(again.pointwise, stacked.pointwise, rtol=1e-10)
    assert again.pointwise.index[0] == "log_likelihood[0]"
    with_data = fitted.stack_modes(lambda theta, data: cauchy.logpdf(data["y"], theta["place"]))
    np.testing.assert_allclose(with_data.weight, stacked.weight, rtol=1e-8)


def test_draws_are_of_the_stacked_mixture(stacked):
    draws = stacked.sample(20_000, seed=1)
    assert draws["place"].shape == (20_000,)
    left = draws["place"] < 0.0
    assert left.mean() == pytest.approx(stacked.weight[0], abs=0.02)
    # Within a mode they are draws from the posterior, and not from q.
    x = np.linspace(-12.0, -4.0, 4001)
    log_p = stats.norm.logpdf(x, 0, 10) + stats.cauchy.logpdf(Y, x[:, None]).sum(axis=1)
    p = np.exp(log_p - log_p.max())
    mean = (p * x).sum() / p.sum()
    sd = np.sqrt((p * (x - mean) ** 2).sum() / p.sum())
    assert draws["place"][left].mean() == pytest.approx(mean, abs=0.05 * sd)
    assert draws["place"][left].std() == pytest.approx(sd, rel=0.05)
    np.testing.assert_array_equal(stacked.sample(5, seed=2)["place"], stacked.sample(5, 2)["place"])
    with pytest.raises(ArgumentError, match="num_draws must be a positive integer"):
        stacked.sample(0)


def test_the_same_seed_gives_the_same_bits(fitted, stacked):
    assert fitted.stack_modes().to_dict() == stacked.to_dict()
    assert fitted.stack_modes(seed=1).elpd != stacked.elpd


def test_other_names_and_data_as_an_argument():
    """What is observed has another name, is given later, and has a constant beside it."""

    def placed(scale, seen):
        place = numpyro.sample("place", dist.Normal(0.0, 10.0))
        with numpyro.plate("rows", 15):
            numpyro.sample("obs", dist.Cauchy(place, scale), obs=seen)

    model = vicheck.from_numpyro(placed, scale=1.0, observed=("seen",))
    stacked = vicheck.fit(model, {"seen": Y}).stack_modes(num_draws=1000)
    assert stacked.pointwise.index[0] == "obs[0]"
    np.testing.assert_allclose(stacked.weight, [8 / 15, 7 / 15], atol=5e-3)


def test_copies_predict_alike_and_a_note_says_so():
    def two_places(y=None):
        place = numpyro.sample("place", dist.Normal(0.0, 10.0).expand([2]).to_event(1))
        halves = dist.Categorical(probs=jnp.array([0.5, 0.5]))
        numpyro.sample("y", dist.MixtureSameFamily(halves, dist.Normal(place, 1.0)), obs=y)

    y = np.concatenate([np.linspace(-5.0, -3.0, 10), np.linspace(3.0, 5.0, 12)])
    stacked = vicheck.fit(vicheck.from_numpyro(two_places, y=y)).stack_modes()
    assert len(stacked.weight) == 2
    np.testing.assert_allclose(stacked.pointwise["fit"], stacked.pointwise["other 1"], atol=0.05)
    assert stacked.elpd == pytest.approx(stacked.pointwise["fit"].sum(), abs=0.3)
    assert stacked.elpd == pytest.approx(stacked.elpd_by_mass, abs=0.3)
    assert any("copies (the order of the components of place)" in note for note in stacked.notes)


def test_one_mode_has_all():
    model = vicheck.from_numpyro(one_place, y=Y[:5], size=5)
    stacked = vicheck.fit(model).stack_modes()
    assert stacked.status is StackingStatus.ONE_MODE
    assert stacked.weight.tolist() == stacked.mass.tolist() == [1.0]
    assert "The search has left no other mode to be fitted." in stacked.notes
    assert "ONE_MODE, 1 mode, 5 observations" in repr(stacked)
    alone = vicheck.fit(model, num_starts=1).stack_modes()
    assert "Other modes were not searched for." in alone.notes


def test_a_bad_approximation_has_a_status(fitted):
    with double_precision():
        q = MeanField(fitted.q.loc + 3.0 * fitted.q.sd, fitted.q.log_scale - 1.0)
    bad = replace(fitted, solution=replace(fitted.solution, q=q)).stack_modes()
    assert bad.status is StackingStatus.HIGH_KHAT
    assert bad.num_high[0] > 0
    assert any(
        "of the draws of 1 of 2 modes, is 0.70 or more, so the masses" in n for n in bad.notes
    )
    with pytest.warns(UnreliableWarning, match="khat is too high"):
        bad.sample(10)


def test_a_density_that_is_undefined_has_a_status(fitted):
    impossible = fitted.stack_modes(lambda theta: places_of(theta).at[3].set(-jnp.inf))
    assert impossible.status is StackingStatus.UNDEFINED
    assert np.isnan(impossible.weight).all()
    assert "The predictive density of log_likelihood[3] is undefined." in impossible.notes
    with pytest.raises(ValueError, match="have no draws: a predictive density is undefined"):
        impossible.sample(10)


def test_many_observations_take_fewer_draws(fitted, monkeypatch):
    monkeypatch.setattr("vicheck.evaluation.sizes._KEPT_BYTES", 8 * 16 * 1500)
    few = fitted.stack_modes()
    assert few.z.shape == (2, 1500, 1)
    assert any("only 1500 draws of each mode are used" in note for note in few.notes)
    np.testing.assert_allclose(few.weight, [8 / 15, 7 / 15], atol=5e-3)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (3.0, TypeError, "log_likelihood must be a function, got float"),
        (lambda theta: theta["place"], ArgumentError, r"of at least two .* shape \(\)"),
        (lambda theta: places_of(theta)[:1], ArgumentError, r"of at least two .* shape \(1,\)"),
        (lambda theta: places_of(theta)[:, None], ArgumentError, r"vector .* shape \(15, 1\)"),
        (lambda theta: places_of(theta) > 0, ArgumentError, "type bool"),
        (lambda theta: theta["nowhere"], ValueError, "fails on the parameters .* KeyError"),
        (lambda theta: stats.cauchy.logpdf(Y, theta["place"]), ValueError, "written in JAX"),
        (
            lambda theta: places_of(theta).at[2].set(jnp.nan),
            ArgumentError,
            r"got NaN for log_likelihood\[2\]",
        ),
    ],
)
def test_functions_that_cannot_be_used(fitted, function, error, message):
    with pytest.raises(error, match=message):
        fitted.stack_modes(function)


def test_models_whose_observations_are_not_known(fitted):
    bare = vicheck.from_log_density(lambda x: -0.5 * x @ x, np.zeros(2))
    with pytest.raises(ModelError, match=r"does not offer the log .*give log_likelihood="):
        vicheck.fit(bare, num_starts=1).stack_modes()

    def with_factor(y=None):
        place = numpyro.sample("place", dist.Normal(0.0, 1.0))
        numpyro.factor("more", -(place**2))
        numpyro.sample("y", dist.Normal(place, 1.0).expand([3]), obs=y)

    model = vicheck.from_numpyro(with_factor, y=np.zeros(3))
    with pytest.raises(ModelError, match=r"numpyro.factor 'more' may .*give log_likelihood="):
        vicheck.fit(model, num_starts=1).stack_modes()
    single = vicheck.fit(vicheck.from_numpyro(one_place, y=Y[:1], size=1), num_starts=1)
    with pytest.raises(ModelError, match="has fewer than two"):
        single.stack_modes()
    with pytest.raises(ArgumentError, match="num_draws must be an integer from 100 on, got 50"):
        fitted.stack_modes(num_draws=50)


@pytest.mark.slow
def test_a_model_of_pymc_has_its_own_likelihood():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        place = pm.Normal("place", 0.0, 10.0)
        pm.Cauchy("y", place, 1.0, observed=Y)
    stacked = vicheck.fit(vicheck.from_pymc(model)).stack_modes(num_draws=1000)
    np.testing.assert_allclose(stacked.weight, [8 / 15, 7 / 15], atol=5e-3)
