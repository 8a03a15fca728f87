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

collect_ignore = [] if find_spec("pyro") else ["docs/libraries-pyro.md"]  # make test-large runs it


# The files that take longest, first: the last of several workers to end decides how long it takes.
LONGEST = (
    "test_experiments.py", "libraries.md", "test_stan.py", "test_numpyro_guides.py",
    "test_blackjax.py", "test_cli_check.py", "test_cli_vsbc.py", "test_page.py", "test_pymc.py",
    "when-it-fails.md", "index.md",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    """Put the longest files first; within a file the order stays."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else 99)


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    import vicheck

    doctest_namespace["vicheck"] = vicheck
