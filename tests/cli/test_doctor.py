"""`vicheck doctor` as a user and a maintainer see it."""

import json

import pytest

from tests.cli.command_line import call
from vicheck.doctor import environment, self_test


@pytest.fixture
def trials(monkeypatch):
    """Parts of the self-test that take no time."""
    parts = {"PSIS": lambda: "khat 0.5", "files": lambda: "written"}
    monkeypatch.setattr(self_test, "TRIALS", parts)
    return parts


def test_all_is_well(trials):
    done = call("doctor")
    assert done.returncode == 0, done.stdout
    assert done.stderr == ""
    lines = [line.split() for line in done.stdout.splitlines()]
    for heading in ("Versions", "Machine", "Extras", "Self-test"):
        assert [heading] in lines
    assert ["numpy", environment.versions()["numpy"]] in lines
    assert ["devices", "cpu:0"] in [line[:2] for line in lines]
    assert ["PSIS", "ok", "khat", "0.5"] in lines
    assert done.stdout.endswith("All is well.\n")


def test_what_fails_is_named_and_the_status_says_so(trials):
    trials["files"] = lambda: 1 / 0
    done = call("doctor")
    assert done.returncode == 70
    assert "files          failed  ZeroDivisionError: division by zero" in done.stdout
    assert done.stdout.endswith("Failed: files.\n")


def test_a_library_that_is_absent_has_the_line_that_installs_it(trials, monkeypatch):
    monkeypatch.setattr(environment, "EXTRAS", {"pyro": "no-such-library"})
    assert "not installed: pip install 'vicheck[pyro]'" in call("doctor").stdout


def test_jax_that_finds_no_device_is_told(trials, monkeypatch):
    def none():
        raise RuntimeError("no backend")

    monkeypatch.setattr(environment, "devices", none)
    assert "devices        none: RuntimeError: no backend" in call("doctor").stdout


def test_json_has_everything(trials):
    trials["files"] = lambda: 1 / 0
    done = call("doctor", "--json")
    answer = json.loads(done.stdout, parse_constant=pytest.fail)
    assert done.returncode == 70
    assert set(answer) == {
        "versions", "machine", "devices", "cache", "extras", "self_test", "passed",
    }  # fmt: skip
    assert answer["passed"] is False
    assert [trial["passed"] for trial in answer["self_test"]] == [True, False]
