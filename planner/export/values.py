"""Engine arguments as text and back: the same value, typed as vLLM types it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

from planner.engine import EngineSettings, settings_from
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
    if isinstance(value, list | tuple) and name in _lists() and _is_plain(value):
        return ",".join(map(str, value))
    return _json(name, value)


def from_text(name: str, text: str) -> Any:  # noqa: ANN401 - vLLM's own types
    """Return the value that a text stands for, checked as `planner.plan` checks it.

    Raises:
        PlannerError: for an unknown argument, or a value that is not of its type.
    """
    return checked(name, from_text_unchecked(name, text))


def from_text_unchecked(name: str, text: str) -> Any:  # noqa: ANN401 - as above
    """Return the value that a text stands for, whatever its type is."""
    kinds = _kinds(name)
    if kinds == (bool,):
        return _SWITCH.get(text.lower(), text)
    if kinds == (str,):
        return text
    if name in _lists() and not text.startswith("["):
        return _items(name, text)
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
        PlannerError: saying what is needed.
        UnknownArchitecture: for an argument whose memory is not modelled.
    """
    if isinstance(value, list) and name in _lists():
        value = tuple(value)
    settings_from({name: value})
    wanted = _wanted(name, value)
    if wanted:
        raise PlannerError(f"{name}={value!r}: {wanted} needed.")
    return value


def _wanted(name: str, value: object) -> str:
    """Return what a typed argument needs; empty where it has that."""
    kinds = _kinds(name)
    if value is None or not kinds or name in ("max_model_len", "kv_cache_memory_bytes"):
        return ""
    items = _lists().get(name)
    if items is not None:
        is_right = isinstance(value, tuple) and all(map(items.accepts, value))
        return "" if is_right else f"a list of {items.what} is"
    if Mapping in kinds:
        return "" if isinstance(value, Mapping) else "a table of names and values is"
    if bool in kinds:
        return "" if isinstance(value, bool) else "true or false is"
    if str in kinds and int not in kinds:
        return "" if isinstance(value, str) else "a text is"
    return ""


class _Items:
    """What the items of a list are."""

    def __init__(self, what: str, accepts: Callable[[object], bool]) -> None:
        self.what = what
        self.accepts = accepts


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


@cache
def _lists() -> Mapping[str, _Items]:
    return {
        "cudagraph_capture_sizes": _Items("whole numbers from 1", _is_size),
        "kv_cache_dtype_skip_layers": _Items("texts", _is_text),
        "cpu_offload_params": _Items("texts", _is_text),
        "offload_params": _Items("texts", _is_text),
    }


def _items(name: str, text: str) -> list[Any]:
    parts = text.split(",") if text else []
    if name == "cudagraph_capture_sizes":
        return [int(part) if _WHOLE.match(part) else part for part in parts]
    return list(parts)


@cache
def _hints() -> Mapping[str, tuple[Any, ...]]:
    hints = get_type_hints(EngineSettings)
    return {
        name: tuple(
            getattr(kind, "__origin__", kind)
            for kind in get_args(hint)
            if kind is not type(None)
        )
        for name, hint in hints.items()
        if name != "others"
    }


def _kinds(name: str) -> tuple[Any, ...]:
    """Return the types of a modelled argument; empty for one of the others."""
    return _hints().get(name, ())


def is_text(name: str) -> bool:
    """Whether an argument is a text and nothing else."""
    return _kinds(name) == (str,)


def _is_plain(values: Any) -> bool:  # noqa: ANN401 - a list or tuple
    return all(_PLAIN_ITEM.match(str(item)) for item in values)


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
