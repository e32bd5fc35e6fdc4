"""Interactive pieces of lessons: HTML with the script that makes it interactive.

Unlike the explorer's widgets they need no kernel: what they show is computed before and
written beside them. So they work in a notebook, in one that was run before, in slides
and in a file of its own. Where no script runs, their fallback stays.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from planner.app.widgets.static_files import script, sheet
from planner.show.document import style, wide_style
from planner.show.html import Html, fragment, tag

if TYPE_CHECKING:
    from planner.learn.display import ShownAsPage

_WIDGET = "\nexport default {\n"
_PAGE = """\
:root { color-scheme: light dark; }
body {
  margin: 0; padding: 16px; background: Canvas; color: CanvasText;
  font: 16px/1.5 system-ui, sans-serif;
}
main { max-width: 1100px; margin: 0 auto; }
"""


def piece_html(name: str, state: Mapping[str, Any], fallback: Html) -> Html:
    """Write a piece whose script finds `state` beside it.

    Args:
        name: of the script, such as "slide.js": a module of a widget.
        state: what its `model` holds.
        fallback: what is shown where no script runs.
    """
    written = json.dumps(state, separators=(",", ":")).replace("<", "\\u003c")
    return tag(
        "div",
        tag(
            "style",
            style(),
            wide_style(),
            Html(sheet("chart.css", "pieces.css", "film.css")),
        ),
        tag("div", fallback, class_="planner-piece pl-plan"),
        tag("script", Html(written), type="application/json"),
        tag("script", Html(_program(name))),
        class_="planner-piece-whole",
    )


def page_html(title: str, *pieces: Html) -> str:
    """Write pieces as a page of its own, which loads nothing."""
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(_PAGE)),
    )
    body = tag("main", tag("h1", title), pieces)
    page = tag("html", tag("head", head), tag("body", body), lang="en")
    return fragment(Html("<!doctype html>"), page)


def html(shown: ShownAsPage) -> Html:
    """Show a piece of a lesson."""
    return piece_html(shown.script, shown.described(), shown.table())


def page(shown: ShownAsPage) -> str:
    """Show a piece of a lesson as a page of its own."""
    return page_html(shown.page_title, html(shown))


def script_source(name: str) -> str:
    """Return the source that a page's policy has to allow, for a piece's script."""
    digest = hashlib.sha256(_program(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


_END = "<" + "/script"
"""In a page, the first one would end the script."""


@cache
def _program(name: str) -> str:
    """Return a widget's script as a program of its own, which starts by itself.

    A page runs it where it is written, however often: its names are its own.
    """
    widget = f"\n{script(name)}".replace(_WIDGET, "\nconst widget = {\n")
    program = f'(() => {{\n"use strict";\n{script("alone.js")}{widget}'
    assert _END not in program
    return f"{program}alone(widget, document.currentScript);\n}})();\n"
