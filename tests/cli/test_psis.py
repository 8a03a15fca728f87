"""`vicheck psis` as a pipeline and a person see it: output and status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vicheck
from tests.cli.command_line import COMMAND, call, run

ROOT = Path(__file__).parents[2]


def narrow_normal(s, num_draws=3000):
    theta = s * np.random.default_rng(2).normal(size=num_draws)
    return -(theta**2) / 2 + theta**2 / (2 * s**2)


@pytest.fixture
def ratios(tmp_path):
    def write(values):
        path = tmp_path / "ratios.npy"
        np.save(path, values)
        return path

    return write


@pytest.mark.parametrize(
    ("s", "code", "words"), [(0.9, 0, "is good"), (0.65, 1, "with care"), (0.3, 2, "not reliable")]
)
def test_exit_status_follows_the_verdict(ratios, s, code, words):
    values = narrow_normal(s)
    done = call("psis", ratios(values))
    assert done.returncode == code, done.stderr
    assert words in done.stdout
    assert f"khat {vicheck.psis_khat(values):.2f}" in done.stdout
    assert "90% interval" in done.stdout
    assert "What to do: " in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_the_installed_command_is_the_same(ratios):
    path = ratios(narrow_normal(0.65))
    done, here = run("psis", path), call("psis", path)
    assert (done.returncode, done.stdout, done.stderr) == (1, here.stdout, "")


def test_a_pipe_gets_whole_lines(ratios):
    values = narrow_normal(0.9)
    lines = call("psis", ratios(values)).stdout.splitlines()
    assert str(vicheck.judge_psis(vicheck.psis(values))) in lines
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(("s", "code"), [(0.9, 0), (0.1, 2)])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_hangs_up_does_not_change_the_status(ratios, s, code, options):
    process = subprocess.Popen(
        [*COMMAND, "psis", str(ratios(narrow_normal(s))), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait() == code


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_an_answer_that_cannot_be_written_is_an_error(ratios):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "psis", str(ratios(narrow_normal(0.9)))],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 74
    assert "cannot write the answer" in done.stderr


def test_the_readme_shows_what_the_program_prints():
    readme = (ROOT / "README.md").read_text()
    command, *expected = readme.split("```console\n")[1].split("\n```")[0].splitlines()
    arguments = command.removeprefix("$ vicheck ").split()
    arguments[1] = str(ROOT / arguments[1])
    assert call(*arguments).stdout.splitlines() == expected


def test_json_is_strict_and_complete(ratios):
    values = narrow_normal(0.9)
    done = call("psis", ratios(values), "--json")
    answer = json.loads(done.stdout, parse_constant=pytest.fail)
    result = vicheck.psis(values)
    assert answer["khat"] == result.khat
    assert answer["khat_interval"] == result.khat_interval().tolist()
    assert answer["status"] == "OK"
    assert answer["verdict"]["level"] == "good"
    assert answer["verdict"]["sentence"] == str(vicheck.judge_psis(result))
    assert answer["num_draws"] == 3000


def test_json_of_an_undefined_khat(ratios):
    done = call("psis", ratios(np.full(100, np.nan)), "--json")
    answer = json.loads(done.stdout, parse_constant=pytest.fail)
    assert done.returncode == 65
    assert answer["khat"] is None
    assert answer["status"] == "NOT_FINITE"
    assert answer["verdict"]["level"] == "none"


def test_undefined_khat_is_no_pass_for_a_pipeline(ratios):
    done = call("psis", ratios(np.arange(10.0)))
    assert done.returncode == 65
    assert "No verdict: fewer than 21 draws" in done.stdout
    assert done.stderr == ""


def test_standard_input_and_columns():
    log_q = narrow_normal(0.9)
    lines = "\n".join(f"{-value},0.0" for value in (-log_q).tolist())
    done = call("psis", "-", "--log-p", "lp", "--log-q", "lq", stdin=f"lp,lq\n{lines}\n")
    assert done.returncode == 0, done.stderr


def test_tail_length_option(ratios):
    done = call("psis", ratios(narrow_normal(0.9)), "--tail-length", "100", "--json")
    assert json.loads(done.stdout)["tail_length"] == 100


def test_long_input_needs_no_compiled_code(tmp_path):
    np.save(tmp_path / "ratios.npy", narrow_normal(0.9, num_draws=20_000))
    script = (
        "import sys; from vicheck.cli.commands import main\n"
        "try: main()\nfinally: print('numba' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "psis", str(tmp_path / "ratios.npy"), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.strip() == "False"
    khat = vicheck.psis_khat(narrow_normal(0.9, num_draws=20_000))
    assert json.loads(done.stdout)["khat"] == pytest.approx(khat, abs=1e-12)


def test_a_tail_that_is_not_pareto_is_no_verdict_but_advice(ratios):
    """p = t with 10 degrees of freedom, q its best Gaussian."""
    z = np.random.default_rng(3).normal(size=1000)
    values = -5.5 * np.log1p((1.09 * z) ** 2 / 10) + z**2 / 2
    done = call("psis", ratios(values), "--json")
    found = json.loads(done.stdout)
    assert found["khat"] == pytest.approx(vicheck.psis_khat(values))
    assert found["verdict"]["level"] == "none"
    assert found["verdict"]["decided_by"] == "tail-unseen"
    assert "95" in found["tail_fits"]["khats"]
    assert "Take more draws" in call("psis", ratios(values)).stdout
    alone = json.loads(call("psis", ratios(values), "--json", "--tail-length", "95").stdout)
    assert alone["verdict"]["level"] == "unreliable"
