"""Read a link: permitted parts are taken, all others are named and left out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote_plus

from planner.engine.arguments import check_release
from planner.engine.environment import environment_from
from planner.engine.foreign import safe_part
from planner.engine.gpu import GPU
from planner.engine.gpu_text import is_description
from planner.engine.releases import NEWEST, resolve_version
from planner.engine.settings import unknown_argument
from planner.errors import PlannerError
from planner.export.links import (
    DEFAULT_MODEL,
    ENVIRONMENT,
    FOREIGN,
    MOST,
    gpu_from_link,
    is_carried,
    load_from_link,
    model_from_link,
    why_kept_out,
)
from planner.export.values import from_text
from planner.given import named_in_errors
from planner.models import catalogue
from planner.planning.batches import check_entrypoint
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.values import frozen

DEFAULT_GPU = "H100"
LONGEST_LINK = 8000
"""Characters; browsers and proxies refuse longer addresses anyway."""
MOST_PARTS = 200
LONGEST_VALUE = 4000
_LONGEST_NAME = 64
_MOST_SENTENCES = 20
_LONGEST_SENTENCE = 300
_Read = TypeVar("_Read")
_START = ("model", "gpu", "vllm_version", "entrypoint")
_RELEASE = re.compile(r"v?[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?\Z", re.ASCII)
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of characters that are invisible or unassigned."""


@frozen
class ReadLink:
    """The plan that a link opens."""

    inputs: Inputs
    """The inputs to plan; those of the default plan where the link has none."""
    ignored: tuple[str, ...] = ()
    """One sentence for each part that was left out; plain text, escape it in HTML."""


@named_in_errors
def read_link(text: str) -> ReadLink:
    """Return the plan that a link opens; no link raises an error.

    Takes a whole address, or its query with or without the question mark. A model is a
    bundled one or owner/name on the Hub, never a folder of the machine that reads it.

    >>> opened = read_link("?model=Qwen/Qwen3-8B&max_model_len=32768&colour=red")
    >>> opened.inputs.model, opened.inputs.engine_args["max_model_len"]
    ('Qwen/Qwen3-8B', 32768)
    >>> opened.ignored
    ("'colour' is not an engine argument of vLLM.",)
    """
    ignored: list[str] = []
    pairs = _pairs(text, ignored)
    inputs = _Reading(pairs=pairs, ignored=ignored).inputs()
    return ReadLink(inputs=inputs, ignored=_bounded(ignored))


def _pairs(text: str, ignored: list[str]) -> dict[str, str]:
    """Return the names and texts, each name once and each text readable."""
    if len(text) > LONGEST_LINK:
        ignored.append(
            f"The link is {len(text):,} characters long, more than {LONGEST_LINK:,}: "
            "the default plan is shown instead."
        )
        return {}
    parts = [part for part in _query(text).split("&") if part]
    if len(parts) > MOST_PARTS:
        ignored.append(f"The link has {len(parts)} parts: only {MOST_PARTS} are read.")
    pairs: dict[str, str] = {}
    for part in parts[:MOST_PARTS]:
        name, _, value = part.partition("=")
        _take(pairs, unquote_plus(name), unquote_plus(value), ignored)
    return pairs


def _query(text: str) -> str:
    """Return the part of an address after its question mark."""
    before, mark, query = text.strip().partition("#")[0].partition("?")
    return query if mark else ("" if "://" in before else before)


def _take(pairs: dict[str, str], name: str, value: str, ignored: list[str]) -> None:
    if name in FOREIGN:
        return
    if len(name) > _LONGEST_NAME or _hides(name):
        ignored.append(f"{_shown(name)}: no argument has such a name.")
    elif name in pairs:
        ignored.append(f"{name} is given twice: the first counts.")
    elif len(value) > LONGEST_VALUE:
        ignored.append(f"{name}: longer than {LONGEST_VALUE:,} characters.")
    elif _hides(value):
        ignored.append(
            f"{name}={_shown(value)}: it holds characters that are not text."
        )
    else:
        pairs[name] = value


_PARTS = ("gpu.", "env.", "load.")
"""What the names of parts begin with."""


def _hides(text: str) -> bool:
    return any(unicodedata.category(character) in _HIDDEN for character in text)


def _shown(text: str) -> str:
    """Return a text shortened, with invisible characters escaped."""
    short = text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}..."
    return ascii(short)


def _bounded(sentences: list[str]) -> tuple[str, ...]:
    """Return sentences of bounded length and number."""
    left_out = len(sentences) - _MOST_SENTENCES
    more = [f"And {left_out} more."] if left_out > 0 else []
    return tuple(map(_shortened, (*sentences[:_MOST_SENTENCES], *more)))


def _shortened(sentence: str) -> str:
    """Shorten a sentence in the middle: it ends with what to do."""
    if len(sentence) <= _LONGEST_SENTENCE:
        return sentence
    half = _LONGEST_SENTENCE // 2
    return f"{sentence[:half]}...{sentence[-half:]}"


def _check_size(name: str, value: object) -> None:
    """Refuse numbers with which planning would take very long or never end."""
    numbers = value if isinstance(value, tuple) else (value,)
    for number in numbers:
        if isinstance(number, int | float) and abs(number) > MOST:
            raise PlannerError(f"{name}={number}: a link takes at most {MOST:,}.")


