"""The application itself: what all commands are registered with, and how errors end."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vicheck import __version__
from vicheck.cli.caching import keep_compiled_code
from vicheck.cli.printing import (
    EX_DATAERR,
    EX_IOERR,
    EX_SOFTWARE,
    EX_UNAVAILABLE,
    EX_USAGE,
    fail,
)
from vicheck.errors import InputFileError, MissingExtraError, ModelError, StoreError

__all__ = ["INTERRUPTED", "app", "main"]

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

app = typer.Typer(
    name="vicheck",
    help="Yes, but did it work? Diagnostics for variational inference.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; errors become one sentence and an exit status of 64 or more."""
    keep_compiled_code()
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        if not error.format_message():  # no arguments: the help has been printed
            sys.exit(EX_USAGE)
        fail(f"{error.format_message()} (vicheck --help lists what there is)", EX_USAGE)
    except typer.Abort:
        fail("interrupted", INTERRUPTED)
    except MissingExtraError as error:
        fail(str(error), EX_UNAVAILABLE)
    except (InputFileError, ModelError) as error:
        fail(str(error), EX_DATAERR)
    except StoreError as error:
        fail(str(error), EX_IOERR)
    except Exception as error:
        fail(f"this is a bug in vicheck, please report it: {error!r}", EX_SOFTWARE)
    if code == INTERRUPTED:  # Typer's own status for Ctrl-C
        fail("interrupted", INTERRUPTED)
    sys.exit(code or 0)


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
) -> None:
    """Yes, but did it work? Diagnostics for variational inference."""
