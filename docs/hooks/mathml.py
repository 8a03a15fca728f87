"""Formulas become MathML when the site is built: pages need no script and no network.

Arithmatex finds what stands between dollars, outside of code; this hook of MkDocs turns it into
MathML Core, which all browsers draw.
"""

import html
import re
from typing import Any

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
_FUNCTION = re.compile("<mi>(log|ln)</mi>(?!<mo)")  # TeX has a space after it, MathML has none


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Replace the formulas of a page; a command that is not known stops the build."""
    return _FORMULA.sub(lambda found: _mathml(found, page.file.src_uri), content)


def _mathml(found: re.Match[str], page: str) -> str:
    from latex2mathml.converter import convert
    from mkdocs.exceptions import PluginError

    latex = html.unescape(found["latex"]).strip()
    block = found["tag"] == "div"
    mathml = convert(latex, display="block" if block else "inline")
    if "\\" in mathml:
        raise PluginError(f"{page}: no MathML for {latex!r}")
    mathml = mathml.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")  # a relation
    mathml = _FUNCTION.sub(r'\g<0><mspace width="0.17em" />', mathml)
    return f'<div class="formula">{mathml}</div>' if block else mathml
