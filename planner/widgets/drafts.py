"""Drafts of speculative decoding that the page reads beside it, as it reads models.

Planning asks for a draft by its name. What was read once is remembered by
`planner.sources.load` for a while, so a plan then waits for nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner import catalogue
from planner.sources.load import load, period

_WITHOUT = ("ngram", "ngram_gpu", "suffix", "[ngram]")
_MOST = 8


def named(request: Mapping[str, Any]) -> str:
    """Return the draft that a plan asks for by name; empty where it asks for none.

    >>> named({"speculative_config": {"model": "nobody/draft"}})
    'nobody/draft'
    """
    config = request.get("speculative_config")
    given = config if isinstance(config, Mapping) else {}
    method = given.get("method") or request.get("spec_method")
    name = given.get("model") or request.get("spec_model")
    is_name = isinstance(name, str) and name not in _WITHOUT
    return str(name) if is_name and method not in _WITHOUT else ""


class Drafts:
    """Which drafts have been read, and are still remembered."""

    def __init__(self) -> None:
        self._read: dict[str, int] = {}

    def must_be_read(self, name: str) -> bool:
        """Whether planning with it would ask the Hub."""
        if catalogue.find(name) is not None:
            return False
        return self._read.get(name) != period()

    def read(self, name: str) -> object:
        """Read its files, which then lie at hand.

        Raises:
            PlannerError: where there is no such model, or it cannot be had.
        """
        found = load(name)
        while len(self._read) >= _MOST:
            self._read.pop(next(iter(self._read)))
        self._read[name] = period()
        return found
