"""Logs of vLLM, errors alone, and people's notes of them: what they tell of a start.

Source: vLLM 0.33.0 `logger.py`, `v1/core/kv_cache_utils.py`, `v1/worker/utils.py`;
PyTorch 2.9 `c10/cuda/CUDACachingAllocator.cpp`; Docker 28, Kubernetes 1.34 and Linux 6
`mm/oom_kill.c` for processes that were killed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

from planner.confirming.log import LogReading, allocation_in, excerpt_of, read_log
from planner.engine.arguments import ARGUMENTS
from planner.engine.generations import AMPERE
from planner.engine.gpu import CPU, GPU, catalogue
from planner.engine.releases import NEWEST, is_old, number_of
from planner.engine.server import SERVER_FLAGS
from planner.reading.container import gpu_named_in, starts_in
from planner.reading.noted import (
    RECORD,
    is_note,
    noted_arguments,
    noted_gpu,
    noted_model,
    planned_model,
)
from planner.reading.passage import Passage
from planner.reading.reading import Kind, Reading, reading_of
from planner.reading.shell import Command, commands_of
from planner.solve.price_list import list_prices
from planner.units import GIB, format_gib

_SIGN = re.compile(
    r"Traceback \(most recent call last\)|OutOfMemoryError:|CUDA out of memory\b"
    r"|CUDA error: out of memory|Tried to allocate [\d.]+ [KMG]i?B"
    r"|(?i:available KV cache(?: memory)?): -?\d|Model loading took:? [\d.]+ G"
    r"|Loading model weights took [\d.]+"
    r"|KV cache size(?: as reported at startup)?: [\d,]+ tokens"
    r"|aximum concurrency for [\d,]+ tokens|Graph capturing (?:finished|took)"
    r"|# [A-Z]+ blocks: \d+, # CPU blocks|non-default args: \{|LLM engine \(v\d"
    r"|server version v?\d|Engine ?[Cc][o]re (?:failed|encountered|hit|init)"
    r"|No available memory for the cache blocks|max seq len \(\d+\)"
    r"|User-specified max_model_len \(\d|Free memory on device .{0,40}\d/\d[\d.]* GiB"
    r"|memory reserved for KV Cache is|warming up sampler with \d+ dummy requests"
    r"|NCCL (?:error|WARN)"
    r"|nccl(?:UnhandledCuda|System|Internal|InvalidUsage|Remote)Error"
    r"|\bOOMKilled\b|(?i:exit(?:ed)?(?: with)?(?: code| status)?[ :=(]+137\b)"
    r"|^\s*Killed\s*$|: line \d+: +\d+ Killed\b|(?i:out of memory): Killed process \d"
    r"|oom-kill:|larger than the number of available GPUs \(\d"
    r"|total number of available GPUs|Current node has no GPU available"
    r"|^\s*(?:[a-z_]\w*\.)*\w*(?:Error|Exception): \S|Bus error \(core dumped\)"
    r"|total_gpu_memory \(?[\d.]+ ?GiB|\"kv_cache_memory_gib\": \d"
)
"""What only a program's output has, with its figures."""
_COMMENT = re.compile(r"(?:^|\s)(?:#(?! [A-Z]+ blocks: \d)|//)")
_SHELL = re.compile(
    r"^\s*(?:if|while|until|grep|echo|sed|awk|printf|export|raise|print|assert|logger)\b"
    r"|\bgrep\s|\braise\s+\w+\("
)
"""A line of a program that looks for an error, or raises one."""
_CODE = re.compile(r"^[ \t]*(?:import|from|def|class|with|for)\s|\w\(", re.MULTILINE)
_MANIFEST = re.compile(r"^(?:apiVersion|kind|services):", re.MULTILINE)
_SAME_SIZE = 0.2 * GIB, 0.005
"""How far totals of one kind of GPU are apart, in bytes or as a share: drivers differ.

Source: published logs with 23.65 and 23.52 GiB of an RTX 4090, and with 179.06 and
178.35 GiB of a B200.
"""
_LOOKED_AT = 100_000
_LONGEST_CODE = 50_000
_BEFORE = 20_000
"""Characters before the log that may hold the command which started it."""

