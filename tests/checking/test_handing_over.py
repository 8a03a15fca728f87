"""Draws for other programs: ArviZ takes them, says no more than is known, and users are warned."""

import warnings

import numpy as np
import pytest

import vicheck
from tests.plots.subjects import funnel_check, normal_check
from vicheck.errors import ArgumentError, InputFileError


@pytest.fixture(scope="module")
def narrow():
    return normal_check(size=20_000)


@pytest.fixture(scope="module")
def funnel():
    return funnel_check(20_000)


def quiet(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vicheck.UnreliableWarning)
        return function(*args, **options)


def test_draws_of_equal_weight_are_the_default(narrow):
    posterior = narrow.to_arviz()["posterior"]
    assert posterior["x"].shape == (1, 4000, 3)
    assert posterior.attrs["source"] == "psis"
    np.testing.assert_allclose(posterior["x"].std(), 1.0, atol=0.05)  # that of p; q has 0.8
    again = narrow.to_arviz(seed=1)["posterior"]
    assert not np.array_equal(posterior["x"], again["x"])


def test_no_more_draws_than_count_are_handed_over(funnel):
    assert funnel.verdict.level == "unreliable"
    found = quiet(funnel.to_arviz)["posterior"]
    assert found.sizes["draw"] == int(funnel.psis.ess) < 4000
    assert found.attrs["level"] == "unreliable"


def test_draws_of_q_where_these_can_be_used_and_weights_cannot(narrow):
    from vicheck.results.verdict import Answer

    no = Answer("no")
    object.__setattr__(narrow.verdict, "weights_work", no)
    try:
        posterior = narrow.to_arviz()["posterior"]
    finally:
        object.__setattr__(narrow.verdict, "weights_work", Answer("yes"))
    assert posterior.attrs["source"] == "vi"
    np.testing.assert_array_equal(posterior["x"][0], narrow.draws["x"][:4000])


def test_draws_of_equal_weight_are_not_taken_for_draws_of_q(narrow):
    with pytest.raises(InputFileError, match=r"no log_p .* write them by to_arviz\(resampled=F"):
        vicheck.from_arviz(narrow.to_arviz())


@pytest.mark.slow
def test_arviz_0_takes_them(narrow, funnel):
    import arviz
    import matplotlib as mpl

    mpl.use("agg")
    table = arviz.summary(narrow.to_arviz(dims={"x": ["way"]}, coords={"way": ["a", "b", "c"]}))
    assert list(table.index) == ["x[a]", "x[b]", "x[c]"]
    assert (table["ess_bulk"] < 5000).all()
    np.testing.assert_allclose(table["sd"], 1.0, atol=0.06)
    data = quiet(funnel.to_arviz)
    assert (arviz.summary(data)["ess_bulk"] < 2 * funnel.psis.ess).all()
    with warnings.catch_warnings():  # of Matplotlib, which ArviZ has not caught up with
        warnings.simplefilter("ignore")
        for plot in (arviz.plot_posterior, arviz.plot_forest, arviz.plot_pair, arviz.plot_trace):
            plot(data, var_names=["mu", "tau"])


def test_arviz_1_takes_them(narrow, monkeypatch):
    """Its parts, arviz-base and arviz-stats, are what ArviZ 1 consists of."""
    import arviz_stats
    import xarray as xr

    monkeypatch.setattr("vicheck.adapters.arviz.version", lambda name: "1.2.0")
    tree = narrow.to_arviz()
    assert isinstance(tree, xr.DataTree)
    table = arviz_stats.summary(tree, round_to="none")
    assert list(table.index) == list(narrow.names)
    assert (table["ess_bulk"] < 5000).all()


def test_the_type_is_that_of_the_arviz_that_is_installed(narrow, monkeypatch):
    import xarray as xr
    from arviz import InferenceData

    from vicheck.adapters import arviz as adapter

    def missing(name):
        raise adapter.PackageNotFoundError

    monkeypatch.setattr(adapter, "version", lambda name: "0.23.4")
    assert isinstance(narrow.to_arviz(), InferenceData)
    monkeypatch.setattr(adapter, "version", missing)
    assert isinstance(narrow.to_arviz(), xr.DataTree)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": {"x": ["a", "b"]}}, r"dims must have 1 names for x of shape \(3,\), got"),
        ({"dims": {"x": "way"}}, "dims must have 1 names for x"),
        ({"dims": {"x": ["a"]}, "coords": {"a": [1]}}, "coords must have 3 labels for 'a', got 1"),
    ],
)
def test_dimensions_that_do_not_fit(narrow, options, message):
    with pytest.raises(ArgumentError, match=message):
        narrow.to_arviz(**options)


@pytest.mark.slow
def test_dims_and_coords_of_pymc_are_kept(tmp_path):
    import pymc as pm

    with pm.Model(coords={"school": ["Choate", "Exeter"], "year": [1977, 1981]}) as model:
        theta = pm.Normal("theta", dims="school")
        pm.Normal("both", dims=("school", "year"))
        pm.Normal("y", theta, 1.0, observed=np.array([1.0, -1.0]), dims="school")
    checked = vicheck.check(vicheck.fit(vicheck.from_pymc(model)), num_draws=2000)
    checked.save(tmp_path / "check.npz")
    for one in (checked, vicheck.load(tmp_path / "check.npz")):
        posterior = one.to_arviz()["posterior"]
        assert posterior["both"].dims == ("chain", "draw", "school", "year")
        assert posterior["theta"].coords["school"].to_numpy().tolist() == ["Choate", "Exeter"]
        assert posterior.coords["year"].to_numpy().tolist() == [1977, 1981]


@pytest.mark.parametrize("take", [lambda one: one.resample(5), lambda one: one.to_arviz()])
def test_taking_out_what_cannot_be_relied_on_warns_at_the_callers_place(funnel, take):
    with pytest.warns(vicheck.UnreliableWarning, match="The approximation is") as seen:
        take(funnel)
    assert [each.filename for each in seen] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vicheck.UnreliableWarning)
        take(funnel)


def test_a_reliable_check_does_not_warn(narrow):
    narrow.resample(5)
    narrow.to_arviz()
    narrow.summary()


def test_draws_of_a_fit_that_has_not_converged_warn():
    import jax.numpy as jnp

    model = vicheck.from_log_density(jnp.sum, jnp.zeros(1))
    fitted = vicheck.fit(model, num_starts=1)
    assert not fitted.converged
    with pytest.warns(vicheck.NotConvergedWarning, match="cannot be relied on: ") as seen:
        fitted.sample(3)
    assert seen[0].filename == __file__
    assert issubclass(vicheck.NotConvergedWarning, vicheck.UnreliableWarning)
