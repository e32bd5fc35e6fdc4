"""The values of flags, typed as vLLM's own parser types them, and unknown flags.

Source: vLLM 0.33.0 `utils/argparse_utils.py` FlexibleArgumentParser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from planner.engine import human_numbers
from planner.engine.arguments import ARGUMENTS, Argument, Kind
from planner.engine.releases import OLDEST_RELEASE
from planner.engine.server import SERVER_FLAGS, ServerFlag, Takes, takes_value
from planner.errors import close_words
from planner.units import counted, on_each

SWITCHES = {"true": True, "false": False}
_DECIMAL = (Kind.NUMBER, Kind.SHARE)
_PAIRS = re.compile(r"[A-Za-z_]\w*=\d{1,9}(?:,[A-Za-z_]\w*=\d{1,9})*", re.ASCII)
ALL_NUMBERS = (Kind.WHOLE, Kind.COUNT, Kind.LENGTH, Kind.SIZE, *_DECIMAL)


def is_switch(known: Argument | ServerFlag | None) -> bool:
    """Return whether a flag takes no value."""
    return known is not None and not takes_value(known)


def is_joined(known: Argument | ServerFlag) -> bool:
    """Return whether a flag's list is one word, with commas."""
    return isinstance(known, Argument) and known.joined


def typed(
    known: Argument | ServerFlag | None,
    texts: Sequence[str],
    *,
    path: tuple[str, ...] = (),
    is_off: bool = False,
) -> Any:  # noqa: ANN401 - vLLM's own types
    """Return a flag's values as vLLM's parser types them.

    >>> from planner.engine.arguments import ARGUMENTS
    >>> typed(ARGUMENTS["max_model_len"], ["8k"])
    8000
    """
    if not texts:
        return not is_off
    if path:
        return _of_path(texts[0])
    if is_switch(known):
        is_on = SWITCHES.get(texts[0].lower(), texts[0])
        return (not is_on) if is_off and isinstance(is_on, bool) else is_on
    if known is not None and known.is_list:
        return _items(known, texts)
    return _one(known, texts[0])


def _of_path(text: str) -> Any:  # noqa: ANN401 - any JSON
    """Read a value inside a table: JSON, a number with a suffix, True or False."""
    found = literal(text)
    if isinstance(found, str):
        number = human_numbers.human_int(found)
        found = SWITCHES.get(found.lower(), found if number is None else number)
    return found


def _items(known: Argument | ServerFlag, texts: Sequence[str]) -> list[Any]:
    if len(texts) == 1 and texts[0].startswith("["):
        found = literal(texts[0])
        return found if isinstance(found, list) else [texts[0]]
    words = texts[0].split(",") if is_joined(known) else texts
    if known.kind is not Kind.NUMBERS:
        return list(words)
    numbers = [human_numbers.plain_int(word) for word in words]
    return [
        word if number is None else number
        for word, number in zip(words, numbers, strict=True)
    ]


def _one(known: Argument | ServerFlag | None, text: str) -> Any:  # noqa: ANN401
    if known is None or isinstance(known, ServerFlag):
        is_text = known is not None and known.kind is not Takes.JSON
        return text if is_text and not text[:1].isdigit() else literal(text)
    if known.is_text:
        return text
    if human_numbers.is_whole(known):
        return human_numbers.typed(known, text, OLDEST_RELEASE)
    if known.kind in _DECIMAL:
        try:
            return float(text)
        except ValueError:
            return text
    return text if known.kind in (Kind.TEXT, Kind.CHOICE) else literal(text)


def table_of_pairs(
    known: Argument | ServerFlag | None, texts: Sequence[str]
) -> dict[str, int] | None:
    """Return a table that is written as vLLM took it before 0.10; None for others.

    >>> table_of_pairs(ARGUMENTS["limit_mm_per_prompt"], ["image=2,video=0"])
    {'image': 2, 'video': 0}
    """
    is_table = isinstance(known, Argument) and known.kind is Kind.TABLE
    if not is_table or len(texts) != 1 or not _PAIRS.fullmatch(texts[0]):
        return None
    pairs = (pair.split("=") for pair in texts[0].split(","))
    return {name: int(number) for name, number in pairs}


def literal(text: str) -> Any:  # noqa: ANN401 - any JSON
    """Return JSON as its value, any other text as it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def unknown_notes(names: Sequence[str]) -> list[str]:
    """Return a sentence on each of the first names, and one on all others."""
    return on_each(
        names,
        lambda name, shown: (
            f"{shown} is not an argument of any release of vLLM.{_nearest(name)}"
        ),
        lambda others, shown: (
            f"No release of vLLM has {counted(others, 'more names')} of the text, such "
            f"as {shown}."
        ),
    )


@lru_cache(maxsize=256)
def _nearest(written: str) -> str:
    name = written.lstrip("-").partition(".")[0].replace("-", "_")
    near = close_words(name, [*ARGUMENTS, *SERVER_FLAGS])
    if not near:
        return ""
    is_flag = written.startswith("-")
    return f" Did you mean {'--' + near[0].replace('_', '-') if is_flag else near[0]}?"
