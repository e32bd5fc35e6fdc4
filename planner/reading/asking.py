"""Questions in words, as "will Llama 3.3 70B run on two RTX 3090s, for 20 users?".

A question names its model by the words of the name, and GPUs, context and users in
words too. What was taken for what is said in notes, for a question is no command.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from math import ceil
from typing import Any

from planner.engine.gpu import GPU
from planner.engine.human_numbers import human_int
from planner.errors import PlannerError
from planner.models.catalogue import find
from planner.planning.load import Load
from planner.reading.around import machines_in, release_in, why_not_planned
from planner.reading.container import gpu_named_in
from planner.reading.logs import gpus_of_gib
from planner.reading.named import NamedModel, models_in
from planner.reading.noted import is_other, noted_arguments
from planner.reading.reading import NOT_NAMED, Kind, Reading, without_gpu
from planner.values import frozen

_LONGEST = 2_000
"""Characters; a longer text is no question."""
_MOST_LINES = 12
_CODE = re.compile(
    r"^[ \t]*(?:import \w|from [\w.]+ import|def \w|class \w|[\w-]+:\s*$|#!)"
    r"|[{}<>]|\w\([^)]*[\"']|=\s*[\"']",
    re.MULTILINE,
)
"""Signs of code, of a configuration or of markup: no question."""
_NUMBERS = {
    "a": 1, "one": 1, "single": 1, "two": 2, "dual": 2, "pair of": 2, "three": 3,
    "four": 4, "quad": 4, "six": 6, "eight": 8, "sixteen": 16, "\u4e24": 2,
}  # fmt: skip
_TIMES = r"(?:\s*[x\u00d7*\u5f20\u5757]\s*|\s+)"
_GPU = re.compile(
    rf"(?:(?<![\w.])(?P<before>\d{{1,3}}|{'|'.join(_NUMBERS)}){_TIMES}|(?<![\w.-]))"
    r"(?P<gpu>(?:NVIDIA\s+|GeForce\s+|Tesla\s+)*"
    r"(?:RTX[\s-]*(?:PRO[\s-]*)?A?\d{4}|GTX[\s-]*\d{4}|A\d{4}|[AHBLTV]\d{1,3}S?"
    r"|GB\d{2,3}|GH200|[2345]0[5-9]0|DGX Spark)"
    r"(?:[\s-]*(?:Ti|SUPER|Ada|NVL|PCIe|SXM\d?|\d+\s?GB))*)s?(?!\w)"
    r"(?:\s*[x\u00d7*]\s*(?P<after>\d{1,3})\b)?",
    re.IGNORECASE | re.ASCII,
)
_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)})"
_NODES = re.compile(rf"\b{_COUNT}\s+nodes?(?:\s++(?:of|with|each)|,)*\s*\Z", re.I)
_MEMORY = re.compile(
    rf"(?:\b{_COUNT}\s*[x\u00d7*]\s*)?\b(?P<size>\d{{1,3}})\s?GB\s*"
    r"(?:of\s+)?(?:VRAM|GPUs?|cards?|GPU memory|graphics)\b",
    re.IGNORECASE,
)
_THOUSAND = r"(?P<{0}>\d{{1,3}}(?:[,.]\d{{3}})+|\d+(?:\.\d+)?)\s?(?P<{0}_k>[kKmM])?"
_CONTEXT = (
    re.compile(
        _THOUSAND.format("n")
        + r"[\s-]*(?:tokens?|ctx|context|max[\s_-]?(?:model[\s_-]?)?len)",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?:context|ctx|seq(?:uence)?)(?:[\s_-]*(?:length|len|window|size))?"
        r"\s*(?:of|=|:|is)?\s*" + _THOUSAND.format("n"),
        re.IGNORECASE,
    ),
    re.compile(r"(?<![$€£\d.])(?P<n>\d{1,4})(?P<n_k>[kK])\b"),
)
"""How a context is written, the surest way first."""
_PARTS = re.compile(
    _THOUSAND.format("p")
    + r"[\s-]*(?:tokens? )?(?:in|input|prompt)\b\W+(?:and |with |plus )?"
    + _THOUSAND.format("o")
    + r"[\s-]*(?:tokens? )?(?:out|output|answers?|generated)\b",
    re.IGNORECASE,
)
_USERS = (
    re.compile(
        r"\b(?P<n>\d{1,5})\s*(?:(?:concurrent|parallel|simultaneous|active)\s+)?"
        r"(?:users?|requests|sequences|clients|people|streams|conversations|sessions)",
        re.IGNORECASE,
    ),
    re.compile(r"\b(?:concurrency|batch size)\s*+(?:of|=|:)?\s*(?P<n>\d{1,5})", re.I),
)
_KV_FP8 = re.compile(
    r"fp8[\s_-]*(?:e4m3\s+)?kv|kv[\s_-]*cache[\w\s]{0,12}fp8", re.IGNORECASE
)
_FORMATS = (
    ("NVFP4", re.compile(r"\bnvfp4\b", re.IGNORECASE)),
    ("AWQ", re.compile(r"\bawq\b", re.IGNORECASE)),
    (
        "GPTQ-Int4",
        re.compile(r"\bgptq\b|\bint4\b|\bw4a16\b|\b4[\s-]?bits?\b|\bq4\b", re.I),
    ),
    ("FP8", re.compile(r"\bfp8\b", re.IGNORECASE)),
    ("GPTQ-Int8", re.compile(r"\bint8\b|\b8[\s-]?bits?\b", re.IGNORECASE)),
)
"""Formats of weights by the words for them."""
_K = {"": 1, "k": 1024, "m": 1024**2}
_ANSWER_SHARE = 4
"""Of a request's whole length, a quarter is taken for the answer."""
_USUAL_TOKENS = 4096
_NO_MODEL = NamedModel(name="", written="")


