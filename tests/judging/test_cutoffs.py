"""Cut-offs have one home."""

import ast
from pathlib import Path

import pytest

from vicheck.judging import cutoffs

JUDGING = Path(cutoffs.__file__).parent
MODULES = sorted(set(JUDGING.rglob("*.py")) - {Path(cutoffs.__file__)})
NOT_CUTOFFS = {"_NAMED"}  # how many quantities a sentence names


def numbers_in(path):
    """Return the names at the top of a module that hold a number."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.Tuple):
            values = getattr(node.value, "elts", [node.value])
            if any(isinstance(each, ast.Constant) and type(each.value) in (int, float)
                   for each in values):  # fmt: skip
                yield ast.unparse(node.targets[0])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(JUDGING)))
def test_no_other_module_has_a_number_of_its_own(path):
    assert set(numbers_in(path)) <= NOT_CUTOFFS


def test_the_home_names_what_it_has_and_what_it_reads():
    assert "SMALL_BIAS" in set(numbers_in(Path(cutoffs.__file__)))
    assert set(numbers_in(Path(cutoffs.__file__))) <= set(cutoffs.__all__)
    assert (cutoffs.GOOD_BELOW, cutoffs.USABLE_BELOW) == (0.5, 0.7)
    assert (cutoffs.MAX_RHAT, cutoffs.MAX_ITERATE_MCSE) == (1.1, 0.05)
