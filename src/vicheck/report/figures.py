"""Figures for a page: vector graphics that take the page's colours and can be read aloud."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from markupsafe import Markup, escape

from vicheck.errors import NothingToShowError
from vicheck.plain_text import plain_lines
from vicheck.plots.style import COLORS, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "as_inline_svg", "picture_of"]

_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    COLORS["vi"]: "var(--vi)",
    COLORS["psis"]: "var(--psis)",
    COLORS["soft"]: "var(--soft)",
}
"""Colours that differ between a light and a dark page."""


@dataclass(frozen=True)
class Picture:
    """A figure with its caption, or the reason why there is none."""

    svg: Markup
    caption: str
    missing: str = ""


def picture_of(draw: Callable[[], Figure], alternative: str, caption: str) -> Picture:
    """Draw a figure, or say why it cannot be drawn."""
    try:
        figure = draw()
    except NothingToShowError as error:
        return Picture(Markup(), caption, str(error))
    return Picture(as_inline_svg(figure, alternative), caption)


def _with_variables(style: re.Match[str]) -> str:
    text = style.group()
    for color, variable in _VARIABLES.items():
        text = text.replace(color.lower(), variable)
    return text


def as_inline_svg(figure: Figure, alternative: str) -> Markup:
    """Return a figure as an element of HTML, with a text that stands for it."""
    buffer = io.StringIO()
    # Text stays text, which can be searched and takes the page's font.
    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": alternative,
        "text.parse_math": False,
    }
    with mpl.rc_context(settings), warnings.catch_warnings():
        # The browser has the letters that Matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(
            buffer,
            format="svg",
            dpi=130,
            facecolor="none",
            metadata={"Date": None, "Creator": None},
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r'<svg[^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" @>', text, count=1)
    text = re.sub(r' id="[a-z0-9]+_\d+"', "", text)  # which nothing refers to
    text = re.sub(r'style="[^"]*"', _with_variables, text)
    width = figure.get_size_inches()[0]
    head = f'role="img" style="max-width: {1.1 * width:.2f}in" aria-label="{escape(alternative)}"'
    return Markup(plain_lines(re.sub(r"\s*\n\s*", "\n", text.replace("@", head, 1))))