@frozen
class _Place:
    """A GPU that a question names, and how many."""

    gpu: str | GPU | None = None
    count: int | None = None
    nodes: int = 1
    note: str = ""

    def __str__(self) -> str:
        name = self.gpu.name if isinstance(self.gpu, GPU) else str(self.gpu)
        return f"{self.total} x {name}" if self.total else name

    @property
    def total(self) -> int | None:
        """GPUs of all nodes; None where the text does not say."""
        return None if self.count is None else self.count * self.nodes

    def arguments(self) -> dict[str, Any]:
        """Return how one copy of a model is split over the GPUs."""
        sizes = {
            "tensor_parallel_size": self.count or 1,
            "pipeline_parallel_size": self.nodes,
        }
        return {name: size for name, size in sizes.items() if size > 1}


def questions_in(text: str) -> tuple[Reading, ...]:
    """Return a reading for each model and each GPU that a question names.

    >>> [one.shown for one in questions_in("Does Qwen3 8B fit on a T4 or an L4?")]
    ['Qwen/Qwen3-8B on 1 x T4', 'Qwen/Qwen3-8B on L4']
    """
    if not _is_prose(text):
        return ()
    models = models_in(text)
    rest = text
    for model in models:
        rest = rest.replace(model.written, " ")
    refused = why_not_planned(rest)
    places = _gpus(rest) or (() if refused else _of_memory(rest))
    if not models and not places and not refused:
        return ()
    found = list(product(models or (_NO_MODEL,), places or (_Place(),)))
    return tuple(
        replace(
            without_gpu(_reading(text, rest, model, place), refused),
            num_starts=len(found),
        )
        for model, place in found
    )


def _is_prose(text: str) -> bool:
    is_short = len(text) <= _LONGEST and text.strip().count("\n") < _MOST_LINES
    return is_short and not is_other(text) and not _CODE.search(text)


def _reading(text: str, rest: str, model: NamedModel, place: _Place) -> Reading:
    """Return one reading; `rest` is the text without the names of models."""
    notes = [note for note in (model.note, place.note) if note]
    arguments = place.arguments()
    if arguments:
        notes.append("One copy of the model over all of the GPUs is meant.")
    rest = _GPU.sub(" ", rest)
    if _KV_FP8.search(rest):
        arguments["kv_cache_dtype"] = "fp8"
        rest = _KV_FP8.sub(" ", rest)
    name, format_note = _in_format(model.name, rest) if model.name else (None, "")
    length, load, load_note = _load(rest)
    if length is not None and load is None:
        arguments["max_model_len"] = length
    version = release_in(text)
    arguments |= noted_arguments(rest)
    is_more = bool(place.gpu or arguments or load or version or format_note)
    return Reading(
        kind=Kind.QUESTION if is_more else Kind.MODEL,
        given=text,
        model=name,
        gpu=place.gpu,
        vllm_version=None if version is None else version.value,
        engine_args=arguments,
        load=load,
        open=(
            *(() if name else (NOT_NAMED["model"],)),
            *(() if place.gpu else (NOT_NAMED["gpu"],)),
        ),
        notes=(*notes, *filter(None, (format_note, load_note))),
        gpus=place.total,
        shown=f"{name or 'a model'} on {place}" if place.gpu else name or "",
    )


