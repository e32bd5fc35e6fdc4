"""Answers the tools of `planner mcp`: each by the function of its name in Python.

Their arguments are held to the few words of JSON Schema used here. What the planner
itself refuses is left to it: names of engine arguments, GPUs, models.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from planner.app.mcp import short
from planner.app.mcp.tools import SECONDS, Tool
from planner.app.problems import problem
from planner.app.questions import ENTRIES, Wrong, at_fault, inputs_of, planned, pointer
from planner.engine.flags import plain
from planner.engine.releases import NEWEST, resolve_version
from planner.errors import PlannerError, close_words
from planner.reading import Reading, read
from planner.reading.reading import NOT_NAMED
from planner.solve.advice import advise
from planner.solve.set_up_search import set_ups
from planner.solve.speed.forecast import speed_forecast
from planner.solve.upgrading import upgrade
from planner.surroundings import FILES

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


_HINT = "Correct the argument, and call the tool again."
_NO_FILES = (
    "This server reads no such file: `planner mcp --files FOLDER` lets it read those "
    "of a folder."
)
_TOLD = ("model", "gpu", "vllm_version")
"""What can be said beside a text that leaves it out."""


def call(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's result: short, or whole where that is asked for.

    What cannot be planned is a result too, with `isError` and the planner's own words.
    """
    try:
        check(given, tool.schema)
        arguments = {name: one for name, one in given.items() if name != "whole"}
        with at_fault(arguments):
            answer, brief = ANSWERS[tool.name]
            found = answer(arguments)
            values = short.without_nothing(brief(found))
    except Wrong as wrong:
        return _refusal(wrong, given)
    if given.get("whole"):
        return _result(plain(found.to_dict()), str(found))
    return _result(plain(values), short.text_of(values))


def _refusal(wrong: Wrong, given: Mapping[str, Any]) -> dict[str, Any]:
    tables = [one for one in given.values() if isinstance(one, dict)]
    flat = {name: one for name, one in given.items() if not isinstance(one, dict)}
    for table in tables:
        flat |= table
    flat.pop("text", None)
    found = problem(wrong.error, flat, "what the tool's input schema says", _HINT)
    named = [one for one in found["given"].values() if isinstance(one, str)]
    if os.environ.get(FILES) is not None and any(map(_is_path, named)):
        found["do"] = f"{found['do']} {_NO_FILES}"
    found["where"] = wrong.where
    said = {name: found[name] for name in ("allowed", "do")}
    new = [f"{name}: {one}" for name, one in said.items() if one not in found["error"]]
    text = "\n".join([found["error"], *new])
    return {**_result(found, text), "isError": True}


def _is_path(text: str) -> bool:
    return text.startswith(("/", "~", "./", "../")) or "\\" in text


def _result(values: object, text: str) -> dict[str, Any]:
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": json.loads(json.dumps(values, default=str)),
        "isError": False,
    }


def _entries(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in ENTRIES}


def _advise(given: dict[str, Any]) -> Any:  # noqa: ANN401 - any result
    return advise(planned(_entries(given)))


def _speed(given: dict[str, Any]) -> Any:  # noqa: ANN401 - any result
    length = given.get("acceptance_length")
    return speed_forecast(planned(_entries(given)), acceptance_length=length)


def _upgrade(given: dict[str, Any]) -> Any:  # noqa: ANN401 - any result
    last = given.get("to", NEWEST)
    try:
        resolve_version(last)
    except PlannerError as error:
        sentence = str(error).replace("vllm_version", "to")
        raise Wrong(sentence, "/to") from None
    return upgrade(inputs_of(_entries(given)), to=last)


def _set_ups(given: dict[str, Any]) -> Any:  # noqa: ANN401 - any result
    inputs = inputs_of(_entries(given))
    own = {name: value for name, value in given.items() if name not in ENTRIES}
    return set_ups(inputs, **{"seconds": SECONDS, **own})


def _read(given: dict[str, Any]) -> Reading:
    found = read(given["text"], start=given.get("start", 1))
    told = {name: one for name, one in given.items() if name in _TOLD}
    answered = {said for name, said in NOT_NAMED.items() if name in told}
    still = tuple(one for one in found.open if one not in answered)
    return replace(found, open=still, **told)


def _explain(given: dict[str, Any]) -> Any:  # noqa: ANN401 - any result
    found = read(given["text"], start=given.get("start", 1))
    rest = {name: one for name, one in given.items() if name not in ("text", "start")}
    return found.explain(**{**rest, **rest.pop("engine_args", {})})


ANSWERS: Mapping[
    str, tuple[Callable[[dict[str, Any]], Any], Callable[[Any], dict[str, Any]]]
] = {
    "plan": (planned, short.plan),
    "read": (_read, short.reading),
    "explain": (_explain, short.explanation),
    "advise": (_advise, short.advice),
    "set_ups": (_set_ups, short.set_ups),
    "speed": (_speed, short.speed),
    "upgrade": (_upgrade, short.upgrade),
}
"""By tool: what returns a result, with `to_dict` and a text, and its short form."""
