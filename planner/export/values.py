"""Engine arguments as text and back: the same value, typed as vLLM types it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from planner.engine.arguments import ARGUMENTS, Argument, Kind
from planner.engine.settings import settings_from
from planner.errors import PlannerError

_WHOLE = re.compile(r"-?[0-9]{1,18}\Z", re.ASCII)
_PLAIN_ITEM = re.compile(r"[A-Za-z0-9_.*-]+\Z")
_SWITCH = {"true": True, "1": True, "false": False, "0": False}


def to_text(name: str, value: object) -> str:
    """Return an engine argument's value as text that `from_text` reads back.

    >>> to_text("max_model_len", 4096), to_text("enforce_eager", True)
    ('4096', 'true')
    >>> to_text("cudagraph_capture_sizes", (1, 2, 4))
    '1,2,4'

    Raises:
        PlannerError: for a value that is neither text, number, switch, list nor table.
    """
    if isinstance(value, str):
        return (
            value if from_text_unchecked(name, value) == value else _json(name, value)
        )
    if isinstance(value, list | tuple) and _is_plain(name, value):
        return ",".join(map(str, value))
    return _json(name, value)


def from_text(name: str, text: str) -> Any:  # noqa: ANN401 - vLLM's own types
    """Return the value that a text represents, checked like those of `planner.plan`.

    Raises:
        PlannerError: for an unknown argument, or a value that is not of its type.
    """
    return checked(name, from_text_unchecked(name, text))


def from_text_unchecked(name: str, text: str) -> Any:  # noqa: ANN401 - as above
    """Return the value that a text represents, of any type."""
    argument = ARGUMENTS.get(name)
    if argument is not None and _has_commas(argument, text):
        return _items(argument, text)
    if argument is not None and argument.is_modelled:
        if argument.kind is Kind.SWITCH:
            return _SWITCH.get(text.lower(), text)
        if argument.is_text:
            return text
    if _WHOLE.match(text):
        return int(text)
    try:
        return json.loads(
            text, parse_int=_bounded, parse_float=_finite, parse_constant=_refused
        )
    except (ValueError, RecursionError):
        return text


def checked(name: str, value: object) -> Any:  # noqa: ANN401 - vLLM's own types
    """Return an argument's value when vLLM could take it.

    Raises:
        PlannerError: naming the type that is needed.
        UnknownArchitecture: for an argument whose memory is not modelled.
    """
    argument = ARGUMENTS.get(name)
    if argument is None or not argument.is_modelled:
        settings_from({name: value})
        return value
    if isinstance(value, list) and argument.is_list:
        value = tuple(value)
    settings_from({name: value})
    wanted = "" if value is None else _wanted(argument, value)
    if wanted:
        raise PlannerError(f"{name}={value!r}: {wanted} needed.")
    return value


def _wanted(argument: Argument, value: object) -> str:
    """Return the type that a modelled argument needs; empty where the value has it."""
    if argument.is_list:
        accepts, what = _ITEMS[argument.kind]
        is_right = isinstance(value, tuple) and all(map(accepts, value))
        return "" if is_right else f"a list of {what} is"
    if argument.kind is Kind.TABLE:
        return "" if isinstance(value, Mapping) else "a table of names and values is"
    if argument.kind is Kind.SWITCH:
        return "" if isinstance(value, bool) else "true or false is"
    if argument.is_text:
        return "" if isinstance(value, str) else "a text is"
    return ""


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


_ITEMS: Mapping[Kind, tuple[Callable[[object], bool], str]] = {
    Kind.NUMBERS: (_is_size, "whole numbers from 1"),
    Kind.NAMES: (lambda value: isinstance(value, str), "texts"),
}
"""The type of the items of a list, as a check and in words."""


def _items(argument: Argument, text: str) -> list[Any]:
    parts = text.split(",") if text else []
    if argument.kind is Kind.NUMBERS:
        return [int(part) if _WHOLE.match(part) else part for part in parts]
    return list(parts)


def is_text(name: str) -> bool:
    """Whether an argument is modelled and always a text."""
    argument = ARGUMENTS.get(name)
    return argument is not None and argument.is_modelled and argument.is_text


def _has_commas(argument: Argument, text: str) -> bool:
    """Whether a text is a list without the brackets of JSON."""
    if not argument.is_list or text[:1] in ("[", '"'):
        return False
    # For lists that do not change memory, vLLM also takes a single text unchanged.
    return argument.is_modelled or "," in text


def _is_plain(name: str, values: Any) -> bool:  # noqa: ANN401 - a list or tuple
    """Whether a list is read back the same when commas separate its items."""
    text = ",".join(map(str, values))
    is_plain = all(_PLAIN_ITEM.match(str(item)) for item in values)
    return is_plain and from_text_unchecked(name, text) == list(values)


def _json(name: str, value: object) -> str:
    try:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
    except (TypeError, ValueError, RecursionError):
        raise PlannerError(
            f"{name}={value!r} cannot be written as text: use text, numbers, true, "
            "false, lists and tables."
        ) from None


def _bounded(digits: str) -> int:
    if not _WHOLE.match(digits):
        return _refused(digits)
    return int(digits)


def _refused(text: str) -> int:
    raise ValueError(text)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        return _refused(digits)
    return value
