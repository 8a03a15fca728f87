"""ArviZ data there and back, from memory and from files, also on the command line."""

import json
import re
import tomllib
from pathlib import Path

import arviz_base
import numpy as np
import pytest

import vicheck
from tests.cli.command_line import call
from vicheck.errors import InputFileError, MissingExtraError

RNG = np.random.default_rng(1)
Z = RNG.normal(size=(1000, 3))
STATS = {"log_p": -(Z**2).sum(axis=1) / 2, "log_q": -(Z**2).sum(axis=1) / 1.8}


def checked():
    draws = {"mu": Z[:, 0], "theta": Z[:, 1:]}
    return vicheck.check_draws(draws, **STATS)


def tree(posterior, stats):
    groups = {"posterior": posterior, "sample_stats": stats}
    return arviz_base.from_dict(
        {name: {key: value[None] for key, value in group.items()} for name, group in groups.items()}
    )


def test_what_a_check_writes_is_read_back():
    again = vicheck.check(vicheck.from_arviz(checked().to_arviz(resampled=False)))
    assert again.khat == checked().khat
    assert again.names == ("mu", "theta[0]", "theta[1]")
    np.testing.assert_array_equal(again.values, checked().values)


def test_a_missing_constant_stays_missing():
    draws = vicheck.Draws({"x": Z}, **STATS, unnormalized="it was lost", notes=("one", "two"))
    again = vicheck.from_arviz(vicheck.check(draws).to_arviz(resampled=False))
    assert again.unnormalized == "it was lost"
    assert again.notes == ("one", "two")
    assert np.isnan(vicheck.check(again).divergences.elbo.value)
    assert "ELBO and log evidence are unknown: it was lost." in str(vicheck.check(again))


def test_files_are_read_and_the_command_line_takes_them(tmp_path):
    path = tmp_path / "fit.nc"
    checked().to_arviz(resampled=False).to_netcdf(path)
    assert vicheck.check(vicheck.from_arviz(path)).khat == checked().khat
    done = call("check", path, "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["khat"] == checked().khat
    assert done.returncode == {"good": 0, "usable": 1, "unreliable": 2}[checked().verdict.level]


def test_inference_data_of_older_arviz_is_read():
    import arviz

    data = arviz.from_dict(
        posterior={"mu": Z[:, 0].reshape(2, 500)},
        sample_stats={name: value.reshape(2, 500) for name, value in STATS.items()},
    )
    assert vicheck.check(vicheck.from_arviz(data)).khat == checked().khat


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "the data has no group 'posterior': expected ArviZ data"),
        (
            tree({"mu": Z[:, 0]}, {"log_p": STATS["log_p"]}),
            "no log_q in sample_stats, .* it has: log_p",
        ),
        (3, "has no group 'posterior'"),
        (
            arviz_base.from_dict({"posterior": {"mu": Z[None, :, 0]}}),
            "no group 'sample_stats': .* their log_p and log_q in sample_stats",
        ),
        (
            tree({"mu": np.full(1000, {}, dtype=object)}, STATS),
            "the data cannot be read: ",
        ),
    ],
)
def test_data_that_lack_something(data, message):
    with pytest.raises(InputFileError, match=message):
        vicheck.from_arviz(data)


def test_draws_and_densities_of_different_lengths():
    short = {name: value[:900] for name, value in STATS.items()}
    posterior = arviz_base.from_dict({"posterior": {"mu": Z[None, :, 0]}})
    posterior["sample_stats"] = tree({"mu": Z[:900, 0]}, short)["sample_stats"]
    with pytest.raises(InputFileError, match="same number of draws of all, got mu 1000, log_p 900"):
        vicheck.from_arviz(posterior)


@pytest.mark.slow
def test_a_file_that_is_something_else(tmp_path):
    path = tmp_path / "fit.nc"
    path.write_text("no such thing")
    with pytest.raises(InputFileError, match=r"fit\.nc is not a readable file of ArviZ data"):
        vicheck.from_arviz(path)
    done = call("check", path)
    assert done.returncode == 65
    assert len(done.stderr.splitlines()) == 1
    assert call("check", tmp_path / "nowhere.nc").returncode == 66


@pytest.mark.slow
def test_a_missing_library_is_named_and_not_the_file_blamed(tmp_path, monkeypatch):
    path = tmp_path / "fit.nc"
    checked().to_arviz(resampled=False).to_netcdf(path)
    monkeypatch.setattr("vicheck.adapters.arviz.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="needs h5netcdf and h5py, which is not installed"):
        vicheck.from_arviz(path)
    done = call("check", path)
    assert done.returncode == 69
    assert "hint: pip install h5netcdf h5py" in done.stderr
    (tmp_path / "fit.zarr").mkdir()
    with pytest.raises(MissingExtraError, match="needs zarr"):
        vicheck.from_arviz(tmp_path / "fit.zarr")


def test_a_default_install_reads_the_files_of_arviz():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    names = {re.split("[<>=~]", each)[0] for each in project["dependencies"]}
    assert {"h5netcdf", "h5py"} <= names
