"""`vicheck report`: pages from saved results."""

import json

import numpy as np
import pytest

import vicheck
from tests.calibration.made import calibration
from tests.cli.command_line import call
from tests.plots.rescues import made_rescue
from vicheck.results.archive import decode_arrays, encode_arrays
from vicheck.results.calibration import Calibration
from vicheck.results.check import Check


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A check and a calibration in files whose names do not tell which is which."""
    directory = tmp_path_factory.mktemp("saved")
    draws = np.random.default_rng(5).normal(size=(500, 2))
    densities = -(draws**2).sum(axis=1) / 2
    vicheck.check_draws({"x": draws}, densities, densities).save(directory / "one.npz")
    calibration(seed=3).save(directory / "two.npz")
    return directory


@pytest.fixture
def calls(monkeypatch):
    """How the two classes are asked for a page."""
    noted = []
    for kind, other in ((Check, "calibration"), (Calibration, "check")):

        def report(self, path, *, own=kind.report, name=other, **options):
            noted.append((type(self), options.get(name)))
            return own(self, path, **options)

        monkeypatch.setattr(kind, "report", report)
    return noted


@pytest.mark.parametrize(("name", "kind"), [("one.npz", Check), ("two.npz", Calibration)])
def test_a_file_alone_is_told_by_its_content(saved, tmp_path, calls, name, kind):
    page = tmp_path / "page.html"
    done = call("report", saved / name, "--out", page)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [kind.load(saved / name).verdict.sentence, str(page)]
    assert page.read_text().startswith("<!doctype html>")
    assert calls == [(kind, None)]


@pytest.mark.parametrize("names", [("one.npz", "two.npz"), ("two.npz", "one.npz")])
def test_both_kinds_go_on_one_page_in_any_order(saved, tmp_path, calls, names):
    done = call("report", *(saved / name for name in names), "--out", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    ((kind, other),) = calls
    assert kind is Check
    assert isinstance(other, Calibration)


def test_quantiles_that_are_not_there_are_refused(saved, tmp_path):
    small = tmp_path / "small.npz"
    vicheck.load(saved / "one.npz").save(small, draws=False)
    done = call("report", small, "--prob", "0.3", "--out", tmp_path / "page.html")
    assert done.returncode == 64
    assert "--prob must be among the quantiles in the file, 5, 50, 95%" in done.stderr
    done = call("report", saved / "two.npz", "--prob", "0.3", "--out", tmp_path / "page.html")
    assert done.returncode == 64
    assert "--prob goes with a check" in done.stderr


def test_a_rescue_has_a_page_alone_or_with_a_calibration(saved, tmp_path):
    made_rescue().save(tmp_path / "rescue.npz")
    page = tmp_path / "page.html"
    for others in ([], [saved / "two.npz"]):
        done = call("report", tmp_path / "rescue.npz", *others, "--out", page, "--prob", "0.2")
        assert done.returncode == 0, done.stderr
        assert made_rescue().check.verdict.sentence in done.stdout
        assert "What was tried" in page.read_text()
    done = call("report", tmp_path / "rescue.npz", saved / "one.npz", "--out", page)
    assert done.returncode == 64
    assert "both hold a check" in done.stderr


def test_the_page_has_a_name_of_its_own(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("report", saved / "one.npz").stdout.splitlines()[-1] == "report.html"
    assert (tmp_path / "report.html").is_file()


def test_json_has_the_path_and_the_verdicts(saved, tmp_path):
    page = tmp_path / "page.html"
    done = call("report", saved / "two.npz", saved / "one.npz", "--out", page, "--json")
    answer = json.loads(done.stdout, parse_constant=pytest.fail)
    assert answer["report"] == str(page)
    assert set(answer["verdicts"]) == {"check", "calibration"}
    check = Check.load(saved / "one.npz")
    assert answer["verdicts"]["check"]["level"] == check.verdict.level
    assert done.stderr == ""


def test_a_file_of_a_later_format_says_so(saved, tmp_path):
    description, arrays = decode_arrays((saved / "one.npz").read_bytes())
    later = encode_arrays(arrays, description | {"format": 99})
    (tmp_path / "later.npz").write_bytes(later)
    done = call("report", tmp_path / "later.npz", "--out", tmp_path / "page.html")
    assert done.returncode == 65
    assert "later.npz has format 99" in done.stderr
