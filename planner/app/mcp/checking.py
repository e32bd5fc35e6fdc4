"""Holds the arguments of a tool to its schema: the few words of JSON Schema used here.

What the planner itself refuses is left to it: names of engine arguments, GPUs, models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.app.questions import Wrong, pointer
from planner.errors import close_words

_TYPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "a text"),
    "integer": (int, "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": (bool, "true or false"),
    "object": (dict, "an object"),
    "array": (list, "a list"),
}
_LONGEST = 80


def check(given: object, schema: Mapping[str, Any], where: str = "") -> None:
    """Refuse what a schema does not allow.

    Raises:
        Wrong: with the place of it, and what is allowed there.
    """
    for sentence in _faults(given, schema, where.rpartition("/")[2] or "arguments"):
        raise Wrong(sentence, where)
    if isinstance(given, dict):
        _check_object(given, schema, where)
    if isinstance(given, list) and "items" in schema:
        for at, one in enumerate(given):
            check(one, schema["items"], f"{where}/{at}")


def _faults(given: object, schema: Mapping[str, Any], name: str) -> Iterator[str]:
    shown = repr(given)[:_LONGEST]
    if "type" in schema:
        kinds, words = _TYPES[schema["type"]]
        is_flag = isinstance(given, bool) and schema["type"] != "boolean"
        if is_flag or not isinstance(given, kinds):
            yield f"{name}={shown}: {words} is needed."
            return
    if "enum" in schema and given not in schema["enum"]:
        yield f"{name}={shown}: use one of {', '.join(map(str, schema['enum']))}."
    if "minimum" in schema and given < schema["minimum"]:
        yield f"{name}={shown}: {schema['minimum']} is the least."
    if "maximum" in schema and given > schema["maximum"]:
        yield f"{name}={shown}: {schema['maximum']:,} is the most."
    most = schema.get("maxLength") or schema.get("maxItems")
    if most is not None and len(given) > most:  # type: ignore[arg-type]
        yield f"{name} has {len(given):,} characters or items; at most {most:,}."  # type: ignore[arg-type]


def _check_object(given: dict[str, Any], schema: Mapping[str, Any], where: str) -> None:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in given:
            said = known[name].get("description", "")
            raise Wrong(f"{name} is needed: {said}", where + pointer(name))
    is_open = schema.get("additionalProperties", False)
    for name, value in given.items():
        if name in known:
            check(value, known[name], where + pointer(name))
        elif isinstance(is_open, dict):
            check(value, is_open, where + pointer(name))
        elif not is_open:
            near = close_words(name, known)
            hint = f" Did you mean {near[0]}?" if near else ""
            places = ", ".join(known)
            raise Wrong(
                f"There is no argument {name[:_LONGEST]!r}.{hint} There are {places}; "
                "vLLM's own arguments stand in engine_args.",
                where + pointer(name[:_LONGEST]),
            )
