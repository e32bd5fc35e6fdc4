"""What programs print of GPUs, of a running server or of a model, pasted alone.

Source: NVIDIA driver 580 `nvidia-smi` (its table, -L, -q and --query-gpu); vLLM 0.33.0
`collect_env.py`; Prometheus' text format 0.0.4; Transformers 4.57
`configuration_utils.py` for config.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from planner.engine.gpu import GPU
from planner.models.catalogue import find
from planner.reading.logs.running import reading_of_metrics
from planner.reading.questions.gpu_words import gpus_written_in
from planner.reading.questions.noted import noted_gpu, planned_model
from planner.reading.questions.question_words import blanked
from planner.reading.reading import NOT_NAMED, Kind, Reading
from planner.reading.starts.images import gpu_named_in
from planner.units import MIB, format_gib
from planner.values import frozen

_TABLE = re.compile(
    r"^\|\s+(?P<index>\d+)\s+(?P<name>(?:NVIDIA|Tesla|Quadro|GRID)\b[\w /-]*?)"
    r"(?:\.\.\.)?\s{2,}[^|\n]*\|[^|\n]*\|[^|\n]*\|[ \t]*\n"
    r"\|[^|\n]*\|\s*(?P<used>\d+)MiB\s*/\s*(?P<total>\d+)MiB",
    re.MULTILINE,
)
_LISTED = re.compile(
    r"^[ \t]*GPU (?P<index>\d+): (?P<name>[^(\n]+)(?=\(UUID|$)", re.MULTILINE
)
_COLLECTED = re.compile(r"^[ \t]*vLLM Version[ \t]*: v?(\d+\.\d+\.\d+)", re.MULTILINE)
"""In what vLLM's collect_env.py prints."""
_SLICE = re.compile(
    r"^[ \t]+MIG (?P<profile>\d+[cg]\.\d+gb\S*)[ \t]+Device", re.MULTILINE
)
_NAMED = re.compile(r"^[ \t]*Product Name[ \t]*: (?P<name>[^\n]+)$", re.MULTILINE)
_FREE = re.compile(
    r"FB Memory Usage\s*\n(?:[^\n]*\n){1,3}?\s*Free\s*: (?P<free>\d+) MiB"
)
_CSV = re.compile(
    r"^(?:\d+, ?)?(?P<name>(?:NVIDIA|Tesla|Quadro|GRID)\b[^,\n]*)"
    r"(?P<sizes>(?:, ?[^,\n]+)+)$",
    re.MULTILINE,
)
_CSV_HEAD = re.compile(r"^[^\n]*\bmemory\.(?:total|free|used)[^\n]*$", re.MULTILINE)
_MIB = re.compile(r"(\d+) MiB")
_PRINTED = (
    r"^[|+]|^[ \t]*+(?:GPU \d+:|MIG )|MiB\b|^\S*+[ \t]*+[$#>] ?nvidia-smi"
    r"|^\S*[$#>] ?nvidia-smi|^\w{3} \w{3} +\d+ [\d:]+|^[=+-]++$"
    r"|^[ \t]*+[\w ./()-]+ : |^[ \t]++[\w /-]++$"
)
_OF_GPUS = re.compile(_PRINTED)
"""Lines of what `nvidia-smi` prints."""
_OF_A_PAGE = re.compile(rf"{_PRINTED}|^[\w /-]++$")
"""The same, and headings."""
_LINE = re.compile(r"[^\n]+")
_LONGEST = 200_000
_MOST_BESIDE = 60
"""Words beside a config.json."""
_MOST_WORDS = 12
"""Words beside an `nvidia-smi`: more are a question of its own."""


@frozen
class _Card:
    """One GPU as a program lists it."""

    name: str
    used_bytes: int | None = None
    free_bytes: int | None = None


def reading_of_page(text: str) -> Reading | None:
    """Return what a pasted page tells; None where it is none.

    >>> reading_of_page("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)").gpus
    1
    """
    if len(text) > _LONGEST:
        return None
    return reading_of_metrics(text) or _of_config(text) or _of_gpus(text)


def _of_gpus(text: str) -> Reading | None:
    cards = tuple(_cards(text))
    lines = (line for line in text.splitlines() if not _OF_A_PAGE.search(line))
    version = _COLLECTED.search(text)
    is_all = version is not None or len(" ".join(lines).split()) <= _MOST_WORDS
    if not (cards and is_all):
        return None
    found = _of_cards(text, cards)
    return replace(found, vllm_version=None if version is None else version[1])


def _of_cards(text: str, cards: tuple[_Card, ...]) -> Reading:
    gpu, note = _gpu(cards)
    names = list(dict.fromkeys(card.name for card in cards))
    unlike = f"Several kinds: {', '.join(names)}. " if len(names) > 1 else ""
    return Reading(
        kind=Kind.GPUS,
        intent="which_models" if gpu else "",
        given=text,
        gpu=gpu,
        gpus=sum(card.name == cards[0].name for card in cards),
        open=() if gpu else (NOT_NAMED["model"], NOT_NAMED["gpu"]),
        notes=(*([unlike + note] if unlike or note else []),),
    )


