"""Which encoders of images, videos and sounds vLLM builds, and where.

Source: vLLM 0.33.0 `models/interfaces.py` _mark_tower_model; `config/multimodal.py`
MultiModalConfig.get_limit_per_prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.engine import EngineSettings
from planner.model import MediaItem, ModelArchitecture, Tower
from planner.parallel import ParallelLayout
from planner.releases import Release

SOFT_TOKENS = (70, 140, 280, 560, 1120)
"""Tokens of an image that Gemma 4 may have (_SUPPORTED_SOFT_TOKENS)."""
_LEFT_OUT_FIRST = {
    (0, 10, 1): (
        "Llama4ForConditionalGeneration",
        "LlavaForConditionalGeneration",
        "Mistral3ForConditionalGeneration",
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen2_5OmniModel",
        "Qwen2_5OmniForConditionalGeneration",
    ),
    (0, 11, 0): (
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
    ),
}
"""The first release in which a class leaves towers out where all limits are 0."""
_LEFT_OUT_LATER = {
    "KimiK25ForConditionalGeneration": (0, 16),
    "Qwen3ASRForConditionalGeneration": (0, 16),
}


def built_towers(
    model: ModelArchitecture, settings: EngineSettings, release: Release
) -> tuple[Tower, ...]:
    """Return the towers whose weights are there.

    Older releases keep those of most classes where every limit is 0.

    Source: vLLM 0.15.0 `models/interfaces.py` _mark_tower_model; 0.10.1 to 0.14.1
    `models/qwen2_5_vl.py`, `models/mllama4.py` and others (get_limit_per_prompt).
    """
    if leaves_towers_out(model, release):
        return served_towers(model, settings)
    return model.towers


def leaves_towers_out(model: ModelArchitecture, release: Release) -> bool:
    """Whether the class builds no tower of which all limits are 0."""
    name = model.architecture
    if release.since(0, 15):
        return release.since(*_LEFT_OUT_LATER.get(name, (0, 15)))
    return any(
        name in names and release.since(*since)
        for since, names in _LEFT_OUT_FIRST.items()
    )


def served_towers(
    model: ModelArchitecture, settings: EngineSettings
) -> tuple[Tower, ...]:
    """Return the towers with a modality that is not switched off."""
    return tuple(
        tower
        for tower in model.towers
        if any(limit_per_prompt(modality, settings) for modality in tower.modalities)
    )


def unserved_towers(
    model: ModelArchitecture, settings: EngineSettings, release: Release
) -> tuple[Tower, ...]:
    """Return the towers whose embeddings requests bring in place of images.

    Source: vLLM 0.16.0 `multimodal/encoder_budget.py` (embed_only_modalities).
    """
    if not settings.enable_mm_embeds or not release.since(0, 16):
        return ()
    served = served_towers(model, settings)
    return tuple(tower for tower in model.towers if tower not in served)


def is_of(item: MediaItem, release: Release) -> bool:
    """Return whether a release has an item in this form."""
    is_over = item.until is not None and release.since(*item.until)
    return release.since(*item.since) and not is_over


def tower_layout(
    tower: Tower, layout: ParallelLayout, settings: EngineSettings
) -> ParallelLayout:
    """Return the ranks over which a tower is cut.

    Source: vLLM 0.33.0 `models/vision.py` is_vit_use_data_parallel;
    `models/qwen3_omni_moe_thinker.py` Qwen3OmniMoeAudioAttention; vLLM 0.19.1
    `models/pixtral.py` VisionTransformer.
    """
    heads = tower.whole_unless_heads_divide
    is_whole = settings.mm_encoder_tp_mode == "data" and tower.supports_data_parallel
    release = layout.release
    if tower.has_mistral_format and release.prefers_mistral_format:
        is_whole = is_whole or not release.shards_pixtral
    if heads is not None and heads % layout.tensor_parallel_size:
        is_whole = True
    return replace(layout, tensor_parallel_size=1) if is_whole else layout


def is_prefix_lm(model: ModelArchitecture, settings: EngineSettings) -> bool:
    """Whether images attend in both directions, and may come.

    Source: vLLM 0.33.0 `config/model.py` _supports_multimodal_for_mm_prefix.
    """
    is_mm_prefix = any(layer.is_mm_prefix for layer in model.attention_layers)
    return is_mm_prefix and bool(served_towers(model, settings))


def least_batched_tokens(model: ModelArchitecture, settings: EngineSettings) -> int:
    """Return the tokens of the largest image or video, which are not split over steps.

    0 where nothing says how many they are, or they may be split.

    Source: vLLM 0.33.0 `engine/arg_utils.py` _get_min_mm_batched_tokens.
    """
    if not is_prefix_lm(model, settings):
        return 0
    options = (settings.limit_mm_per_prompt or {}).get("video")
    asked = options.get("num_frames") if isinstance(options, Mapping) else None
    items = [tower.item_tokens for tower in model.towers]
    tokens = (settings.mm_processor_kwargs or {}).get("max_soft_tokens")
    if tokens in SOFT_TOKENS and any(tower.frames for tower in model.towers):
        items = [t.item_tokens for t in model.towers if t.frames is None]
        items.append(int(tokens))
    for frames in (tower.frames for tower in model.towers):
        if frames is not None:
            count = frames.count if asked is None else min(frames.count, int(asked))
            items.append(count * frames.tokens)
    return max(items)


UNLIMITED = 999
"""Items of a modality in a prompt where nothing says how many."""


def limit_per_prompt(modality: str, settings: EngineSettings) -> int:
    """Return how many items of a modality a prompt may hold."""
    if settings.language_model_only:
        return 0
    given = (settings.limit_mm_per_prompt or {}).get(modality)
    if isinstance(given, Mapping):
        given = given.get("count")
    return UNLIMITED if given is None else int(given)
