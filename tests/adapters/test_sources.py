"""The table that `check` looks things up in; libraries have tests of their own."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vicheck
from vicheck.adapters.sources import can_draw_from, draws_of
from vicheck.errors import InputFileError

CSV = Path(__file__).parents[1] / "reference" / "stan_csv" / "eight_schools_ncp_meanfield.csv"


@pytest.fixture(scope="module")
def tree():
    z = np.random.default_rng(1).normal(size=(500, 2))
    checked = vicheck.check_draws(z, -(z**2).sum(axis=1), -(z**2).sum(axis=1) / 2)
    return checked.to_arviz(resampled=False).to_datatree()


def test_files_are_told_apart_by_their_names(tree, tmp_path):
    tree.to_netcdf(tmp_path / "fit.nc")
    assert draws_of(tmp_path / "fit.nc", None, None).num_draws == 500
    assert draws_of(str(CSV), None, None).values.keys() >= {"mu", "tau"}
    with pytest.raises(
        InputFileError, match=r"its name must end in .csv, .npz, .parquet, .nc, .zarr"
    ):
        draws_of(tmp_path / "fit.txt", None, None)
    with pytest.raises(FileNotFoundError):
        draws_of(tmp_path / "absent.csv", None, None)


def test_draws_that_are_there_are_not_drawn_again(tree):
    for what in (tree, CSV):
        assert not can_draw_from(what)
        for name, arguments in {"num_draws": (100, None), "seed": (None, 1)}.items():
            with pytest.raises(TypeError, match=f"^{name} does not apply to the draws"):
                draws_of(what, *arguments)


def test_subclasses_are_what_their_bases_are(tree):
    class MyTree(type(tree)):
        pass

    mine = MyTree.from_dict({name: child.to_dataset() for name, child in tree.children.items()})
    assert draws_of(mine, None, None).num_draws == 500


@pytest.mark.parametrize("library", ["pymc", "cmdstanpy", "pyro", "blackjax"])
def test_no_library_is_imported_to_tell_objects_apart(library):
    """A type that says it comes from there is enough."""
    code = (
        "import sys, vicheck\n"
        "try:\n    vicheck.check(object())\n"
        "except TypeError as error:\n    assert 'check takes' in str(error)\n"
        f"assert {library!r} not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("numpyro.infer.autoguide", r"a guide goes with vicheck.check_numpyro"),
        (
            "numpyro.distributions.continuous",
            r"a distribution goes with vicheck.check_distribution",
        ),
        ("pyro.infer.autoguide.guides", r"a guide goes with vicheck.check_pyro"),
        ("blackjax.vi.meanfield_vi", r"a state goes with vicheck.check_blackjax"),
        ("somewhere.else", "got Thing$"),
    ],
)
def test_the_function_to_use_is_named(module, message):
    thing = type("Thing", (), {"__module__": module})()
    with pytest.raises(TypeError, match=message):
        draws_of(thing, None, None)
