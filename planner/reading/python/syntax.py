"""Python as syntax: parsed, never run."""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache


@lru_cache(maxsize=4)  # a text is asked whether it is code, then read, then read again
def parsed(text: str) -> ast.Module | None:
    """Return the tree of code; None for other text.

    >>> parsed("x = (") is None
    True
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes that are none
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
