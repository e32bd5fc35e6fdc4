"""Whether this Python runs inside a web page, as it does in the browser edition.

There it has neither processes nor threads, and neither plotly nor pandas.
"""

from __future__ import annotations

import sys


def is_in_browser() -> bool:
    """Tell whether a web page holds this Python."""
    return sys.platform == "emscripten"
