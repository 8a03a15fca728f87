"""The manifest of a store: all that its chunks depend on, so that runs are never mixed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from vicheck.calibration.system_errors import explaining_system_errors
from vicheck.errors import DamagedStoreError, StoreError, UnreadableError
from vicheck.files.durable import is_temporary, make_directory, whole_file
from vicheck.files.json_reader import parse_json

__all__ = ["Run", "find_or_begin_run"]

_FORMAT = 2
_LINES_SHOWN = 10


class Run(NamedTuple):
    """The run that a directory belongs to."""

    digest: str
    """Tells the run from others."""
    begun_on: str
    """The kind of machine it was begun on."""


def find_or_begin_run(directory: Path, manifest: Mapping[str, Any], here: str) -> Run:
    """Return the run of a directory, when it is this one or the directory is free.

    A directory that is absent or empty gets this manifest, with a note of the kind of machine it
    was begun on: that is no part of the manifest, because a run may continue elsewhere.

    Raises
    ------
    StoreError
        If it belongs to another run, holds anything else, or cannot be read or made.
    """
    wanted = _as_json(manifest)
    stored = _read(directory)
    if stored is None:
        _begin(directory, wanted, here)
        stored = _read(directory)
    assert stored is not None
    entries, begun_on = stored
    # Compared as text, because to Python 1 and 1.0 and True are equal.
    if _canonical(entries) != _canonical(wanted):
        raise StoreError(
            f"{directory} belongs to another run; {_describe_difference(entries, wanted)}",
            hint="use another directory, or the settings of that run",
        )
    return Run(_digest(wanted), begun_on)


def _as_json(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest as JSON would return it: tuples become lists, keys strings."""
    if not isinstance(manifest, Mapping):
        raise TypeError(f"manifest must be a dictionary, got {type(manifest).__name__}")
    try:
        return json.loads(json.dumps(dict(manifest), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise type(error)(f"manifest must hold what JSON can hold: {error}") from error


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _digest(value: Any) -> str:
    return sha256(_canonical(value).encode()).hexdigest()


def _file_in(directory: Path) -> Path:
    return directory / "manifest.json"


def _read(directory: Path) -> tuple[dict[str, Any], str] | None:
    path = _file_in(directory)
    with explaining_system_errors("read", path):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except NotADirectoryError as error:
            raise StoreError(f"{directory} is not a directory", hint="use another path") from error
    damaged = DamagedStoreError(
        f"{path} is damaged, or was not written by vicheck, so it is not known which run "
        f"{directory} belongs to",
        hint="use another directory",
    )
    try:
        parts = parse_json(content)
        version, entries, checksum = parts["vicheck_store"], parts["manifest"], parts["sha256"]
        begun_on = parts.get("begun_on", "")
    except (UnreadableError, AttributeError, TypeError, KeyError) as error:
        raise damaged from error
    signed = [version, entries] if version == 1 else [version, entries, begun_on]
    if not isinstance(entries, dict) or checksum != _digest(signed):
        raise damaged
    if version != _FORMAT:
        raise StoreError(
            f"{path} has format {version}, and this version of vicheck reads format {_FORMAT}",
            hint="use another directory, or the version that has written it",
        )
    return entries, str(begun_on)


def _begin(directory: Path, entries: dict[str, Any], here: str) -> None:
    """Make the directory and its manifest, unless another process does at the same moment."""
    path = _file_in(directory)
    parts = {
        "vicheck_store": _FORMAT,
        "manifest": entries,
        "begun_on": here,
        "sha256": _digest([_FORMAT, entries, here]),
    }
    content = json.dumps(parts, indent=2, sort_keys=True).encode() + b"\n"
    with explaining_system_errors("write", path):
        make_directory(directory)
        if not all(map(is_temporary, directory.iterdir())) and not path.exists():
            raise StoreError(
                f"{directory} is not empty and has no manifest.json, so it is not a store of "
                "vicheck",
                hint="use another directory, this one is left as it is",
            )
        with suppress(FileExistsError), whole_file(path, overwrite=False) as file:
            file.write(content)


def _describe_difference(stored: Any, wanted: Any) -> str:
    old, new = dict(_leaves(stored)), dict(_leaves(wanted))
    differing = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    lines = [
        f"{name}: the store has {old.get(name, 'nothing')}, this run {new.get(name, 'nothing')}"
        for name in differing[:_LINES_SHOWN]
    ]
    if len(differing) > _LINES_SHOWN:
        lines.append(f"and {len(differing) - _LINES_SHOWN} more")
    return "; ".join(lines)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name, such as ``settings.family`` or ``names[1]``, and text of innermost values."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value:
        for position, item in enumerate(value):
            yield from _leaves(item, f"{name}[{position}]")
    else:
        yield name, _canonical(value)
