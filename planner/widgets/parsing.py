"""What people type into an entry, turned into vLLM's values, and back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from planner.errors import PlannerError
from planner.export.values import checked, from_text
from planner.units import SUFFIX_FACTORS

_NUMBER = re.compile(r"[0-9][0-9,_ ]*\Z", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,18}\Z", re.ASCII)
_HUMAN = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)([kKmMgG])\Z", re.ASCII)
_LONGEST_NUMBER = 24
AUTO_LENGTH = -1
"""vLLM's number for "the longest that fits"."""

_ITEMS = re.compile(r"[,\s]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How a text becomes a value, and a value a text."""

    kind: str
    """How a page shows it: number, text, json."""
    parse: Callable[[str, str], Any]
    """Takes the argument's name for its error, and the text."""
    write: Callable[[Any], str] = str


def parse_count(name: str, text: str) -> int:
    """Read a whole number as vLLM's command line does: 8192, 8k (8000) or 8K (8192).

    Raises:
        PlannerError: when the text is no such number.

    Source: vLLM 0.33.0 `engine/arg_utils.py` human_readable_int.
    """
    is_plain = len(text) <= _LONGEST_NUMBER and _NUMBER.match(text) is not None
    number = int(re.sub(r"[,_ ]", "", text)) if is_plain else _human(name, text)
    if number < 1:
        raise PlannerError(f"{name} is {text}. Give a whole number of at least 1.")
    return number


def parse_from_nothing(name: str, text: str) -> int:
    """Read a whole number as above, or 0.

    Raises:
        PlannerError: when the text is no such number.
    """
    return 0 if text == "0" else parse_count(name, text)


def parse_sizes(name: str, text: str) -> list[int]:
    """Read whole numbers between commas or spaces.

    Raises:
        PlannerError: when one of them is none.
    """
    items = [item for item in _ITEMS.split(text.strip("[] ")) if item]
    return [parse_count(name, item) for item in items]


def parse_length(name: str, text: str) -> int:
    """Read a length: a whole number, or `auto` for the longest that fits.

    Raises:
        PlannerError: when the text is neither.
    """
    if text.lower() in ("auto", "-1"):
        return AUTO_LENGTH
    return parse_count(name, text)


def parse_whole(name: str, text: str) -> int:
    """Read a whole number that may be nothing or negative; short forms as well.

    Raises:
        PlannerError: when the text is no such number, or vLLM would not take it.
    """
    number = int(text) if _WHOLE.match(text) else parse_count(name, text)
    return int(checked(name, number))


def parse_number(name: str, text: str) -> float:
    """Read a number with or without decimals.

    Raises:
        PlannerError: when the text is none, or vLLM would not take it.
    """
    try:
        number = float(text) if len(text) <= _LONGEST_NUMBER else math.inf
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise PlannerError(
            f"{name} was not understood: {_short(text)}. Type a number, such as 0.9; "
            "empty: vLLM's choice."
        )
    return float(checked(name, number))


def parse_text(name: str, text: str) -> Any:  # noqa: ANN401 - as vLLM types it
    """Take a text as it is, or what it stands for where vLLM types it otherwise.

    Raises:
        PlannerError: when vLLM would not take it.
    """
    return from_text(name, text)


def parse_list(name: str, text: str) -> Any:  # noqa: ANN401 - a list of vLLM's types
    """Read items between commas or spaces, or a JSON list.

    Raises:
        PlannerError: when an item is not what vLLM takes.
    """
    if text.startswith("["):
        return checked(name, parse_json(name, text, unchecked=True))
    items = [item for item in _ITEMS.split(text) if item]
    values = [int(item) if _WHOLE.match(item) else item for item in items]
    if name != "cudagraph_capture_sizes":
        values = [*items]
    return checked(name, values)


def parse_json(name: str, text: str, *, unchecked: bool = False) -> Any:  # noqa: ANN401 - any JSON
    """Read a table or another JSON value.

    Raises:
        PlannerError: saying where the text stops being JSON.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        where = _where(error)
        raise PlannerError(
            f"{name} is no JSON{where}. Type a table such as "
            '{"name": 1}, with double quotes; empty: vLLM\'s choice.'
        ) from None
    return value if unchecked else checked(name, value)


def _where(error: Exception) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return ""
    return f" (line {error.lineno}, column {error.colno}: {error.msg.lower()})"


def _no_constant(text: str) -> None:
    raise ValueError(text)


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_NUMBER else f"{text[:20]}...")


def write_json(value: object) -> str:
    """Write a table as JSON.

    >>> write_json({"image": 2})
    '{"image": 2}'
    """
    return json.dumps(_plain(value), ensure_ascii=False)


def write_list(value: object) -> str:
    """Write items with commas between; what holds commas or spaces, as JSON.

    >>> write_list((1, 2)), write_list(["a b"])
    ('1, 2', '["a b"]')
    """
    items = _plain(value)
    if not isinstance(items, list):
        return str(items)
    words = [str(item) for item in items]
    is_plain = all(
        word and not _ITEMS.search(word) and word[0] not in '["' for word in words
    )
    return ", ".join(words) if is_plain and words else write_json(items)


def write_number(value: object) -> str:
    """Write a number without the floating-point dust that a page adds.

    >>> write_number(0.9199999999999999), write_number(8192)
    ('0.92', '8192')
    """
    return str(round(value, 6)) if isinstance(value, float) else str(value)


def _plain(value: object) -> object:
    """Return tables and lists of any kind as JSON knows them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _human(name: str, text: str) -> int:
    match = _HUMAN.match(text)
    if match is None:
        words = "a number, auto" if name == "max_model_len" else "a whole number"
        raise PlannerError(
            f"{name} was not understood: {_short(text)}. Type {words} or 32K; "
            "empty: vLLM's choice."
        )
    return int(float(match[1]) * SUFFIX_FACTORS[match[2]])


COUNT = Entry(kind="number", parse=parse_count, write=write_number)
FROM_NOTHING = Entry(kind="number", parse=parse_from_nothing, write=write_number)
LENGTH = Entry(kind="number", parse=parse_length, write=write_number)
WHOLE = Entry(kind="number", parse=parse_whole, write=write_number)
NUMBER = Entry(kind="number", parse=parse_number, write=write_number)
TEXT = Entry(kind="text", parse=parse_text)
LIST = Entry(kind="text", parse=parse_list, write=write_list)
SIZES = Entry(kind="text", parse=parse_sizes, write=write_list)
JSON = Entry(kind="json", parse=parse_json, write=write_json)
