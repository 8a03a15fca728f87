"""Fits, rescues and reference draws in files: all but the model, which can be given again."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import vicheck
from tests.plots.rescues import made_rescue, sampled_rescue
from tests.results.test_fit import FACTOR, LOC, fit_of
from vicheck.errors import ArgumentError, InputFileError, ModelError
from vicheck.results.fit import Fit, Optimum, Solution
from vicheck.results.status import FitStatus
from vicheck.vi.families.full_rank import FullRank
from vicheck.vi.families.registry import family_names


def model_with(**changes):
    data = {"y": [0.5, 2.0], "sd": [1.0, 0.3]} | changes

    def log_density(theta, data):
        away = (data["y"] - theta["mu"] - theta["theta"]) / data["sd"]
        prior = jnp.sum(theta["theta"] ** 2) + theta["mu"] ** 2 / 9.0
        return -0.5 * (jnp.sum(away**2) + prior)

    return vicheck.from_log_density(log_density, {"mu": 0.0, "theta": np.zeros(2)}, data=data)


@pytest.fixture(scope="module")
def fitted():
    return vicheck.fit(model_with(), family="full_rank", num_starts=1, title="two groups")


@pytest.fixture
def path(fitted, tmp_path):
    fitted.save(tmp_path / "fit.npz", num_draws=100)
    return tmp_path / "fit.npz"


@pytest.mark.parametrize("family", family_names())
def test_the_approximation_is_the_same_without_the_model(family, tmp_path):
    fitted = vicheck.fit(model_with(), family=family, num_starts=1)
    fitted.save(tmp_path / "fit.npz", num_draws=100)
    loaded = vicheck.load(tmp_path / "fit.npz")
    assert repr(loaded) == repr(fitted)
    assert loaded.title == fitted.title
    assert loaded.model.coordinates == fitted.model.coordinates
    for number in ("mean", "sd", "covariance"):
        np.testing.assert_array_equal(getattr(loaded, number), getattr(fitted, number))
    loaded.save(tmp_path / "again.npz", num_draws=100)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "fit.npz").read_bytes()


def test_draws_without_the_model_are_some_of_those_in_the_file(fitted, path):
    loaded, drawn = vicheck.load(path), fitted.sample(100)
    few = loaded.sample(10, seed=3)
    assert few["theta"].shape == (10, 2)
    assert set(few["mu"]) < set(drawn["mu"])
    assert len(set(few["mu"])) == 10
    assert set(few["mu"]) != set(loaded.sample(10)["mu"])
    with pytest.raises(ArgumentError, match="num_draws must be at most the 100 draws in the file"):
        loaded.sample()


def test_with_its_model_a_fit_is_as_before(fitted, path):
    loaded = vicheck.load(path, model_with())
    assert loaded.title == fitted.title == "two groups"
    np.testing.assert_array_equal(loaded.sample(50)["mu"], fitted.sample(50)["mu"])
    checked = vicheck.check(loaded, num_draws=1000)
    assert checked.khat == vicheck.check(fitted, num_draws=1000).khat
    assert not any("has changed" in note for note in checked.notes)


@pytest.mark.parametrize(
    "use",
    [
        vicheck.check,
        vicheck.rescue,
        Fit.linear_response,
        Fit.stack_modes,
        lambda fit: vicheck.fit(fit.model),
    ],
    ids=["check", "rescue", "linear_response", "stack_modes", "fit"],
)
def test_what_needs_the_model_says_so(use, path):
    with pytest.raises(ModelError, match=r"loaded without it: .* vicheck\.load\(path, model"):
        use(vicheck.load(path))


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (model_with(y=[0.5, 2.1]), ArgumentError, "its log density is -.*, and was -"),
        (
            fit_of(FullRank(LOC, FACTOR)).model,
            ArgumentError,
            "with the parameters mu, theta",
        ),
        (lambda theta: 0.0, TypeError, "model must be a vicheck Model, got function"),
    ],
)
def test_another_model_is_refused(path, model, error, message):
    with pytest.raises(error, match=message):
        vicheck.load(path, model)


def test_only_a_fit_or_a_rescue_takes_a_model(tmp_path):
    made_rescue().check.save(tmp_path / "check.npz")
    with pytest.raises(ArgumentError, match=r"model goes with a fit or a rescue, and .* a check"):
        vicheck.load(tmp_path / "check.npz", model_with())
    made_rescue().save(tmp_path / "rescue.npz")
    with pytest.raises(ArgumentError, match="the best of this rescue was built from draws"):
        vicheck.load(tmp_path / "rescue.npz", model_with())


def test_a_fit_that_failed_and_one_with_other_modes(tmp_path):
    nowhere = fit_of(FullRank(LOC * np.nan, FACTOR), FitStatus.NOT_FINITE, np.nan)
    nowhere.save(tmp_path / "fit.npz")
    loaded = vicheck.load(tmp_path / "fit.npz")
    assert loaded.status is FitStatus.NOT_FINITE
    assert np.isnan(loaded.elbo)
    far = Optimum(FullRank(LOC + 9.0, FACTOR), -7.0)
    solution = Solution(FullRank(LOC, FACTOR), FitStatus.CONVERGED, -1.5, 10, others=(far,))
    model, options = nowhere.model, {"optimizer": optax.adam(0.1), "num_steps": np.int64(5)}
    Fit(model, "full_rank", "stochastic", 0, solution, 0.1, options).save(tmp_path / "fit.npz")
    loaded = vicheck.load(tmp_path / "fit.npz")
    (other,) = loaded.solution.others
    assert other.elbo == -7.0
    np.testing.assert_array_equal(other.q.loc, far.q.loc)
    assert loaded.options["num_steps"] == 5
    assert "GradientTransformation" in loaded.options["optimizer"]


def test_a_file_of_another_kind_says_which(path, tmp_path):
    with pytest.raises(InputFileError, match=r"not a check .* it holds a fit, which vicheck\.load"):
        vicheck.check(path)
    with pytest.raises(ArgumentError, match=r"path must not end in \.pkl"):
        vicheck.load(path).save(tmp_path / "fit.pkl")


@pytest.mark.parametrize("rescue", [made_rescue(), sampled_rescue(), made_rescue(before=None)])
@pytest.mark.parametrize("draws", [True, False])
def test_a_rescue_is_read_back(rescue, draws, tmp_path):
    rescue.save(tmp_path / "rescue.npz", draws=draws)
    loaded = vicheck.load(tmp_path / "rescue.npz")
    assert str(loaded) == str(rescue)
    assert loaded.trail.equals(rescue.trail)
    assert loaded.moments.equals(rescue.moments)
    assert loaded.changes.equals(rescue.changes)
    assert loaded.by_sampling is rescue.by_sampling
    loaded.save(tmp_path / "again.npz", draws=draws)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "rescue.npz").read_bytes()


def test_a_rescue_has_its_fit_and_takes_its_model(fitted, tmp_path):
    check = vicheck.check(fitted, num_draws=1000)
    made_rescue(fit=fitted, check=check).save(tmp_path / "rescue.npz")
    assert vicheck.load(tmp_path / "rescue.npz").fit.sample(5)["theta"].shape == (5, 2)
    model = model_with()
    loaded = vicheck.load(tmp_path / "rescue.npz", model)
    assert loaded.fit.model is loaded.check.model is model
    assert loaded.check.explain().num_draws == check.explain().num_draws


def test_reference_draws_are_read_back(tmp_path):
    reference = sampled_rescue().reference
    reference.save(tmp_path / "reference.npz")
    loaded = vicheck.load(tmp_path / "reference.npz")
    assert loaded.moments.equals(reference.moments)
    np.testing.assert_array_equal(loaded.z, reference.z)


def test_a_check_whose_search_has_found_no_mode_is_read_back(tmp_path):
    """As that of a funnel."""
    from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred

    model = vicheck.from_numpyro(eight_schools_centred, **EIGHT_SCHOOLS)
    checked = vicheck.check(vicheck.fit(model), num_draws=1000, chains=False)
    assert not len(checked.modes.z)
    checked.save(tmp_path / "check.npz")
    assert str(vicheck.load(tmp_path / "check.npz")) == str(checked)