def gpus_beside(text: str) -> tuple[Reading | None, tuple[tuple[int, int], ...]]:
    """Return what `nvidia-smi` prints in a text of something else, and its lines.

    Of several kinds of GPUs those that the words of the text name, where they do.
    """
    cards = tuple(_cards(text[:_LONGEST]))
    if not cards:
        return None, ()
    lines = [x.span() for x in _LINE.finditer(text) if _OF_GPUS.search(x[0])]
    named = {str(one.gpu) for one in gpus_written_in(blanked(text, lines))}
    own = tuple(one for one in cards if str(gpu_named_in(one.name)) in named)
    return _of_cards(text, own or cards), tuple(lines)


def gpu_at(text: str, numbers: Iterable[int]) -> GPU | None:
    """Return the fullest of the GPUs with these numbers that a program lists."""
    cards = tuple(_cards(text[:_LONGEST]))
    chosen = tuple(cards[one] for one in numbers if one < len(cards))
    return _gpu(chosen)[0] if chosen else None


def _gpu(cards: tuple[_Card, ...]) -> tuple[GPU | None, str]:
    """Return the GPU with the least that is free of all of them, and what was taken."""
    known = gpu_named_in(cards[0].name)
    if known is None:
        return None, f"{cards[0].name} is not in the catalogue."
    gpu = known if isinstance(known, GPU) else GPU.named(known)
    total = gpu.total_memory_bytes
    alike = [card for card in cards if card.name == cards[0].name]
    free = [
        min(card.free_bytes, total)
        if card.free_bytes is not None
        else max(total - (card.used_bytes or 0), 0)
        for card in alike
        if (card.free_bytes, card.used_bytes) != (None, None)
    ]
    if not free:
        return gpu, ""
    taken = f"{format_gib(total - min(free))} of a GPU are taken by other programs."
    return GPU.named(gpu.name, free_memory_bytes=min(free)), taken


def _cards(text: str) -> Iterator[_Card]:
    """Yield the GPUs of the first form of `nvidia-smi` that has any."""
    forms = (_tabled, _listed, _queried, _separated)
    yield from next(filter(None, (list(form(text)) for form in forms)), [])


def _tabled(text: str) -> Iterator[_Card]:
    for match in _TABLE.finditer(text):
        yield _Card(name=match["name"], used_bytes=int(match["used"]) * MIB)


def _listed(text: str) -> Iterator[_Card]:
    """Yield the GPUs of `nvidia-smi -L`; of one that is divided, its MIG slices."""
    for match, lines in _parts(_LISTED, text):
        slices = [f" MIG {profile}" for profile in _SLICE.findall(lines)]
        for profile in slices or [""]:
            yield _Card(name=f"{match['name']}{profile}")


def _queried(text: str) -> Iterator[_Card]:
    for match, lines in _parts(_NAMED, text):
        free = _FREE.search(lines)
        yield _Card(
            name=match["name"].strip(),
            free_bytes=None if free is None else int(free["free"]) * MIB,
        )


def _parts(sign: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each match with the text up to the next."""
    found = list(sign.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    for match, end in zip(found, ends, strict=False):
        yield match, text[match.end() : end]


def _separated(text: str) -> Iterator[_Card]:
    head = _CSV_HEAD.search(text)
    if head is None:
        return
    columns = [one.split()[0] for one in head[0].split(",") if "memory." in one]
    for match in _CSV.finditer(text):
        sizes = dict(zip(columns, map(int, _MIB.findall(match["sizes"])), strict=False))
        used, free = sizes.get("memory.used"), sizes.get("memory.free")
        yield _Card(
            name=match["name"].strip(),
            used_bytes=None if used is None else used * MIB,
            free_bytes=None if free is None else free * MIB,
        )


def _of_config(text: str) -> Reading | None:
    """Return the model whose config.json a text is."""
    if '"model_type"' not in text or "{" not in text:
        return None
    start, end = text.index("{"), text.rfind("}") + 1
    beside = f"{text[:start]} {text[end:]}"
    if len(beside.split()) > _MOST_BESIDE or "```" in beside:
        return None
    try:
        config = json.loads(text[start:end])
    except (ValueError, RecursionError):
        return None
    if not isinstance(config, dict) or not _is_config(config):
        return None
    model, notes = _named(config)
    gpu = noted_gpu(beside)
    classes = config.get("architectures")
    what = classes[0] if isinstance(classes, list) and classes else config["model_type"]
    save = (
        f"This is the config.json of a model ({what}). To plan exactly this one, save "
        "it in a folder and give the folder as the model: model='folder'."
    )
    return Reading(
        kind=Kind.MODEL,
        given=text,
        model=model,
        gpu=gpu,
        open=(
            *([] if model else [f"{NOT_NAMED['model']} {save}"]),
            *([] if gpu else [NOT_NAMED["gpu"]]),
        ),
        notes=(*notes, *([save] if model else [])),
    )


def _is_config(config: Mapping[str, Any]) -> bool:
    sizes = {"hidden_size", "n_embd", "d_model", "num_hidden_layers", "text_config"}
    return isinstance(config.get("model_type"), str) and bool(sizes & config.keys())


def _named(config: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """Return the model that a configuration names, where that is one of the Hub."""
    written = config.get("_name_or_path")
    if not isinstance(written, str) or not re.fullmatch(r"[\w./~-]+", written):
        return None, ()
    model, notes = planned_model(written)
    is_known = find(model) is not None or re.fullmatch(r"[\w.-]+/[\w.-]+", model)
    return (model, notes) if is_known else (None, ())
