"""Where commands compute: in this process, or on an existing Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer

from vicheck.cli.failures import EX_UNAVAILABLE, fail

__all__ = ["Dask", "executor_at"]

Dask = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A Dask scheduler to run on, such as tcp://host:8786."),
]


@contextmanager
def executor_at(address: str | None) -> Iterator[Executor | None]:
    """Connect to a Dask scheduler, or end with a message; without an address there is None."""
    with ExitStack() as stack:
        yield None if address is None else _connected(address, stack)


def _connected(address: str, stack: ExitStack) -> Executor:
    from vicheck.adapters.dask import dask_executor

    try:
        return stack.enter_context(dask_executor(address))
    except (OSError, ValueError) as error:
        fail(
            f"cannot reach a Dask scheduler at {address}: {error}",
            EX_UNAVAILABLE,
            "is it running, and is this the address that it printed?",
        )
