"""`vicheck rescue`: from a model in a file to a trail and an answer."""

import json

import pytest

from tests.cli.command_line import call

MODEL = """
import numpy as np
import vicheck

precision = np.linalg.inv(np.array([[1.0, 0.95], [0.95, 1.0]]))
model = vicheck.from_log_density(lambda x: -0.5 * x @ precision @ x, np.zeros(2))
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "target.py"
    path.write_text(MODEL)
    return path


def test_it_prints_what_was_done_and_the_check_of_it(model):
    done = call("rescue", model)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Rescued by richer-family: khat")
    assert "psis_mean" in done.stdout


def test_json_has_the_trail(model):
    done = call("rescue", model, "--json")
    answer = json.loads(done.stdout, parse_constant=pytest.fail)
    assert answer["succeeded"]
    assert [row["remedy"] for row in answer["trail"] if row["kept"]] == ["none", "richer-family"]
    assert answer["check"]["verdict"]["level"] == "good"


def test_without_a_budget_it_is_not_rescued(model):
    done = call("rescue", model, "--budget", "0")
    assert done.returncode == 2
    assert "the budget is used up" in done.stdout


def test_a_negative_budget_is_an_error(model):
    done = call("rescue", model, "--budget", "-1")
    assert done.returncode == 64
    assert "--budget must be a number of seconds" in done.stderr
