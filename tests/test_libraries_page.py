"""The table of libraries: every row has a test, and every function a row."""

import ast
import re
from pathlib import Path

import pytest

import vicheck

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "libraries.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| library", "|---"))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}, {row[1]}")
def test_the_test_of_a_row_is_there(row):
    path, name = row[-1].strip("`| ").split("::")
    functions = {
        node.name
        for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert name in functions


def test_every_way_in_has_a_row():
    ways = {name for name in vicheck.__all__ if re.match(r"(check|from|read|vsbc)_", name)}
    named = {name for row in ROWS for name in re.findall(r"vicheck\.(\w+)\(", row[2])}
    assert ways - {"from_log_density", "from_shards"} <= named
    assert named <= set(vicheck.__all__)
