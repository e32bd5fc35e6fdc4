"""What people type into an entry, turned into vLLM's values."""

from __future__ import annotations

import re

from planner.errors import PlannerError
from planner.units import SUFFIX_FACTORS

_NUMBER = re.compile(r"[0-9][0-9,_ ]*\Z")
_HUMAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kKmMgG])\Z")
AUTO_LENGTH = -1
"""vLLM's number for "the longest that fits"."""


def parse_count(name: str, text: str) -> int:
    """Read a whole number as vLLM's command line does: 8192, 8k (8000) or 8K (8192).

    Raises:
        PlannerError: when the text is no such number.

    Source: vLLM 0.33.0 `engine/arg_utils.py` human_readable_int.
    """
    is_plain = _NUMBER.match(text) is not None
    number = int(re.sub(r"[,_ ]", "", text)) if is_plain else _human(name, text)
    if number < 1:
        raise PlannerError(f"{name} is {text}. Give a whole number of at least 1.")
    return number


def parse_length(name: str, text: str) -> int:
    """Read a length: a whole number, or `auto` for the longest that fits.

    Raises:
        PlannerError: when the text is neither.
    """
    if text.lower() in ("auto", "-1"):
        return AUTO_LENGTH
    return parse_count(name, text)


def _human(name: str, text: str) -> int:
    match = _HUMAN.match(text)
    if match is None:
        words = "auto, " if name == "max_model_len" else ""
        raise PlannerError(
            f"{name} was not understood: {text!r}. Type a whole number, {words}or a "
            "short form such as 32k (32,000) or 32K (32,768); leave it empty for "
            "vLLM's default."
        )
    return int(float(match[1]) * SUFFIX_FACTORS[match[2]])