_COUNT_OF_GPUS = re.compile(
    r"\b(\d{1,3})\s?[x\u00d7*]\s?(?:NVIDIA |GeForce |RTX |[AHBLT]\d)"
)
_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_WORKER = re.compile(r"\bWorker_(?:\w*?_)?TP(\d+)\b|VllmWorker(?: rank=|-)(\d+)\b")
_WORLD = re.compile(r"\brank \d+ in world size (\d+) is|World size \((\d+)\) is")
_OF_A_START = ("weights_gib", "kv_tokens", "cudagraph_gib", "activation_gib")


def is_log(text: str) -> bool:
    """Return whether a text is what a program wrote, not a command, manifest or code.

    >>> is_log("INFO 04-22 01:47:55 [gpu_worker.py:436] x")
    True
    >>> is_log("vllm serve org/m  # was: CUDA out of memory")
    False
    """
    signs = _signs(text[:_LOOKED_AT] + "\n" + text[_LOOKED_AT:][-_LOOKED_AT:])
    first = next(signs, None)
    if first is None:
        return False
    if _MANIFEST.search(text, 0, _LOOKED_AT):
        return any(RECORD.search(line) for line in (first, *signs))
    return not _is_code(text)


def _signs(text: str) -> Iterator[str]:
    """Yield the lines that only a program's output has."""
    for line in text.splitlines():
        sign = RECORD.search(line) or _SIGN.search(line)
        if sign is None or _SHELL.search(line):
            continue
        comment = _COMMENT.search(line)
        if comment is None or comment.start() >= sign.start():
            yield line


def _is_code(text: str) -> bool:
    if len(text) > _LONGEST_CODE or not _CODE.search(text):
        return False
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def reading_of_log(text: str) -> Reading:
    """Return what a log, an error or a note of them tells of the start that wrote it.

    Of several starts, the last with a figure or an outcome counts. Of a log of many
    megabytes, its head, its last start and its end are read.
    """
    excerpt = excerpt_of(text)
    log = _complete(read_log(text), excerpt)
    command = command_in(text)
    noted = noted_arguments(excerpt) if is_note(excerpt) else {}
    given = _Given(log, command, noted, excerpt)
    engine, kept = given.arguments()
    model, model_notes = given.model()
    version, version_notes = given.version()
    gpu, gpu_notes = _gpu(log, excerpt)
    gpus, gpu_open = given.gpus(engine)
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
        notes=(*model_notes, *version_notes, *gpu_notes, *given.notes),
        gpus=gpus,
        shown="" if command is None else command.shown,
        log=log,
    )


def _complete(log: LogReading, excerpt: str) -> LogReading:
    """Add what a container or the kernel says of a process that was killed."""
    if log.error is not None or log.started:
        return log
    if log.figures:
        return log
    lines = [line.strip() for line in _signs(excerpt)]
    killed = [line for line in lines if re.search(r"(?i)kill|137", line)]
    told = "; ".join(dict.fromkeys(killed or lines[-1:]))
    return replace(log, started=False, error=told[:2000]) if told else log


def _kind(log: LogReading, excerpt: str) -> Kind:
    has_start = any(name in log.figures for name in _OF_A_START)
    is_told = any(
        match[0].startswith(("DEBUG", "INFO")) for match in RECORD.finditer(excerpt)
    )
    is_error = log.error is not None and not (has_start or is_told or log.started)
    return Kind.ERROR if is_error else Kind.LOG


def command_in(text: str) -> Reading | None:
    """Return the command before a log in the same text, as a reading of its own."""
    lines = text[:_BEFORE].splitlines(keepends=True)
    head = ""
    for line in lines:
        if RECORD.search(line) or _SIGN.search(line):
            break
        head += line
    if not re.search(r"\bvllm\b|\bdocker\b|\bpodman\b|lm[_-]eval", head):
        return None
    return _first_command(head)


