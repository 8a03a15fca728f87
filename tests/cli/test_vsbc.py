"""`vicheck vsbc` as a pipeline and a person see it."""

import json
import os
import re
import sys
import types

import numpy as np
import pytest

from tests.calibration.made import calibration
from tests.cli.command_line import call, interrupt_with_slow_model
from vicheck.cli.vsbc import _split
from vicheck.errors import ArgumentError, StoreError
from vicheck.results.calibration import Calibration

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


@pytest.mark.slow
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
    """Independent factors are far too narrow for two correlated parameters, and khats are high."""
    done = vsbc(
        files, "pair", "--num-datasets", "150", "--report", files / "page.html", "--save",
        files / "vsbc.npz", "--quantities", "both",
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert "q is too narrow for both[" in done.stdout
    assert "and weights do not correct it: khat of " in done.stdout
    assert "small when q sits too high" in done.stdout
    assert "both[1]" in (files / "page.html").read_text()
    saved = Calibration.load(files / "vsbc.npz")
    assert done.stdout == f"{saved}\n\nReport: {files / 'page.html'}\n"
    assert saved.quantities == ("both[0]", "both[1]")


RADON = """
import numpyro
import numpyro.distributions as dist

LEVELS = [1.0, 2.0]


def radon(county, floor, log_radon):
    mean = numpyro.sample("mean", dist.Normal(0.0, 2.0))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    with numpyro.plate("counties", 5):
        a = numpyro.sample("a", dist.Normal(mean, 0.5))
    with numpyro.plate("houses", len(county)):
        numpyro.sample("level", dist.Normal(a[county] + b * floor, 0.8), obs=log_radon)


def optional(floor, scale=None, log_radon=None):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0), obs=scale)
    b = numpyro.sample("b", dist.Normal(0.0, scale))
    numpyro.sample("level", dist.Normal(b * floor, 0.8), obs=log_radon)


def closed(floor):
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    numpyro.sample("level", dist.Normal(b, 0.8), obs=LEVELS[0])
"""


@pytest.fixture
def radon(tmp_path):
    (tmp_path / "radon.py").write_text(RADON)
    rng = np.random.default_rng(3)
    county, floor = rng.integers(0, 5, 60), rng.integers(0, 2, 60)
    level = 1.0 - 0.5 * floor + 0.8 * rng.normal(size=60)
    rows = [f"{c},{f},{y:.3f}" for c, f, y in zip(county, floor, level, strict=True)]
    (tmp_path / "radon.csv").write_text("\n".join(["county,floor,log_radon", *rows]))
    cut = [row.rpartition(",")[0] for row in rows]
    (tmp_path / "unseen.csv").write_text("\n".join(["county,floor", *cut]))
    (tmp_path / "floor.csv").write_text("floor\n0\n1\n1")
    (tmp_path / "two.csv").write_text("floor,log_radon\n0,0.5\n1,0.7\n1,0.2")
    return tmp_path


@pytest.mark.slow
def test_an_outcome_of_any_name_is_simulated(radon):
    options = ("--num-datasets", "200", "--quantities", "b,mean", "--json")
    command = ("vsbc", f"{radon / 'radon.py'}:radon", "--data")
    done = call(*command, radon / "radon.csv", *options)
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert "200 simulated datasets (log_radon), over the prior" in answer["settings"]["title"]
    assert answer["num_datasets"] == 200
    for name in ("b", "mean"):
        assert answer["tests"][name]["direction"] == "none"
        # One dataset again and again would make nearly all truths lie outside of q.
        assert 0.8 < answer["tests"][name]["dispersion"] < 2.0
    unseen = json.loads(call(*command, radon / "unseen.csv", *options).stdout)
    named = call(*command, radon / "radon.csv", *options, "--observed", "log_radon")
    for other in (unseen, json.loads(named.stdout)):
        assert other["tests"] == answer["tests"]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence", "hint"),
    [
        ("check radon.py:radon --data unseen.csv", 65, "the model has no data for log_radon",
         "add log_radon to the file that --data names"),
        ("vsbc radon.py:radon --data unseen.csv --posterior", 65,
         "the model has no data for log_radon", "add log_radon to the file"),
        ("vsbc radon.py:radon --data radon.csv --observed level", 65,
         "observed has 'level', but the model's arguments are: county, floor, log_radon", ""),
        ("vsbc radon.py:radon --data radon.csv --observed floor", 65,
         "this model cannot simulate data: 'floor' reaches no obs= of the model", "leave it out"),
        ("vsbc radon.py:closed --data floor.csv", 65,
         "this model cannot simulate data: site 'level' observes an array that was not given",
         "make it an argument"),
        ("vsbc radon.py:optional --data two.csv", 65,
         "this model cannot simulate data: 'scale' was left out, and 'b' depends on it",
         "name all that are observed by observed=, on the command line by --observed"),
        ("check radon.py:optional --data two.csv", 65, "the model has no data for scale",
         "name what is observed by --observed"),
    ],
)  # fmt: skip
def test_what_is_not_simulated_is_said(radon, monkeypatch, arguments, code, sentence, hint):
    monkeypatch.chdir(radon)
    done = call(*arguments.split())
    first, second = (done.stderr + "\n").split("\n")[:2]
    assert done.returncode == code
    assert first.startswith(f"vicheck: {sentence}")
    assert hint in second
    assert done.stdout == ""


def test_observed_goes_with_functions(radon, monkeypatch):
    (radon / "made.py").write_text(
        "import vicheck\nfrom radon import optional\n"
        "model = vicheck.from_numpyro(optional, [0.0, 1.0], 1.0)\n"
    )
    monkeypatch.chdir(radon)
    done = call("vsbc", "made.py", "--observed", "log_radon")
    assert done.returncode == 64
    assert "--observed goes with a function, but made.py is a Model already" in done.stderr


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


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("store", [False, True])
def test_an_interrupt_says_what_is_kept(tmp_path, store):
    options = ["--store", str(tmp_path / "store")] if store else []
    done = interrupt_with_slow_model(tmp_path, "vsbc", *options)
    assert done.returncode == 130, done.stderr
    kept = f"finished chunks are kept in {tmp_path / 'store'}" if store else "nothing is kept"
    hint = "the same command resumes from there" if store else "with --store DIR finished"
    assert done.stderr.startswith(f"vicheck: interrupted: {kept}\nhint: {hint}")
    assert done.stderr.count("\n") == 2


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
        "rank": None,
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
        (
            ArgumentError("time_limit", "must be positive", hint="leave it out"),
            64,
            "vicheck: --time-limit must be positive\nhint: leave it out\n",
        ),
        (ArgumentError("num_draws", "is too small"), 64, "vicheck: --draws is too small\n"),
        (
            ArgumentError("family", "takes at most 9 parameters", value="full_rank"),
            64,
            "vicheck: --family='full_rank' takes at most 9 parameters\n",
        ),
        (ArgumentError("max_draws", "is odd"), 64, "vicheck: max_draws is odd\n"),
        (ValueError("these do not go together"), 64, "vicheck: these do not go together\n"),
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
