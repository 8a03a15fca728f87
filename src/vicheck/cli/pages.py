"""How help looks: a page of at most 80 columns, plain in a pipe and in colour on a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any

from rich.text import Text
from typer import Exit
from typer.core import TyperCommand, TyperGroup

from vicheck.cli.failures import EX_USAGE
from vicheck.cli.printing import console

__all__ = ["Command", "Group"]

_STYLES = {
    r"(?m)^(?:Usage:|[A-Z][^\n]*:$)": "bold",  # headings
    r"(?m)^  \$ (?P<example>.*)$": "cyan",
    r"(?m)(?<=^  )[a-z]+(?=  )": "bold cyan",  # commands, at the start of their lines
    r"(?<=[\s,])--?[a-z][a-z-]*": "bold cyan",
}


class _Page:
    """What a page of a command and one of a group have in common."""

    help: str | None
    epilog: str | None
    get_params: Callable[[Any], list[Any]]

    def get_help(self, ctx: Any) -> str:
        """Return the page, in colour where it will be seen in colour."""
        page: str = super().get_help(ctx)  # type: ignore[misc]
        out = console()
        if not out.is_terminal or out.color_system is None:
            return page
        text = Text(page)
        for pattern, style in _STYLES.items():
            text.highlight_regex(pattern, style)
        with out.capture() as captured:
            out.print(text, soft_wrap=True, end="")
        return captured.get()

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what stands above the options."""
        _write(self.help, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, without Typer's types and bounds."""
        parts: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for parameter in self.get_params(ctx):
            name, text = parameter.get_help_record(ctx)
            text = re.sub(r"(?<=\S); x>=[^\]]*|  \[(?:x>=[^\]]*|required)\]", "", text)
            parts[parameter.param_type_name].append((re.sub(r" <.*>$", "", name), text))
        for kind, rows in parts.items():
            if rows:
                with formatter.section(f"{kind.capitalize()}s"):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write what stands below the options."""
        _write(self.epilog, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, arguments without Typer's braces."""
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [re.sub("[{}]", "", piece) for piece in pieces]


def _write(text: str | None, formatter: Any) -> None:
    """Write paragraphs: what is indented stays as it is, the rest is wrapped to the width."""
    for paragraph in (text or "").strip("\n").split("\n\n"):
        lines = paragraph.split("\n")
        if any(line.startswith(" ") for line in lines):
            filled = paragraph
        else:
            filled = textwrap.fill(" ".join(lines), formatter.width, break_on_hyphens=False)
        formatter.write(f"\n{filled}\n" if filled else "")


class Command(_Page, TyperCommand):
    """A command whose help is a page."""


class Group(_Page, TyperGroup):
    """Commands whose list is a page; without a command it is printed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the page when there is nothing to parse."""
        if not args and not ctx.resilient_parsing:
            print(self.get_help(ctx))
            raise Exit(EX_USAGE)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands before the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)
