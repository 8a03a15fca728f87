"""`vicheck vsbc` as a pipeline and a person see it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import types

import numpy as np
import pytest

from tests.calibration.made import calibration
from tests.command_line import COMMAND, call
from vicheck.calibration.result import Calibration
from vicheck.cli.vsbc import _split
from vicheck.errors import StoreError

MODEL = """
import numpyro
import numpyro.distributions as dist


def normal(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)


def pair(x, y=None):
    both = numpyro.sample("both", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(both.sum() * x, 0.3), obs=y)
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "models.py").write_text(MODEL)
    x = np.linspace(0.5, 1.5, 5)
    (tmp_path / "x.json").write_text(json.dumps({"x": x.tolist()}))
    (tmp_path / "both.json").write_text(json.dumps({"x": x.tolist(), "y": (0.5 * x).tolist()}))
    return tmp_path


def vsbc(files, model, *options, data="x.json"):
    return call("vsbc", f"{files / 'models.py'}:{model}", "--data", files / data, *options)


def test_exact_fits_are_good_for_machines(files):
    """A normal posterior is in the family: exact inference."""
    done = vsbc(files, "normal", "--num-datasets", "200", "--json")
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert answer["verdict"]["level"] == "good"
    assert done.returncode == 0
    assert answer["num_datasets"] == 200
    assert answer["tests"]["slope"]["direction"] == "none"
    assert answer["symmetric_kl"]["mean"] == pytest.approx(0.0, abs=0.01)


def test_what_a_person_sees_and_what_is_written(files):
    """Independent factors are too narrow for two correlated parameters, not biased."""
    done = vsbc(
        files, "pair", "--num-datasets", "150", "--report", files / "page.html", "--save",
        files / "vsbc.npz", "--quantities", "both",
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "q is too narrow for both[" in done.stdout
    assert "small when q sits too high" in done.stdout
    assert "both[1]" in (files / "page.html").read_text()
    saved = Calibration.load(files / "vsbc.npz")
    assert done.stdout == f"{saved}\n\nReport: {files / 'page.html'}\n"
    assert saved.quantities == ("both[0]", "both[1]")


def test_too_few_datasets_end_without_a_verdict(files):
    done = vsbc(files, "normal", "--num-datasets", "5")
    assert done.returncode == 65
    assert "No verdict: 5 datasets" in done.stdout
    assert done.stderr == ""


def test_calibration_at_the_observed_data(files):
    done = vsbc(files, "normal", "--num-datasets", "50", "--posterior", "--json", data="both.json")
    answer = json.loads(done.stdout)
    assert answer["settings"]["kind"] == "posterior"
    assert any("fitted q" in finding["sentence"] for finding in answer["verdict"]["findings"])


def test_a_store_is_gone_on_from_and_belongs_to_one_run(files):
    options = ("--num-datasets", "60", "--store", files / "store")
    saved = files / "vsbc.npz"
    first = vsbc(files, "normal", *options, "--save", saved)
    content = saved.read_bytes()
    again = vsbc(files, "normal", *options, "--save", saved)
    assert first.stdout == again.stdout
    assert content == saved.read_bytes()
    other = vsbc(files, "normal", *options, "--seed", "1")
    assert other.returncode == 74
    assert "belongs to another run" in other.stderr
    assert "seed" in other.stderr
    assert other.stdout == ""
    assert "Traceback" not in other.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("store", [False, True])
def test_an_interrupt_says_what_is_kept(files, store):
    (files / "slow.py").write_text(
        "import sys\nimport time\n\n"
        "print('ready', file=sys.__stdout__, flush=True)\ntime.sleep(30)\nmodel = print\n"
    )
    options = ["--store", str(files / "store")] if store else []
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    with subprocess.Popen(
        [COMMAND[0], "-c", heed + COMMAND[2], "vsbc", str(files / "slow.py"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=25)
        finally:
            process.kill()
    assert process.returncode == 130, errors
    kept = f"finished chunks are kept in {files / 'store'}" if store else "nothing is kept"
    hint = "the same command goes on from there" if store else "with --store DIR finished"
    assert errors.startswith(f"vicheck: interrupted: {kept}\nhint: {hint}")
    assert errors.count("\n") == 2


@pytest.fixture
def engine(monkeypatch):
    """An engine that notes how it is called and does what it is told."""
    calls = []

    def stand_in(model, **options):
        calls.append(options)
        if isinstance(module.answer, BaseException):
            raise module.answer
        options["progress"](5, 10, 1.0)
        return module.answer

    module = types.ModuleType("vicheck.calibration.run")
    module.vsbc, module.calls, module.answer = stand_in, calls, calibration(seed=4)
    monkeypatch.setitem(sys.modules, "vicheck.calibration.run", module)
    return module


def test_every_option_reaches_the_engine(files, engine):
    done = call(
        "vsbc", f"{files / 'models.py'}:normal", "--data", files / "both.json",
        "--num-datasets", 7, "--quantities", "a, S[0, 1]", "--quantities", "b", "--family",
        "full_rank", "--solver", "stochastic", "--posterior", "--draws", 50, "--store",
        files / "store", "--time-limit", 2.5, "--seed", 9,
    )  # fmt: skip
    assert done.returncode == 0
    (options,) = engine.calls
    options.pop("progress")
    assert options == {
        "num_datasets": 7,
        "quantities": ["a", "S[0, 1]", "b"],
        "family": "full_rank",
        "solver": "stochastic",
        "posterior": True,
        "num_draws": 50,
        "executor": None,
        "store": str(files / "store"),
        "time_limit": 2.5,
        "seed": 9,
    }
    assert "No bias was found" in done.stdout


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "vicheck: interrupted: nothing is kept\nhint: with --store"),
        (StoreError("it is taken", hint="move"), 74, "vicheck: it is taken\nhint: move\n"),
        (ValueError("time_limit must be positive"), 64, "vicheck: --time-limit must be positive\n"),
    ],
)
def test_errors_of_the_engine_are_a_sentence_and_a_hint(files, engine, error, code, words):
    engine.answer = error
    done = vsbc(files, "normal")
    assert done.returncode == code
    assert done.stderr.startswith(words)
    assert done.stdout == ""


