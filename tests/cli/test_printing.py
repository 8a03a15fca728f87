"""What a terminal gets that a pipe does not: colours, wrapped lines, tables that fit."""

import os
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from rich.text import Text

import vicheck
from tests.cli.command_line import COMMAND, Terminal, call
from tests.plots.subjects import normal_check
from vicheck.cli.printing import Paragraph, summary_paragraphs, write
from vicheck.report.text import summary_of

ESCAPE = "\x1b"


@pytest.fixture
def ratios(tmp_path):
    path = tmp_path / "ratios.npy"
    np.save(path, np.random.default_rng(3).normal(size=1000))
    return path


@pytest.mark.parametrize("command", ["psis", "help"])
def test_no_color_is_respected(ratios, command):
    arguments = ("psis", ratios) if command == "psis" else ("psis", "--help")
    assert ESCAPE in call(*arguments, terminal=True).stdout
    plain = call(*arguments, terminal=True, NO_COLOR="1")
    assert ESCAPE not in plain.stdout
    assert ESCAPE in call(*arguments, terminal=True, NO_COLOR="").stdout


def test_json_is_never_coloured_or_wrapped(ratios):
    seen = call("psis", ratios, "--json", terminal=True, COLUMNS="20")
    assert seen.stdout == call("psis", ratios, "--json").stdout


def test_lines_are_wrapped_to_the_width_of_a_terminal(ratios):
    seen = call("psis", ratios, terminal=True, COLUMNS="50", NO_COLOR="1").stdout
    assert max(map(len, seen.splitlines())) <= 50
    assert " ".join(seen.split()) == " ".join(call("psis", ratios).stdout.split())


def through_a_terminal(arguments, **environment):
    """Return what a real terminal gets on both streams."""
    import pty  # not on Windows

    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"} | environment,
    )
    os.close(slave)
    seen = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(master)
    process.wait()
    return seen.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of its own")
def test_a_real_terminal(ratios):
    assert f"{ESCAPE}[1;32mThe approximation is good" in through_a_terminal(["psis", ratios])
    assert ESCAPE not in through_a_terminal(["psis", ratios], NO_COLOR="1")


def lines_on_a_terminal(paragraphs):
    """Return what a terminal of 40 characters gets, without colours."""
    stream = Terminal()
    settings = {"COLUMNS": "40", "TERM": "xterm", "NO_COLOR": "1"}
    with patch.dict(os.environ, settings), redirect_stdout(stream):
        write(paragraphs() if callable(paragraphs) else paragraphs)
    return stream.getvalue().splitlines()


def summary_on_a_terminal(result):
    return lines_on_a_terminal(lambda: summary_paragraphs(summary_of(result)))


def test_a_wrapped_line_goes_on_below_where_its_text_began():
    text = "name  " + "word " * 10
    first, *others = lines = lines_on_a_terminal([Paragraph(Text(text.rstrip()), indent=6)])
    assert first.startswith("name  word")
    assert others
    assert all(line.startswith("      word") for line in others)
    assert " ".join(lines).split() == text.split()


def test_findings_are_wrapped_below_their_sentences():
    # From the data: a note that begins like a finding is wrapped like any other note.
    note = "  bad luck is what a note may begin with, and go on for more than a line"
    some = replace(normal_check(sd=2.0), notes=(note,), khat_growth={250: -1.0, 8000: 0.9})
    lines = summary_on_a_terminal(some)
    start = next(i for i, line in enumerate(lines) if line.startswith("  caution khat rises"))
    assert lines[start + 1].startswith(" " * 10)
    assert lines[start + 1][10] != " "
    start = next(i for i, line in enumerate(lines) if line.startswith("  bad luck"))
    assert not lines[start + 1].startswith(" ")


def test_names_with_spaces_are_kept_whole_where_there_is_room():
    draws = {"first of two": np.random.default_rng(1).normal(size=500)}
    lines = summary_on_a_terminal(vicheck.check_draws(draws, np.zeros(500), np.zeros(500)))
    rows = [line for line in lines if line.startswith("first of two ")]
    assert len(rows) > 1  # the table has more columns than fit into one block
    assert max(map(len, rows)) <= 40


def test_a_pipe_gets_the_text_of_the_summary(capsys):
    summary = summary_of(normal_check())
    write(summary_paragraphs(summary))
    assert capsys.readouterr().out == f"{summary}\n"
