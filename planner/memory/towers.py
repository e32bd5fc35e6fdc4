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
        if any(_limit(modality, settings) for modality in tower.modalities)
    )


def tower_layout(
    tower: Tower, layout: ParallelLayout, settings: EngineSettings
) -> ParallelLayout:
    """Return the ranks over which a tower is cut.

    Source: vLLM 0.33.0 `models/vision.py` is_vit_use_data_parallel;
    `models/qwen3_omni_moe_thinker.py` Qwen3OmniMoeAudioAttention.
    """
    heads = tower.whole_unless_heads_divide
    is_whole = settings.mm_encoder_tp_mode == "data" and tower.supports_data_parallel
    if heads is not None and heads % layout.tensor_parallel_size:
        is_whole = True
    return replace(layout, tensor_parallel_size=1) if is_whole else layout


def _limit(modality: str, settings: EngineSettings) -> int:
    if settings.language_model_only:
        return 0
    given = (settings.limit_mm_per_prompt or {}).get(modality)
    if given is None:
        return 999
    return int(given["count"] if isinstance(given, Mapping) else given)
