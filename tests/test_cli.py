"""The command line as a pipeline and a person see it: real processes, their output and status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vicheck

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-c", "from vicheck.cli import main; main()"]


def run(*arguments, stdin=None):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONWARNINGS": "error", "COLUMNS": "40"},
    )


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
    done = run("psis", ratios(values))
    assert done.returncode == code, done.stderr
    assert words in done.stdout
    assert f"khat {vicheck.psis_khat(values):.2f}" in done.stdout
    assert "90% interval" in done.stdout
    assert "What to do: " in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_a_pipe_gets_whole_lines(ratios):
    values = narrow_normal(0.9)
    lines = run("psis", ratios(values)).stdout.splitlines()
    assert str(vicheck.judge_psis(vicheck.psis(values))) in lines
    assert all(line == line.rstrip() for line in lines)


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
    assert run(*arguments).stdout.splitlines() == expected


def test_json_is_strict_and_complete(ratios):
    values = narrow_normal(0.9)
    done = run("psis", ratios(values), "--json")
    answer = json.loads(done.stdout, parse_constant=pytest.fail)
    result = vicheck.psis(values)
    assert answer["khat"] == result.khat
    assert answer["khat_interval"] == result.khat_interval().tolist()
    assert answer["status"] == "OK"
    assert answer["verdict"]["level"] == "good"
    assert answer["verdict"]["sentence"] == str(vicheck.judge_psis(result))
    assert answer["num_draws"] == 3000


def test_json_of_an_undefined_khat(ratios):
    done = run("psis", ratios(np.full(100, np.nan)), "--json")
    answer = json.loads(done.stdout, parse_constant=pytest.fail)
    assert done.returncode == 65
    assert answer["khat"] is None
    assert answer["status"] == "NOT_FINITE"
    assert answer["verdict"]["level"] == "none"


def test_undefined_khat_is_no_pass_for_a_pipeline(ratios):
    done = run("psis", ratios(np.arange(10.0)))
    assert done.returncode == 65
    assert "No verdict: fewer than 21 draws" in done.stdout
    assert done.stderr == ""


def test_standard_input_and_columns():
    log_q = narrow_normal(0.9)
    lines = "\n".join(f"{-value},0.0" for value in (-log_q).tolist())
    done = run("psis", "-", "--log-p", "lp", "--log-q", "lq", stdin=f"lp,lq\n{lines}\n")
    assert done.returncode == 0, done.stderr


def test_tail_length_option(ratios):
    done = run("psis", ratios(narrow_normal(0.9)), "--tail-length", "100", "--json")
    assert json.loads(done.stdout)["tail_length"] == 100


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["psis"], 64, "Missing argument 'file'"),
        (["psis", "x.npy", "--nonsense"], 64, "No such option"),
        (["nonsense"], 64, "No such command"),
        (["psis", "no-such-file.npy"], 66, "cannot read no-such-file.npy: No such file"),
        (["psis", "."], 66, "cannot read .: Is a directory"),
        (["psis", "{ratios}", "--tail-length", "2"], 64, "greater than or equal to 5"),
        (["psis", "{ratios}", "--tail-length", "3000"], 64, "below the 3000 draws"),
        (["psis", "{ratios}", "--tail-length", "two"], 64, "valid integer"),
        (["psis", "{ratios}", "--log-p", "lp"], 64, "--log-p and --log-q go together"),
        (["psis", "{ratios}", "--log-p", "lp", "--log-q", "lq"], 65, "array without a name"),
    ],
)
def test_errors_are_one_sentence_and_a_status_from_64_on(ratios, arguments, code, message):
    path = str(ratios(narrow_normal(0.9)))
    done = run(*(path if argument == "{ratios}" else argument for argument in arguments))
    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("vicheck: ")
    assert done.stdout == ""


def test_a_bug_is_not_a_verdict(monkeypatch, capsys):
    from vicheck import cli
    from vicheck.cli import application

    def broken(**options):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(application, "app", broken)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 70
    assert "please report it" in capsys.readouterr().err


def test_long_input_needs_no_compiled_code(tmp_path):
    np.save(tmp_path / "ratios.npy", narrow_normal(0.9, num_draws=20_000))
    script = (
        "import sys; from vicheck.cli import main\n"
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


def test_demo_tells_the_two_parametrizations_apart():
    done = run("demo")
    assert done.returncode == 0, done.stderr
    assert "not reliable" in done.stdout
    assert "usable with care" in done.stdout
    assert "exact" in done.stdout
    assert len(done.stdout.splitlines()) < 25
    assert done.stderr == ""


def test_no_arguments_print_the_help():
    done = run()
    assert done.returncode == 64
    assert "Usage" in done.stdout
    assert done.stderr == ""


def test_help_and_version():
    assert "psis" in run("--help").stdout
    assert "Exit status" in run("psis", "--help").stdout
    assert run("--version").stdout.strip() == vicheck.__version__
