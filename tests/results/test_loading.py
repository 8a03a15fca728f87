"""Results in files: any kind is read back, small ones say what they lack, names are our own."""

import warnings

import numpy as np
import pytest

import vicheck
from tests.calibration.made import calibration
from tests.cli.command_line import call
from tests.plots.subjects import funnel_check, normal_check
from vicheck.errors import ArgumentError, InputFileError


@pytest.fixture(scope="module")
def check():
    return normal_check(size=20_000)


def test_load_finds_out_what_a_file_holds(check, tmp_path):
    check.save(tmp_path / "check.npz")
    calibration().save(tmp_path / "calibration.npz")
    assert isinstance(vicheck.load(tmp_path / "check.npz"), vicheck.Check)
    assert isinstance(vicheck.load(str(tmp_path / "calibration.npz")), vicheck.Calibration)


def test_load_refuses_anything_else(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(InputFileError, match="holds no result that vicheck has saved: vicheck"):
        vicheck.load(tmp_path / "other.npz")
    (tmp_path / "fit.csv").write_text("a,b\n")
    with pytest.raises(InputFileError, match=r"is not a \.npz file"):
        vicheck.load(tmp_path / "fit.csv")


@pytest.mark.parametrize("suffix", [".nc", ".csv", ".pkl", ".json", ".NC", ".html"])
def test_names_of_other_programs_are_refused(check, tmp_path, suffix):
    for result in (check, calibration()):
        with pytest.raises(ArgumentError, match=f"path must not end in {suffix.lower()}"):
            result.save(tmp_path / f"result{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["result", "result.npz", "result.vicheck", "v1.2"])
def test_other_names_are_free(check, tmp_path, name):
    check.save(tmp_path / name)
    assert vicheck.load(tmp_path / name).khat == check.khat


def test_the_command_line_refuses_them_before_it_works(tmp_path):
    done = call("check", "nowhere.py", "--save", tmp_path / "check.json")
    assert done.returncode == 64
    assert "--save must not end in .json" in done.stderr


@pytest.mark.parametrize("make", [normal_check, funnel_check])
@pytest.mark.parametrize("options", [{"draws": False}, {"dtype": "float32"}])
def test_a_small_file_has_the_same_conclusions(make, options, tmp_path):
    check = make(size=4000)
    check.save(tmp_path / "small.npz", **options)
    check.save(tmp_path / "all.npz")
    again = vicheck.load(tmp_path / "small.npz")
    assert again.verdict.to_dict() == check.verdict.to_dict()
    assert again.khat == check.khat
    assert again.moments.equals(check.moments)
    assert again.quantiles().equals(check.quantiles())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vicheck.UnreliableWarning)
        assert again.summary().equals(check.summary())
    assert str(again) == str(check)
    again.report(tmp_path / "page.html")
    sizes = [(tmp_path / name).stat().st_size for name in ("small.npz", "all.npz")]
    assert sizes[0] < 0.85 * sizes[1]
    again.save(tmp_path / "again.npz", **options)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "small.npz").read_bytes()


def test_what_a_file_without_draws_lacks_is_said(check, tmp_path):
    check.save(tmp_path / "small.npz", draws=False)
    small = vicheck.load(tmp_path / "small.npz")
    for take in (lambda: small.resample(5), small.to_arviz, small.explain):
        with pytest.raises(ValueError, match="has no draws: it was saved with draws=False"):
            take()
    with pytest.raises(ArgumentError, match="among the quantiles in the file, 5, 50, 95%: this"):
        small.quantiles(0.1)
    with pytest.raises(ArgumentError, match=r"ci_prob must be 0\.9: this check was saved without"):
        small.summary(ci_prob=0.5)


def test_other_quantiles_are_kept_in_a_small_file(check, tmp_path):
    check.with_prob((0.025, 0.975)).save(tmp_path / "small.npz", draws=False)
    small = vicheck.load(tmp_path / "small.npz")
    assert small.quantiles().columns[::4].tolist() == ["vi_q2.5", "vi_q97.5"]
    assert "psis_q97.5" in str(small)
    with pytest.raises(ArgumentError, match=r"among the quantiles in the file, 2\.5, 97\.5%: this"):
        small.with_prob(0.5)
    with pytest.raises(ArgumentError, match="prob must be numbers between 0 and 1, got 5"):
        check.with_prob(5)


def test_draws_in_float32_are_near(check, tmp_path):
    check.save(tmp_path / "small.npz", dtype="float32")
    small = vicheck.load(tmp_path / "small.npz")
    assert small.values.dtype == np.float64
    np.testing.assert_allclose(small.values, check.values, rtol=1e-7)
    np.testing.assert_array_equal(small.log_p, check.log_p)
    np.testing.assert_allclose(small.quantiles(0.1)["psis_q10"], check.quantiles(0.1)["psis_q10"])
    with pytest.raises(ArgumentError, match="dtype must be 'float64' or 'float32', got 'float16'"):
        check.save(tmp_path / "smaller.npz", dtype="float16")
