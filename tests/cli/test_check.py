"""`vicheck check` as a pipeline and a person see it."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

import vicheck
from tests.cli.command_line import call, interrupt_with_slow_model
from vicheck.results.check import Check

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
    done = call("check", f"{files / 'lines.py'}:line", "--data", files / "data.npz", "--json")
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    level = answer["verdict"]["level"]
    assert done.returncode == {"good": 0, "usable": 1, "unreliable": 2}[level]
    assert level == "good"
    assert answer["moments"]["slope"]["psis_mean"] == pytest.approx(2.0, abs=0.5)
    assert answer["convergence"]["status"] == "CONVERGED"


@pytest.mark.slow
def test_why_is_said_when_asked_for(files):
    shutil.copy("docs/schools.py", files)
    shutil.copy("docs/schools.json", files)
    model = f"{files / 'schools.py'}:centred", "--data", files / "schools.json", "--draws", 8192
    done = call("check", *model, "--no-chains", "--explain")
    assert done.stderr == ""
    assert "\nWhy:\n1. funnel, " in done.stdout
    answer = json.loads(call("check", *model, "--no-chains", "--explain", "--json").stdout)
    assert answer["explanation"]["causes"][0]["names"][0] == "tau"
    assert "explanation" not in json.loads(call("check", *model, "--no-chains", "--json").stdout)


def test_quantiles_can_be_chosen(files):
    model = f"{files / 'lines.py'}:line", "--data", files / "data.npz", "--draws", 2000
    page, saved = files / "page.html", files / "check.npz"
    done = call("check", *model, "--prob", "0.1,0.9", "--report", page, "--save", saved)
    assert done.stderr == ""
    assert "psis_q10" in done.stdout
    assert "psis_q5" not in done.stdout
    assert "PSIS 90%" in page.read_text()
    assert vicheck.load(saved).quantiles().columns[::4].tolist() == ["vi_q10", "vi_q90"]
    assert call("report", saved, "--out", page, "--prob", "0.2").returncode == 0
    assert "PSIS 20%" in page.read_text()
    answer = json.loads(call("check", *model, "--prob", "0.1", "--prob", "0.9", "--json").stdout)
    assert set(answer["quantiles"]["slope"]) == {
        f"{part}_q{percent}" for part in ("vi", "psis", "mcse", "use") for percent in (10, 90)
    }


@pytest.mark.parametrize("prob", ["5,95", "0.05,x", "", "0.5,0.5"])
def test_quantiles_that_are_none_are_refused_before_the_work(prob):
    done = call("check", "nowhere.py", "--prob", prob)
    assert done.returncode == 64
    assert done.stderr.startswith("vicheck: --prob must ")


def test_short_chains_are_an_option(files):
    model = f"{files / 'lines.py'}:line", "--data", files / "data.npz", "--draws", 2000, "--json"
    by_default, none, some = (
        json.loads(call("check", *model, *option).stdout)["chains"]
        for option in ((), ("--no-chains",), ("--chains",))
    )
    assert none is None
    assert by_default == some
    assert some["num_chains"] == 1024
    fit = files / "output.csv"
    done = call("check", fit, "--no-chains")
    assert done.returncode == 64
    assert "--chains goes with a model" in done.stderr


def test_what_a_person_sees_and_what_is_written(files):
    done = call(
        "check", f"{files / 'lines.py'}:line", "--data", files / "data.json", "--report",
        files / "page.html", "--save", files / "check.npz",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "The approximation is good" in done.stdout
    assert "The fit has converged" in done.stdout
    assert "slope" in done.stdout
    assert "slope" in (files / "page.html").read_text()
    saved = vicheck.Check.load(files / "check.npz")
    assert done.stdout == f"{saved}\n\nReport: {files / 'page.html'}\n"


def test_what_a_model_prints_is_no_part_of_the_answer(files):
    noisy = MODEL.replace("def line", "print('loaded')\n\n\ndef line")
    (files / "noisy.py").write_text(noisy)
    data = ("--data", files / "data.npz", "--draws", "100")
    done = call("check", f"{files / 'noisy.py'}:line", *data, "--json")
    json.loads(done.stdout)
    assert done.stderr == "loaded\n"


def test_the_number_of_draws_can_be_left_to_the_check(files):
    model = (f"{files / 'lines.py'}:line", "--data", files / "data.npz")
    done = call("check", *model, "--draws", "auto", "--budget", "90")
    assert done.returncode == 0, done.stderr
    assert re.search(r"Stopped at [\d,]+ draws: ", done.stdout)


@pytest.mark.slow
def test_draws_are_evaluated_by_a_dask_cluster_to_the_same_bits(files):
    """Two workers in processes of their own, which get the model's file by value."""
    distributed = pytest.importorskip("distributed")
    model = (f"{files / 'lines.py'}:line", "--data", files / "data.npz", "--draws", 3000)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        done = call(
            "check", *model, "--dask", cluster.scheduler_address, "--save", files / "there.npz"
        )
        assert not done.stderr
        with distributed.Client(cluster) as client:
            logs = "".join(str(each) for each in client.run(_is_vicheck_loaded).values())
    assert "True" in logs  # some worker had something to do
    alone = call("check", *model, "--save", files / "here.npz")
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    assert (files / "there.npz").read_bytes() == (files / "here.npz").read_bytes()


