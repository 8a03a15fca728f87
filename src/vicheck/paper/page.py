"""The claims of the paper and what came out, as one page of HTML or Markdown."""

from __future__ import annotations

import base64
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from vicheck.files.durable import whole_file
from vicheck.paper.drawing import as_svg
from vicheck.paper.experiment import Claim, Outcome
from vicheck.paper.results import Result, read_results, write_figure

__all__ = ["as_html", "as_markdown", "claims_of", "write_docs"]


def claims_of(results: Sequence[Result]) -> list[Claim]:
    """Return the claims of all results."""
    return [
        replace(claim, where=f"{claim.where}, as scripted") if each.as_scripted else claim
        for each in results
        for claim in each.experiment.claims(each.numbers)
    ]


def as_html(results: Sequence[Result]) -> str:
    """Return a page that stands alone, figures included."""
    pictures = {
        each.label: base64.b64encode(as_svg(each.experiment.draw, each.numbers).encode()).decode()
        for each in results
    }
    return _render("page.html", results, pictures=pictures)


def as_markdown(results: Sequence[Result]) -> str:
    """Return the page for the documentation; figures are files beside it."""
    return _render("page.md", results)


def _render(template: str, results: Sequence[Result], **more: Any) -> str:
    environment = Environment(
        loader=PackageLoader("vicheck.paper", "templates"),
        undefined=StrictUndefined,
        autoescape=template.endswith("html"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    claims = claims_of(results)
    printed = claims_of([each for each in results if not each.as_scripted])
    counts = Counter(claim.outcome for claim in printed)
    return environment.get_template(template).render(
        results=results,
        claims=claims,
        counts=[(outcome, counts[outcome]) for outcome in Outcome if counts[outcome]],
        quick=any(each.quick for each in results),
        synthetic=any(each.is_synthetic for each in results),
        minutes=sum(each.seconds for each in results) / 60,
        **more,
    )


def write_docs(directory: Path) -> None:
    """Write the page of the documentation, and its figures, from the numbers in a directory."""
    results = read_results(directory)
    for each in results:
        write_figure(directory, each)
    with whole_file(directory / "index.md") as file:
        file.write(as_markdown(results).encode())


if __name__ == "__main__":  # python -m vicheck.paper.page docs/paper
    write_docs(Path(sys.argv[1]))
