"""The one way imports go, as drawn in CONTRIBUTING.md."""

import ast
import sys
from pathlib import Path

import pytest

import vicheck

PACKAGE = Path(vicheck.__file__).parent

# What each room may import from vicheck; a room is a module or a package at the top level.
ALLOWED = {
    "errors": set(),
    "cache": {"errors"},
    "durable_files": set(),
    "computation": set(),
    "plain_text": set(),
    "json_files": {"errors"},
    "numpy_files": {"errors"},
    "array_files": {"durable_files", "errors", "json_files", "numpy_files"},
    "compiling": {"computation"},
    "interrupts": set(),
    "jax_settings": set(),
    "draws": {"records"},
    "records": {"errors", "plain_text"},
    "provenance": {"records"},
    "processor": set(),
    "model": {"compiling", "errors", "jax_settings", "records"},
    "stats": {"cache", "records", "errors"},
    "vi": {"compiling", "interrupts", "model", "records", "errors"},
    "nuts": {"compiling", "interrupts", "model", "records", "errors"},
    "verdict": {"stats", "records", "errors"},
    "adapters": {
        "cache", "compiling", "draws", "errors", "interrupts", "json_files", "model",
        "numpy_files", "records", "stats",
    },
    "plots": {"errors", "records", "stats"},
    "report": {"durable_files", "errors", "plain_text", "plots", "provenance", "records"},
    "checking": {
        "adapters", "array_files", "compiling", "draws", "errors", "interrupts", "model", "nuts",
        "plain_text", "provenance", "records", "report", "stats", "verdict", "vi",
    },
    "calibration": {
        "__init__", "adapters", "array_files", "compiling", "computation", "draws",
        "durable_files", "errors", "interrupts", "json_files", "model", "plain_text", "processor",
        "provenance", "records", "report", "stats", "verdict", "vi",
    },
    "paper": {"__init__", "durable_files", "errors", "interrupts", "plots", "records", "stats"},
    "cli": {
        "__init__", "adapters", "array_files", "cache", "calibration", "checking", "doctor",
        "draws", "durable_files", "errors", "interrupts", "model", "paper", "plain_text",
        "processor", "records", "report", "stats", "verdict", "vi",
    },
    "doctor": {
        "__init__", "adapters", "cache", "checking", "errors", "interrupts", "provenance", "stats",
        "vi",
    },
    "__init__": {
        "adapters", "calibration", "checking", "draws", "errors", "model", "nuts", "plots",
        "records", "stats", "verdict", "vi",
    },
}  # fmt: skip
# Results name each other, and pages name results, in their types; nothing is loaded for that.
TYPES_ONLY = {
    "checking": {"calibration"},
    "calibration": {"checking"},
    "plots": {"calibration", "checking"},
    "report": {"calibration", "checking"},
}
THIRD_PARTY = {
    "errors": set(),
    "cache": set(),
    "durable_files": set(),
    "computation": {"jax", "numpy"},
    "plain_text": set(),
    "json_files": set(),
    "numpy_files": {"numpy"},
    "array_files": {"numpy"},
    "compiling": {"jax", "numpy"},
    "processor": set(),
    "interrupts": set(),
    "jax_settings": {"jax"},
    "draws": {"numpy"},
    "records": {"numpy", "scipy"},
    "provenance": {"numpy"},
    "model": {"jax", "numpy"},
    "stats": {"numpy", "scipy", "numba"},
    "vi": {"equinox", "jax", "numpy", "numpyro", "optax", "scipy"},
    "nuts": {"jax", "numpy", "numpyro", "pandas", "scipy"},
    "verdict": {"pandas"},
    "adapters": {
        "arviz_base",
        "blackjax",
        "bridgestan",
        "cmdstanpy",
        "distributed",
        "jax",
        "numpy",
        "numpyro",
        "pyarrow",
        "pymc",
        "pymc_extras",
        "pyro",
        "pytensor",
        "torch",
        "xarray",
    },
    "plots": {"matplotlib", "numpy", "scipy"},
    "report": {"jinja2", "markupsafe", "matplotlib", "pandas", "rich"},
    "checking": {"jax", "numpy", "pandas", "scipy", "xarray"},
    "calibration": {"cloudpickle", "jax", "numpy", "pandas", "scipy", "xarray"},
    "paper": {"jax", "jinja2", "matplotlib", "numpy", "numpyro", "scipy"},
    "cli": {"typer", "rich"},
    "doctor": {"jax", "numpy", "numpyro"},
    "__init__": set(),
}


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def is_for_types(node):
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def imported_modules(path, *, types=True):
    tree = ast.parse(path.read_text())
    skipped = {id(inner) for node in tree.body if is_for_types(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped and not types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            if node.module == "vicheck":
                for alias in node.names:
                    known = (PACKAGE / alias.name).exists() or (
                        PACKAGE / f"{alias.name}.py"
                    ).exists()
                    yield f"vicheck.{alias.name if known else '__init__'}"
            else:
                yield node.module


def rooms_imported(path, *, types=True):
    names = (name.split(".") for name in imported_modules(path, types=types))
    return {parts[1] if len(parts) > 1 else "__init__" for parts in names if parts[0] == "vicheck"}


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    room = room_of(path)
    assert rooms_imported(path, types=False) <= ALLOWED[room] | {room}
    assert rooms_imported(path) <= ALLOWED[room] | {room} | TYPES_ONLY.get(room, set())


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_foreign_libraries_stay_in_their_rooms(path):
    own = {"vicheck", *sys.stdlib_module_names}
    foreign = {name.split(".")[0] for name in imported_modules(path)} - own
    assert foreign <= THIRD_PARTY[room_of(path)]


def test_no_module_is_called_like_a_public_function():
    modules = {room_of(path) for path in SOURCES}
    assert modules & set(vicheck.__all__) == {"plots"}  # which is a module to users too


def test_the_table_names_every_room():
    assert {room_of(path) for path in SOURCES} == set(ALLOWED)
