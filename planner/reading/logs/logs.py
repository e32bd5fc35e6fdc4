"""Logs of vLLM, errors alone, and people's notes of them: what they tell of a start."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from planner.confirming.from_log import OTHER_GPU
from planner.confirming.log import (
    LogReading,
    StartText,
    allocation_in,
    excerpt_of_start,
    is_telling,
    read_start,
)
from planner.confirming.log import starts_in as starts_in_log
from planner.engine.arguments import ARGUMENTS
from planner.engine.gpu import CPU, GPU
from planner.engine.releases import NEWEST, is_old, number_of
from planner.engine.server import SERVER_FLAGS
from planner.errors import PlannerError
from planner.reading.logs.command_before import command_in, head_of, typed_in
from planner.reading.logs.signs import OUTPUT, signs_in
from planner.reading.questions.devices import of_size, same_size_words
from planner.reading.questions.noted import (
    RECORD,
    is_note,
    noted_arguments,
    noted_gpu,
    noted_model,
    other_engine,
    planned_model,
)
from planner.reading.reading import Kind, Reading
from planner.reading.starts.around import release_in
from planner.reading.starts.images import gpu_named_in
from planner.units import GIB, format_gib

_LONGEST_SHOWN = 400_000
_LINE = re.compile(r"[^\n]+")
_LONGEST_WORDS = 6_000

_COUNT_OF_GPUS = re.compile(
    r"\b(\d{1,3})\s?[x\u00d7*]\s?(?:NVIDIA |GeForce |RTX |[AHBLT]\d)"
)
_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_WORKER = re.compile(r"\bWorker_(?:\w*?_)?TP(\d+)\b|VllmWorker(?: rank=|-)(\d+)\b")
_WORLD = re.compile(r"\brank \d+ in world size (\d+) is|World size \((\d+)\) is")
_OF_A_START = ("weights_gib", "kv_tokens", "cudagraph_gib", "activation_gib")


def reading_of_log(text: str, start: int = 1) -> Reading:
    """Return what a log, an error or a note of them tells of the start that wrote it.

    Args:
        text: a log, of which its head, one start and its end are read where it has
            many megabytes.
        start: which of its starts: 1 is the last with a figure or an outcome, the
            others follow from the last to the first.
    """
    starts = starts_in_log(text)
    check_start(start, len(starts))
    own = starts[start - 1]
    excerpt = excerpt_of_start(own)
    log = _complete(read_start(own, len(starts)), excerpt)
    command = command_in(text)
    noted = noted_arguments(_own_words(excerpt)) if is_note(excerpt) else {}
    words = text if is_note(text) else head_of(text)[0][:_LONGEST_WORDS]
    given = _Given(log, command, noted, excerpt, words)
    engine, kept = given.arguments()
    model, model_notes = given.model()
    version, version_notes = given.version()
    gpu, gpu_notes = _gpu(log, excerpt, words)
    gpus, gpu_open = given.gpus(engine)
    several = _several(starts, start)
    return Reading(
        kind=_kind(log, excerpt),
        given=text,
        model=model,
        gpu=gpu if gpu is not None or command is None else command.gpu,
        vllm_version=version,
        entrypoint=given.entrypoint(),
        env={} if command is None else command.env,
        engine_args=engine,
        kept=kept,
        open=tuple(_open(model, gpu, version, log, engine)) + gpu_open,
        notes=(*several, *model_notes, *version_notes, *gpu_notes, *given.notes),
        gpus=gpus,
        shown=own.replica or ("" if command is None else command.shown),
        num_starts=len(starts),
        number=start,
        log=log,
    )


def _own_words(text: str) -> str:
    """Return a note without the lines that start another engine."""
    return "\n".join(line for line in text.split("\n") if not other_engine(line))


def check_start(start: int, number: int) -> None:
    """Raise for the number of a start that a text does not have."""
    if not 1 <= start <= number:
        raise PlannerError(
            f"start={start}: the text holds {number} starts of vLLM; count from 1."
        )


def log_text(reading: Reading) -> str:
    """Return what is read of the start that a reading of a log is of."""
    return excerpt_of_start(starts_in_log(reading.given)[reading.number - 1])


def _several(starts: Sequence[StartText], number: int) -> tuple[str, ...]:
    """Say which start of a log was read, where it has several."""
    if len(starts) < 2:  # noqa: PLR2004 - one start needs no choice
        return ()
    which = "the last with an outcome" if number == 1 else f"number {number}"
    return (
        f"The log holds {len(starts)} starts: this is {which}, counted from the last. "
        "planner.read(text, start=2) reads the one before the last.",
    )


def log_lines(reading: Reading) -> tuple[tuple[int, int], ...]:
    """Return the lines from which a figure, an argument or the outcome came.

    Each is (start, end) in the whole text; none for a page of a server.
    """
    text = reading.given
    starts = starts_in_log(text)
    if reading.number > len(starts):
        return ()
    own = starts[reading.number - 1]
    read = _complete(read_start(own), excerpt_of_start(own))
    before = typed_in(command_in(text), text)
    told = (
        line.span()
        for begin, end in own.spans
        for line in _LINE.finditer(text, begin, min(end, begin + _LONGEST_SHOWN))
        if is_telling(line[0], read)
    )
    return (*before, *told)


def _complete(log: LogReading, excerpt: str) -> LogReading:
    """Add what a container or the kernel says of a process that was killed."""
    if log.error is not None or log.started or log.figures:
        return log
    lines = [line.strip() for line in signs_in(excerpt) if not RECORD.search(line)]
    killed = [line for line in lines if re.search(r"(?i)kill|137", line)]
    failed = [line for line in lines if not OUTPUT.search(line)]
    told = "; ".join(dict.fromkeys(killed or failed[-1:]))
    return replace(log, started=False, error=told[:2000]) if told else log


def _kind(log: LogReading, excerpt: str) -> Kind:
    has_start = any(name in log.figures for name in _OF_A_START)
    is_told = any(
        match[0].startswith(("DEBUG", "INFO")) for match in RECORD.finditer(excerpt)
    )
    is_error = log.error is not None and not (has_start or is_told or log.started)
    return Kind.ERROR if is_error else Kind.LOG


class _Given:
    """What log, command and note together tell."""

    def __init__(
        self,
        log: LogReading,
        command: Reading | None,
        noted: Mapping[str, Any],
        excerpt: str,
        words: str,
    ) -> None:
        self.log = log
        self.command = command
        self.noted = noted
        self.excerpt = excerpt
        self.words = words
        """What people say around it."""
        self.notes: list[str] = []

    def arguments(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return engine arguments, and those that have no effect on memory."""
        setting, typed_in = self.log.setting, self.command
        if setting.arguments:
            values: dict[str, Any] = {**self.noted, **setting.arguments}
        elif typed_in is not None:
            # Of a note, the words after the command are no flags of it.
            values = {**setting.noted, **typed_in.kept, **typed_in.engine_args}
            values |= self.noted
        else:
            values = {**setting.noted, **self.noted, **setting.resolved}
        values = {
            name: value
            for name, value in values.items()
            if name not in ("model", "model_tag") and value is not None
        }
        engine = {name: one for name, one in values.items() if name in ARGUMENTS}
        kept = {name: one for name, one in values.items() if name not in ARGUMENTS}
        unknown = [name for name in kept if name not in SERVER_FLAGS]
        self.notes += [
            f"{name} is in the log, but in no release that is known: kept."
            for name in unknown
        ]
        return engine, kept

    def model(self) -> tuple[str | None, tuple[str, ...]]:
        """Return the model, and what was taken for it."""
        typed_in = None if self.command is None else self.command.model
        written = self.log.model or typed_in
        if written is not None and not re.search(r"\w", written):
            written = None
        if written is not None:
            return planned_model(written)
        note = self.excerpt if is_note(self.excerpt) else ""
        named = noted_model(note) or noted_model(self.words)
        if named is None:
            return None, ()
        model, notes = planned_model(named)
        is_written = named.rpartition("/")[2].lower() in self.words.lower()
        taken = () if is_written else (f"Planned as {named}, by the text's words.",)
        return model, (*notes, *taken)

    def version(self) -> tuple[str | None, tuple[str, ...]]:
        """Return the release, without what a build from source adds to it."""
        command = None if self.command is None else self.command.vllm_version
        site = release_in(self.words)
        named = None if site is None else str(site.value)
        written = self.log.vllm_version or command or named
        if written is None:
            return None, ()
        release = ".".join(map(str, number_of(written)))
        if is_old(written) and re.search("dev|rc", written):
            return None, (f"vLLM was built from source: {written} tells no release.",)
        if release == written.lstrip("v") or written.count(".") == 1:
            return release, ()
        return release, (f"vLLM reported {written}: planned as {release}.",)

    def entrypoint(self) -> str:
        """Return how vLLM was started."""
        if self.command is not None:
            return self.command.entrypoint
        return "llm" if re.search(r"\bLLM\(", self.excerpt) else "serve"

    def gpus(self, engine: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...]]:
        """Return the number of GPUs, and what the log leaves open of it."""
        sizes = [engine.get(name) for name in _PARALLEL]
        whole = [size for size in sizes if isinstance(size, int) and size > 0]
        ranks = [int(one[0] or one[1]) for one in _WORKER.findall(self.excerpt)]
        world = [int(one or other) for one, other in _WORLD.findall(self.excerpt)]
        counted = _COUNT_OF_GPUS.search(self.excerpt) if self.noted else None
        if whole or self.log.setting.arguments or self.command is not None:
            return prod(whole), ()
        if world:
            return max(world), ()
        if ranks:
            return None, (
                f"The log shows workers up to rank {max(ranks)}, but not how many GPUs "
                "there were: give tensor_parallel_size.",
            )
        return (int(counted[1]) if counted else None), ()


