"""Names that the examples in docstrings and documentation may use."""

import pytest


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    import vicheck

    doctest_namespace["vicheck"] = vicheck
