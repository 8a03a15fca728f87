"""`vicheck check` as a pipeline and a person see it."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import vicheck
from tests.test_cli import COMMAND, run

MODEL = """
import numpyro
import numpyro.distributions as dist


def line(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 10.0))
    noise = numpyro.sample("noise", dist.HalfNormal(5.0))
    numpyro.sample("y", dist.Normal(slope * x, noise), obs=y)


def coin(y=None):
    heads = numpyro.sample("heads", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Normal(heads, 1.0), obs=y)
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "lines.py").write_text(MODEL)
    rng = np.random.default_rng(1)
    x = np.linspace(-1.0, 1.0, 50)
    y = 2.0 * x + 0.5 * rng.normal(size=50)
    (tmp_path / "data.json").write_text(json.dumps({"x": x.tolist(), "y": y.tolist()}))
    np.savez(tmp_path / "data.npz", x=x, y=y)
    table = "\n".join(["x,y", *(f"{a},{b}" for a, b in zip(x, y, strict=True))])
    (tmp_path / "data.csv").write_text(table)
    return tmp_path


def test_a_model_and_its_data(files):
    done = run("check", f"{files / 'lines.py'}:line", "--data", files / "data.npz", "--json")
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    level = answer["verdict"]["level"]
    assert done.returncode == {"good": 0, "usable": 1, "unreliable": 2}[level]
    assert level == "good"
    assert answer["moments"]["slope"]["psis_mean"] == pytest.approx(2.0, abs=0.5)
    assert answer["convergence"]["status"] == "CONVERGED"


def test_what_a_person_sees_and_what_is_written(files):
    done = run(
        "check", f"{files / 'lines.py'}:line", "--data", files / "data.json", "--report",
        files / "page.html", "--save", files / "check.npz",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "The approximation is good" in done.stdout
    assert "The fit has converged" in done.stdout
    assert "slope" in done.stdout
    assert "slope" in (files / "page.html").read_text()
    assert str(vicheck.Check.load(files / "check.npz")) == done.stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{dir}/nothing.py:line"], 65, "nothing.py does not exist"),
        (["{dir}/lines.py:nothing"], 65, "line"),
        (["{dir}/lines.py:line", "--data", "{dir}/nothing.json"], 66, "cannot read"),
        (["{dir}/lines.py:coin", "--data", "{dir}/y.json"], 65, "'heads' is a discrete latent"),
        (["{dir}/lines.py:line", "--data", "{dir}/nan.json"], 65, "y must be finite"),
        (["{dir}/lines.py:line", "--data", "{dir}/short.json"], 65, "shape"),
        (["{dir}/lines.py:line", "--data", "{dir}/extra.json"], 65, "do not fit the model"),
        (["{dir}/lines.py:line", "--data", "{dir}/x.json"], 65, "no data for y"),
        (["{dir}/lines.py:line", "--family", "student"], 64, "student"),
        (["{dir}/lines.py:line", "--report", "{dir}/no/page.html"], 74, "no directory"),
    ],
)
def test_what_cannot_be_done_says_why(files, arguments, code, message):
    contents = {
        "y": {"y": 1.0},
        "nan": {"x": [1.0, 2.0], "y": [1.0, float("nan")]},
        "short": {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0]},
        "extra": {"x": [1.0, 2.0], "y": [1.0, 2.0], "z": [1.0]},
        "x": {"x": [1.0, 2.0]},
    }
    for name, content in contents.items():
        (files / f"{name}.json").write_text(json.dumps(content))
    done = run("check", *(argument.format(dir=files) for argument in arguments))
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert done.stderr.startswith("vicheck: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_ends_with_a_sentence(files):
    (files / "slow.py").write_text(
        "import time\nimport numpyro\nimport numpyro.distributions as dist\n\n"
        "print('ready', flush=True)\ntime.sleep(30)\n\ndef model():\n    pass\n"
    )
    # A background job may ignore interrupts from its birth; a terminal's child does not.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    with subprocess.Popen(
        [COMMAND[0], "-c", heed + COMMAND[2], "check", str(files / "slow.py")],
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
    assert "interrupted" in errors


STAN_FILES = Path(__file__).parent / "reference" / "stan_csv"


def test_a_file_of_stan_is_checked():
    path = STAN_FILES / "eight_schools_cp_meanfield.csv"
    done = run("check", path)
    assert done.stderr == ""
    assert done.returncode == 2
    assert "khat 1.13" in done.stdout
    answer = json.loads(run("check", path, "--json").stdout)
    assert answer["khat"] == vicheck.check(vicheck.read_stan_csv(path)).khat


@pytest.mark.parametrize(
    ("name", "options", "code", "message"),
    [
        ("eight_schools_cp_meanfield.csv", ("--data", "x.json"), 64, "--data goes with a model"),
        ("cmdstan_eight_schools_cp_nuts.csv", (), 65, "holds draws by MCMC"),
        ("nowhere.csv", (), 66, "No such file"),
    ],
)
def test_files_that_cannot_be_checked(name, options, code, message):
    done = run("check", STAN_FILES / name, *options)
    assert done.returncode == code
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
