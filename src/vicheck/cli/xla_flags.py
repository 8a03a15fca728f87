"""Flags of XLA that end the process, found before they do."""

from __future__ import annotations

import os
import subprocess
import sys

from vicheck.cli.failures import EX_USAGE, fail

__all__ = ["require_flags"]

_TRIAL = """
try:
    from jaxlib import xla_client
    xla_client.make_cpu_client()
except (AttributeError, ImportError, TypeError):
    import jax
    jax.devices()
"""
"""Makes XLA read its flags; without JAX, whose loading takes seconds, where that can be done."""


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
