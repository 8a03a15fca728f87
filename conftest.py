"""Names that the examples in docstrings and documentation may use, and which of them can run."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

# Most of the time of the tests is XLA compiling, and much of it the same in several files and
# processes: what one has compiled is kept for all.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# Every core has a worker already: to cut code in pieces for several threads costs a sixth more.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_parallel_codegen_split_count=1")
# PyMC's own fits in the tests are so short that compiling them by C takes longer than they do.
os.environ.setdefault("PYTENSOR_FLAGS", "cxx=")

collect_ignore = [] if find_spec("pyro") else ["docs/libraries-pyro.md"]  # make test-large runs it


# The files that take longest, first: the last of several workers to end decides how long it takes.
LONGEST = (
    "paper/test_experiments.py", "docs/libraries.md", "adapters/test_stan.py",
    "adapters/test_numpyro_guides.py", "calibration/test_execution.py",
    "deterministic/test_solver.py", "report/test_browser.py", "calibration/test_vsbc.py",
    "adapters/test_pymc.py",
    "families/test_families.py", "checking/test_check.py", "paper/test_page.py",
    "docs/when-it-fails.md", "docs/index.md",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    """Put the longest files first; within a file the order stays."""
    items.sort(key=lambda item: _place(item.path))


def _place(path):
    file = f"{path.parent.name}/{path.name}"
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    import vicheck

    doctest_namespace["vicheck"] = vicheck
