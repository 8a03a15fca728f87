"""Compiled code that is kept in the user's cache directory, for the next process.

An entry is a file of its own, named by a digest of all that its code depends on. It holds machine
code and a pickle: whoever can write one can run code as the user, so entries are only read from a
directory to which nobody else can write. One that cannot be used, for whatever reason, is the same
as none: the code is compiled, and the entry replaced.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import serialize_executable

from vicheck.errors import CacheError
from vicheck.files.durable import is_temporary, older_than, remove_if_possible, whole_file
from vicheck.runtime.cache import is_private, private_directory
from vicheck.runtime.computation import LIBRARIES
from vicheck.runtime.jax_settings import is_ours
from vicheck.runtime.portable import portable_digest
from vicheck.runtime.processor import digest_of_processor
from vicheck.runtime.sources import digest_of_sources

__all__ = ["DIRECTORY", "MOST_BYTES", "forget", "keep", "key_of", "load_kept"]

DIRECTORY = "compiled"
"""Name within the user's cache directory."""
MOST_BYTES = 2**28
"""All entries together; the code of a fit and its check takes about two megabytes."""
_MOST_OF_ONE = MOST_BYTES // 8
_ABANDONED = 3600.0
"""Seconds after which nobody is still writing a file."""
_MAGIC = b"vicheck compiled code 1\n"
_SIZE_OF_DIGEST = 32
_CALLS = re.compile(r"custom_call @\"?([\w.$]+)")
_LAPACK = "lapack_"
_HARMLESS = ("mhlo.", "chlo.", "stablehlo.")
"""Beginnings of the names of calls that XLA replaces by code of its own."""
_WITHOUT_EFFECT = (
    "jax_compilation_cache", "jax_debug_log", "jax_dump", "jax_enable_compilation_cache",
    "jax_explain", "jax_include_full_tracebacks", "jax_log", "jax_persistent_cache", "jax_pprint",
    "jax_traceback", "jax_tracer_error",
)  # fmt: skip
"""Beginnings of the names of settings that do not change what is compiled."""


class _Entry(NamedTuple):
    """What is pickled."""

    code: bytes
    """The executable as JAX serialises it."""
    returned: Any
    """A tree like the one that the code returns, with numbers in place of arrays."""
    calls_lapack: bool


def key_of(*parts: Any) -> str:
    """Return a key for code that depends on these parts; "" if it cannot be kept.

    It can be kept if other processes would understand all parts (`portable_digest`). The key stands
    for them and for all that code depends on besides: sources, libraries, processor and settings.
    """
    digest = portable_digest(parts)
    return (digest and portable_digest((digest, _surroundings()))) or ""


def load_kept(key: str, given: Any, returned: Any = None) -> Callable[..., Any] | None:
    """Return the code that was kept under a key, as a function; None if there is none.

    Parameters
    ----------
    key
        From `key_of`.
    given
        Its arguments, or what has the same tree.
    returned
        The tree structure of what it returns, where that is known; otherwise it was kept too.
    """
    directory = _directory()
    if directory is None:
        return None
    path = directory / key
    try:
        entry = _read(path)
        if entry is None:
            return None
        if entry.calls_lapack:
            _prepare_lapack()
        device = jax.local_devices(backend="cpu")[0]
        code = serialize_executable.deserialize_and_load(
            entry.code,
            jax.tree.structure((given, {})),
            jax.tree.structure(entry.returned) if returned is None else returned,
            backend=device.client,
            execution_devices=[device],
        )
    except Exception:  # spoiled, or of a JAX that calls itself the same and is not
        remove_if_possible(path)
        return None
    with suppress(OSError):
        os.utime(path)  # the time of its last use
    return code


def forget(key: str) -> None:
    """Remove code that was found under a key, and does not run."""
    directory = _directory()
    if directory is not None:
        remove_if_possible(directory / key)


