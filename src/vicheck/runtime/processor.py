"""On which kind of machine numbers are computed: on the same kind they are the same bits."""

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
"""What computes the numbers, beside the versions that a store insists on."""
_WIDEST = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sve": "SVE", "asimd": "NEON"}
"""Names of instruction sets, the widest first."""
_SETTINGS = ("NPY_DISABLE_CPU_FEATURES", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "GLIBC_TUNABLES")
"""Variables that make libraries compute as on another processor."""


def made_on() -> str:
    """Return the kind of processor and the libraries that compute here.

    What is computed under the same text is the same to the last bit. Under another it is equal up
    to rounding, which the tolerance of a fit may amplify.

    Examples
    --------
    >>> made_on().split(" ")[0] == platform.machine()
    True
    """
    return _described(os.environ.get("XLA_FLAGS", ""), *map(os.environ.get, _SETTINGS))


def digest_of_processor() -> str:
    """Return what tells kinds of processors apart: code for one may not run on another."""
    known = f"{platform.machine()} {platform.processor()} {' '.join(_flags())}"
    return hashlib.sha256(known.encode()).hexdigest()[:12]


@lru_cache(maxsize=4)
def _described(xla_flags: str, *settings: str | None) -> str:
    flags = _flags()
    widest = next((name for flag, name in _WIDEST.items() if flag in flags), "")
    options = re.findall(
        r"--xla_cpu_(?:max_isa|enable_fast_math|prefer_vector_width)=\S+", xla_flags
    )
    options += [f"{name}={value}" for name, value in zip(_SETTINGS, settings, strict=True) if value]
    libraries = [f"{name} {version(name)}" for name in _LIBRARIES]
    kind = f"{platform.machine()} {widest}".strip()
    return ", ".join([f"{kind} ({digest_of_processor()})", *libraries, *options])


@lru_cache(maxsize=1)
def _flags() -> tuple[str, ...]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    line = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return tuple(line.partition(":")[2].split())
