"""Questions of programs: the entries of a plan file as JSON, and where one is wrong.

`/api/plan` answers them over HTTP, `planner mcp` over standard input.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from planner.app.problems import mentioned
from planner.engine.devices import gpu_named
from planner.engine.releases import resolve_version
from planner.errors import (
    ModelNotFound,
    ModelUnavailable,
    PlannerError,
    UnknownArchitecture,
)
from planner.export.plan_file import parse, read_yaml
from planner.reading import read

if TYPE_CHECKING:
    from planner.planning.inputs import Inputs
    from planner.planning.result import Plan

ENTRIES = ("model", "gpu", "vllm_version", "entrypoint", "env", "load", "engine_args")
"""What a question may have: what a plan file has."""
OF_TEXT = ("text", "start")
"""Instead of a model: a text that describes a start, and which of several in it."""
_TEXTS = ("model", "vllm_version", "entrypoint", "text")
_ANY_MODEL = "any"


class Wrong(Exception):  # noqa: N818 - reads as the sentence it is
    """A question that has no plan.

    `where` is a JSON pointer into the question; empty: all of it.
    """

    def __init__(
        self, error: PlannerError | str, where: str = "", *, is_malformed: bool = False
    ) -> None:
        self.error = PlannerError(error) if isinstance(error, str) else error
        self.sentence, self.where = str(self.error), where
        self.is_malformed = is_malformed
        super().__init__(self.sentence)


def entries_of(body: str) -> dict[str, Any]:
    """Return the entries of a question in JSON.

    Raises:
        Wrong: for what is no JSON object, or has an entry that no question can have;
            `is_malformed` for the first.
    """
    if not body.lstrip().startswith("{"):
        raise Wrong("A question is a JSON object.", is_malformed=True)
    try:
        entries: dict[str, Any] = parse(body).value
    except PlannerError as error:
        sentence = str(error).replace("plan file", "question")
        raise Wrong(sentence, is_malformed=True) from None
    except RecursionError:
        raise Wrong("The question is nested too deeply.", is_malformed=True) from None
    check_entries(entries)
    return entries


def check_entries(entries: Mapping[str, Any]) -> None:
    """Refuse an entry that no question can have, or that has to be a text.

    Raises:
        Wrong: naming it.
    """
    for name, value in entries.items():
        if name not in (*ENTRIES, *OF_TEXT):
            raise Wrong(
                f"A question has no {name!r}; it has {', '.join(ENTRIES)}, or text "
                "instead of model. Engine arguments stand in engine_args.",
                pointer(name),
            )
        if name in _TEXTS and not isinstance(value, str):
            raise Wrong(f"{name}: a text is needed.", pointer(name))


def planned(entries: Mapping[str, Any]) -> Plan:
    """Return the plan of a question.

    Raises:
        Wrong: for input that cannot be planned.
    """
    inputs = inputs_of(entries)
    with at_fault(entries):
        return inputs.plan()


def inputs_of(entries: Mapping[str, Any]) -> Inputs:
    """Return the inputs of a question's plan, each entry checked by itself.

    Raises:
        Wrong: for an entry of a wrong form, or one that is missing.
    """
    inputs = _inputs(entries)
    if isinstance(inputs.gpu, str):
        with _at(_given_in("gpu", entries)):
            gpu_named(inputs.gpu)
    with _at(_given_in("vllm_version", entries)):
        resolve_version(inputs.vllm_version)
    return inputs


@contextmanager
def at_fault(entries: Mapping[str, Any]) -> Iterator[None]:
    """Give an error of a plan its place in the question: the entry that it names.

    Raises:
        Wrong: in the error's place.
    """
    try:
        yield
    except PlannerError as error:
        is_away = isinstance(error, ModelUnavailable | ModelNotFound)
        named = "" if is_away else _named(str(error), entries)
        is_models = is_away or isinstance(error, UnknownArchitecture)
        place = _given_in("model" if is_models else "text", entries)
        raise Wrong(error, named or place) from None


def _inputs(entries: Mapping[str, Any]) -> Inputs:
    own = {name: value for name, value in entries.items() if name in ENTRIES}
    for name, value in own.items():
        within = value if isinstance(value, dict) else ()
        with _at(pointer(name), within):
            read_yaml(json.dumps({"model": _ANY_MODEL, name: value}))
    given = read_yaml(json.dumps({"model": _ANY_MODEL, **own})).inputs
    if "text" in entries:
        return _of_text(entries, given)
    if "model" not in own:
        raise Wrong(
            "A question needs a model, such as Qwen/Qwen3-8B, or a text.", "/model"
        )
    return given


def _of_text(entries: Mapping[str, Any], given: Inputs) -> Inputs:
    """Return the inputs that a text gives, changed by the entries beside it.

    Raises:
        Wrong: for a text that describes no start, or leaves its GPU open.
    """
    text, start = entries["text"], entries.get("start", 1)
    if type(start) is not int:
        raise Wrong(f"start={start!r}: a whole number from 1 is needed.", "/start")
    changes = {
        name: getattr(given, name)
        for name in ENTRIES
        if name in entries and name not in ("gpu", "engine_args")
    }
    with _at("/text", OF_TEXT[1:], root=""):
        reading = read(text, start=start)
        if reading.gpu is None and "gpu" not in entries:
            raise Wrong(
                reading.refused_gpu
                or "The text does not say on which GPU vLLM runs. Name it: gpu.",
                "/gpu",
            )
        gpu = given.gpu if "gpu" in entries else None
        return reading.inputs(gpu, **changes, **given.engine_args)


@contextmanager
def _at(
    where: str, within: Iterable[str] = (), *, root: str | None = None
) -> Iterator[None]:
    """Give an error its place: that of the name it mentions, of those `within`."""
    try:
        yield
    except PlannerError as error:
        sentence = str(error).replace("A plan file", "A question")
        found = mentioned(sentence, within)
        base = where if root is None else root
        place = where if found is None else base + pointer(found)
        raise Wrong(type(error)(sentence), place) from None


def _named(sentence: str, entries: Mapping[str, Any]) -> str:
    """Return the place of the entry that a sentence names; empty for none."""
    for table in ("engine_args", "env", "load"):
        found = mentioned(sentence, entries.get(table) or ())
        if found is not None:
            return pointer(table) + pointer(found)
    found = mentioned(sentence, (name for name in ENTRIES if name in entries))
    return "" if found is None else pointer(found)


def _given_in(name: str, entries: Mapping[str, Any]) -> str:
    """Return the place of an entry, or of the text in its place."""
    if name in entries:
        return pointer(name)
    return "/text" if "text" in entries else ""


def pointer(name: str) -> str:
    """Return a step of a JSON pointer. Source: RFC 6901, section 3."""
    return "/" + name.replace("~", "~0").replace("/", "~1")
