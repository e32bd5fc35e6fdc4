"""Commands and containers that code starts, with the GPUs that the code gives them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.engine.gpu import GPU
from planner.reading.passage import Passage
from planner.reading.python import tables
from planner.reading.python.arguments import Sites, item_of, list_of, with_open
from planner.reading.python.values import Scope, Slot, Value
from planner.reading.reading import FoundStart, Kind
from planner.reading.scripts.shell import commands_of
from planner.reading.sites import Start, WordList, not_too_many
from planner.reading.starts.adapting import start_of_variables
from planner.reading.starts.container import starts_in, starts_in_words, starts_of_list
from planner.reading.starts.images import gpu_named_in, version_of

_COMMAND = re.compile(r"\bvllm\b|lm[_-]eval|lighteval")
_IS_ONE = re.compile(
    r"\bvllm[\s-]+(?:serve|bench|run-batch)\b|vllm\.entrypoints|lm[_-]eval\b"
    r"|lighteval\b|benchmark_\w+\.py|\b(?:docker|podman)\s+(?:run|create)\b"
)
_OF_PLATFORM = re.compile(r"(?:OPTION|SM_VLLM|VLLM|HF_MODEL|MODEL)_")
_OF_SHELL = re.compile(r"[\s&|;<>]")
_IMAGE = re.compile(r"^vllm[/:]|[/_-]vllm(?:[:@/_-]|$)", re.IGNORECASE)
_GPU = re.compile(
    r"(?:modal\.gpu\.)?(?P<gpu>[A-Za-z][^:=(]*?)!?(?:[:=](?P<count>\d{1,2}))?$"
)
_LOOKED_AT = 40
_Around = tuple[Mapping[str, Slot], ...]
_Key = tuple[Any, ...]


class Commands(Sites):
    """Code that runs commands and containers."""

    def __init__(self, page: Passage, whole: str) -> None:
        """Store the code, and the text that edits refer to."""
        super().__init__(page, whole)
        self.found: dict[_Key, tuple[int, FoundStart]] = {}
        self.pending: dict[int, tuple[Value, _Around]] = {}
        """Commands that were made and are not run yet, by where their word stands."""
        self.devices: dict[str, tuple[str | GPU, int | None]] = {}
        """The GPUs that calls name, and how many of each."""

    def forget(self, slots: Sequence[Slot]) -> None:
        """Leave out texts that are only shown."""
        for slot in slots:
            token = self.token_of(slot.value)
            if slot.value.is_text and token is not None:
                self.pending.pop(token, None)

    def take_pending(self) -> None:
        """Take the commands that were made and passed to nothing that is known."""
        for value, around in list(self.pending.values()):
            self.around = around
            self.command(value)
        self.pending.clear()

    def record(self, at: int, found: FoundStart) -> None:
        """Keep a start: the same one of a function that is called again is one."""
        start = found.start
        said = tuple((site.name, repr(site.value)) for site in start.sites)
        key = (at, *said)
        if self.is_handling and any(one[1:] == said for one in self.found):
            return
        self.found.setdefault(key, (at, found))
        not_too_many(one for _, one in self.found.values())

    def value(self, node: ast.expr) -> Value:
        """Return what an expression stands for; a command is kept until it is run."""
        found = super().value(node)
        if isinstance(
            node, ast.Constant | ast.JoinedStr | ast.List | ast.BinOp | ast.Call
        ):
            self._keep(found)
        elif isinstance(node, ast.Dict) and found.fields is not None:
            self.in_image(node, (), found.fields)
        return found

    def _keep(self, value: Value) -> None:
        token = self.token_of(value)
        if token is not None:
            self.pending[token] = (value, self.around)

    def token_of(self, value: Value) -> int | None:
        """Return where the word stands that makes a value a command."""
        texts = [value.text] if value.is_text else []
        if value.items is not None and len(value.items) > 1:
            texts = [slot.value.text for slot in value.items[:_LOOKED_AT]]
        for text in texts:
            found = None if text is None else _COMMAND.search(text.text)
            if text is not None and found is not None:
                return text.part(*found.span()).places[0]
        return None

    def command(self, value: Value) -> None:
        """Take the starts in a command: a text, or a list of words."""
        joined = value.joined
        if joined is not None and joined.items is not None and self._is_words(joined):
            value = joined
        token = self.token_of(value)
        if token is None:
            return
        self.pending.pop(token, None)
        if value.items is not None:
            self._of_words(value.items, token)
        elif value.text is not None and _IS_ONE.search(value.text.text):
            for found in starts_in(commands_of(value.text), self.whole):
                self._made(token, found)

    def _is_words(self, joined: Value) -> bool:
        """Return whether a shell reads each item of a list as one word."""
        texts = [str(slot.value.constant) for slot in joined.items or ()]
        return not any(_OF_SHELL.search(text) for text in texts)

    def _of_words(self, slots: Sequence[Slot], token: int) -> None:
        words = self._words_in(slots)
        if not _IS_ONE.search(" ".join(word.value for word in words.words)):
            return
        for found in starts_in_words(words, self.whole, {}):
            self._made(token, replace(found, start=with_open(found.start, slots)))

    def _made(self, at: int, found: FoundStart) -> None:
        """Keep a start, with the variables and the GPU that the code gives it."""
        start = found.start
        env = {**self.variables(), **start.env}
        shown = env.get("CUDA_VISIBLE_DEVICES")
        named = "" if shown is None else str(shown.value or "")
        visible = len(named.split(",")) if named else None
        start = replace(start, env=env, gpus=start.gpus or visible)
        start = self.placed(start)
        is_evaluation = found.kind is Kind.EVALUATION
        kind = found.kind if is_evaluation else Kind.PYTHON
        self.record(at, FoundStart(kind=kind, start=start))

    def in_image(self, node: ast.expr, several: Sequence[Slot], named: Scope) -> bool:
        """Take the start that a container of vLLM's image makes, if this is one."""
        image = _first(named, tables.IMAGES) or (several[0] if several else None)
        name = str(image.value.constant) if image and image.value.is_text else ""
        if image is None or image.value.open or not _IMAGE.search(name):
            return False
        holders = tables.COMMANDS[:2] + tables.ARGUMENTS_OF_IMAGES
        given = [named[one] for one in holders if one in named]
        if not given and several and several[0] is image:
            given = [*several[1:2]]
        words = [word for slot in given for word in self._words_of(slot)]
        if not words:
            return False
        entry = named.get("entrypoint")
        program = "" if entry is None else str(entry.value.constant or "")
        found, word = self._words_in(words), item_of(self.page, image, self.span)
        starts = starts_of_list(
            found, 0, self.whole, {}, entrypoint=program, image=word
        )
        for start in starts:
            self._contained(node, replace(start, version=version_of(word)), named)
        return bool(starts)

    def _words_in(self, slots: Sequence[Slot]) -> WordList:
        return list_of(self.page, self.whole, slots, self.span)

    def _contained(self, node: ast.expr, start: Start, named: Scope) -> None:
        """Keep a container's start, with its variables and its GPUs."""
        given = [named[name].value for name in tables.VARIABLES if name in named]
        env = {
            name: self.site(name, slot)
            for value in given
            for name, slot in _fields(value).items()
        }
        gpu, count = self._device(named) or (None, None)
        start = replace(
            start,
            env={**start.env, **env},
            gpu=start.gpu or gpu,
            gpus=start.gpus or next(_counts(named), count),
        )
        found = FoundStart(kind=Kind.PYTHON, start=start)
        self.record(self.page.places[self.span(node)[0]], found)

    def evaluated(self, named: Scope) -> None:
        """Take the start of an evaluation whose arguments are one text."""
        slots = {"--model": named.get("model"), "--model_args": named["model_args"]}
        items = [self._word("lm_eval")]
        for flag, slot in slots.items():
            items += [] if slot is None else [self._word(flag), slot]
        use = named["model_args"].use
        self._of_words(items, 0 if use is None else self.page.places[self.span(use)[0]])

    def _word(self, text: str) -> Slot:
        """Return a word that the code does not have."""
        part = self.page.inside(text, [0] * (len(text) + 1), str)
        return Slot(value=Value(constant=text, text=part))

    def by_variables(self, node: ast.expr, named: Scope) -> bool:
        """Take the start that variables describe to a platform, if these do."""
        given = _first(named, tables.VARIABLES)
        fields = {} if given is None else _fields(given.value)
        if not any(_OF_PLATFORM.match(name) for name in fields):
            return False
        words = {
            name: item_of(self.page, slot, self.span)
            for name, slot in fields.items()
            if slot.value.text is not None
        }
        found = start_of_variables(words, self.whole)
        if found is not None:
            self._contained(node, found.start, named)
        return found is not None

    def _words_of(self, slot: Slot) -> list[Slot]:
        """Return the words that a container is given, as a list or as a text."""
        if slot.value.items is not None:
            return slot.value.items
        if not slot.value.is_text or slot.value.text is None:
            return []
        words = [w for one in commands_of(slot.value.text) for w in one.words]
        texts = [None if word.variables else word.value for word in words]
        opened = [" ".join(word.variables) for word in words]
        return [
            Slot(value=Value(constant=text, text=word.passage, open=said))
            for word, text, said in zip(words, texts, opened, strict=True)
        ]

    def named_devices(self, named: Scope) -> None:
        """Keep the GPU that a call names."""
        device = self._device(named)
        if device is not None:
            self.devices[str(getattr(device[0], "name", device[0]))] = device

    def _device(self, named: Mapping[str, Slot]) -> tuple[str | GPU, int | None] | None:
        """Return the GPU that arguments name, and how many where they say so."""
        for name in (*tables.GPUS, *tables.GPU_IDS):
            slot = named.get(name)
            if slot is None:
                continue
            text = slot.value.constant if slot.value.is_known else slot.value.open
            fields = _fields(slot.value)
            if not text and fields and name == "accelerators":
                card, number = next(iter(fields.items()))
                text = f"{card}:{number.value.constant}"
            if not isinstance(text, str) or (slot.value.open and "gpu." not in text):
                continue
            match = _GPU.match(text.partition("(")[0])
            spelled = "" if match is None else self._spelled(match["gpu"], fields)
            gpu = gpu_named_in(spelled) if spelled else None
            if match is not None and gpu is not None:
                counts = [int(match["count"])] if match["count"] else [*_counts(named)]
                return gpu, next(iter([*counts, *_counts(fields)]), None)
        return None

    def _spelled(self, name: str, fields: Mapping[str, Slot]) -> str:
        """Return a cloud's name of a GPU as the catalogue's."""
        size = fields.get("size")
        if size is not None:
            return f"{name}-{size.value.constant}"
        is_cloud = "modal" in self.imported.values()
        return tables.SMALLER.get(name, name) if is_cloud else name

    def placed(self, start: Start) -> Start:
        """Return a start with the GPU of the function that it is in."""
        for named in reversed(self.around):
            device = self._device(named)
            if device is not None and start.gpu is None:
                return replace(start, gpu=device[0], gpus=start.gpus or device[1] or 1)
            asked = _first(named, tables.GPUS)
            several = None if asked is None else asked.value.items
            if several and start.gpu is None:
                names = ", ".join(str(slot.value.constant) for slot in several[:6])
                said = f"The text allows several GPUs: {names}."
                return replace(start, open=(*start.open, said))
            start = replace(start, gpus=start.gpus or next(_counts(named), None))
        return start


