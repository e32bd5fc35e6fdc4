"""The options of the explorer's lists: models, GPUs, entry points, releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from planner.engine.devices import gpu_named
from planner.engine.devices.attached import attached_gpus
from planner.engine.generations import generation_of
from planner.engine.gpu import CPU, GPU
from planner.engine.gpu import catalogue as gpu_catalogue
from planner.engine.releases import MODELLED
from planner.errors import PlannerError
from planner.models import catalogue
from planner.surroundings import is_published
from planner.units import format_gib

Options = tuple[tuple[str, object], ...]
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


OTHER_GPU = "another"
"""The choice of a GPU that the user describes."""
POPULAR = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-32B",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct",
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-30B-A3B-Instruct-2507",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "Qwen/Qwen3-VL-8B-Instruct",
    "google/gemma-3-27b-it",
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
    "deepseek-ai/DeepSeek-R1",
    "deepseek-ai/DeepSeek-V3.2",
    "zai-org/GLM-4.6",
    "moonshotai/Kimi-K2-Instruct",
)
"""Models that many people start, which the list shows first."""


@cache
def models() -> tuple[tuple[str, str, str], ...]:
    """Return name, number of parameters and kind of each bundled model.

    The popular ones come first.
    """
    rows = {
        entry.name: (entry.name, _size(entry.num_parameters), kind_of(config))
        for entry, config in catalogue.configs()
    }
    first = {name: rows[name] for name in POPULAR if name in rows}
    return tuple((first | rows).values())


def kind_of(config: Mapping[str, Any]) -> str:
    """Return in a word or two which features of a model affect its memory.

    >>> kind_of({"num_experts": 128}), kind_of({"vision_config": {}})
    ('experts', 'images')
    """
    parts = [config, *(one for one in config.values() if isinstance(one, Mapping))]
    words = ["experts"] * any(part.get(key) for part in parts for key in _EXPERTS)
    words += ["states"] * any(part.get(key) for part in parts for key in _STATES)
    words += [word for key, word in _KINDS.items() if key in config]
    return ", ".join(words)


def gpus(chosen: str | GPU) -> tuple[Options, object]:
    """Return the GPUs with their memory, and the value of `chosen` among them.

    This machine's own GPUs come first, its processor last; a published app lists
    neither. A GPU that the user described, unlike any other, precedes them all. Slices
    are found by name, where the list has another GPU; one that is chosen is listed.
    """
    is_own = not is_published()
    known, here = gpu_catalogue(), _processor() if is_own else None
    attached = _attached() if is_own else ()
    chosen_name = chosen.name if isinstance(chosen, GPU) else chosen
    listed = (gpu for gpu in known if not is_slice(gpu) or gpu.name == chosen_name)
    options = (*attached, *((_gpu_text(gpu), gpu.name) for gpu in listed))
    if here is not None:
        options = (*options, (f"{_gpu_text(here)} (this machine's processor)", CPU))
    options = (*options, ("A slice (MIG), or another GPU …", OTHER_GPU))
    if chosen == OTHER_GPU:
        return options, OTHER_GPU
    card = chosen if isinstance(chosen, GPU) else gpu_named(chosen)
    if here is not None and _is_same_processor(card, here):
        return options, CPU
    if card in known:
        return options, card.name
    if card in (value for _, value in options):
        return options, card
    return ((f"{_gpu_text(card)} (given)", card), *options), card


def is_slice(gpu: GPU) -> bool:
    """Return whether a GPU of the catalogue is a slice of one (MIG)."""
    return "-MIG-" in gpu.name


def slices() -> tuple[str, ...]:
    """Return the names of the slices of GPUs in the catalogue."""
    return tuple(gpu.name for gpu in gpu_catalogue() if is_slice(gpu))


def generation(value: object) -> str:
    """Return the heading under which a list shows a GPU.

    >>> generation("H100"), generation("L4"), generation("H100-MIG-1g.10gb")
    ('Hopper', 'Ada', 'Slices of a GPU (MIG)')
    """
    if value in (CPU, OTHER_GPU) or isinstance(value, GPU):
        return "Yours"
    card = gpu_named(str(value))
    if is_slice(card):
        return "Slices of a GPU (MIG)"
    return generation_of(card.compute_capability)


def releases() -> Options:
    """Return the releases of vLLM that the planner knows, newest first."""
    return _words(*MODELLED)


def _words(*words: str) -> Options:
    return tuple((word, word) for word in words)


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


def _processor() -> GPU | None:
    """Return this machine's processor; None where its memory is unknown."""
    try:
        return gpu_named(CPU)
    except PlannerError:
        return None


def _is_same_processor(card: GPU, here: GPU) -> bool:
    """Whether both are the same processor, apart from its current free memory."""
    return card.is_cpu and replace(card, free_memory_bytes=None) == replace(
        here, free_memory_bytes=None
    )


def _attached() -> Options:
    """Return the GPUs of this machine; of equal ones with equal free memory, the first.

    `free_memory_bytes` is part of the GPU that is planned for.
    """
    first: dict[GPU, str] = {}
    for one in attached_gpus():
        if one.gpu:
            first.setdefault(one.gpu, f"{_gpu_text(one.gpu)} (attached, {one.index})")
    return tuple((text, gpu) for gpu, text in first.items())


def _gpu_text(gpu: GPU) -> str:
    return f"{gpu.name}, {format_gib(gpu.total_memory_bytes)}"
