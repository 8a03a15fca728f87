"""How XLA is started. Compiled code is kept: most of a short run would go into compiling."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from vicheck.cli.failures import EX_USAGE, fail
from vicheck.errors import CacheError
from vicheck.runtime.cache import private_directory
from vicheck.runtime.processor import digest_of_processor

__all__ = ["keep_compiled_code", "require_flags"]

_SETTINGS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "JAX_COMPILATION_CACHE_MAX_SIZE": str(2**28),  # bytes; JAX bounds it by filelock
}
_WRITING = 60.0
"""Seconds after which nobody is still writing an entry."""


_TRIAL = """
try:
    from jaxlib import xla_client
    xla_client.make_cpu_client()
except (AttributeError, ImportError, TypeError):
    import jax
    jax.devices()
"""
"""Makes XLA read its flags; without JAX, whose loading takes seconds, where that can be done."""


def keep_compiled_code() -> None:
    """Tell JAX, before it is loaded, to keep compiled code in the user's cache directory.

    `JAX_COMPILATION_CACHE_DIR` is respected where it is set; if it is empty, nothing is kept.
    Nothing is kept either where others could write.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        directory = private_directory(f"xla-{digest_of_processor()}")
        _remove_halves(directory)
    except (CacheError, OSError):  # then without; `vicheck doctor` says why
        return
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(directory)


def _remove_halves(directory: Path) -> None:
    """Remove entries without their time of use, which killed processes leave.

    A single one keeps JAX from writing any other when it bounds the size.
    """
    for entry in directory.glob("*-cache"):
        used = entry.with_name(entry.name.removesuffix("cache") + "atime")
        if not used.exists() and time.time() - entry.stat().st_mtime > _WRITING:
            entry.unlink(missing_ok=True)


def require_flags() -> None:
    """Try XLA_FLAGS, if there are any: XLA ends the process, with status 1, over one that is wrong.

    Nothing can keep it from that, so another process tries.
    """
    flags = os.environ.get("XLA_FLAGS", "").strip()
    if not flags or "jax" in sys.modules:  # which has read them already
        return
    trial = [sys.executable, "-P", "-c", _TRIAL]
    done = subprocess.run(trial, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "XLA_FLAGS" in line]
        reason = lines[-1].rpartition("] ")[2] if lines else f"status {done.returncode}"
        fail(
            f"JAX does not start with XLA_FLAGS={flags}: {reason}", EX_USAGE, "unset or correct it"
        )
