"""What vicheck runs on: versions, the machine, its devices, the cache, optional libraries."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from vicheck import __version__
from vicheck.errors import EXTRAS, CacheError
from vicheck.results.provenance import installed_version
from vicheck.runtime.cache import private_directory
from vicheck.stats.smoothing import num_cores

__all__ = ["cache", "devices", "extras", "machine", "versions"]

_LIBRARIES = (
    "numpy", "scipy", "numba", "jax", "jaxlib", "numpyro", "equinox", "optax", "pandas", "xarray",
    "arviz-base", "h5netcdf", "h5py", "matplotlib", "jinja2", "filelock", "typer", "rich",
)  # fmt: skip

_PACKAGES = {"pyro": "pyro-ppl"}
"""Packages that are not called like the library in them."""


def versions() -> dict[str, str | None]:
    """Return versions by name, without importing anything; None for what is not installed."""
    known = {"python": platform.python_version(), "vicheck": __version__}
    return known | {name: installed_version(name) for name in _LIBRARIES}


def extras() -> dict[str, dict[str, str | None]]:
    """Return package and version behind each optional extra; None for what is not installed."""
    packages = {extra: _PACKAGES.get(library, library) for extra, library in EXTRAS.items()}
    return {
        extra: {"package": package, "version": installed_version(package)}
        for extra, package in packages.items()
    }


def machine() -> dict[str, str | int | None]:
    """Return the system, the cores that may be used, and the memory in bytes where it is known."""
    return {"platform": platform.platform(), "cores": num_cores(), "memory": _memory()}


def devices() -> list[str]:
    """Return the devices that JAX sees, such as ``cpu:0``."""
    import jax

    return [f"{device.platform}:{device.id}" for device in jax.devices()]


def cache() -> dict[str, str | int]:
    """Return where compiled code is kept ("" for nowhere), the bytes there, and why it is not."""
    try:
        directory = private_directory("compiled").parent
    except CacheError as error:
        return {"directory": "", "bytes": 0, "reason": str(error)}
    return {
        "directory": str(directory),
        "bytes": sum(map(_size, directory.rglob("*"))),
        "reason": "",
    }


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on this system
        return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # removed in the meantime
        return 0
