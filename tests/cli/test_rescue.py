"""`vicheck rescue`: from a model in a file to a trail and an answer."""

import json

import pytest

from tests.cli.command_line import call
from vicheck.rescuing import run as rescuing
from vicheck.rescuing.ladder import Rung

MODEL = """
import numpy as np
import vicheck

precision = np.linalg.inv(np.array([[1.0, 0.95], [0.95, 1.0]]))
model = vicheck.from_log_density(lambda x: -0.5 * x @ precision @ x, np.zeros(2))
good = vicheck.from_log_density(lambda x: -0.5 * x @ x, np.zeros(2))
"""

WITHOUT_GRADIENT = """
import jax
import numpy as np
import vicheck


def log_density(x):
    shape = jax.ShapeDtypeStruct((), x.dtype)
    return jax.pure_callback(
        lambda z: np.asarray(-0.5 * z @ z, z.dtype), shape, x, vmap_method="sequential"
    )


model = vicheck.from_log_density(log_density, np.zeros(2))
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "target.py"
    path.write_text(MODEL)
    return path


def test_it_prints_before_what_was_tried_what_to_report_and_the_lines(model):
    done = call("rescue", model, "--report", model.with_suffix(".html"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Before: The approximation is not reliable: khat")
    assert lines[2].startswith("Rescued by richer-family: khat")
    (tried,) = (line for line in lines if line.startswith("  richer-family "))
    assert tried.endswith("kept")
    (reported,) = (line for line in lines if line.startswith("  x[0] "))
    assert reported.endswith("PSIS")
    assert '  rescued = vicheck.rescue(fit, remedies=["richer-family"], seed=0)' in lines
    page = model.with_suffix(".html").read_text()
    assert "What was tried" in page
    assert "vicheck rescue" in page


def test_a_check_is_rescued_unless_it_is_good(model):
    done = call("check", model, "--rescue", "--draws", "20000", "--json")
    answer = json.loads(done.stdout, parse_constant=pytest.fail)
    assert done.returncode == 0, done.stderr
    assert answer["before"]["num_draws"] == 20_000
    assert answer["before"]["verdict"]["level"] == "unreliable"
    assert answer["check"]["verdict"]["level"] == "good"
    good = call("check", f"{model}:good", "--rescue", "--draws", "20000")
    assert good.returncode == 0
    assert "What was tried" not in good.stdout


def test_a_good_fit_is_returned_and_said(model):
    done = call("rescue", f"{model}:good")
    assert done.returncode == 0
    assert done.stdout.startswith("There was nothing to mend: the verdict is good.")


def test_a_remedy_that_raises_is_a_row_and_an_interrupt_ends_the_search(model, monkeypatch):
    def fail(patient):
        raise RuntimeError("no such luck")

    def interrupt(patient):
        raise KeyboardInterrupt

    rungs = (Rung("adapt", frozenset(), fail), Rung("mixture", frozenset(), interrupt))
    monkeypatch.setattr(rescuing, "LADDER", rungs)
    done = call("rescue", model)
    assert done.returncode == 2
    assert "Not rescued (interrupted)" in done.stdout
    assert "failed: failed: RuntimeError: no such luck" not in done.stdout
    assert "failed: RuntimeError: no such luck" in done.stdout


@pytest.mark.parametrize("name", ["draws.csv", "fit.nc", "check.npz"])
def test_draws_without_a_model_are_refused(name):
    done = call("rescue", name)
    assert done.returncode == 64
    assert f"{name} has no model in it" in done.stderr
    assert "hint: name the model: vicheck rescue file.py:name" in done.stderr


def test_a_fit_made_elsewhere_cannot_be_rescued_by_check():
    done = call("check", "draws.csv", "--rescue")
    assert done.returncode == 64
    assert "--rescue goes with a model, but draws.csv is a fit" in done.stderr


def test_a_density_without_a_gradient_is_an_error(tmp_path):
    path = tmp_path / "target.py"
    path.write_text(WITHOUT_GRADIENT)
    done = call("rescue", path)
    assert done.returncode >= 64
    assert "gradient" in done.stderr
    assert "Traceback" not in done.stderr


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
