"""`Check` itself: printing, saving, resampling, ArviZ; and draws from elsewhere."""

import json
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vicheck
from tests.results.saving import assert_a_failed_save_leaves_the_old_file
from vicheck.errors import InputFileError
from vicheck.paper import models
from vicheck.results.archive import decode_arrays, encode_arrays


def normal_draws(sd=0.8, size=4000, dim=2):
    z = sd * np.random.default_rng(1).normal(size=(size, dim))
    log_p = (-0.5 * z**2 - 0.5 * np.log(2 * np.pi)).sum(axis=1)
    log_q = (-0.5 * (z / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)).sum(axis=1)
    return z, log_p, log_q


@pytest.fixture
def checked():
    return vicheck.check_draws(*normal_draws())


@pytest.fixture(scope="module")
def of_fit():
    model = vicheck.from_numpyro(models.eight_schools_noncentred, **models.EIGHT_SCHOOLS)
    return vicheck.check(vicheck.fit(model), num_draws=5000)


def test_arrays_and_dictionaries_give_the_same(checked):
    z, log_p, log_q = normal_draws()
    named = vicheck.check_draws({"a": z[:, 0], "b": z[:, 1:]}, log_p, log_q)
    columns = vicheck.check_draws(z, log_p, log_q, names=["a", "b"])
    assert list(checked.moments.index) == ["x[0]", "x[1]"]
    assert list(named.moments.index) == ["a", "b[0]"]
    assert list(columns.moments.index) == ["a", "b"]
    assert checked.khat == named.khat == columns.khat == vicheck.psis_khat(log_p - log_q)
    assert np.array_equal(checked.moments["psis_sd"], named.moments["psis_sd"])
    assert checked.log_evidence.value == pytest.approx(0.0, abs=0.05)
    assert checked.moments["psis_sd"].to_numpy() == pytest.approx([1.0, 1.0], abs=0.05)


def test_quantities_of_one_draw():
    """By JAX where it can trace the function, and else one by one."""
    z, log_p, log_q = normal_draws()
    quantities = {
        "traced": lambda theta: jnp.linalg.norm(theta["x"]),
        "looped": lambda theta: np.linalg.norm(theta["x"]) if theta["x"][0] > -99.0 else 0.0,
        "vector": lambda theta: theta["x"][::-1],
        "above": lambda theta: theta["x"][0] > 0.0,
        "three": lambda theta: 3,
    }
    checked = vicheck.check_draws(z, log_p, log_q, quantities=quantities)
    assert checked.names == ("traced", "looped", "vector[0]", "vector[1]", "above", "three")
    norm = np.linalg.norm(z, axis=1)
    np.testing.assert_allclose(checked.draws["traced"], norm, rtol=1e-14)
    np.testing.assert_allclose(checked.draws["looped"], norm, rtol=1e-14)
    assert np.array_equal(checked.draws["vector"], z[:, ::-1])
    assert np.array_equal(checked.draws["above"], z[:, 0] > 0.0)
    assert (checked.draws["three"] == 3.0).all()


def test_quantities_by_name():
    z, log_p, log_q = normal_draws()
    checked = vicheck.check_draws(z, log_p, log_q, quantities=["x[1]"])
    assert checked.names == ("x[1]",)
    assert np.array_equal(checked.draws["x[1]"], z[:, 1])
    both = vicheck.check_draws({"x": z, "y": z[:, 0]}, log_p, log_q, quantities=["y", "x", "x[0]"])
    assert both.names == ("y", "x[0]", "x[1]")


