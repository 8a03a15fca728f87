"""`vicheck demo`: what a stranger sees first."""

import json
from pathlib import Path

import pytest

from tests.cli.command_line import call
from vicheck.results.check import Check
from vicheck.results.rescue import Rescue


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.mark.slow
def test_it_tells_the_two_parametrizations_apart_and_ends_with_reports(places):
    done = call("demo", "--out", places / "out")
    assert done.returncode == 0, done.stderr
    assert "not reliable" in done.stdout
    assert "usable with care" in done.stdout
    assert "exact" in done.stdout
    lines = done.stdout.splitlines()
    assert len(lines) < 50
    assert "Rescued by reparametrise" in done.stdout
    assert done.stderr == ""
    assert "LocScaleReparam" in done.stdout  # the line that a user can keep
    reports = [Path(line.strip()) for line in lines[-3:]]
    assert [path.name for path in reports] == [
        "eight-schools-centred.html",
        "eight-schools-noncentred.html",
        "eight-schools-rescued.html",
    ]
    assert all("theta[0]" in path.read_text() for path in reports)


@pytest.mark.slow
def test_json_has_both_checks_and_where_the_reports_are(places, monkeypatch):
    monkeypatch.setattr(Check, "report", lambda self, path: Path(path).write_text(self.command))
    monkeypatch.setattr(Rescue, "report", lambda self, path: Path(path).write_text(""))
    done = call("demo", "--out", places / "json", "--json")
    answer = json.loads(done.stdout, parse_constant=pytest.fail)
    rescued = answer.pop("rescue")
    assert rescued["succeeded"]
    assert rescued["check"]["khat"] < 0.5
    levels = {name: part["check"]["verdict"]["level"] for name, part in answer.items()}
    assert levels == {"centred": "unreliable", "noncentred": "usable"}
    command = f"vicheck demo --out {places / 'json'} --json"
    assert [Path(part["report"]).read_text() for part in answer.values()] == [command] * 2


def test_a_report_that_cannot_be_written_is_an_error(places):
    (places / "taken" / "eight-schools-centred.html").mkdir(parents=True)
    done = call("demo", "--out", places / "taken")
    assert done.returncode == 74
    assert "eight-schools-centred.html: it is a directory\nhint: give the name" in done.stderr
    assert done.stdout == ""