def _first(named: Mapping[str, Slot], names: Sequence[str]) -> Slot | None:
    return next((named[name] for name in names if name in named), None)


def _fields(value: Value) -> dict[str, Slot]:
    """Return variables by name: of a table, of `NAME=value`, of objects with a name."""
    if value.fields is not None:
        return value.fields
    found: dict[str, Slot] = {}
    for slot in value.items or ():
        named = slot.value.fields or {}
        name = named.get("name")
        if name is not None and "value" in named:
            found[str(name.value.constant)] = named["value"]
        elif isinstance(slot.value.constant, str) and "=" in slot.value.constant:
            key, _, text = slot.value.constant.partition("=")
            found[key] = replace(slot, value=Value(constant=text))
    return found


def _counts(named: Mapping[str, Slot]) -> Iterator[int]:
    """Yield how many GPUs arguments grant."""
    for name, slot in named.items():
        value = slot.value
        if name in (*tables.COUNTS, "count", "nvidia.com/gpu"):
            text = str(value.constant).removesuffix(".0")
            if text.isdigit() and 0 < int(text) < 1000:  # noqa: PLR2004 - a count
                yield int(text)
        elif name == "device_ids" and value.items:
            yield len(value.items)
        elif name in tables.HOLD_COUNTS:
            for one in (value, *(each.value for each in value.items or ())):
                yield from _counts(one.fields or {})