def test_progress_is_on_standard_error_of_a_terminal_only(files, engine):
    arguments = ("vsbc", f"{files / 'models.py'}:normal", "--data", files / "x.json")
    seen = call(*arguments, terminal=True, COLUMNS="120")
    assert "5/10" in seen.stderr
    assert "5/10" not in seen.stdout
    assert call(*arguments).stderr == ""


def test_progress_without_colour(files, engine):
    arguments = ("vsbc", f"{files / 'models.py'}:normal", "--data", files / "x.json")
    assert re.search(r"\x1b\[[0-9;]+m", call(*arguments, terminal=True).stderr)
    plain = call(*arguments, terminal=True, NO_COLOR="1")
    assert "fitting" in plain.stderr
    assert not re.search(r"\x1b\[[0-9;]+m", plain.stderr + plain.stdout)


def test_without_dask_its_name_is_given(files, monkeypatch):
    monkeypatch.setattr("vicheck.errors.find_spec", lambda _: None)
    done = vsbc(files, "normal", "--dask", "tcp://127.0.0.1:1")
    assert done.returncode == 69
    assert done.stderr.endswith("hint: pip install 'vicheck[dask]'\n")


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (None, None),
        (["tau"], ["tau"]),
        (["tau,theta"], ["tau", "theta"]),
        (["tau, Sigma[0, 1],mu", "x[2]"], ["tau", "Sigma[0, 1]", "mu", "x[2]"]),
        (["tau,"], ["tau"]),
    ],
)
def test_names_are_cut_at_commas_outside_brackets(given, names):
    assert _split(given) == names
