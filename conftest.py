"""Names that the examples in docstrings and documentation may use, and which of them can run."""

from importlib.util import find_spec

import pytest

collect_ignore = [] if find_spec("pyro") else ["docs/libraries-pyro.md"]  # make test-pyro runs it


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    import vicheck

    doctest_namespace["vicheck"] = vicheck
