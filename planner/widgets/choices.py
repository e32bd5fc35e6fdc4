"""What the lists offer, in vLLM's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from planner import catalogue
from planner.errors import PlannerError
from planner.gpu import CPU, GPU
from planner.gpu import catalogue as gpu_catalogue
from planner.published import is_published
from planner.releases import MODELLED
from planner.sources.device import attached_gpus, gpu_named
from planner.units import format_gib
from planner.widgets.fields import VLLMS_CHOICE

Options = tuple[tuple[str, object], ...]


def _words(*words: str) -> Options:
    return tuple((word, word) for word in words)


DTYPES = _words("auto", "bfloat16", "float16", "float32")
"""Source: vLLM 0.33.0 `config/model.py` ModelDType."""

CHOICE: Options = ((VLLMS_CHOICE, None),)

KV_CACHE_DTYPES: Options = (
    *CHOICE,
    *_words(
        "auto",
        "bfloat16",
        "float16",
        "fp8",
        "fp8_e4m3",
        "fp8_e5m2",
        "fp8_per_token_head",
        "int8_per_token_head",
        "int4_per_token_head",
        "nvfp4",
        "turboquant_k8v4",
        "turboquant_4bit_nc",
        "turboquant_k3v4_nc",
        "turboquant_3bit_nc",
    ),
)
"""Source: vLLM 0.33.0 `config/cache.py` CacheDType, those of any model."""

QUANTIZATIONS: Options = (
    ("as published", None),
    *_words(
        "fp8_per_tensor",
        "fp8_per_channel",
        "fp8_per_block",
        "mxfp8",
        "int8_per_channel_weight_only",
        "experts_int8",
        "nvfp4_per_token",
    ),
)
"""Source: vLLM 0.33.0 `model_executor/layers/quantization`, those that vLLM applies
itself to a checkpoint that is not quantised."""

ENTRYPOINTS: Options = (
    *(("vllm serve", "serve"), ("LLM class", "llm")),
    ("async engine (Ray Data LLM)", "engine"),
)

_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
_STATES = ("mamba_d_state", "ssm_state_size", "linear_num_value_heads", "state_size")
_KINDS = {
    "vision_config": "images",
    "audio_config": "sound",
    "thinker_config": "images, sound",
}


@cache
def models() -> tuple[tuple[str, str, str], ...]:
    """Name, number of parameters and kind of each bundled model."""
    return tuple(
        (entry.name, _size(entry.num_parameters), kind_of(config))
        for entry, config in catalogue.configs()
    )


def _size(count: int | None) -> str:
    """Write a number of parameters.

    >>> _size(8_030_261_248), _size(596_049_920), _size(None)
    ('8 B', '596 M', '')
    """
    if count is None:
        return ""
    if count < 10**9:
        return f"{count / 10**6:,.0f} M"
    billions = count / 10**9
    return f"{billions:,.1f}".removesuffix(".0") + " B"


def kind_of(config: Mapping[str, Any]) -> str:
    """Say in a word or two what of a model's kind bears on its memory.

    >>> kind_of({"num_experts": 128}), kind_of({"vision_config": {}})
    ('experts', 'images')
    """
    parts = [config, *(one for one in config.values() if isinstance(one, Mapping))]
    words = ["experts"] * any(part.get(key) for part in parts for key in _EXPERTS)
    words += ["states"] * any(part.get(key) for part in parts for key in _STATES)
    words += [word for key, word in _KINDS.items() if key in config]
    return ", ".join(words)


def gpus(chosen: str | GPU) -> tuple[Options, object]:
    """List the GPUs with their memory, and say which of them is `chosen`.

    This machine's own come first, and before them a GPU that the user described, which
    no other entry equals. Its processor comes last. Strangers see neither of this
    machine's.
    """
    is_own = not is_published()
    known, here = gpu_catalogue(), _processor() if is_own else None
    attached = _attached() if is_own else ()
    options = (*attached, *((_gpu_text(gpu), gpu.name) for gpu in known))
    if here is not None:
        options = (*options, (f"{_gpu_text(here)} (this machine's processor)", CPU))
    card = chosen if isinstance(chosen, GPU) else gpu_named(chosen)
    if here is not None and _is_same_processor(card, here):
        return options, CPU
    if card in known:
        return options, card.name
    if card in (value for _, value in options):
        return options, card
    return ((f"{_gpu_text(card)} (given)", card), *options), card


def _processor() -> GPU | None:
    """Return this machine's processor; None where its memory is not told."""
    try:
        return gpu_named(CPU)
    except PlannerError:
        return None


def _is_same_processor(card: GPU, here: GPU) -> bool:
    """Whether both are one: what is free of it differs from moment to moment."""
    return card.is_cpu and replace(card, free_memory_bytes=None) == replace(
        here, free_memory_bytes=None
    )


def _attached() -> Options:
    """Offer each GPU of this machine; of equal ones, as full as each other, the first.

    Full ones differ: `free_memory_bytes` belongs to the GPU that is planned for.
    """
    first: dict[GPU, str] = {}
    for one in attached_gpus():
        if one.gpu:
            first.setdefault(one.gpu, f"{_gpu_text(one.gpu)} (attached, {one.index})")
    return tuple((text, gpu) for gpu, text in first.items())


def _gpu_text(gpu: GPU) -> str:
    return f"{gpu.name}, {format_gib(gpu.total_memory_bytes)}"


def releases() -> Options:
    """VLLM releases whose rules the planner knows, newest first."""
    return _words(*MODELLED)
