"""The line that says what is going on: when it is shown, and when not."""

import io
import sys
import time

from vicheck.runtime import progress
from vicheck.runtime.progress import advance, showing


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal_in(monkeypatch):
    """Make standard error a terminal, within a test: pytest has its own between phases of one."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    monkeypatch.setattr(progress, "_PACE", 0.001)
    return stream


def wait_for(stream, words):
    for _ in range(2000):
        if words in stream.getvalue():
            return
        time.sleep(0.002)
    raise AssertionError(f"{words!r} is not in {stream.getvalue()!r}")


def test_a_terminal_sees_what_is_going_on_until_it_is_done(monkeypatch):
    terminal = terminal_in(monkeypatch)
    with showing(True, "fitting") as say:
        wait_for(terminal, "fitting (0:00)")
        say("round 3")
        wait_for(terminal, "round 3 (0:00)")
    last = terminal.getvalue().split("\r")[-2]
    assert last.strip() == ""


def test_the_time_that_is_left_is_told_where_it_is_known(monkeypatch):
    terminal = terminal_in(monkeypatch)
    with showing(True, "checking draws"):
        advance(1, 4)
        wait_for(terminal, "checking draws (25%, 0:00 left)")


def test_what_is_called_within_uses_the_line_that_is_there(monkeypatch):
    terminal = terminal_in(monkeypatch)
    with showing(True, "comparing"):
        wait_for(terminal, "comparing")
        with showing(True, "fitting"):
            wait_for(terminal, "fitting")
    assert not progress._shown


def test_a_function_is_called_instead_and_for_all_that_is_called_within(monkeypatch):
    terminal = terminal_in(monkeypatch)
    said = []
    with showing(said.append, "fitting") as say, showing(True, "checking") as within:
        say("one")
        within("two")
        advance(1, 2)
    assert said == ["checking", "one", "two"]
    assert terminal.getvalue() == ""


def test_nothing_is_shown_where_it_is_switched_off(monkeypatch):
    terminal = terminal_in(monkeypatch)
    with showing(False, "fitting"), showing(True, "checking") as say:
        say("one")
    assert terminal.getvalue() == ""


def test_nothing_is_shown_where_nobody_sees_it(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    with showing(True, "fitting"):
        time.sleep(0.01)
    assert stream.getvalue() == ""


def test_a_notebook_sees_it_too(monkeypatch):
    class ZMQInteractiveShell:
        pass

    class IPython:
        get_ipython = staticmethod(ZMQInteractiveShell)

    monkeypatch.setitem(sys.modules, "IPython", IPython)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert progress._is_seen()


def test_what_takes_less_than_a_second_shows_nothing(monkeypatch):
    terminal = terminal_in(monkeypatch)
    monkeypatch.setattr(progress, "_DELAY", 60.0)
    with showing(True, "fitting"):
        pass
    assert terminal.getvalue() == ""
