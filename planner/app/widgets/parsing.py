"""Parses entries of the user into vLLM's values, and writes values as entries."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from planner.engine.arguments import ARGUMENTS, Kind
from planner.engine.flags import plain
from planner.engine.human_numbers import decimal_words, human_int
from planner.errors import PlannerError
from planner.export.values import checked, from_text
from planner.values import frozen

_NUMBER = re.compile(r"[0-9][0-9,_ ]*\Z", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,18}\Z", re.ASCII)
_HUMAN = re.compile(r"[0-9.]+[kKmMgGtT]\Z", re.ASCII)
_LONGEST_NUMBER = 24
AUTO_LENGTH = -1
"""vLLM's number for "the longest that fits"."""
_ITEMS = re.compile(r"[,\s]+")


@frozen
class Notation:
    """How a text is parsed into a value, and a value written as text."""

    kind: str
    """How a page shows it: number, text, json."""
    parse: Callable[[str, str], Any]
    """Takes the argument's name, for its error, and the text."""
    write: Callable[[Any], str] = str


def whole_number(text: str) -> int | None:
    """Read a whole number as vLLM's command line does: 8192, 8k (8000) or 8K (8192).

    Commas and spaces may group its digits. None where it is not one. The page reads
    numbers the same way (`static/numbers.js`); `tests/data/number_cases.json` tests
    both.

    >>> whole_number("8,192"), whole_number("1.5k"), whole_number("1.5K")
    (8192, 1500, None)
    """
    if len(text) <= _LONGEST_NUMBER and _NUMBER.match(text):
        return int(re.sub(r"[,_ ]", "", text))
    return human_int(text) if _HUMAN.match(text) else None


def decimal_number(text: str) -> float | None:
    """Read a number with or without decimals; None where it is not one.

    >>> decimal_number("0.9"), decimal_number("8k"), decimal_number("inf")
    (0.9, None, None)
    """
    try:
        number = float(text) if len(text) <= _LONGEST_NUMBER else math.inf
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def parse_count(name: str, text: str) -> int:
    """Read a whole number of at least 1.

    Raises:
        PlannerError: when the text is not such a number.
    """
    number = whole_number(text)
    if number is None and (words := decimal_words(text)):
        raise PlannerError(f"{name} was not understood: {_short(text)}. {words}")
    if number is None:
        words = "a number, auto" if name == "max_model_len" else "a whole number"
        raise PlannerError(
            f"{name} was not understood: {_short(text)}. Type {words} or 32K; "
            "empty: vLLM's choice."
        )
    if number < 1:
        raise PlannerError(f"{name} is {text}. Give a whole number of at least 1.")
    return number


def parse_from_nothing(name: str, text: str) -> int:
    """Read a whole number of at least 0.

    Raises:
        PlannerError: when the text is not such a number.
    """
    return 0 if text == "0" else parse_count(name, text)


def parse_sizes(name: str, text: str) -> list[int]:
    """Read whole numbers between commas or spaces.

    Raises:
        PlannerError: when one of them is not a number.
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
    """Read a whole number that may be 0 or negative, short forms included.

    Raises:
        PlannerError: when the text is not a number, or vLLM would not accept it.
    """
    number = int(text) if _WHOLE.match(text) else parse_count(name, text)
    return int(checked(name, number))


def parse_number(name: str, text: str) -> float:
    """Read a number with or without decimals.

    Raises:
        PlannerError: when the text is not a number, or vLLM would not accept it.
    """
    number = decimal_number(text)
    if number is None:
        raise PlannerError(
            f"{name} was not understood: {_short(text)}. Type a number, such as 0.9; "
            "empty: vLLM's choice."
        )
    return float(checked(name, number))


def parse_list(name: str, text: str) -> Any:  # noqa: ANN401 - a list of vLLM's types
    """Read items between commas or spaces, or a JSON list.

    Raises:
        PlannerError: when vLLM would not accept an item.
    """
    if text.startswith("["):
        return checked(name, parse_json(name, text, unchecked=True))
    items = [item for item in _ITEMS.split(text) if item]
    if ARGUMENTS[name].kind is Kind.NUMBERS:
        return checked(name, [int(one) if _WHOLE.match(one) else one for one in items])
    return checked(name, items)


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
            f"{name} is not valid JSON{where}. Type a table such as "
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
    return json.dumps(plain(value), ensure_ascii=False)


def write_list(value: object) -> str:
    """Write items separated by commas, or as JSON where they contain separators.

    >>> write_list((1, 2)), write_list(["a b"])
    ('1, 2', '["a b"]')
    """
    items = plain(value)
    if not isinstance(items, list):
        return str(items)
    words = [str(item) for item in items]
    is_plain = all(
        word and not _ITEMS.search(word) and word[0] not in '["' for word in words
    )
    return ", ".join(words) if is_plain and words else write_json(items)


def write_number(value: object) -> str:
    """Write a number without the floating-point error that a page adds.

    >>> write_number(0.9199999999999999), write_number(8192)
    ('0.92', '8192')
    """
    return str(round(value, 6)) if isinstance(value, float) else str(value)


COUNT = Notation(kind="number", parse=parse_count, write=write_number)
FROM_NOTHING = Notation(kind="number", parse=parse_from_nothing, write=write_number)
LENGTH = Notation(kind="number", parse=parse_length, write=write_number)
WHOLE = Notation(kind="number", parse=parse_whole, write=write_number)
NUMBER = Notation(kind="number", parse=parse_number, write=write_number)
TEXT = Notation(kind="text", parse=from_text)
LIST = Notation(kind="text", parse=parse_list, write=write_list)
SIZES = Notation(kind="text", parse=parse_sizes, write=write_list)
JSON = Notation(kind="json", parse=parse_json, write=write_json)
