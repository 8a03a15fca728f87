"""Compiled code is kept between runs: most of the time of a short run would go into compiling."""

from __future__ import annotations

import os

from vicheck.cache import private_directory
from vicheck.errors import CacheError
from vicheck.processor import digest_of_processor

__all__ = ["keep_compiled_code"]

_SETTINGS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "JAX_COMPILATION_CACHE_MAX_SIZE": str(2**28),  # bytes; JAX bounds it by filelock
}


def keep_compiled_code() -> None:
    """Tell JAX, before it is loaded, to keep compiled code in the user's cache directory.

    Whoever has set `JAX_COMPILATION_CACHE_DIR` is obeyed; an empty value keeps nothing. Nothing is
    kept either where others could write.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        directory = private_directory(f"xla-{digest_of_processor()}")
    except CacheError:  # then without; `vicheck doctor` says why
        return
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(directory)
