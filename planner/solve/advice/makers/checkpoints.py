"""Another checkpoint of the same model: published in the catalogue, else estimated.

A checkpoint counts as one of the same model by its name and the shape of its layers.
Where the catalogue has none of a format, a usual one is estimated
(`planner.models.estimates`): its plan is an estimate, and the user looks for the
checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from planner.models import catalogue, estimates
from planner.models.architecture import ModelArchitecture
from planner.solve.advice.situation import Burden, Candidate, Situation
from planner.units import format_gib

_FORMATS = (
    ("FP8", 8, r"fp8(?:[-_.](?:dynamic|static[-_]pertensor|kv))?"),
    ("INT8", 8, r"(?:quantized\.)?w8a8|w8a16|(?:gptq-)?int8"),
    ("NVFP4", 4, r"nvfp4"),
    ("MXFP4", 4, r"mxfp4"),
    ("AWQ", 4, r"awq(?:-int4)?"),
    ("INT4", 4, r"(?:quantized\.)?w4a16|(?:gptq-)?int4|gptq"),
    ("BF16", 16, r"bf16"),
)
_SUFFIX = {
    name: re.compile(rf"[-_.](?:{pattern})\Z", re.IGNORECASE)
    for name, _, pattern in _FORMATS
}
_BITS = {name: bits for name, bits, _ in _FORMATS}
"""Formats that are estimated where no checkpoint is known, for any 16-bit model."""
_EIGHT = 8
_SIXTEEN = 16


def eight_bits(situation: Situation) -> Iterator[Candidate]:
    """Use a checkpoint of 8 bits."""
    named = [name for name in _same(situation) if _BITS[format_of(name)] == _EIGHT]
    yield from (_published(situation, name) for name in named)
    if not named:
        yield from _estimated(situation, "FP8")
        yield from _estimated(situation, "GPTQ-Int8")


def awq(situation: Situation) -> Iterator[Candidate]:
    """Use an AWQ checkpoint."""
    yield from _four_bits(situation, "AWQ", "AWQ")


def gptq(situation: Situation) -> Iterator[Candidate]:
    """Use a GPTQ checkpoint, or another of 4-bit integers without zero points."""
    yield from _four_bits(situation, "INT4", "GPTQ-Int4")


def nvfp4(situation: Situation) -> Iterator[Candidate]:
    """Use an NVFP4 checkpoint."""
    yield from _four_bits(situation, "NVFP4", "NVFP4")


def mxfp4(situation: Situation) -> Iterator[Candidate]:
    """Use an MXFP4 checkpoint, which holds only experts in 4 bits."""
    if situation.model is not None and situation.model.is_moe:
        yield from _four_bits(situation, "MXFP4", "MXFP4")


def _four_bits(situation: Situation, form: str, estimate: str) -> Iterator[Candidate]:
    """Yield the published checkpoints of a format, else the estimated one."""
    named = [name for name in _same(situation) if format_of(name) == form]
    yield from (_published(situation, name) for name in named)
    if not named:
        yield from _estimated(situation, estimate)


def _published(situation: Situation, name: str) -> Candidate:
    form = format_of(name)
    is_coarse = _BITS.get(form, _SIXTEEN) < _EIGHT
    return Candidate(
        title=f"Use the {form or 'published'} checkpoint {name}",
        changes={"model": name},
        cost=f"Another download{_size(situation, name)}, made by its publisher; "
        "answers may change "
        f"{'noticeably' if is_coarse else 'slightly'}.{_cache_of(situation, name)}",
        burden=Burden.ABILITY if is_coarse else Burden.ACCURACY,
    )


def _estimated(situation: Situation, form: str) -> Iterator[Candidate]:
    """Yield a usual checkpoint of a 16-bit model that was read from files."""
    model = situation.model
    if model is None or model.files is None or model.quantization is not None:
        return
    if situation.plan.settings.quantization is not None:
        return
    bits = estimates.FORMATS[form].bits
    search = estimates.searched_name(situation.plan.name, form)
    name = estimates.name_of(situation.plan.name, form)
    yield Candidate(
        title=f"Use {_article(form)} {form} checkpoint ({bits} bits), estimated as a "
        "usual one",
        changes={"model": name},
        cost=f"Search the Hub for {search}: the figures are those of a usual {form} "
        f"checkpoint{_size(situation, name)}, and answers may change "
        f"{'noticeably' if bits < _EIGHT else 'slightly'}.",
        burden=Burden.ABILITY if bits < _EIGHT else Burden.ACCURACY,
    )


def _article(form: str) -> str:
    """Return the article of a format's name, of which most are spelled out.

    >>> _article("AWQ"), _article("GPTQ-Int4")
    ('an', 'a')
    """
    return "an" if form[0] in "AFMN" else "a"


def _size(situation: Situation, name: str) -> str:
    """Write the size of a checkpoint, such as " of 18.34 GiB"; "" where unknown."""
    plan = situation.again(model=name)
    loading = None if plan is None else plan.loading
    size = None if loading is None else loading.checkpoint_bytes
    return f" of {format_gib(size)}" if size else ""


def _cache_of(situation: Situation, name: str) -> str:
    """Say where a checkpoint changes the dtype of the KV cache too."""
    plan, now = situation.again(model=name), situation.plan.resolved
    then = None if plan is None else plan.resolved
    if now is None or then is None or then.kv_cache_dtype == now.kv_cache_dtype:
        return ""
    return f" It keeps the KV cache in {then.kv_cache_dtype}."


def _same(situation: Situation) -> tuple[str, ...]:
    """Return the bundled checkpoints of this model with fewer bits."""
    model = situation.model
    if model is None or situation.plan.settings.quantization is not None:
        return ()
    now = _BITS.get(format_of(model.name), _SIXTEEN)
    return tuple(
        name
        for name in siblings(model.name)
        if _BITS.get(format_of(name), _SIXTEEN) < now and _is_same(situation, name)
    )


def _is_same(situation: Situation, name: str) -> bool:
    """Whether a checkpoint with a similar name has the same layers."""
    plan = situation.again(model=name)
    other = None if plan is None else plan.model
    mine = situation.model
    return other is not None and mine is not None and shape_of(other) == shape_of(mine)


def shape_of(model: ModelArchitecture) -> tuple[object, ...]:
    """Return what checkpoints of the same model have alike, whatever their format."""
    return (
        model.hidden_size,
        model.num_hidden_layers,
        model.num_attention_heads,
        model.num_kv_heads,
        model.head_size,
        model.num_experts,
        model.vocab_size,
    )


def siblings(name: str) -> tuple[str, ...]:
    """Return the bundled checkpoints of the same model, most bits and use first.

    >>> siblings("Qwen/Qwen3-4B")[:2]
    ('Qwen/Qwen3-4B-FP8', 'Qwen/Qwen3-4B-AWQ')
    """
    family = _families().get(stem_of(name), ())
    return tuple(other for other in family if other.lower() != name.lower())


@cache
def _families() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for entry in catalogue.popular():
        if entry.shape_of and not format_of(entry.name):
            continue  # a copy with as many bits
        found.setdefault(stem_of(entry.name), []).append(entry.name)
    return {
        stem: tuple(
            sorted(names, key=lambda name: -_BITS.get(format_of(name), _SIXTEEN))
        )
        for stem, names in found.items()
        if len(names) > 1
    }


def stem_of(name: str) -> str:
    """Return a model's name without its publisher and format."""
    stem = name.rstrip("/").rpartition("/")[2]
    pattern = _SUFFIX.get(format_of(stem))
    if pattern is not None:
        stem = pattern.sub("", stem)
    return stem.lower().removeprefix("meta-").replace("_", ".")


def format_of(name: str) -> str:
    """Return the format that a name ends in, such as FP8; empty: it names none."""
    return next((fmt for fmt, end in _SUFFIX.items() if end.search(name)), "")