@pytest.mark.parametrize(
    ("quantities", "error", "message"),
    [
        ("x", TypeError, "quantities must be a list of names, got the string 'x'"),
        ([], ValueError, "quantities must hold at least one name or function, got none"),
        (["y"], ValueError, "quantities has 'y', but the draws have: x$"),
        (
            ["x[2]"],
            ValueError,
            r"'x\[2\]', but the draws have: x: the elements of x go from x\[0\] to",
        ),
        (["log_likelihood"], ValueError, "quantities has 'log_likelihood', but the draws have"),
        ({"a": 3}, TypeError, r"quantities\['a'\] must be a function, got int"),
        ({"a": lambda t: t["x"].sum(axis=1)}, ValueError, "'a'.* fails on the parameters of one"),
        (
            {"a": lambda t: t["y"]},
            ValueError,
            "'a'.* fails on the parameters of one draw: KeyError",
        ),
        ({"a": lambda t: "high"}, ValueError, "'a'.* must return numbers.*"),
        ({"a": lambda t: np.zeros(int(t["x"][0] > 0) + 1)}, ValueError, "the same shape for every"),
        ({"a": lambda t, data: data["y"]}, ValueError, "'a'.* takes the data too, which these"),
        ({"x": lambda t: t["x"], "x[0]": lambda t: 1.0}, ValueError, r"got 'x\[0\]' twice"),
    ],
)
def test_what_is_no_quantity_of_draws(quantities, error, message):
    with pytest.raises(error, match=message):
        vicheck.check_draws(*normal_draws(size=100), quantities=quantities)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_q": np.zeros(3)}, "one value per draw, got 4000 and 3"),
        ({"draws": np.zeros((5, 2))}, r"draws must have shape \(4000, d\).*got shape \(5, 2\)"),
        ({"draws": np.zeros(4000)}, r"draws must have shape \(4000, d\)"),
        ({"draws": {"a": np.zeros(7)}}, "a must have one row for each of the 4000 draws"),
        ({"draws": {}}, "at least one array"),
        ({"names": ["a"]}, "names must hold 2 different names"),
        ({"names": ["a", "a"]}, "names must hold 2 different names"),
        ({"draws": {"a": np.zeros(4000)}, "names": ["a"]}, "names go with an array"),
    ],
)
def test_bad_arrays(change, message):
    z, log_p, log_q = normal_draws()
    arguments = {"draws": z, "log_p": log_p, "log_q": log_q} | change
    with pytest.raises(ValueError, match=message):
        vicheck.check_draws(**arguments)


@given(st.floats(0.2, 3.0), st.floats(-2.0, 2.0), st.booleans())
def test_khat_is_the_same_in_any_smooth_parametrization(stretch, shift, exponential):
    """A change of variables moves log_p and log_q by the same Jacobian."""
    z, log_p, log_q = normal_draws(size=1000)
    theta = stretch * np.sinh(z) + shift
    log_jacobian = np.log(stretch * np.cosh(z)).sum(axis=1)
    if exponential:
        log_jacobian = log_jacobian + theta.sum(axis=1)
        theta = np.exp(theta)
    same = vicheck.check_draws(theta, log_p - log_jacobian, log_q - log_jacobian)
    assert same.khat == pytest.approx(vicheck.psis_khat(log_p - log_q), abs=1e-6)


def test_it_prints_a_summary(of_fit):
    text = str(of_fit)
    assert (
        text.splitlines()[0]
        == "eight_schools_noncentred: mean_field fit of 10 parameters (deterministic)"
    )
    assert str(of_fit.verdict) in text
    assert "The fit has converged" in text
    assert "What to do: " in text
    assert "tau" in text
    assert "... and 6 more quantities in .moments" in text
    assert repr(of_fit).startswith("Check(khat=0.")


def test_saving_loses_nothing(of_fit, tmp_path):
    of_fit.save(tmp_path / "check.npz")
    back = vicheck.Check.load(tmp_path / "check.npz")
    assert str(back) == str(of_fit)
    assert back.khat == of_fit.khat
    assert back.moments.equals(of_fit.moments)
    assert back.convergence.status is of_fit.convergence.status
    assert np.array_equal(back.draws["theta"], of_fit.draws["theta"])


def test_a_mixture_of_modes_is_saved_too(tmp_path):
    fit = vicheck.fit(vicheck.from_numpyro(models.two_modes), num_starts=10)
    checked = vicheck.check(fit, num_draws=2000)
    checked.save(tmp_path / "check.npz")
    assert str(vicheck.Check.load(tmp_path / "check.npz")) == str(checked)


