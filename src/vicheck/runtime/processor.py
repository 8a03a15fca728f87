"""The kind of machine that computes here: the same kind gives the same bits."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

__all__ = ["digest_of_processor", "made_on"]

_LIBRARIES = ("jaxlib", "numpy", "scipy", "numba")
"""Libraries that compute the numbers, besides those whose versions a store requires."""
_WIDEST = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sve": "SVE", "asimd": "NEON"}
"""Names of instruction sets, widest first."""
_SETTINGS = ("NPY_DISABLE_CPU_FEATURES", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "GLIBC_TUNABLES")
"""Environment variables that make libraries compute as on another processor."""


def made_on() -> str:
    """Return the kind of processor and the libraries that compute here.

    If this text is the same, results are the same to the last bit. If it differs, they are equal up
    to rounding, which the tolerance of a fit may amplify.

    Examples
    --------
    >>> made_on().split(" ")[0] == platform.machine()
    True
    """
    return _description(os.environ.get("XLA_FLAGS", ""), *map(os.environ.get, _SETTINGS))


def digest_of_processor() -> str:
    """Return a digest of the kind of processor: code for one kind may not run on another."""
    kind = f"{platform.machine()} {platform.processor()} {' '.join(_flags())}"
    return hashlib.sha256(kind.encode()).hexdigest()[:12]


@lru_cache(maxsize=4)
def _description(xla_flags: str, *settings: str | None) -> str:
    flags = _flags()
    widest = next((name for flag, name in _WIDEST.items() if flag in flags), "")
    pattern = r"--xla_cpu_(?:max_isa|enable_fast_math|prefer_vector_width)=\S+"
    overrides = re.findall(pattern, xla_flags)
    overrides += [
        f"{name}={value}" for name, value in zip(_SETTINGS, settings, strict=True) if value
    ]
    libraries = [f"{name} {version(name)}" for name in _LIBRARIES]
    kind = f"{platform.machine()} {widest}".strip()
    return ", ".join([f"{kind} ({digest_of_processor()})", *libraries, *overrides])


@lru_cache(maxsize=1)
def _flags() -> tuple[str, ...]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    line = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return tuple(line.partition(":")[2].split())
