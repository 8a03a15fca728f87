"""The application itself: what all commands are registered with, and how errors end."""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer

from vicheck import __version__
from vicheck.cli.failures import (
    EX_DATAERR,
    EX_IOERR,
    EX_SOFTWARE,
    EX_UNAVAILABLE,
    EX_USAGE,
    INTERRUPTED,
    CommandError,
)
from vicheck.cli.pages import Group
from vicheck.cli.printing import show_warnings_plainly
from vicheck.cli.xla_flags import require_flags
from vicheck.errors import HintedError, InputFileError, MissingExtraError, ModelError, StoreError
from vicheck.plain_text import plain, plain_lines
from vicheck.runtime.interrupts import presses

__all__ = ["app", "main"]

_HELP = """
Yes, but did it work? Variational inference always returns an answer, and nothing tells you when it
is wrong. vicheck does: it says whether a fit can be used, how sure that is, what is to blame, and
what to do. It answers two questions.

Did this fit work? Importance ratios of draws from q tell how far q is from the posterior of these
data; their tail, khat, tells which estimates can be used. `vicheck check` fits a model, or takes a
fit made elsewhere; `vicheck psis` takes just the ratios.

Is it biased on average? `vicheck vsbc` simulates datasets from the model, fits each, and tests for
each quantity whether q sits too high or too low (variational simulation-based calibration).
"""

_MORE = """
Exit status:
  0    good, or done
  1    usable with care
  2    not reliable
  64   the command line is wrong
  65   a file or a model cannot be used, or no verdict can be given
  66   a file cannot be read
  69   a library is not installed
  70   a bug in vicheck, or its self-test has failed
  74   a file cannot be written
  130  interrupted

Examples:
  $ vicheck demo
  $ vicheck check schools.py:centred --data schools.json --report page.html
  $ vicheck check output.csv           # of Stan's ADVI, Pathfinder or Laplace
  $ vicheck psis draws.csv --log-p lp --log-q lq && echo "use it"
  $ vicheck vsbc schools.py:centred --data schools.json --save vsbc.npz
  $ vicheck paper run fig5 --quick

Environment:
  NO_COLOR        if not empty: no colours
  VICHECK_DEBUG   if not empty: as --debug
  VICHECK_CACHE   off: compiled code is not kept for the next run
  XDG_CACHE_HOME  where it is kept, in place of ~/.cache

Read on: `vicheck COMMAND --help` has the options and examples of each command; README.md and docs/
in the source have the guides. The method is that of Yao, Vehtari, Simpson and Gelman (2018), Yes,
but Did It Work?: Evaluating Variational Inference, ICML.
"""

_ORDER = ("demo", "check", "rescue", "psis", "vsbc", "report", "paper", "doctor")


class _Application(Group):
    """The commands in the order in which people meet them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)


app = typer.Typer(
    name="vicheck",
    cls=_Application,
    help=_HELP,
    epilog=_MORE,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> NoReturn:
    """Run the command line; errors become a sentence, a hint and an exit status of 64 or more.

    It ends by `SystemExit`; `vicheck.cli.process` is what the process needs around it.
    """
    arguments = sys.argv[1:]
    debug = "--debug" in arguments or os.environ.get("VICHECK_DEBUG", "") != ""
    try:
        show_warnings_plainly()
        if arguments and arguments[0] in _COMPUTE:
            require_flags()
        code = app(
            args=[argument for argument in arguments if argument != "--debug"],
            prog_name="vicheck",
            standalone_mode=False,
        )
        if code == INTERRUPTED:  # Typer's own status for Ctrl-C
            raise CommandError("interrupted", INTERRUPTED)
    except SystemExit as error:
        if _COMPLETION not in os.environ:  # Typer ends completion this way
            _end(_BY_ITSELF)
        code = error.code
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            trace = "".join(traceback.format_exception(error))
            with suppress(OSError):
                print(plain_lines(trace), end="", file=sys.stderr)
        _end(_as_error(error))
    sys.exit(code or 0)


def _end(error: CommandError) -> NoReturn:
    for start, text in (("vicheck", error.sentence), ("hint", error.hint)):
        if text:
            line = re.sub(r"\s*\n[\s^-]*", " ", text)  # also without what compilers draw below it
            with suppress(OSError):  # nobody can read it, but the status is still right
                print(f"{start}: {plain(line)}", file=sys.stderr)
    sys.exit(error.code)


_COMPUTE = ("demo", "check", "vsbc", "paper", "doctor")
"""Commands that load JAX."""
_COMPLETION = "_VICHECK_COMPLETE"
_BY_ITSELF = CommandError("the model's file ended Python by calling sys.exit", EX_DATAERR)
_UNWRITABLE = (errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EPIPE)

_CODES: dict[type[HintedError], int] = {
    InputFileError: EX_DATAERR,
    MissingExtraError: EX_UNAVAILABLE,
    ModelError: EX_DATAERR,
    StoreError: EX_IOERR,
}


def _as_error(error: Exception | KeyboardInterrupt) -> CommandError:
    if isinstance(error, CommandError):
        return error
    if isinstance(error, KeyboardInterrupt | typer.Abort) or presses():  # or what became of it
        return CommandError("interrupted", INTERRUPTED)
    if isinstance(error, typer.TyperException):
        return _as_misuse(error)
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return CommandError(error.sentence, code, error.hint)
    if isinstance(error, OSError) and error.errno in _UNWRITABLE:  # pages of help, say
        return CommandError(f"cannot write the answer: {error.strerror}", EX_IOERR)
    return CommandError(
        f"this is a bug in vicheck, please report it: {error!r}",
        EX_SOFTWARE,
        "the same command with --debug shows where",
    )


def _as_misuse(error: typer.TyperException) -> CommandError:
    """Say what is wrong with the command line; Typer puts its guesses into the sentence."""
    sentence, _, guess = error.format_message().partition(" Did you mean ")
    sentence, _, options = sentence.partition(" (Possible options: ")
    guess = guess.rstrip("?").replace("'", "") or options.rstrip(")").replace(", ", " or ")
    for pattern, words in _PLAIN_WORDS.items():
        sentence = re.sub(pattern, words, sentence)
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "vicheck"
    hint = f"did you mean {guess}? " if guess else ""
    return CommandError(
        sentence[:1].lower() + sentence[1:].rstrip("."),
        EX_USAGE,
        f"{hint}{path} --help lists what there is, with examples",
    )


_PLAIN_WORDS = {
    r"^Invalid value for '(\S+)': Input should be (.*?)(, unable to parse .*)?$": r"\1 must be \2",
    r"^Invalid value for '(\S+)': ": r"\1: ",
    r"^Got unexpected extra argument\(s\) \((.*)\)": r"unexpected argument \1",
}
"""What Typer says, and what we say instead."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and stop.", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[  # taken by main, wherever it stands; here for the page and for completion
        bool,
        typer.Option("--debug", help="Show where an error comes from; also after COMMAND."),
    ] = False,
) -> None:
    """Yes, but did it work? Diagnostics for variational inference."""
