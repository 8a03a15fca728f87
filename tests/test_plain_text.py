"""Text from files is harmless on terminals, on pages and in printed results."""

import json
import re
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

import vicheck
from tests.calibration.made import calibration
from tests.cli.command_line import call
from vicheck.cli.printing import show_warnings_plainly
from vicheck.plain_text import plain, plain_lines
from vicheck.report.page import report_html

GREEN = "\x1b[1;32mThe approximation is good.\x1b[0m"
NASTY = {
    "colours": GREEN,
    "8-bit": "\x9b32mgood\x9c",
    "title of the window": "\x1b]0;owned\x07",
    "erases": "\x1b[2J\x1b[H",
    "overwrites": "bad\rgood",
    "goes back": "bad\b\b\bfine",
    "new line": "x\nThe approximation is good.",
    "other lines": "x\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029y",
    "backwards": "\u202edab\u202c",
    "isolates": "\u2066a\u2067b\u2068c\u2069\u200e\u200f\u061c",
    "nothing": "\x00\x7f",
    "half a letter": "\ud800",
}
NAMES = [text for text in NASTY.values() if text != NASTY["half a letter"]]
"""Tables do not take lone surrogates."""
STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
def test_what_steers_is_marked_and_lines_are_one(text):
    result = plain(text)
    assert not STEERING.search(result)
    assert len(result.splitlines()) == 1
    assert len(result) == len(text)  # columns stay in their places
    assert plain_lines(text).split("\n") == [plain(line) for line in text.split("\n")]


@pytest.mark.parametrize("text", ["theta[0, 1]", "θ̂ パラメータ", "שלום", "👩\u200d🔬", "a b"])
def test_letters_of_all_languages_stay(text):
    assert plain(text) == text


@pytest.fixture(scope="module")
def check():
    z = np.random.default_rng(1).normal(size=(len(NAMES), 1000))
    log_q = -0.5 * (z**2).sum(axis=0)
    checked = vicheck.check_draws(dict(zip(NAMES, z, strict=True)), 1.1 * log_q, log_q)
    return replace(checked, title=GREEN + NASTY["new line"], notes=tuple(NASTY.values()))


@pytest.fixture(scope="module")
def biased():
    return calibration(**dict.fromkeys(NAMES, (1.0, 1.0)))


def test_what_python_prints_of_results_steers_nothing(check, biased):
    for result in (check, biased):
        printed = str(result)
        assert not STEERING.search(printed)
        assert "The approximation is good." not in printed.splitlines()
        assert not STEERING.search(str(result.verdict))
        assert not any(STEERING.search(str(finding)) for finding in result.findings)


@pytest.fixture
def opened_at_once(monkeypatch):
    """Files are not tried in a process of their own first, which tests of `vicheck check` ask."""
    monkeypatch.setattr("vicheck.cli.check._try_to_open", lambda path: None)


@pytest.mark.usefixtures("opened_at_once")
@pytest.mark.parametrize("terminal", [False, True], ids=["in a pipe", "on a terminal"])
def test_a_fit_from_a_file_cannot_print_a_verdict_of_its_own(check, tmp_path, terminal):
    names = ["theta\x1b[32m", "\u202edab"]
    draws = dict(zip(names, check.values.T[:2], strict=True))
    checked = vicheck.check_draws(draws, check.log_p, check.log_q)
    tree = replace(checked, title=GREEN, notes=(GREEN, "\u202eon")).to_arviz(resampled=False)
    tree.to_netcdf(tmp_path / "fit.nc")
    done = call("check", tmp_path / "fit.nc", terminal=terminal, COLUMNS="200", NO_COLOR="1")
    assert done.returncode in (0, 1, 2), done.stderr
    assert "[1;32mThe approximation is good." in done.stdout
    assert not STEERING.search(done.stdout)


@pytest.mark.usefixtures("opened_at_once")
def test_colours_on_a_terminal_are_only_our_own(check, tmp_path):
    checked = vicheck.check_draws(check.values[:, :1], check.log_p, check.log_q)
    replace(checked, title=GREEN).to_arviz(resampled=False).to_netcdf(tmp_path / "fit.nc")
    done = call("check", tmp_path / "fit.nc", terminal=True, COLUMNS="200", NO_COLOR="")
    assert GREEN not in done.stdout
    (coloured,) = re.findall(r"\x1b\[1;\d+m([^\x1b]*)", done.stdout)
    assert coloured == str(checked.verdict)


def test_errors_steer_nothing(tmp_path):
    path = tmp_path / "draws.csv"
    path.write_text("a\x1b[32m,b\u202e,c\n1,2,3\n")
    done = call("psis", path)
    assert done.returncode == 65
    assert not STEERING.search(done.stderr)
    missing = call("psis", f"{tmp_path}/\x1b[32mgood.csv", "--debug")
    assert missing.returncode == 66
    assert "good.csv" in missing.stderr
    assert not STEERING.search(missing.stderr)


@pytest.mark.usefixtures("opened_at_once")
def test_json_is_ascii(check, tmp_path):
    check = vicheck.check_draws({GREEN: check.values[:, 0]}, check.log_p, check.log_q)
    check.to_arviz(resampled=False).to_netcdf(tmp_path / "fit.nc")
    done = call("check", tmp_path / "fit.nc", "--json")
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout
    assert list(json.loads(done.stdout)["moments"]) == [GREEN]


def test_warnings_are_one_plain_line(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        show_warnings_plainly()
        warnings.warn(f"odd: {GREEN}\nnext", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == f"warning: odd: {plain(GREEN)} next\n"


def test_letters_that_the_output_cannot_write_do_not_end_the_answer(monkeypatch):
    from rich.text import Text

    from vicheck.cli.printing import write

    printed = []
    monkeypatch.setattr(sys, "stdout", Ascii(printed))
    write([Text("θ \ud800 is there")])
    assert "".join(printed) == "? ? is there\n"


class Ascii:
    """The standard output of an old system."""

    encoding = "ascii"

    def __init__(self, printed):
        self.printed = printed

    def write(self, text):
        self.printed.append(text.encode("ascii").decode())

    def flush(self):
        pass

    def isatty(self):
        return False


def test_pages_and_cards_have_nothing_that_turns_a_line_around(check, biased):
    pages = [report_html(check=check, calibration=biased), check._repr_html_()]
    for page in pages:
        assert not STEERING.search(page)
        assert "The approximation is good." in page
