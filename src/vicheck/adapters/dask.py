"""Dask: an executor on an existing cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from vicheck.errors import require_extra

__all__ = ["dask_executor"]


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """Connect to a Dask scheduler, for the length of a ``with`` block.

    Raises
    ------
    MissingExtraError
        When Dask is not installed.
    OSError
        When no scheduler answers at the address.
    """
    require_extra("dask")
    from distributed import Client

    connect: Any = Client  # its types are not complete
    with connect(address) as client:
        yield client.get_executor()
