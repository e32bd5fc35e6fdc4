"""What axe-core finds in Sphinx's own HTML, put right in the written page.

A parameter on a line of its own is a `dd` without a `dt`, and the empty corner of a
table is a head without a text: lines and a plain cell say the same to the eye.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_PARAMETERS = re.compile(r'<dl>\n((?:<dd><em class="sig-param">.*?</dd>\n)+)</dl>')
_EMPTY_HEAD = re.compile(r"<th class=\"head[^\"]*\">(?:<p></p>)?</th>")


def mended(html: str) -> str:
    """Return a page's text without those two."""
    return _EMPTY_HEAD.sub("<td></td>", _PARAMETERS.sub(_as_lines, html))


def _as_lines(found: re.Match[str]) -> str:
    lines = found[1].replace("<dd>", '<span class="sig-line">')
    return lines.replace("</dd>", "</span>")


def _on_page(
    _app: Sphinx,
    _page: str,
    _template: str,
    context: dict[str, Any],
    _doctree: nodes.document | None,
) -> None:
    if "body" in context:
        context["body"] = mended(context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx when to ask."""
    app.connect("html-page-context", _on_page)
    return {"parallel_read_safe": True}