@lru_cache(maxsize=1)  # each change that is offered is written into the same text
def _first_command(head: str) -> Reading | None:
    for command in commands_of(Passage.whole(head)):
        if any(starts_in([command], head)):
            own = _own_text(command, head)
            found = next(starts_in(commands_of(Passage.whole(own)), own), None)
            return None if found is None else reading_of(found.kind, own, found.start)
    return None


def _own_text(command: Command, text: str) -> str:
    """Return a command with the variables before it, without a prompt."""
    words = [word for word in command.words if word.value not in ("$", ">", "%", "#")]
    own = [word.start for word in command.assigned.values()]
    start = min([words[0].start if words else 0, *own])
    line = text.rfind("\n", 0, start) + 1 if own else start
    return text[line : command.words[-1].end]


class _Given:
    """What log, command and note together tell."""

    def __init__(
        self,
        log: LogReading,
        command: Reading | None,
        noted: Mapping[str, Any],
        excerpt: str,
    ) -> None:
        self.log = log
        self.command = command
        self.noted = noted
        self.excerpt = excerpt
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
        if written is None and is_note(self.excerpt):
            written = noted_model(self.excerpt)
        return (None, ()) if written is None else planned_model(written)

    def version(self) -> tuple[str | None, tuple[str, ...]]:
        """Return the release, without what a build from source adds to it."""
        command = None if self.command is None else self.command.vllm_version
        written = self.log.vllm_version or command
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


def _gpu(log: LogReading, text: str) -> tuple[str | GPU | None, tuple[str, ...]]:
    """Return the GPU that a log names, or that has the memory which it reports."""
    if log.setting.device == "cpu":
        return CPU, ()
    name = log.setting.device_name
    named = None if name is None else gpu_named_in(name)
    if named is None and is_note(text):
        named = noted_gpu(text)
    failed = allocation_in(text)
    total = _bytes(log, "total_gpu_gib") or (failed.total_bytes if failed else None)
    if total is None:
        return named, ()
    free = _bytes(log, "free_at_start_gib")
    left = None if free is None else min(free, total)
    facts = {"total_memory_bytes": total, "free_memory_bytes": left}
    if isinstance(named, GPU):
        return GPU.named(named.name, **facts), ()
    alike = _of_size(total, is_bfloat16="bfloat16" in str(log.setting.shown))
    if not alike:
        return None, (f"No known GPU has the {format_gib(total)} of the log's GPU.",)
    return GPU.named(alike[0], **facts), (_same_size_words(alike, total),)


def gpus_of_gib(size: int) -> list[str]:
    """Return the GPUs that are sold with so many GB, and report a little less."""
    return _of_size(round(0.96 * size * GIB), within=round(0.06 * size * GIB))


def _of_size(
    total: int, *, within: int | None = None, is_bfloat16: bool = True
) -> list[str]:
    """Return the GPUs of a size: what one can rent first, then the newest."""
    rented = list_prices().prices
    least, share = _SAME_SIZE
    apart = max(least, share * total) if within is None else within
    found = [
        gpu
        for gpu in catalogue()
        if not gpu.mig_profile
        and abs(gpu.total_memory_bytes - total) <= apart
        and (gpu.compute_capability >= AMPERE or not is_bfloat16)
    ]
    found.sort(
        key=lambda gpu: (
            gpu.name not in rented,
            -gpu.compute_capability[0],
            -gpu.compute_capability[1],
        )
    )
    return [gpu.name for gpu in found]


def _same_size_words(names: Sequence[str], total: int) -> str:
    first, *others = names
    also = f", and so have {', '.join(others)}" if others else ""
    return (
        f"The text names no GPU. {first} has the {format_gib(total)} that it reports"
        f"{also}: planned on {first} unless another is named."
    )


def _bytes(log: LogReading, name: str) -> int | None:
    gib = log.figures.get(name)
    return None if not gib else round(gib * GIB)


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
    if not log.setting.arguments and not engine:
        yield "Which arguments were given: none are in the text."
