"""Scripts and style sheets of the widgets as the page needs them, and plotly.js.

The scripts are modules that import each other. anywidget accepts a single module per
widget, so what a module imports is written before it; `tests/app/test_scripts.py`
restricts the modules to the few forms of import and export that this handles.

plotly.js is its basic bundle, which draws bars and lines. The bundle inside the plotly
package draws 47 kinds of traces and is four times as large; a browser takes twice as
long to draw the first bar. The basic bundle is only on npm, so it is part of this
package, unchanged and under its own licence.
`python tools/plotly_bundle.py VERSION` installs another version.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from planner.show.document import tokens

STATIC = Path(__file__).parent / "static"
_IMPORT = re.compile(r'^import (?:\{[^}]*\} from )?"\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default )", re.MULTILINE)
_UNREAD = re.compile(
    r"^[ \t]*(?://[^\n]*|/\*\*(?:(?!\*/).)*\*/[ \t]*)?\n", re.MULTILINE | re.DOTALL
)
"""Lines that the browser does not need: comments and empty lines."""
FILE_NAME = "plotly-basic.min.js"
VENDORED = Path(__file__).parent / "vendored"


@cache
def script(name: str) -> str:
    """Return a module with everything that it imports, as one module."""
    return lean("".join(_without_imports(_read(one)) for one in _in_order(name)))


@cache
def sheet(*names: str) -> str:
    """Join style sheets, after the design's own variables."""
    return "\n".join([tokens(), *(_read(name) for name in names)])


def lean(source: str) -> str:
    r"""Remove empty lines, and comments on lines of their own, from a script.

    >>> lean("// why\nlet a; // what\n\n/** @type {Set} */\nlet b;\n")
    'let a; // what\nlet b;\n'
    """
    return _UNREAD.sub("", source)


def for_page() -> bytes:
    """Return plotly.js."""
    return (VENDORED / FILE_NAME).read_bytes()


def _in_order(name: str) -> tuple[str, ...]:
    """Return a module and those it imports, each after its own imports."""
    order: dict[str, None] = {}
    for imported in _IMPORT.findall(_read(name)):
        order |= dict.fromkeys(_in_order(imported))
    return (*order, name)


def _without_imports(source: str) -> str:
    return _EXPORT.sub("", _IMPORT.sub("", source))


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
