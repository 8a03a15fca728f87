"""Models and files of Stan's go by the names that Stan prints, wherever there are names."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import vicheck

FILE = Path(__file__).parents[1] / "reference" / "stan_csv" / "eight_schools_cp_meanfield.csv"
NAMES = ("mu", "v[1]", "v[2]", "S[1,1]", "S[1,2]", "S[2,1]", "S[2,2]")
MEANS = np.arange(7.0)


class Independent:
    """Independent normals, in a number, a vector and a matrix, with BridgeStan's interface."""

    def param_unc_num(self):
        return 7

    def param_names(self, *, include_tp=False, include_gq=False):
        return ["mu", "v.1", "v.2", "S.1.1", "S.2.1", "S.1.2", "S.2.2"]

    def log_density(self, theta_unc, *, propto=True, jacobian=True):
        return self.log_density_gradient(theta_unc)[0]

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True):
        away = np.asarray(theta_unc) - MEANS
        return -0.5 * away @ away - 3.5 * np.log(2.0 * np.pi), -away

    def param_constrain(self, theta_unc, *, include_tp=False, include_gq=False, rng=None):
        return np.array(theta_unc)

    def param_unconstrain(self, theta):
        return np.array(theta)


@pytest.fixture(scope="module")
def fitted():
    return vicheck.fit(vicheck.from_stan(Independent()), num_starts=1)


@pytest.fixture(scope="module")
def checked(fitted):
    return vicheck.check(fitted, num_draws=2000)


def test_every_table_has_stans_names(fitted, checked):
    tables = checked.moments, checked.quantiles(), checked.summary()
    assert {tuple(table.index) for table in tables} == {NAMES}
    assert tuple(fitted.linear_response().covariance.index) == NAMES
    # Stan has matrices by columns: what it calls S[1,2] is the third of its numbers.
    assert fitted.model.coordinates == (
        "mu",
        "v[1]",
        "v[2]",
        "S[1,1]",
        "S[2,1]",
        "S[1,2]",
        "S[2,2]",
    )
    assert fitted.linear_response().coordinates.index.tolist() == [*fitted.model.coordinates]
    assert checked.moments.loc["S[1,2]", "vi_mean"] == pytest.approx(MEANS[5], abs=0.1)
    for name in NAMES:
        assert name in str(checked)


def test_quantities_are_asked_for_by_stans_names(fitted):
    asked = vicheck.check(fitted, num_draws=1000, quantities=["v[2]", "S[1, 2]"])
    assert asked.names == ("v[2]", "S[1,2]")
    pair = {"pair": lambda theta: theta["v"]}
    of_function = vicheck.check(fitted, num_draws=1000, quantities=pair)
    assert of_function.names == ("pair[1]", "pair[2]")
    np.testing.assert_array_equal(of_function.values[:, 1], asked.values[:, 0])
    with pytest.raises(ValueError, match=r"the elements of v go from v\[1\] to v\[2\]"):
        vicheck.check(fitted, quantities=["v[0]"])


def test_names_are_saved_and_loaded(checked, tmp_path):
    checked.save(tmp_path / "check.npz")
    loaded = vicheck.load(tmp_path / "check.npz")
    assert loaded.names == NAMES
    assert set(loaded.to_arviz()["posterior"]["v_dim_0"].to_numpy()) == {1, 2}


def test_arviz_has_stans_indices_and_gives_them_back(checked):
    data = checked.to_arviz(resampled=False, dims={"v": ["site"]})
    assert data["posterior"]["v"].coords["site"].to_numpy().tolist() == [1, 2]
    assert data["posterior"]["S"].coords["S_dim_1"].to_numpy().tolist() == [1, 2]
    assert data["posterior"]["draw"].to_numpy()[0] == 0
    assert vicheck.check(data).names == NAMES
    named = checked.to_arviz(dims={"v": ["site"]}, coords={"site": ["here", "there"]})
    assert named["posterior"]["v"].coords["site"].to_numpy().tolist() == ["here", "there"]


def test_a_reference_of_the_same_model_in_python_is_held_against_the_same_elements(fitted):
    def log_density(theta):
        away = jnp.concatenate([jnp.ravel(theta[name]) - means[name] for name in theta])
        return -0.5 * jnp.sum(away**2)

    means = {"mu": MEANS[0], "v": MEANS[1:3], "S": MEANS[[3, 5, 4, 6]]}
    zero = {"mu": 0.0, "v": np.zeros(2), "S": np.zeros((2, 2))}
    same = vicheck.from_log_density(log_density, zero)
    known = vicheck.reference(same, num_draws=200, num_warmup=200, num_chains=2)
    assert "v[0]" in known.moments.index
    moments = vicheck.check(fitted, num_draws=1000, reference=known).moments
    np.testing.assert_allclose(moments["ref_mean"], moments["vi_mean"], atol=0.4)
    own = vicheck.reference(fitted.model, num_draws=20, num_warmup=50, num_chains=1)
    assert tuple(own.moments.index) == NAMES


def test_the_files_of_cmdstan_have_stans_names():
    checked = vicheck.check(FILE)
    assert [name for name in checked.names if name.startswith("theta")] == [
        f"theta[{school}]" for school in range(1, 9)
    ]
    assert vicheck.check(FILE, quantities=["theta[8]"]).names == ("theta[8]",)
    assert all("[0]" not in name for cause in checked.explain().causes for name in cause.names)


@pytest.mark.slow
def test_a_calibration_has_stans_names(tmp_path):
    program = Path(__file__).parents[2] / "docs" / "eight_schools.stan"
    data = {"J": 8, "y": np.zeros(8), "sigma": np.full(8, 10.0), "centred": 1}
    found = vicheck.vsbc(
        vicheck.from_stan(program, data), num_datasets=4, quantities=["eta"], progress=False
    )
    assert found.quantities == tuple(f"eta[{school}]" for school in range(1, 9))
    found.save(tmp_path / "calibration.npz")
    tree = vicheck.load(tmp_path / "calibration.npz").to_arviz()
    assert tree["prior_sbc"]["eta"].shape == (1, 4, 8)
    assert tree["prior_sbc"]["eta_dim_0"].to_numpy().tolist() == list(range(1, 9))
