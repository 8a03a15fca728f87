"""A summary as a page of HTML that stands alone."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write_page"]

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font-family: system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }}
pre {{ white-space: pre-wrap; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 0.2rem 0.6rem; text-align: right; border: 0; border-bottom: 1px solid #ddd; }}
</style>
<h1>{title}</h1>
<pre>{summary}</pre>
<h2>All quantities</h2>
{table}
</html>
"""


def write_page(path: str | Path, title: str, summary: str, moments: pd.DataFrame) -> None:
    """Write a summary and the table of moments."""
    table = moments.to_html(float_format=lambda number: f"{number:.4g}", border=0)
    page = _PAGE.format(title=escape(title), summary=escape(summary), table=table)
    Path(path).write_text(page, encoding="utf-8")
