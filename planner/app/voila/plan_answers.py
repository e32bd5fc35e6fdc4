"""What `/api/plan` answers: a plan, or one sentence and the place of what is wrong.

    python -m planner.app.voila.plan_answers

answers questions in a process of its own, which the server limits and can end. It reads
one a line, the body of a request as a JSON text, and writes a line each:
`[status, answer, seconds of processor time]`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from planner.app.voila import log
from planner.engine.devices import gpu_named
from planner.engine.flags import plain
from planner.engine.releases import resolve_version
from planner.errors import (
    GatedModel,
    ModelNotFound,
    ModelUnavailable,
    PlannerError,
    UnknownArchitecture,
)
from planner.export.plan_file import parse, read_yaml
from planner.reading import read
from planner.surroundings import is_published

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
        self,
        sentence: str,
        where: str = "",
        status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY,
    ) -> None:
        super().__init__(sentence)
        self.sentence, self.where, self.status = sentence, where, status


def answer(body: str) -> tuple[int, dict[str, Any]]:
    """Return the status and the answer to a request's body.

    A plan that does not fit is an answer as well, with status 200.

    >>> answer('{"model": "Qwen/Qwen3-8B", "gpu": "L4"}')[1]["fits"]
    False
    >>> answer('{"model": "Qwen/Qwen3-8B", "load": {"prompt_tokens": 1}}')[1]
    {'error': 'load needs output_tokens.', 'where': '/load'}
    """
    try:
        planned: Any = plain(_plan(_entries(body)).to_dict())
    except Wrong as wrong:
        return wrong.status, {"error": wrong.sentence, "where": wrong.where}
    return HTTPStatus.OK, planned


def _entries(body: str) -> dict[str, Any]:
    """Return the entries of a question.

    Raises:
        Wrong: for what is no JSON object, or has an entry that no question can have.
    """
    if not body.lstrip().startswith("{"):
        raise Wrong("A question is a JSON object.", status=HTTPStatus.BAD_REQUEST)
    try:
        entries: dict[str, Any] = parse(body).value
    except PlannerError as error:
        sentence = str(error).replace("plan file", "question")
        raise Wrong(sentence, status=HTTPStatus.BAD_REQUEST) from None
    except RecursionError:
        raise Wrong(
            "The question is nested too deeply.", status=HTTPStatus.BAD_REQUEST
        ) from None
    for name in entries:
        if name not in (*ENTRIES, *OF_TEXT):
            raise Wrong(
                f"A question has no {name!r}; it has {', '.join(ENTRIES)}, or text "
                "instead of model. Engine arguments stand in engine_args.",
                _pointer(name),
            )
        if name in _TEXTS and not isinstance(entries[name], str):
            raise Wrong(f"{name}: a text is needed.", _pointer(name))
    return entries


def _plan(entries: Mapping[str, Any]) -> Plan:
    """Return the plan.

    Raises:
        Wrong: for input that cannot be planned.
    """
    inputs = _inputs(entries)
    if isinstance(inputs.gpu, str):
        with _at(_given_in("gpu", entries)):
            gpu_named(inputs.gpu)
    with _at(_given_in("vllm_version", entries)):
        resolve_version(inputs.vllm_version)
    model = _given_in("model", entries)
    try:
        return inputs.plan()
    except ModelUnavailable as error:
        is_away = not isinstance(error, GatedModel)
        raise Wrong(
            str(error),
            model,
            HTTPStatus.SERVICE_UNAVAILABLE
            if is_away
            else HTTPStatus.UNPROCESSABLE_ENTITY,
        ) from None
    except ModelNotFound as error:
        raise Wrong(str(error), model) from None
    except PlannerError as error:
        named = _named(str(error), entries)
        is_models = isinstance(error, UnknownArchitecture)
        raise Wrong(
            str(error), named or (model if is_models else _given_in("text", entries))
        ) from None


def _inputs(entries: Mapping[str, Any]) -> Inputs:
    """Return the inputs of the plan, each entry checked by itself.

    Raises:
        Wrong: for an entry of a wrong form, or one that is missing.
    """
    own = {name: value for name, value in entries.items() if name in ENTRIES}
    for name, value in own.items():
        within = value if isinstance(value, dict) else ()
        with _at(_pointer(name), within):
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
        found = _mentioned(sentence, within)
        base = where if root is None else root
        place = where if found is None else base + _pointer(found)
        raise Wrong(sentence, place) from None


def _named(sentence: str, entries: Mapping[str, Any]) -> str:
    """Return the place of the entry that a sentence names; empty for none."""
    for table in ("engine_args", "env", "load"):
        found = _mentioned(sentence, entries.get(table) or ())
        if found is not None:
            return _pointer(table) + _pointer(found)
    found = _mentioned(sentence, (name for name in ENTRIES if name in entries))
    return "" if found is None else _pointer(found)


def _mentioned(sentence: str, names: Iterable[str]) -> str | None:
    """Return the one of these names that a sentence mentions first."""
    places = {
        name: match.start()
        for name in names
        if name and (match := re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sentence))
    }
    return min(places, key=places.__getitem__, default=None)


def _given_in(name: str, entries: Mapping[str, Any]) -> str:
    """Return the place of an entry, or of the text in its place."""
    if name in entries:
        return _pointer(name)
    return "/text" if "text" in entries else ""


def _pointer(name: str) -> str:
    """Return a step of a JSON pointer. Source: RFC 6901, section 3."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _answered(body: str) -> tuple[int, dict[str, Any]]:
    """Return the answer, also where the planner itself fails."""
    try:
        return answer(body)
    except Exception:
        logging.getLogger(__name__).exception("A question could not be answered.")
        return HTTPStatus.INTERNAL_SERVER_ERROR, {
            "error": "The planner failed at this question; the failure is in its log.",
            "where": "",
        }


def main() -> None:
    """Answer until there are no more questions."""
    logging.getLogger().addHandler(log.handler(sys.stderr, published=is_published()))
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is not an answer
    for line in sys.stdin:
        began = time.process_time()
        status, said = _answered(json.loads(line))
        took = time.process_time() - began
        out.write(json.dumps([status, said, took], default=str) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
