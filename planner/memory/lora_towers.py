"""What adapters keep beside encoders: enable_tower_connector_lora, and Whisper.

vLLM wraps the linear layers of the encoders, and of what joins them to the language
model, where the class supports it; tables for the rows of each come with them.

Source: vLLM 0.33.0 `lora/model_manager.py` LoRAModelManager._maybe_init_mm,
_get_punica_wrapper; get_mm_lora_token_counts of each class (before 0.28.0
get_num_mm_encoder_tokens and get_num_mm_connector_tokens).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from planner.errors import Refused, UnknownArchitecture
from planner.memory.lora import wrapping_of
from planner.memory.lora_stacks import IndexBuffers, LoRAConfig
from planner.model import ModelArchitecture, Tower
from planner.parallel import ParallelLayout
from planner.releases import Release

BuiltTower = tuple[Tower, ParallelLayout]

_GEMMA_PATCHES = 16
_SAME = (
    "LlavaForConditionalGeneration",
    "Mistral3ForConditionalGeneration",
    "PaliGemmaForConditionalGeneration",
)
"""Classes with a row of the encoder for each token of a prompt."""
_MERGED = (
    *("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
    *("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"),
    *("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"),
    *("Glm4vForConditionalGeneration", "Glm4vMoeForConditionalGeneration"),
)
"""Classes that merge spatial_merge_size x spatial_merge_size rows into a token."""
_UNPACKED = {
    "Glm4vForConditionalGeneration": "attn.qkv_proj",
    "Glm4vMoeForConditionalGeneration": "attn.qkv_proj",
}
"""Layers of an encoder whose attribute of the class, qkv, no packing names."""
_FLAG_SINCE = (0, 30)
"""First release in which a class without the feature ignores the argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """What vLLM encodes at most."""

    budget_tokens: int
    """Of a step."""
    items_per_prompt: int
    """Of the modality of which a prompt may hold most."""


class _Rows(NamedTuple):
    encoder: int
    connector: int


def with_tower_adapters(
    towers: tuple[BuiltTower, ...],
    model: ModelArchitecture,
    config: LoRAConfig | None,
    encoding: Encoding,
) -> tuple[BuiltTower, ...]:
    """Return towers with what adapters keep beside their modules.

    Raises:
        UnknownArchitecture: naming enable_tower_connector_lora or enable_lora, where it
            is not certain what is kept.
        Refused: where vLLM stops.
    """
    if config is None:
        return towers
    if wrapping_of(model, config).kept.language_prefix is None:
        return _beside_all(towers, model, config)
    if not config.reaches_towers or not _is_supported(model, config):
        return towers
    if not encoding.items_per_prompt:
        raise Refused(
            "ValueError: max() iterable argument is empty "
            "(enable_tower_connector_lora with a limit of 0 for every modality)"
        )
    return _beside_all(towers, model, config) + _tables(model, config, encoding, towers)


def _is_supported(model: ModelArchitecture, config: LoRAConfig) -> bool:
    """Whether the class lets adapters change its encoders; else the flag is ignored.

    Raises:
        UnknownArchitecture: where that is not certain.
    """
    kept = wrapping_of(model, config).kept
    if not kept.tower_prefixes and config.release.since(*_FLAG_SINCE):
        return False
    if model.architecture not in (*_SAME, *_MERGED, "Gemma3ForConditionalGeneration"):
        raise _unknown(f"with {model.architecture}", config.release)
    return True


def _unknown(what: str, release: Release) -> UnknownArchitecture:
    return UnknownArchitecture(
        f"enable_tower_connector_lora {what} in vLLM {release.version} is not modelled "
        "yet. Leave enable_tower_connector_lora out."
    )


@lru_cache(maxsize=64)
def _beside_all(
    towers: tuple[BuiltTower, ...], model: ModelArchitecture, config: LoRAConfig
) -> tuple[BuiltTower, ...]:
    """Return towers and their stacks, the same objects for the same towers."""
    wrapping = wrapping_of(model, config)
    unpacked = _UNPACKED.get(model.architecture)
    found = []
    for tower, layout in towers:
        wrapped = tower.modules
        if unpacked is not None:
            wrapped = tuple(m for m in wrapped if not m.name.endswith(unpacked))
        modules = (*tower.modules, *wrapping.of_encoder(wrapped))
        found.append((replace(tower, modules=modules), layout))
    return tuple(found)


@lru_cache(maxsize=64)
def _tables(
    model: ModelArchitecture,
    config: LoRAConfig,
    encoding: Encoding,
    towers: tuple[BuiltTower, ...],
) -> tuple[BuiltTower, ...]:
    """Return which adapter each row wants, of encoder and connector."""
    rows = _rows(model, encoding.budget_tokens)
    kept = wrapping_of(model, config).kept
    config = replace(
        config, max_num_seqs=config.max_num_seqs * encoding.items_per_prompt
    )
    counts = (rows.encoder, rows.connector) if kept.connector_prefixes else rows[:1]
    buffers = tuple(IndexBuffers(config=config, tokens=count) for count in counts)
    return ((Tower(modalities=(), modules=buffers), towers[0][1]),)


def _rows(model: ModelArchitecture, budget: int) -> _Rows:
    """Return the rows of encoder and connector for as many tokens of prompts."""
    if model.architecture in _SAME:
        return _Rows(budget, budget)
    if model.architecture in _MERGED:
        return _Rows(budget * _merge_size(model) ** 2, budget)
    return _Rows(budget * _GEMMA_PATCHES, budget * _GEMMA_PATCHES)


def _merge_size(model: ModelArchitecture) -> int:
    config: Mapping[str, Any] = {} if model.files is None else model.files.config
    vision = config.get("vision_config")
    size = vision.get("spatial_merge_size") if isinstance(vision, Mapping) else None
    return size if isinstance(size, int) else 2