def keep(key: str, lowered: jax.stages.Lowered, compiled: jax.stages.Compiled) -> None:
    """Keep code for the next process, if it can be kept, and remove what was not used for longest.

    Code that calls anything but XLA itself and LAPACK is not kept: addresses of other functions
    mean nothing in another process.
    """
    directory = _directory()
    if directory is None:
        return
    try:
        calls = _calls_of(lowered)
        if not all(name.startswith((_LAPACK, *_HARMLESS)) for name in calls):
            return
        code, _, tree = serialize_executable.serialize(compiled)
        returned = jax.tree.unflatten(tree, range(tree.num_leaves))
        entry = _Entry(code, returned, any(name.startswith(_LAPACK) for name in calls))
        content = pickle.dumps(tuple(entry))
    except Exception:  # what JAX or a class of the user's cannot write stays in this process
        return
    if len(content) > _MOST_OF_ONE:
        return
    with suppress(OSError):  # a full disk, or a file system that has become read-only
        with whole_file(directory / key) as file:
            file.write(_MAGIC + _digest_of(content) + content)
        _remove_oldest(directory)


def _directory() -> Path | None:
    """Return where code is kept, or None: for want of a place, by the user's wish, or not on CPUs.

    Nothing is kept here where JAX keeps code itself: what it has loaded cannot be written again.
    """
    if jax.config.jax_compilation_cache_dir and jax.config.jax_enable_compilation_cache:  # type: ignore[attr-defined]
        return None
    try:
        directory = private_directory(DIRECTORY)
    except CacheError:  # then without; `vicheck doctor` says why
        return None
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    on_first = chosen in (None, "cpu") or chosen == jax.local_devices(backend="cpu")[0]
    return directory if jax.default_backend() == "cpu" and on_first else None


def _read(path: Path) -> _Entry | None:
    """Return an entry; None if there is none. Raises anything if it is spoiled."""
    if not path.exists():
        return None
    if not is_private(path):
        raise CacheError(f"others could have written {path}")
    content = path.read_bytes()
    start = len(_MAGIC) + _SIZE_OF_DIGEST
    if content[:start] != _MAGIC + _digest_of(content[start:]):
        raise CacheError(f"{path} is incomplete")
    return _Entry(*pickle.loads(content[start:]))


def _digest_of(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_SIZE_OF_DIGEST).digest()


def _remove_oldest(directory: Path) -> None:
    """Remove the entries whose last use is longest ago, and what killed processes left."""
    entries = []
    for path in directory.iterdir():
        with suppress(OSError):  # another process may remove files at the same time
            if not is_temporary(path):
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
            elif older_than(path, _ABANDONED):
                remove_if_possible(path)
    room = MOST_BYTES
    for _, size, path in sorted(entries, reverse=True):
        room -= size
        if room < 0:
            remove_if_possible(path)


def _calls_of(lowered: jax.stages.Lowered) -> set[str]:
    """Return the names of all functions outside XLA that are called."""
    module: Any = lowered.compiler_ir("stablehlo")
    return set(_CALLS.findall(module.operation.get_asm(large_elements_limit=8)))


@lru_cache(maxsize=1)
def _prepare_lapack() -> None:
    """Have JAX load LAPACK, which it does when it first translates a call of it, not before.

    Code that was compiled elsewhere would otherwise jump to the address 0.
    """
    try:
        from jaxlib.lapack import prepare_lapack_call

        prepare_lapack_call("potrf_ffi", np.dtype(np.float64))  # type: ignore[no-untyped-call]
        return
    except (ImportError, AttributeError, KeyError, TypeError):
        pass  # another JAX: then as it does it itself, which takes a tenth of a second
    matrix = jax.ShapeDtypeStruct((2, 2), jnp.float32)  # type: ignore[no-untyped-call]
    jax.jit(jnp.linalg.cholesky).lower(matrix)


def _surroundings() -> Any:
    """Return what all code depends on, and what may change while the process runs."""
    settings = [
        (name, str(value))
        for name, value in sorted(jax.config.values.items())
        if not (is_ours(name) or name.startswith(_WITHOUT_EFFECT))
    ]
    return (_installation(), os.environ.get("XLA_FLAGS", ""), settings)


@lru_cache(maxsize=1)
def _installation() -> Any:
    """Return what is the same as long as the process lives."""
    # Where a processor does not tell what it can do, code stays on the machine.
    machine = "" if os.path.exists("/proc/cpuinfo") else platform.node()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        digest_of_sources(),
        [_version(name) for name in LIBRARIES],
        platform.python_version(),
        platform.system(),
        digest_of_processor(),
        machine,
        cores,
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
