"""Which of Stan's headers a program needs: compiling all takes longer than the program.

Stan's mathematics has a header for about every function, and headers of headers that include a
whole directory of them. A program needs those that define a name it uses, what these include, and
those that define what these use in turn, for whatever type: some rely on the order in which Stan
includes everything. They are included in that order, and the headers of headers are switched off.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path, PurePosixPath

__all__ = ["all_headers", "needed_headers"]

_ALL = "stan/math.hpp"
_ALWAYS = ("stan/model/model_header.hpp", "stan/io/array_var_context.hpp")
"""What the bridge includes, beside what is mentioned in the program."""
_WHOLE = {"core", "err", "meta"}
"""Directories that everything needs, and that are included as a whole."""
_ELSEWHERE = ("stan/math/opencl", "stan/math/mix", "stan/math/fwd")
"""What is included under conditions that do not hold."""

_INCLUDE = re.compile(r"^ *# *include *<(stan/[^>]+)>", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_USED = re.compile(r"\b([A-Za-z]\w*)\s*[(<]")
_DEFINED = re.compile(r"^(?=[A-Za-z])[^(\n]*?\b(\w+)\(", re.MULTILINE)
_GUARD = re.compile(r"^#ifndef (\w+)", re.MULTILINE)


def all_headers() -> str:
    """Return the text of a header that includes all of Stan's mathematics."""
    return f"#include <{_ALL}>\n"


def needed_headers(code: str, include: Path) -> str:
    """Return the text of a header that includes what the code of a program needs.

    Where one is missing the program does not compile, as a function is not there, or computes the
    same by a more general definition of the function.
    """
    stan = _headers_of(include)
    lines = [f"#define {guard}" for guard in map(stan.guard, stan.collections) if guard]
    lines += [f"#include <{name}>" for name in stan.needed(code)]
    return "\n".join([*lines, ""])


@cache
def _headers_of(include: Path) -> _Headers:
    return _Headers(include)


class _Headers:
    """Stan's headers as a graph, and where names are defined."""

    def __init__(self, include: Path) -> None:
        self._include = include
        self._texts: dict[str, str] = {}
        self._order: dict[str, None] = {}
        self._open(_ALL)
        self.collections = [name for name in self._order if self._collects(name)]
        self._defining: dict[str, set[str]] = defaultdict(set)
        for name in self._order:
            for defined in (PurePosixPath(name).stem, *_DEFINED.findall(self._text(name))):
                self._defining[defined].add(name)

    def needed(self, code: str) -> list[str]:
        """Return the headers that code needs, in the order in which Stan includes them."""
        found: set[str] = set()
        todo = [*_ALWAYS, *self.that_define(code)]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += self._asked_for_by(name)
        return [name for name in self._order if name in found and not self._collects(name)]

    def guard(self, name: str) -> str | None:
        """Return the macro that keeps a header from being included twice."""
        guard = _GUARD.search(self._text(name))
        return guard[1] if guard else None

    def that_define(self, text: str) -> set[str]:
        """Return the headers that define a name which a text uses."""
        return set().union(*(self._defining.get(used, ()) for used in set(_USED.findall(text))))

    def _asked_for_by(self, name: str) -> Iterable[str]:
        if not self._collects(name):
            yield from self._included(name)
            yield from self.that_define(f"{PurePosixPath(name).stem}({self._text(name)}")

    def _open(self, name: str) -> None:
        """Note headers in the order in which a compiler opens them."""
        if name not in self._order:
            self._order[name] = None
            for each in self._included(name):
                self._open(each)

    def _collects(self, name: str) -> bool:
        path = self._include / name
        in_math = name == _ALL or name.startswith("stan/math/")
        return in_math and path.stem not in _WHOLE and path.with_suffix("").is_dir()

    def _included(self, name: str) -> list[str]:
        every = _INCLUDE.findall(self._text(name))
        return [
            each
            for each in every
            if not each.startswith(_ELSEWHERE) and (self._include / each).is_file()
        ]

    def _text(self, name: str) -> str:
        """Return a header without its comments."""
        if name not in self._texts:
            text = (self._include / name).read_text(encoding="utf-8")
            self._texts[name] = _COMMENT.sub("", text)
        return self._texts[name]
