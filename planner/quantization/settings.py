"""Reading `quantization_config`, an untyped mapping, in vLLM's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import Refused, UnknownArchitecture


def required(given: Mapping[str, Any], *keys: str) -> Any:  # noqa: ANN401 - border
    """Return the first of the keys that is there.

    Raises:
        Refused: when none is.

    Source: vLLM 0.33.0 `layers/quantization/base_config.py` get_from_keys.
    """
    for key in keys:
        if key in given:
            return given[key]
    raise Refused(
        f"Cannot find any of {list(keys)} in the model's quantization config."
    )


def given_integer(given: Mapping[str, Any], *keys: str) -> int:
    """Return a whole number that must be there.

    Raises:
        Refused: when it is missing.
        UnknownArchitecture: when it is something else.
    """
    value = required(given, *keys)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnknownArchitecture(
            f"quantization_config.{keys[0]} is {value!r}, a whole number is needed."
        )
    return value


def flag(given: Mapping[str, Any], key: str) -> bool:
    """Return a yes or no, no where it is missing."""
    return bool(given.get(key))


def listed(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return a list of names, empty where it is missing.

    Raises:
        UnknownArchitecture: when it holds something else.
    """
    value = given.get(key) or []
    if not isinstance(value, list) or not all(isinstance(n, str) for n in value):
        raise UnknownArchitecture(
            f"quantization_config.{key} is {value!r}, a list of names is needed."
        )
    return tuple(value)
