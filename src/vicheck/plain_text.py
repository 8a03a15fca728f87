"""Makes text from elsewhere safe to show: it cannot control a terminal, and is not too long."""

from __future__ import annotations

import unicodedata

__all__ = ["plain", "plain_lines", "shortened"]

_BIDI = "\u061c\u200e\u200f" + "".join(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
_BREAKS = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
_MARK = "\N{REPLACEMENT CHARACTER}"
_CUT = ".."

_controls = [c for c in map(chr, range(0xA0)) if unicodedata.category(c) == "Cc"]
_surrogates = range(0xD800, 0xE000)
_PLAIN = {
    **dict.fromkeys(map(ord, (*_controls, *_BIDI)), _MARK),
    **dict.fromkeys(_surrogates, _MARK),
    **dict.fromkeys(map(ord, _BREAKS), " "),
}
_LINES = {code: new for code, new in _PLAIN.items() if chr(code) not in "\t\n"}


def plain(text: str) -> str:
    r"""Return a text as one line that cannot control a terminal or reverse other text.

    Control characters, such as those that begin an escape sequence, and characters that set the
    direction of text are replaced by a mark, so that you can see something was there. Line breaks
    become spaces.

    Examples
    --------
    >>> plain("\x1b[32mgood\x1b[0m\nfit")
    '�[32mgood�[0m fit'
    """
    return text.translate(_PLAIN)


def plain_lines(text: str) -> str:
    """Return the same, but keep line breaks and tabs."""
    return text.translate(_LINES)


def shortened(name: str, longest: int) -> str:
    """Cut a name that is too long in its middle: its beginning and its index tell it from others.

    Examples
    --------
    >>> shortened("intercept_of_county[12]", 15)
    'interce..ty[12]'
    """
    if len(name) <= longest:
        return name
    back = (longest - len(_CUT)) // 2
    return name[: longest - len(_CUT) - back] + _CUT + name[len(name) - back :]
