"""The one way imports go, as drawn in CONTRIBUTING.md."""

import ast
import sys
from pathlib import Path

import pytest

import vicheck

PACKAGE = Path(vicheck.__file__).parent

# What each room may import from vicheck; a room is a module or a package at the top level.
ALLOWED = {
    # At the bottom: what knows nothing of approximations.
    "errors": set(),
    "indexing": set(),
    "plain_text": set(),
    "files": {"errors"},
    "runtime": {"errors", "files"},
    "model": {"errors", "indexing", "runtime"},
    "results": {"errors", "files", "indexing", "plain_text", "runtime"},
    "draws": {"indexing", "results"},
    "quantities": {"errors", "indexing", "model", "runtime"},
    # Numbers, and what they mean.
    "stats": {"errors", "results", "runtime"},
    "evaluation": {"draws", "errors", "model", "quantities", "results", "runtime"},
    "judging": {"errors", "plain_text", "remedies", "results", "stats"},
    # What finds approximations, and other people's.
    "vi": {
        "draws", "errors", "evaluation", "indexing", "model", "quantities", "results", "runtime",
    },
    "mixing": set(),
    "nuts": {"errors", "mixing", "model", "results", "runtime"},
    "chains": {"runtime", "stats", "vi"},
    "remedies": {"errors", "results", "stats", "vi"},
    "adapters": {
        "draws", "errors", "evaluation", "files", "indexing", "model", "plain_text", "results",
        "runtime", "stats", "vi",
    },
    # Pictures and pages.
    "plots": {"errors", "plain_text", "results", "stats"},
    "report": {"errors", "files", "judging", "plain_text", "plots", "results"},
    # The paths.
    "checking": {
        "adapters", "chains", "draws", "errors", "evaluation", "indexing", "judging", "model",
        "nuts", "quantities", "results", "runtime", "stats", "vi",
    },
    "calibration": {
        "adapters", "draws", "errors", "evaluation", "files", "indexing", "judging", "model",
        "quantities", "report", "results", "runtime", "stats", "vi",
    },
    "rescuing": {
        "adapters", "checking", "draws", "errors", "evaluation", "model", "nuts", "quantities",
        "remedies", "results", "runtime", "stats", "vi",
    },
    "paper": {"__init__", "errors", "files", "judging", "plots", "results", "runtime", "stats"},
    "doctor": {"__init__", "adapters", "checking", "errors", "results", "runtime", "stats", "vi"},
    "cli": {
        "__init__", "adapters", "calibration", "checking", "doctor", "draws", "errors", "files",
        "judging", "model", "paper", "plain_text", "report", "rescuing", "results", "runtime",
        "stats", "vi",
    },
    "__init__": {
        "adapters", "calibration", "checking", "draws", "errors", "judging", "model", "nuts",
        "plots", "rescuing", "results", "stats", "vi",
    },
}  # fmt: skip
# Types alone: nothing is loaded for them.
TYPES_ONLY = {
    "draws": {"model", "vi"},
    "evaluation": {"vi"},
    "results": {"draws", "model", "quantities", "vi"},
    "stats": set(),
}
# A result computes what it is asked for when it is asked, by code that lies above it. These are all
# the places where that happens: methods, which import late and hand themselves over.
HANDED_OVER = {
    "results/calibration.py": {"adapters", "calibration", "judging", "report", "stats"},
    "results/check.py": {"checking", "judging", "report", "stats"},
    "results/check_outputs.py": {"checking", "report"},
    "results/explanation.py": {"report"},
    "results/fit.py": {"checking", "vi"},
    "results/linear_response.py": {"vi"},
    "results/rescue.py": {"report", "vi"},
    "results/rescue_archive.py": {"vi"},
}
THIRD_PARTY = {
    "errors": set(),
    "indexing": set(),
    "plain_text": set(),
    "files": {"numpy"},
    "runtime": {"cloudpickle", "jax", "jaxlib", "numpy"},
    "model": {"jax", "numpy"},
    "results": {"jax", "numpy", "pandas", "scipy", "xarray"},
    "draws": {"numpy"},
    "quantities": {"jax", "numpy"},
    "stats": {"numba", "numpy", "pandas", "scipy"},
    "evaluation": {"jax", "numpy"},
    "judging": {"numpy", "pandas"},
    "vi": {"equinox", "jax", "numpy", "numpyro", "optax", "scipy"},
    "mixing": {"numpy", "numpyro", "scipy"},
    "nuts": {"jax", "numpy", "numpyro"},
    "chains": {"numpy"},
    "remedies": set(),
    "adapters": {
        "arviz",
        "arviz_base",
        "blackjax",
        "bridgestan",
        "cmdstanpy",
        "distributed",
        "equinox",
        "flowjax",
        "jax",
        "numpy",
        "numpyro",
        "optax",
        "pyarrow",
        "pymc",
        "pymc_extras",
        "pyro",
        "pytensor",
        "torch",
        "xarray",
    },
    "plots": {"matplotlib", "numpy", "scipy"},
    "report": {"jinja2", "markupsafe", "matplotlib", "numpy", "pandas", "rich"},
    "checking": {"jax", "numpy", "pandas", "scipy"},
    "calibration": {"filelock", "jax", "numpy", "pandas", "xarray"},
    "rescuing": {"numpy"},
    "paper": {"jax", "jinja2", "matplotlib", "numpy", "numpyro", "scipy"},
    "doctor": {"jax", "numpy", "numpyro"},
    "cli": {"rich", "typer"},
    "__init__": set(),
}


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def is_for_types(node):
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def imported_modules(path, *, types=True, late=True):
    """Return what a file imports, also for types only and also inside functions, or not."""
    tree = ast.parse(path.read_text())
    skipped = set()
    for node in ast.walk(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (is_for_types(node) and not types) or (is_function and not late):
            skipped.update(map(id, ast.walk(node)))
    for node in ast.walk(tree):
        if id(node) in skipped:
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


def rooms_imported(path, **which):
    names = (name.split(".") for name in imported_modules(path, **which))
    return {parts[1] if len(parts) > 1 else "__init__" for parts in names if parts[0] == "vicheck"}


SOURCES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 400
"""Lines of a module; a longer one says why in a comment that begins with "Over 400 lines"."""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    room = room_of(path)
    above = HANDED_OVER.get(path.relative_to(PACKAGE).as_posix(), set())
    assert rooms_imported(path, types=False, late=False) <= ALLOWED[room] | {room}
    assert rooms_imported(path, types=False) <= ALLOWED[room] | {room} | above
    assert rooms_imported(path) <= ALLOWED[room] | {room} | above | TYPES_ONLY.get(room, set())


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_foreign_libraries_stay_in_their_rooms(path):
    own = {"vicheck", *sys.stdlib_module_names}
    foreign = {name.split(".")[0] for name in imported_modules(path)} - own
    assert foreign <= THIRD_PARTY[room_of(path)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_are_short_or_say_why_not(path):
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST or f"# Over {LONGEST} lines" in text


def test_the_rooms_have_no_circle():
    left = dict(ALLOWED)
    while left:
        free = {room for room, below in left.items() if not below & set(left) - {room}}
        assert free, f"each of these needs another one: {sorted(left)}"
        left = {room: below for room, below in left.items() if room not in free}


def test_what_is_handed_over_is_no_longer_than_need_be():
    for name, above in HANDED_OVER.items():
        path = PACKAGE / name
        late = rooms_imported(path, types=False) - ALLOWED[room_of(path)] - {room_of(path)}
        assert late == above


def test_no_module_is_called_like_a_public_function():
    modules = {room_of(path) for path in SOURCES}
    assert modules & set(vicheck.__all__) == {"plots"}  # which is a module to users too


def test_the_table_names_every_room():
    assert {room_of(path) for path in SOURCES} == set(ALLOWED) == set(THIRD_PARTY)
