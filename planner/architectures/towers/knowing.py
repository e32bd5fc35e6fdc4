"""Readers whose answer may be missing without the model being unknown."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from planner.errors import UnknownArchitecture
from planner.model import MediaItem

P = ParamSpec("P")
Items = tuple[MediaItem, ...]
RGB = 3


def if_known(reader: Callable[P, Items]) -> Callable[P, Items]:
    """Return nothing where a config lacks what the weights do not depend on."""

    @wraps(reader)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Items:
        try:
            return reader(*args, **kwargs)
        except (UnknownArchitecture, TypeError, ValueError, ArithmeticError):
            return ()

    return guarded
