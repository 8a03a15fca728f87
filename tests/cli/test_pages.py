"""Help as pages, and completion."""

import re

import pytest

from tests.cli.command_line import call
from vicheck.cli.failures import EXIT_CODES
from vicheck.paper.catalogue import NAMES

COMMANDS = ["demo", "check", "rescue", "psis", "vsbc", "report", "paper", "doctor"]
PAGES = [[], *([name] for name in COMMANDS), *(["paper", name] for name in ("list", "run", "all"))]
ESCAPE = "\x1b"


@pytest.mark.parametrize("command", PAGES, ids=" ".join)
def test_every_page_has_usage_options_and_examples(command):
    done = call(*command, "--help", COLUMNS="80")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert done.stderr == ""
    assert lines[0].startswith(" ".join(["Usage: vicheck", *command]))
    assert "Options:" in lines
    examples = lines[lines.index("Examples:") + 1 :]
    assert examples[0].startswith(" ".join(["  $ vicheck", *command]))
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)
    assert done.stdout.isascii()


def test_the_first_page_is_one_of_documentation():
    page = call("--help", COLUMNS="80").stdout
    listed = re.search(r"Commands:\n((?:  .*\n)+)", page)[1]
    assert [line.split()[0] for line in listed.splitlines()] == COMMANDS
    assert "Did this fit work?" in page
    assert "Is it biased on average?" in page
    for heading in ("Options:", "Exit status:", "Examples:", "Environment:"):
        assert heading in page.splitlines()
    statuses = re.search(r"Exit status:\n((?:  .*\n)+)", page)[1]
    told = {int(line.split()[0]) for line in statuses.splitlines()}
    assert told == {*EXIT_CODES.values(), 64, 66, 69, 70, 74, 130}
    for name in ("NO_COLOR", "VICHECK_DEBUG", "VICHECK_CACHE", "XDG_CACHE_HOME"):
        assert name in page


def test_every_command_has_json():
    for command in PAGES:
        page = call(*command, "--help").stdout
        assert ("--json" in page.split("Examples:")[0]) == (command not in ([], ["paper"]))


def test_examples_name_options_that_there_are():
    options = []
    for command in PAGES:
        page = call(*command, "--help", COLUMNS="80").stdout
        for example in re.findall(r"(?m)^  \$ .*?vicheck (.*)$", page):
            words = example.split(" #")[0].split(" && ")[0].split(" > ")[0].split()
            own = words[:2] if words[0] == "paper" else words[:1]
            described = call(*own, "--help").stdout
            for option in filter(lambda word: word.startswith("--"), words):
                assert option in described, example
                options.append(option)
    assert len(set(options)) > 5


def test_a_narrow_terminal_gets_narrow_lines():
    lines = call("psis", "--help", COLUMNS="60").stdout.split("Exit status:")[0].splitlines()
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize("command", [[], ["paper"]])
def test_no_arguments_print_the_page(command):
    done = call(*command)
    assert done.returncode == 64
    assert done.stdout == call(*command, "--help").stdout
    assert done.stderr == ""


def test_version():
    from vicheck import __version__

    assert call("--version").stdout == f"{__version__}\n"


def test_a_terminal_gets_the_same_page_in_colour():
    plain = call("check", "--help").stdout
    seen = call("check", "--help", terminal=True).stdout
    assert f"{ESCAPE}[1mOptions:{ESCAPE}[0m" in seen
    assert re.sub(r"\x1b\[[0-9;]*m", "", seen) == plain


def complete(words, **environment):
    """Return what bash is offered for the last word."""
    command = {"_VICHECK_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words)}
    done = call(**command, COMP_CWORD=str(len(words) - 1), **environment)
    assert done.returncode == 0
    return done.stdout.split()


def test_a_script_for_bash():
    done = call(_VICHECK_COMPLETE="source_bash")
    assert done.returncode == 0
    assert "complete -o default -F _vicheck_completion vicheck" in done.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["vicheck", "p"], ["psis", "paper"]),
        (["vicheck", "check", "m.py", "--fam"], ["--family"]),
        (["vicheck", "check", "m.py", "--family", "f"], ["full_rank"]),
        (["vicheck", "vsbc", "m.py", "--solver", "st"], ["stochastic", "stan_advi"]),
        (["vicheck", "paper", "run", "fig7", "b"], ["bimodal"]),
        (["vicheck", "paper", "r"], ["run"]),
    ],
)
def test_words_are_completed(words, offered):
    assert complete(words) == offered


def test_all_experiments_are_offered():
    assert complete(["vicheck", "paper", "run", ""]) == [*NAMES, "all"]


def test_the_page_says_how_to_get_completion():
    page = call("--help").stdout
    assert "--show-completion" in page
    assert "--install-completion" in page
