"""How the application ends: bugs are no verdicts, and a traceback is shown on request."""

import json

import numpy as np
import pytest

from tests.cli.command_line import call
from vicheck.cli import application
from vicheck.results.psis import PsisStatus
from vicheck.stats.psis import psis


def broken(**options):
    raise ZeroDivisionError("oops\nand more")


def test_a_bug_is_not_a_verdict(monkeypatch):
    monkeypatch.setattr(application, "app", broken)
    done = call("psis")
    assert done.returncode == 70
    assert done.stderr.startswith("vicheck: this is a bug in vicheck, please report it: ZeroDiv")
    assert done.stderr.splitlines()[1] == "hint: the same command with --debug shows where"


@pytest.mark.parametrize("arguments", ["--debug psis no.npy", "psis no.npy --debug"])
def test_debug_shows_the_traceback_before_the_sentence(arguments):
    done = call(*arguments.split())
    assert done.returncode == 66
    assert "Traceback (most recent call last)" in done.stderr
    assert "read_log_ratios" in done.stderr
    assert done.stderr.splitlines()[-2] == "vicheck: cannot read no.npy: No such file or directory"


def test_debug_by_the_environment():
    assert "Traceback" in call("psis", "no.npy", VICHECK_DEBUG="1").stderr
    assert "Traceback" not in call("psis", "no.npy", VICHECK_DEBUG="").stderr


def test_debug_changes_nothing_where_nothing_is_wrong(tmp_path):
    ratios = np.random.default_rng(1).normal(size=100)
    np.save(tmp_path / "r.npy", ratios)
    done = call("psis", tmp_path / "r.npy", "--debug", "--json")
    assert json.loads(done.stdout)["khat"] == psis(ratios).khat
    assert json.loads(done.stdout)["status"] == PsisStatus.OK.name
    assert done.stderr == ""


def test_a_message_of_many_lines_becomes_one(monkeypatch):
    def many(**options):
        raise application.CommandError("line 1\n-----\n  line 2\n", 65)

    monkeypatch.setattr(application, "app", many)
    assert call("psis").stderr == "vicheck: line 1 line 2 \n"
