"""Compiled code is kept between runs: most of the time of a short run would go into compiling."""

from __future__ import annotations

import os
from importlib.util import find_spec

from vicheck.cache import cache_directory
from vicheck.processor import digest_of_processor

__all__ = ["keep_compiled_code"]

_SETTINGS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
_MOST_BYTES = 2**28


def keep_compiled_code() -> None:
    """Tell JAX, before it is loaded, to keep compiled code in the user's cache directory.

    Whoever has set `JAX_COMPILATION_CACHE_DIR` is obeyed; an empty value keeps nothing.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    directory = cache_directory() / f"xla-{digest_of_processor()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:  # then without
        return
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    if find_spec("filelock"):  # without it JAX cannot bound the size
        os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(_MOST_BYTES))
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(directory)