def _is_vicheck_loaded():
    import sys

    return "vicheck.evaluation.drawing" in sys.modules


def test_a_scheduler_that_does_not_answer_is_named(files, monkeypatch):
    def refuse(address):
        raise OSError("timed out")

    monkeypatch.setattr("vicheck.adapters.dask.dask_executor", refuse)
    model = (f"{files / 'lines.py'}:line", "--data", files / "data.npz")
    done = call("check", *model, "--dask", "tcp://127.0.0.1:1")
    assert done.returncode == 69
    assert "cannot reach a Dask scheduler at tcp://127.0.0.1:1: timed out" in done.stderr
    done = call("check", files / "output.csv", "--dask", "tcp://127.0.0.1:1")
    assert done.returncode == 64
    assert "--dask goes with a model" in done.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--draws", "few"), "--draws must be a positive integer or 'auto', got 'few'"),
        (("--draws", "0"), "--draws must be a positive integer, got 0"),
        (("--budget", "0"), "--budget must be a positive number of seconds, got 0.0"),
        (("--draws", "10", "--budget", "9"), "--budget does not apply to a number of draws"),
    ],
)
def test_numbers_of_draws_that_cannot_be_used_are_named(options, sentence):
    done = call("check", "no-such-file.py", *options)
    assert done.returncode == 64
    assert sentence in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_ends_with_a_sentence(tmp_path):
    done = interrupt_with_slow_model(tmp_path, "check")
    assert done.returncode == 130, done.stderr
    assert "interrupted" in done.stderr


STAN_FILES = Path(__file__).parents[1] / "reference" / "stan_csv"


def test_a_file_of_stan_is_checked():
    path = STAN_FILES / "eight_schools_cp_meanfield.csv"
    done = call("check", path)
    assert done.stderr == ""
    assert done.returncode == 2
    assert "khat 1.13" in done.stdout
    answer = json.loads(call("check", path, "--json").stdout)
    assert answer["khat"] == vicheck.check(vicheck.read_stan_csv(path)).khat


def test_a_terminal_sees_what_is_going_on_beside_the_answer():
    path = STAN_FILES / "eight_schools_cp_meanfield.csv"
    seen = call("check", path, terminal=True, COLUMNS="60", NO_COLOR="1")
    # A file may be read before the line is drawn for the first time.
    assert "reading" in seen.stderr or "checking draws" in seen.stderr
    assert "reading" not in seen.stdout
    assert "checking" not in seen.stdout
    assert max(map(len, seen.stdout.splitlines())) <= 60
    assert "neither" in seen.stdout


def test_the_report_knows_the_command(tmp_path, monkeypatch):
    known = []
    monkeypatch.setattr(Check, "report", lambda self, path: known.append(self.command))
    path = STAN_FILES / "eight_schools_cp_meanfield.csv"
    call("check", path, "--report", tmp_path / "a page.html")
    assert known == [f"vicheck check {path} --report '{tmp_path / 'a page.html'}'"]


def test_a_file_that_holds_its_library_up_for_ever_is_refused(monkeypatch):
    """Damaged so that HDF5 goes round in circles; a later version may find that out itself."""
    monkeypatch.setattr("vicheck.cli.check._OPENING", 3)
    path = Path(__file__).parents[1] / "reference" / "endless.nc"
    done = call("check", path)
    assert done.returncode == 65
    assert "endless.nc" in done.stderr


def test_a_file_that_crashes_its_library_is_refused(monkeypatch, tmp_path):
    path = tmp_path / "fit.nc"
    path.write_bytes(b"CDF")
    crashed = subprocess.CompletedProcess([], -signal.SIGSEGV)
    monkeypatch.setattr("vicheck.cli.check.subprocess.run", lambda *_, **__: crashed)
    done = call("check", path, XLA_FLAGS="")  # which would be tried by a process too
    assert done.returncode == 65
    assert "the library that reads it crashes" in done.stderr


def test_a_family_by_the_name_that_others_have_with_its_rank(files):
    options = ["--family", "lowrank", "--rank", "1", "--draws", "1000", "--json"]
    model = ["check", f"{files / 'lines.py'}:line", "--data", files / "data.json"]
    result = call(*model, *options)
    answer = json.loads(result.stdout)
    assert answer["provenance"]["settings"]["family"] == "low_rank"
    assert answer["provenance"]["settings"]["rank"] == "1"
    other = call(*model, "--rank", "1")
    assert other.returncode == 64
    assert "--rank goes with family='low_rank'" in other.stderr.replace("\n", " ")