def test_the_same_check_gives_the_same_bits(of_fit, tmp_path):
    of_fit.save(tmp_path / "one.npz")
    vicheck.Check.load(tmp_path / "one.npz").save(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_a_failed_save_leaves_the_old_file(checked, of_fit, tmp_path, monkeypatch):
    path = tmp_path / "check.npz"
    assert_a_failed_save_leaves_the_old_file(path, checked, of_fit, monkeypatch)


def test_a_file_of_before_the_checksum_says_so(tmp_path):
    np.savez(tmp_path / "old.npz", description=np.array("{}"), log_p=np.ones(3), log_q=np.ones(3))
    with pytest.raises(InputFileError, match="an earlier version wrote it otherwise"):
        vicheck.Check.load(tmp_path / "old.npz")


WRONG = {
    "no names": lambda told, arrays: told.pop("names"),
    "names of another type": lambda told, arrays: told.update(names="x"),
    "one name twice": lambda told, arrays: told.update(names=["x"] * len(told["names"])),
    "one name less": lambda told, arrays: told["names"].pop(),
    "other shapes": lambda told, arrays: told["shapes"].update(tau=[7]),
    "negative shapes": lambda told, arrays: told["shapes"].update(a=[-1], b=[1]),
    "growth of no number": lambda told, arrays: told["khat_growth"].update(x=1.0),
    "text for a number": lambda told, arrays: told["convergence"].update(rhat="1"),
    "an unknown status": lambda told, arrays: told["convergence"].update(status="FINE"),
    "a list for a record": lambda told, arrays: told.update(convergence=[]),
    "no gradient": lambda told, arrays: told["convergence"].pop("gradient"),
    "a huge number": lambda told, arrays: told["convergence"]["gradient"].update(num_draws=2**70),
    "no versions": lambda told, arrays: told["provenance"].update(versions=None),
    "chains of other quantities": lambda told, arrays: told["chains"]["names"].reverse(),
    "chains of fewer quantities": lambda told, arrays: told["chains"]["rhat"].pop(),
    "chains that drift otherwise": lambda told, arrays: told["chains"]["from_q"]["shift"].pop(),
    "chains from elsewhere": lambda told, arrays: told["chains"].update(starts="p"),
    "no log_p": lambda told, arrays: arrays.pop("log_p"),
    "integers": lambda told, arrays: arrays.update(log_p=arrays["log_p"].astype(int)),
    "fewer log_q": lambda told, arrays: arrays.update(log_q=arrays["log_q"][1:]),
    "fewer densities": lambda told, arrays: arrays.update(
        {name: arrays[name][1:] for name in ("log_p", "log_q")}
    ),
    "a flat table": lambda told, arrays: arrays.update(values=arrays["values"].ravel()),
    "no draws": lambda told, arrays: arrays.update(
        {name: array[:0] for name, array in arrays.items()}
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_file_whose_parts_do_not_fit_is_refused(of_fit, tmp_path, case):
    path = tmp_path / "check.npz"
    of_fit.save(path)
    description, arrays = decode_arrays(path.read_bytes())
    WRONG[case](description, arrays)
    path.write_bytes(encode_arrays(arrays, description))
    with pytest.raises(InputFileError, match="is not a check that this version of vicheck has"):
        vicheck.Check.load(path)


def test_what_is_not_a_check_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(InputFileError, match="is not a check that vicheck has saved"):
        vicheck.Check.load(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError):
        vicheck.Check.load(tmp_path / "nothing.npz")


@pytest.mark.filterwarnings("ignore::vicheck.UnreliableWarning")
def test_resampling_with_and_without_replacement(checked):
    with pytest.warns(vicheck.UnreliableWarning, match="usable in part only"):
        many = checked.resample(20_000, seed=1)["x"]
    assert many.std() == pytest.approx(1.0, abs=0.05)  # that of p; q has 0.8
    few = checked.resample(1000, replace=False, seed=1)["x"]
    assert len(np.unique(few[:, 0])) == 1000
    assert np.array_equal(few, checked.resample(1000, replace=False, seed=1)["x"])
    with pytest.raises(ValueError, match="between 1 and 4000 without replacement, got 4001"):
        checked.resample(4001, replace=False)
    with pytest.raises(ValueError, match="got 0"):
        checked.resample(0)


def test_to_arviz(of_fit):
    with warnings.catch_warnings():  # with so few draws the verdict depends on which they are
        warnings.simplefilter("ignore", vicheck.UnreliableWarning)
        tree = of_fit.to_arviz(resampled=False)
    assert tree["posterior"]["theta"].shape == (1, 5000, 8)
    assert tree["posterior"]["tau"].dims == ("chain", "draw")
    for name in ("log_p", "log_q", "log_weights"):
        assert tree["sample_stats"][name].shape == (1, 5000)
    assert np.array_equal(tree["sample_stats"]["log_p"].to_numpy()[0], of_fit.log_p)
    assert np.exp(tree["sample_stats"]["log_weights"]).sum() == pytest.approx(1.0)
    assert tree["posterior"].attrs["khat"] == of_fit.khat


def test_the_report_stands_alone(of_fit, tmp_path):
    of_fit.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert str(of_fit.verdict).split(":", maxsplit=1)[0] in page
    assert "theta[7]" in page


def test_to_dict_is_plain(of_fit):
    plain = json.loads(json.dumps(of_fit.to_dict()))
    assert plain["verdict"]["level"] == of_fit.verdict.level
    assert plain["moments"]["tau"]["use"] in ("vi", "psis", "neither")
    assert plain["convergence"]["status"] == "CONVERGED"


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -3e8])
def test_a_constant_is_known_exactly(value):
    z, log_p, log_q = normal_draws()
    table = vicheck.check_draws({"c": np.full(len(z), value), "z": z}, log_p, log_q).moments
    row = table.loc["c"]
    assert row["vi_mean"] == row["psis_mean"] == value
    assert row["vi_sd"] == row["psis_sd"] == row["mcse"] == row["shift"] == 0.0
    assert row["use"] == "vi"


def test_names_must_differ():
    z, log_p, log_q = normal_draws()
    with pytest.raises(ValueError, match=r"different names, got 'x\[0\]' twice"):
        vicheck.check_draws({"x": z, "x[0]": z[:, 0]}, log_p, log_q)
    with pytest.raises(ValueError, match="at least one column"):
        vicheck.check_draws(z[:, :0], log_p, log_q)


def test_the_code_of_a_check_repeats_its_quantities(of_fit):
    model = vicheck.from_numpyro(models.eight_schools_noncentred, **models.EIGHT_SCHOOLS)
    some = vicheck.check(vicheck.fit(model), num_draws=500, quantities=["tau"])
    again = eval(some.provenance.code, {"vicheck": vicheck, "model": model})
    assert again.names == some.names == ("tau",)
    assert np.array_equal(again.values, some.values)


def test_a_file_of_before_there_were_chains_can_be_read(of_fit, tmp_path):
    path = tmp_path / "check.npz"
    of_fit.save(path)
    description, arrays = decode_arrays(path.read_bytes())
    del description["chains"]
    path.write_bytes(encode_arrays(arrays, description))
    assert vicheck.Check.load(path).chains is None


def test_a_file_of_another_version_is_said_to_be_one(of_fit, tmp_path):
    path = tmp_path / "check.npz"
    of_fit.save(path)
    description, arrays = decode_arrays(path.read_bytes())
    description["convergence"]["something_new"] = description["convergence"].pop("gradient_norm")
    path.write_bytes(encode_arrays(arrays, description))
    with pytest.raises(InputFileError, match=r"this version of vicheck.*field 'something_new'"):
        vicheck.Check.load(path)
