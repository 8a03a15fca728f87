"""Tables of draws with both log densities: DataFrames, CSV, NumPy and Parquet files."""

import numpy as np
import pandas as pd
import pytest

import vicheck
from tests.cli.command_line import call
from vicheck.errors import ArgumentError, InputFileError

NUM_DRAWS = 1000


def frame(log_p="log_p", log_q="log_q"):
    z = 0.9 * np.random.default_rng(1).normal(size=(NUM_DRAWS, 2))
    table = pd.DataFrame(z, columns=["alpha", "beta[1]"])
    table[log_p] = -0.5 * (z**2).sum(axis=1)
    table[log_q] = -0.5 * (z**2).sum(axis=1) / 0.81 - 2.0 * np.log(0.9)
    return table


def by_arrays():
    table = frame()
    return vicheck.check_draws(table[["alpha", "beta[1]"]], table["log_p"], table["log_q"])


@pytest.mark.parametrize(
    ("log_p", "log_q"), [("log_p", "log_q"), ("lp__", "log_q"), ("lp", "lq"), ("logp", "logq")]
)
def test_a_data_frame_with_both_densities_is_checked_as_it_is(log_p, log_q):
    checked = vicheck.check(frame(log_p, log_q))
    assert checked.names == ("alpha", "beta[1]")
    expected = by_arrays()
    assert checked.khat == expected.khat
    pd.testing.assert_frame_equal(checked.moments, expected.moments)


def test_densities_of_other_names_are_named():
    table = frame("joint", "approx")
    checked = vicheck.check_draws(table, "joint", "approx")
    assert checked.khat == by_arrays().khat
    assert checked.names == ("alpha", "beta[1]")
    columns = {name: table[name].to_numpy() for name in table}
    assert vicheck.check_draws(columns, "joint", log_q="approx").names == ("alpha", "beta[1]")
    with pytest.raises(InputFileError, match="has no column log_p: say which column it is by log_"):
        vicheck.check(table)
    with pytest.raises(InputFileError, match=r"no column 'lp' for log_p: it has 'alpha', 'beta"):
        vicheck.check_draws(table, "lp", "approx")


def test_one_density_by_name_and_one_as_an_array_are_refused():
    table = frame()
    with pytest.raises(ArgumentError, match="log_q must be the name of a column too"):
        vicheck.check_draws(table, "log_p", table["log_q"])
    with pytest.raises(ArgumentError, match="must be given with an array of draws"):
        vicheck.check_draws(table.to_numpy())


def test_columns_that_could_both_be_meant_are_named():
    table = frame("lp", "lq").assign(logp=0.0)
    with pytest.raises(InputFileError, match="'lp', 'logp' that could all be log_p"):
        vicheck.check(table)
    assert vicheck.check_draws(table, "lp", "lq").names == ("alpha", "beta[1]", "logp")


def test_columns_that_number_the_draws_are_no_quantities():
    table = frame().assign(chain=0, draw=np.arange(NUM_DRAWS))
    checked = vicheck.check(table)
    assert checked.names == ("alpha", "beta[1]")
    assert "Columns that number the draws were left out: 'chain', 'draw'." in checked.notes


def test_text_in_a_column_is_refused_by_name():
    with pytest.raises(TypeError, match="group must be real numbers"):
        vicheck.check(frame().assign(group="a"))


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet"])
def test_files_have_moments_and_a_report_on_the_command_line(tmp_path, suffix):
    path = tmp_path / f"draws{suffix}"
    table = frame("lp", "approx")
    if suffix == ".csv":
        table.to_csv(path)  # with a first column of row numbers, as it is by default
    elif suffix == ".npz":
        np.savez(path, **{name: table[name].to_numpy() for name in table})
    else:
        pytest.importorskip("pyarrow")
        table.to_parquet(path)
    page, saved = tmp_path / "page.html", tmp_path / "check.npz"
    columns = ("--log-p", "lp", "--log-q", "approx")
    done = call("check", path, *columns, "--report", page, "--save", saved)
    assert done.returncode == 1, done.stderr
    assert "beta[1]" in done.stdout
    assert "beta[1]" in page.read_text()
    assert vicheck.Check.load(saved).khat == pytest.approx(by_arrays().khat, abs=1e-6)
    unnamed = call("check", path)
    assert unnamed.returncode == 65
    assert "--log-q" in unnamed.stderr


def test_columns_go_with_tables_only(tmp_path):
    done = call("check", "model.py", "--log-p", "lp")
    assert done.returncode == 64
    assert "--log-p goes with a table of draws" in " ".join(done.stderr.split())


def test_files_that_hold_something_else(tmp_path):
    path = tmp_path / "draws.csv"
    path.write_text("1.0,2.0\n3.0,4.0\n")
    with pytest.raises(InputFileError, match="must start with a line of names"):
        vicheck.check(path)
    path.write_text("x,log_p,log_q\n1.0,a,3.0\n")
    with pytest.raises(InputFileError, match=r"line 2, column 2 \(log_p\): 'a' is not a number"):
        vicheck.check(path)
    path.write_text("log_p,log_q\n1.0,3.0\n")
    with pytest.raises(InputFileError, match="only log densities, and no draws"):
        vicheck.check(path)
