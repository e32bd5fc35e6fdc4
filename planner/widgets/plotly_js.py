"""plotly.js for the page: its basic bundle, which draws bars and lines.

The bundle inside the plotly package draws 47 kinds of traces and is four times as
large; a browser takes twice as long until it can draw the first bar
(`docs/performance.md`). The basic bundle is on npm only, so it comes with this package,
unchanged and under its own licence. `python tools/plotly_bundle.py VERSION` takes
another version.
"""

from __future__ import annotations

from pathlib import Path

FILE_NAME = "plotly-basic.min.js"
VENDORED = Path(__file__).parent / "vendored"


def for_page() -> bytes:
    """Return the JavaScript that a page with memory bars needs."""
    return (VENDORED / FILE_NAME).read_bytes()