@frozen
class _Reading:
    """Turns names and texts into inputs, and notes what it ignores."""

    pairs: dict[str, str]
    ignored: list[str] = field(default_factory=list)

    def inputs(self) -> Inputs:
        """Return the inputs from the usable parts of the link."""
        model = self._model()
        start = Inputs(
            model=model,
            gpu=self._gpu(),
            vllm_version=self._release(),
            entrypoint=self._entrypoint(),
        )
        given = start.changed(env=self._environment(), load=self._load())
        arguments = dict(self._arguments(given))
        return self._plannable(given, arguments)

    def _or(
        self, otherwise: _Read, read: Callable[[], _Read], note: str = "{}"
    ) -> _Read:
        """Return what can be read; else note the error, and return `otherwise`."""
        try:
            return read()
        except PlannerError as error:
            self.ignored.append(note.format(error))
            return otherwise

    def _parts(self, kind: str) -> dict[str, str]:
        """Return the texts whose names begin with `kind`, by the rest of the name."""
        return {
            name.removeprefix(kind): text
            for name, text in self.pairs.items()
            if name.startswith(kind)
        }

    def _model(self) -> str:
        text = self.pairs.get("model")
        if text is None:
            return DEFAULT_MODEL
        note = f"{{}} {DEFAULT_MODEL} is shown instead."
        return self._or(DEFAULT_MODEL, partial(model_from_link, text), note)

    def _gpu(self) -> str | GPU:
        name, facts = self.pairs.get("gpu", DEFAULT_GPU), self._parts("gpu.")
        note = f"gpu: {{}} {DEFAULT_GPU} is shown instead."
        gpu = self._or(None, partial(gpu_from_link, name, facts), note)
        if gpu is None:
            return DEFAULT_GPU
        return gpu if facts or is_description(name) else gpu.name

    def _load(self) -> Load | None:
        read = partial(load_from_link, self._parts("load."))
        return self._or(None, read, "{} No load is shown.")

    def _release(self) -> str:
        text = self.pairs.get("vllm_version", NEWEST)
        note = f"{{}} {NEWEST} is shown instead."
        if self._or(None, partial(resolve_version, text), note) is None:
            return NEWEST
        if not _RELEASE.match(text):
            self.ignored.append(f"vllm_version={text!r} is not a release.")
            return NEWEST
        return text

    def _entrypoint(self) -> str:
        text = self.pairs.get("entrypoint", "serve")
        try:
            check_entrypoint(text)
        except PlannerError as error:
            self.ignored.append(str(error))
            return "serve"
        return text

    def _environment(self) -> dict[str, str]:
        """Return the variables that decide memory; a link sets no others."""
        taken: dict[str, str] = {}
        for name, value in self._parts("env.").items():
            if name not in ENVIRONMENT:
                self.ignored.append(
                    f"The variable {_shown(name)}: a link sets only those that decide "
                    "memory."
                )
            elif self._or(None, partial(environment_from, {name: value})) is not None:
                taken[name] = value
        return taken

    def _arguments(self, given: Inputs) -> Iterator[tuple[str, Any]]:
        release, _ = resolve_version(given.vllm_version)
        for name, text in self.pairs.items():
            if name in _START or "." in name:
                if "." in name and not name.startswith(_PARTS):
                    self.ignored.append(f"{name} is not known.")
                continue
            try:
                value = self._carried(name, text)
                check_release({name: value}, release)
            except PlannerError as error:
                self.ignored.append(str(error))
            else:
                yield name, value

    def _carried(self, name: str, text: str) -> Any:  # noqa: ANN401 - vLLM's own types
        """Return what a link may set of an argument, and name the keys that it may not.

        Raises:
            PlannerError: where it may set nothing of it.
        """
        if not is_carried(name):
            why = why_kept_out(name)
            if not why:
                raise unknown_argument(name)
            raise PlannerError(f"{name} {why}: no link sets it.")
        value = from_text(name, text)
        _check_size(name, value)
        kept, left = safe_part(name, value)
        if kept is None and not left:
            raise PlannerError(f"{name}={_shown(text)}: no link sets such a value.")
        if left:
            keys = ", ".join(map(_shown, left))
            self.ignored.append(f"{name}: no link sets its {keys}.")
        return kept

    def _plannable(self, given: Inputs, arguments: dict[str, Any]) -> Inputs:
        """Return the inputs without the arguments that cannot be planned.

        With a model that is not bundled all are kept: opening a link fetches nothing.
        """
        whole = given.changed(**arguments)
        if not isinstance(given.model, str) or catalogue.find(given.model) is None:
            return whole
        if self._failure(whole) is None:
            return whole
        usable = self._plannable_start(given)
        for name, value in arguments.items():
            tried = usable.changed(**{name: value})
            error = self._failure(tried)
            if error is None:
                usable = tried
            else:
                self.ignored.append(f"{name} was left out: {error}")
        return usable

    def _plannable_start(self, given: Inputs) -> Inputs:
        error = self._failure(given)
        if error is None:
            return given
        self.ignored.append(f"Model, GPU, release and variables: {error}")
        return Inputs(model=DEFAULT_MODEL, gpu=DEFAULT_GPU)

    def _failure(self, inputs: Inputs) -> str | None:
        try:
            inputs.plan()
        except PlannerError as error:
            return str(error)
        return None
