"""Fits of CmdStanPy, made by its own `from_csv` of files that CmdStan has written."""

import shutil
from pathlib import Path

import cmdstanpy
import pytest

import vicheck

FILES = Path(__file__).parents[1] / "reference" / "stan_csv"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("eight_schools_cp_meanfield_200", cmdstanpy.CmdStanVB),
        ("constraints_fullrank", cmdstanpy.CmdStanVB),
        ("constraints_pathfinder_1path", cmdstanpy.CmdStanPathfinder),
    ],
)
def test_a_fit_has_the_khat_of_its_file(name, kind):
    path = FILES / f"cmdstan_{name}.csv"
    fit = cmdstanpy.from_csv(str(path))
    assert isinstance(fit, kind)
    assert vicheck.check(fit).khat == vicheck.check(path).khat


def test_a_laplace_approximation_has_the_khat_of_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # CmdStanPy looks for the mode where the header says it is
    shutil.copy(FILES / "cmdstan_eight_schools_cp_optimize.csv", "mode.csv")
    text = (FILES / "cmdstan_eight_schools_cp_laplace_at_point.csv").read_text()
    Path("laplace.csv").write_text(text.replace("eight_schools_cp_point.json", "mode.csv"))
    fit = cmdstanpy.from_csv("laplace.csv")
    assert isinstance(fit, cmdstanpy.CmdStanLaplace)
    expected = vicheck.check(vicheck.read_stan_csv("laplace.csv")).khat
    assert vicheck.check(fit).khat == expected
    with pytest.raises(TypeError, match="num_draws does not apply to the draws that Stan has"):
        vicheck.check(fit, num_draws=1000)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nuts", "got CmdStanMCMC: a CmdStanMCMC holds draws by MCMC"),
        ("optimize", "a CmdStanMLE is a point, not an approximation"),
    ],
)
def test_other_fits_are_refused(name, message):
    fit = cmdstanpy.from_csv(str(FILES / f"cmdstan_eight_schools_cp_{name}.csv"))
    with pytest.raises(TypeError, match=message):
        vicheck.check(fit)
