"""Which encoders of images, videos and sounds vLLM builds, and where.

Source: vLLM 0.33.0 `models/interfaces.py` _mark_tower_model; `config/multimodal.py`
MultiModalConfig.get_limit_per_prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.engine import EngineSettings
from planner.model import ModelArchitecture, Tower
from planner.parallel import ParallelLayout


def built_towers(
    model: ModelArchitecture, settings: EngineSettings
) -> tuple[Tower, ...]:
    """Return the towers with a modality that is not switched off."""
    return tuple(
        tower
        for tower in model.towers
        if any(limit_per_prompt(modality, settings) for modality in tower.modalities)
    )


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
    return is_mm_prefix and bool(built_towers(model, settings))


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
    for frames in (tower.frames for tower in model.towers):
        if frames is not None:
            count = frames.count if asked is None else min(frames.count, int(asked))
            items.append(count * frames.tokens)
    return max(items)


def limit_per_prompt(modality: str, settings: EngineSettings) -> int:
    """Return how many items of a modality a prompt may hold."""
    if settings.language_model_only:
        return 0
    given = (settings.limit_mm_per_prompt or {}).get(modality)
    if given is None:
        return 999
    return int(given["count"] if isinstance(given, Mapping) else given)
