"""How tests and examples run: where compiled code is kept, what is slow, and what goes first."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

# Most of the time of the tests is XLA compiling, and much of it the same in several files and
# processes: what one has compiled is kept for all.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# Every core has a worker already: to cut code in pieces for several threads costs a sixth more.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_parallel_codegen_split_count=1")
# For the same reason: threads of OpenBLAS that wait for each other keep cores busy, which takes
# several times the time of the work itself. Workers inherit it; a run without them may have loaded
# NumPy already, which reads it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# PyMC's own fits in the tests are so short that compiling them by C takes longer than they do.
os.environ.setdefault("PYTENSOR_FLAGS", "cxx=")

collect_ignore = [] if find_spec("pyro") else ["docs/libraries-pyro.md"]  # make test-large runs it

# Pages are tests too, but have no place for a marker.
SLOW_PAGES = (
    *("docs/libraries.md", "docs/trusted-answer.md", "docs/vsbc.md", "docs/when-it-fails.md"),
    *("docs/howto/arviz.md", "docs/howto/hierarchical.md", "docs/howto/vsbc.md"),
    *("docs/gallery/batting.md", "docs/gallery/bioassay.md", "docs/gallery/dyestuff.md"),
    *("docs/gallery/geyser.md", "docs/gallery/pumps.md", "docs/gallery/stackloss.md"),
)

# The files that take longest, first: the last of several workers to end decides how long it takes.
LONGEST = (
    "tests/paper/test_experiments.py",
    "docs/libraries.md",
    "tests/calibration/test_execution.py",
    "tests/rescuing/test_run.py",
    "docs/howto/arviz.md",
    "tests/calibration/test_vsbc.py",
    "tests/vi/solvers/deterministic/test_many_parameters.py",
    "tests/adapters/test_numpyro_guides.py",
    "tests/vi/solvers/deterministic/test_solver.py",
    "tests/adapters/test_pymc.py",
    "tests/truth/test_subset.py",
    "tests/truth/test_problems.py",
    "tests/adapters/test_numpyro_observed.py",
    "docs/when-it-fails.md",
    "docs/howto/hierarchical.md",
    "tests/checking/test_chained.py",
    "tests/checking/test_explaining.py",
    "tests/checking/test_enough.py",
    "tests/adapters/test_arviz.py",
    "tests/report/test_browser.py",
    "tests/cli/test_vsbc.py",
    "tests/paper/test_page.py",
    "tests/adapters/test_stan.py",
    "tests/checking/test_check.py",
    "tests/runtime/test_compiling.py",
    "tests/vi/families/test_families.py",
    "tests/calibration/test_user_fits.py",
    "tests/report/test_page.py",
    "tests/vi/solvers/test_stan_advi.py",
    "tests/cli/test_check.py",
    "tests/adapters/test_blackjax.py",
    "tests/test_plain_text.py",
    "tests/calibration/test_posterior.py",
    "docs/index.md",
)


def pytest_collection_modifyitems(items):
    """Mark slow pages, and put the longest files first; within a file the order stays."""
    for item in items:
        if _name(item) in SLOW_PAGES:
            item.add_marker(pytest.mark.slow)
    items.sort(key=_place)


def _name(item):
    return item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else ""


def _place(item):
    name = _name(item)
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    import vicheck

    doctest_namespace["vicheck"] = vicheck


@pytest.fixture(autouse=True)
def _files_of_doctests(request):
    """Let examples in docstrings write where nothing is left; pages read files of the project."""
    if isinstance(request.node, pytest.DoctestItem) and request.path.suffix == ".py":
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