def _gpus(text: str) -> tuple[_Place, ...]:
    """Return the GPUs that a text names, each with the number of them."""
    found = {
        str(machine.gpu): _Place(gpu=machine.gpu, count=machine.gpus)
        for machine in machines_in(text)
    }
    for match in _GPU.finditer(text):
        name = re.sub(r"\s+", " ", match["gpu"])
        gpu = gpu_named_in(f"RTX {name}" if name[0].isdigit() else name)
        if gpu is not None:
            count = _number(match["before"]) or _number(match["after"])
            key = gpu.name if isinstance(gpu, GPU) else gpu
            before = _NODES.search(text[: match.start()])
            nodes = _number(before["count"]) if before and count else None
            found.setdefault(key, _Place(gpu=gpu, count=count, nodes=nodes or 1))
    return tuple(found.values())


def _of_memory(text: str) -> tuple[_Place, ...]:
    """Return the GPU that is planned for "24 GB of VRAM"."""
    match = _MEMORY.search(text)
    alike = gpus_of_gib(int(match["size"])) if match else []
    if match is None or not alike:
        return ()
    first, *others = alike
    also = f"; so have {', '.join(others)}" if others else ""
    note = f"{match[0].strip()}: planned on {first}{also}."
    return (_Place(gpu=first, count=_number(match["count"]), note=note),)


def _number(written: str | None) -> int | None:
    if written is None:
        return None
    return _NUMBERS.get(written.lower()) or int(written)


def _in_format(model: str, text: str) -> tuple[str, str]:
    """Return the checkpoint of a model in the format that a text asks for."""
    form = next((form for form, sign in _FORMATS if sign.search(text)), None)
    if form is None:
        return model, ""
    wanted = f"{model}~{form}"
    published = f"{model}-{form}"
    if find(published) is not None:
        return published, f"In {form}: {published}."
    try:
        if find(wanted) is not None:
            return wanted, f"No checkpoint in {form} is known: {wanted} is estimated."
    except PlannerError:  # it is quantised already
        return model, f"{model} is quantised as it is: {form} is left out."
    return model, f"{form} is left out: name a checkpoint that has it."


def _load(text: str) -> tuple[int | None, Load | None, str]:
    """Return the context, the load where users are told, and what was assumed."""
    users = next((int(m["n"]) for sign in _USERS if (m := sign.search(text))), None)
    rest = text
    for sign in _USERS:
        rest = sign.sub(" ", rest)
    parts = _PARTS.search(rest)
    if parts is not None:
        prompt, answer = _tokens(parts, "p"), _tokens(parts, "o")
        return (
            prompt + answer,
            Load(
                prompt_tokens=max(prompt, 1), output_tokens=answer, requests=users or 1
            ),
            _letters(parts, "p", "o"),
        )
    told = next((m for sign in _CONTEXT if (m := sign.search(rest))), None)
    length = _tokens(told, "n") if told else 0
    letter = _letters(told, "n") if told else ""
    if not users:
        return length or None, None, letter
    whole = length or _USUAL_TOKENS
    answer = whole // _ANSWER_SHARE
    load = Load(
        prompt_tokens=max(whole - answer, 1), output_tokens=answer, requests=users
    )
    assumed = "" if length else f" of {whole:,} tokens, which is assumed"
    return (
        whole,
        load,
        f"{users} requests at once{assumed}, a quarter of each for the answer. "
        f"{letter}".rstrip(),
    )


def _tokens(match: re.Match[str], name: str) -> int:
    """Return a number of tokens: 32k is 32,768, and no part of one is cut off."""
    written = match[name]
    if re.fullmatch(r"\d{1,3}(?:[,.]\d{3})+", written):
        written = re.sub("[,.]", "", written)
    return ceil(float(written) * _K[(match[f"{name}_k"] or "").lower()])


def _letters(match: re.Match[str], *names: str) -> str:
    """Say how a letter after a number is read where a flag of vLLM has another rule."""
    for name in names:
        written = f"{match[name]}{match[f'{name}_k'] or ''}"
        tokens = _tokens(match, name)
        if written[-1].isalpha() and human_int(written) != tokens:
            return f"{written} is read as {tokens:,} tokens; {_of_flags(written)}."
    return ""


def _of_flags(written: str) -> str:
    number = human_int(written)
    return f"vLLM's flags {'refuse it' if number is None else f'read {number:,}'}"