def _gpu(
    log: LogReading, text: str, words: str
) -> tuple[str | GPU | None, tuple[str, ...]]:
    """Return the GPU that a log or the words around it name, or that has its memory."""
    device, name = log.setting.device, log.setting.device_name
    if device == "cpu":
        return CPU, ()
    if device not in (None, "cuda"):
        return None, (f"The log is of another device than NVIDIA's: {device.upper()}.",)
    named = None if name is None else gpu_named_in(name)
    if named is None:
        named = (noted_gpu(text) if is_note(text) else None) or noted_gpu(words)
    failed = allocation_in(text)
    total = failed.total_bytes if failed else None
    if log.total_gib:
        total = round(log.total_gib * GIB)
    return (named, ()) if total is None else _of_total(named, total, log)


def _of_total(
    named: str | GPU | None, total: int, log: LogReading
) -> tuple[str | GPU | None, tuple[str, ...]]:
    """Return the GPU with a total that a log reports; the named one where it fits."""
    free = bytes_in(log, "free_at_start_gib")
    left = min(free, total) if free else None
    facts = {"total_memory_bytes": total, "free_memory_bytes": left}
    notes: list[str] = []
    if isinstance(named, GPU):
        if abs(named.total_memory_bytes / total - 1) < OTHER_GPU:
            return GPU.named(named.name, **facts), ()
        notes.append(
            f"The text names {named.name}, but the log's GPU has {format_gib(total)}."
        )
    alike = of_size(total, is_bfloat16="bfloat16" in str(log.setting.shown))
    if not alike:
        notes.append(f"No known GPU has the {format_gib(total)} of the log's GPU.")
        return None, tuple(notes)
    return GPU.named(alike[0], **facts), (*notes, same_size_words(alike, total))


def bytes_in(log: LogReading, name: str) -> int | None:
    """Return a size among the figures of a log, which has GiB; None: not told."""
    gib = log.figures.get(name)
    return None if gib is None else round(gib * GIB)


def _open(
    model: str | None,
    gpu: str | GPU | None,
    version: str | None,
    log: LogReading,
    engine: Mapping[str, Any],
) -> Iterable[str]:
    """Yield what the log does not tell, in sentences."""
    if model is None:
        yield "Which model was served: model='org/name'."
    if gpu is None:
        yield "On which GPU: gpu='H100'."
    if version is None:
        yield f"Which release of vLLM: vllm_version='{NEWEST}'."
    if log.started is None and log.num_starts:
        yield "Whether it started: the text ends before that."
    if not log.setting.arguments and not engine:
        yield "Which arguments were given: none are in the text."
