"""Which encoders of images, videos and audio vLLM builds, where, and how wide they are.

A tower is such an encoder. Its width, the number of values that one of its rows has at
once, follows from its layers.

Source: vLLM 0.33.0 `models/interfaces.py` _mark_tower_model; `config/multimodal.py`
MultiModalConfig.get_limit_per_prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import ceil

from planner.engine.generations import HOPPER
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings
from planner.models.architecture import MediaItem, ModelArchitecture, Tower
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    QKVParallelLinear,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
)
from planner.models.passes import Attention
from planner.values import frozen

SOFT_TOKENS = (70, 140, 280, 560, 1120)
"""The possible tokens per image of Gemma 4 (_SUPPORTED_SOFT_TOKENS)."""
_LEAVES_MOST_OUT = Change(
    since=(0, 15),
    what="Encoders are not loaded where the limits of all their modalities are 0.",
    source="vLLM 0.15.0 `models/interfaces.py` _mark_tower_model",
)
_LEAVES_FIRST_OUT = Change(
    since=(0, 10, 1),
    what=(
        "The encoders of Llama 4, LLaVA, Mistral 3, Qwen2-VL, Qwen2.5-VL and "
        "Qwen2.5-Omni are not loaded where the limits of all their modalities are 0."
    ),
    source=(
        "vLLM 0.10.1 to 0.14.1 `models/qwen2_5_vl.py`, `models/mllama4.py` and others "
        "(get_limit_per_prompt)"
    ),
)
_LEAVES_QWEN3_VL_OUT = Change(
    since=(0, 11),
    what=(
        "The encoders of Qwen3-VL are not loaded where the limits of images and videos "
        "are 0."
    ),
)
_LEAVES_LAST_OUT = Change(
    since=(0, 16),
    what=(
        "The encoders of Kimi K2.5 and Qwen3-ASR are not loaded where the limits of "
        "all their modalities are 0."
    ),
)
_LEFT_OUT = {
    "Llama4ForConditionalGeneration": _LEAVES_FIRST_OUT,
    "LlavaForConditionalGeneration": _LEAVES_FIRST_OUT,
    "Mistral3ForConditionalGeneration": _LEAVES_FIRST_OUT,
    "Qwen2VLForConditionalGeneration": _LEAVES_FIRST_OUT,
    "Qwen2_5_VLForConditionalGeneration": _LEAVES_FIRST_OUT,
    "Qwen2_5OmniModel": _LEAVES_FIRST_OUT,
    "Qwen2_5OmniForConditionalGeneration": _LEAVES_FIRST_OUT,
    "Qwen3VLForConditionalGeneration": _LEAVES_QWEN3_VL_OUT,
    "Qwen3VLMoeForConditionalGeneration": _LEAVES_QWEN3_VL_OUT,
    "KimiK25ForConditionalGeneration": _LEAVES_LAST_OUT,
    "Qwen3ASRForConditionalGeneration": _LEAVES_LAST_OUT,
}
"""Architectures for which it is another release than for all others."""
_TAKES_EMBEDDINGS_ONLY = Change(
    since=(0, 16),
    what=(
        "With enable_mm_embeds, requests may contain embeddings of items whose limit "
        "is 0."
    ),
    source="vLLM 0.16.0 `multimodal/encoder_budget.py` (embed_only_modalities)",
)
_SHARDS_PIXTRAL = Change(
    since=(0, 20),
    what="Pixtral's tower in Mistral's format is sharded over the ranks.",
    source="vLLM 0.20.0 `models/pixtral.py` (disable_tp)",
)
_PREFERS_MISTRAL_FORMAT = Change(
    since=(0, 12),
    what="params.json is read, not config.json, where both are published.",
    source="vLLM 0.12.0 `transformers_utils/config.py` get_config",
)
UNLIMITED = 999
"""Items of a modality per prompt where no limit is set."""
Range = tuple[int, int, int]
"""Values at the low end, in the middle and at the high end."""
# Beside the MLP's own values a block holds its input and the outputs of attention, norm
# and MLP: how many of them at once, each as wide as the tower.
_BESIDE_MLP: Range = (2, 5, 8)
# Query, key and value count three; then copies of two of them for the rotary embedding,
# and the output. In fp32 two copies count four, before and after, and two once cast
# back.
_ATTENTION: Range = (4, 8, 14)
_ATTENTION_IN_FP32: Range = (9, 15, 18)
_BESIDE_ATTENTION: Range = (2, 2, 4)
_GATES = ("gate_proj", "up_proj")
_BEHIND_POOLING = {"merged_linear": 4}
"""Layers that process so many patches as one, with an input as wide as one patch."""
_QUERIES = ("q_proj", "wq")
_TILES = ((64, 192, 192), (96, 192, 144), (128, 128, 176), (192, 128, 112))
"""FlashAttention 3's tiles: up to which head size, rows of queries and of keys."""
_ALMOST_FULL = 0.8
_GOOD_ENOUGH = 0.85
_NEVER_SPLIT = 4
"""Blocks of keys up to which they stay together."""


def built_towers(
    model: ModelArchitecture, settings: EngineSettings, release: Release
) -> tuple[Tower, ...]:
    """Return the towers whose weights are loaded.

    Older releases load those of most classes even where every limit is 0.
    """
    if release.has(_LEFT_OUT.get(model.architecture, _LEAVES_MOST_OUT)):
        return served_towers(model, settings)
    return model.towers


def served_towers(
    model: ModelArchitecture, settings: EngineSettings
) -> tuple[Tower, ...]:
    """Return the towers with an enabled modality."""
    return tuple(
        tower
        for tower in model.towers
        if any(limit_per_prompt(modality, settings) for modality in tower.modalities)
    )


def unserved_towers(
    model: ModelArchitecture, settings: EngineSettings, release: Release
) -> tuple[Tower, ...]:
    """Return the towers whose embeddings requests may contain in place of images."""
    if not settings.enable_mm_embeds or not release.has(_TAKES_EMBEDDINGS_ONLY):
        return ()
    served = served_towers(model, settings)
    return tuple(tower for tower in model.towers if tower not in served)


def is_of(item: MediaItem, release: Release) -> bool:
    """Return whether a release has an item in this form."""
    is_over = item.until is not None and release.has(item.until)
    return not is_over and (item.since is None or release.has(item.since))


def tower_layout(
    tower: Tower, layout: ParallelLayout, settings: EngineSettings
) -> ParallelLayout:
    """Return the ranks over which a tower is sharded.

    Source: vLLM 0.33.0 `models/vision.py` is_vit_use_data_parallel;
    `models/qwen3_omni_moe_thinker.py` Qwen3OmniMoeAudioAttention; vLLM 0.19.1
    `models/pixtral.py` VisionTransformer.
    """
    heads = tower.whole_unless_heads_divide
    is_whole = settings.mm_encoder_tp_mode == "data" and tower.supports_data_parallel
    release = layout.release
    if tower.has_mistral_format and release.has(_PREFERS_MISTRAL_FORMAT):
        is_whole = is_whole or not release.has(_SHARDS_PIXTRAL)
    if heads is not None and heads % layout.tensor_parallel_size:
        is_whole = True
    return replace(layout, tensor_parallel_size=1) if is_whole else layout


def is_prefix_lm(model: ModelArchitecture, settings: EngineSettings) -> bool:
    """Whether images attend in both directions and are enabled.

    Source: vLLM 0.33.0 `config/model.py` _supports_multimodal_for_mm_prefix.
    """
    is_mm_prefix = any(layer.is_mm_prefix for layer in model.attention_layers)
    return is_mm_prefix and bool(served_towers(model, settings))


def least_batched_tokens(model: ModelArchitecture, settings: EngineSettings) -> int:
    """Return the tokens of the largest image or video that may not be split over steps.

    0 where their number is not known, or they may be split.

    Source: vLLM 0.33.0 `engine/arg_utils.py` _get_min_mm_batched_tokens.
    """
    if not is_prefix_lm(model, settings):
        return 0
    options = (settings.limit_mm_per_prompt or {}).get("video")
    asked = options.get("num_frames") if isinstance(options, Mapping) else None
    requested = asked if isinstance(asked, int) else None  # others: `check_limits`
    items = [tower.item_tokens for tower in model.towers]
    tokens = (settings.mm_processor_kwargs or {}).get("max_soft_tokens")
    if tokens in SOFT_TOKENS and any(tower.frames for tower in model.towers):
        items = [t.item_tokens for t in model.towers if t.frames is None]
        items.append(int(tokens))
    for frames in (tower.frames for tower in model.towers):
        if frames is not None:
            count = frames.count if requested is None else min(frames.count, requested)
            items.append(count * frames.tokens)
    return max(items)


def limit_per_prompt(modality: str, settings: EngineSettings) -> int:
    """Return how many items of a modality a prompt may contain.

    `check_limits` refuses what is no whole number.
    """
    if settings.language_model_only:
        return 0
    given = (settings.limit_mm_per_prompt or {}).get(modality)
    if isinstance(given, Mapping):
        given = given.get("count")
    return int(given) if isinstance(given, int) else UNLIMITED


@frozen
class _Linear:
    """A linear layer of a tower on one rank."""

    name: str
    input_size: int
    output_size: int
    first_output: int
    is_qkv: bool = False


@lru_cache(maxsize=64)
def widths(
    tower: Tower,
    layout: ParallelLayout,
    *,
    is_native: bool = False,
    is_unfused: bool = False,
) -> Range:
    """Return how many values a row has at once at the tower's widest point.

    Rows are those of its blocks; later layers process several rows as one.

    Args:
        tower: the encoder.
        layout: the ranks over which it is sharded.
        is_native: whether PyTorch computes what vLLM has kernels for, as in a start
            that compiles the language model: encoders are not compiled with it.
        is_unfused: whether it computes a gated activation step by step.

    Source: vLLM 0.33.0 `config/vllm.py` (custom_ops "none"),
    `layers/layernorm.py` RMSNorm.forward_native; `models/qwen2_5_vl.py`
    Qwen2_5_VisionMLP, Qwen2_5_VisionBlock, Qwen2_5_VisionAttention;
    `layers/rotary_embedding/common.py` ApplyRotaryEmb.
    """
    if tower.forward is not None:
        splits = key_splits(tower.forward.attention, layout)
        ranks = layout.tensor_parallel_size
        width = max(
            moment.values(ranks, splits, is_native=is_native, is_unfused=is_unfused)
            for moment in tower.forward.moments
        )
        return width, width, width
    linears = [linear for m in tower.modules for linear in _linears(m, layout)]
    if len(linears) <= 1:  # nothing, or the projector of another tower
        return 0, 0, 0
    size = Counter(linear.input_size for linear in linears).most_common(1)[0][0]
    attention = _ATTENTION_IN_FP32 if tower.rotates_in_fp32 else _ATTENTION
    found = [_width(linear, size, attention) for linear in dict.fromkeys(linears)]
    if tower.gathers_attention:
        found += [(_gathered(size, layout),) * 3]
    low, middle, high = (max(range_[end] for range_ in found) for end in range(3))
    return low, middle, high


def activation_width(tower: Tower, layout: ParallelLayout) -> int:
    """Return the values of a row at an activation that is compiled; 0: none is."""
    if tower.forward is None:
        return 0
    splits = key_splits(tower.forward.attention, layout)
    values = (
        one.values(layout.tensor_parallel_size, splits, is_native=True)
        for one in tower.forward.moments
        if one.unfused
    )
    return max(values, default=0)


def _gathered(size: int, layout: ParallelLayout) -> int:
    """Return the values of attention at its output, of which each rank has a part.

    A part: queries, keys and values as projected, queries and keys side by side and
    rotated, and the output; in full the input, before and after the norm, and the
    output's projection; over several ranks also that sum, and what was gathered.

    Source: vLLM 0.33.0 `models/qwen2_vl.py` Qwen2VisionAttention, Qwen2VisionBlock.
    """
    ranks = layout.tensor_parallel_size
    whole = 3 if ranks == 1 else 3 + 1 + 3
    return whole * size + (3 + 2 + 2 + 1) * size // ranks


def key_splits(attention: Attention | None, layout: ParallelLayout) -> int:
    """Return the parts into which FlashAttention 3 splits the keys of a sequence.

    It does so where one sequence's heads and blocks of queries leave multiprocessors
    idle, and then adds up outputs in fp32. Other kernels of encoders do not.

    Source: vllm-flash-attn of vLLM 0.33.0, `hopper/heuristics.h` num_splits_heuristic,
    `hopper/flash_api.cpp` get_num_splits, `hopper/tile_size.h` tile_size_fwd_sm90.
    """
    if attention is None or layout.compute_capability != HOPPER:
        return 1
    tile = next((t for t in _TILES if attention.head_size <= t[0]), None)
    if tile is None:
        return 1
    _size, rows, keys = tile
    heads = max(1, attention.num_heads // layout.tensor_parallel_size)
    blocks, most = heads * -(-attention.length // rows), -(-attention.length // keys)
    if blocks >= _ALMOST_FULL * layout.num_sms or most <= _NEVER_SPLIT:
        return 1
    waves = [blocks * n / layout.num_sms for n in range(1, most + 1)]
    efficiency = [each / ceil(each) for each in waves]
    enough = _GOOD_ENOUGH * max(efficiency)
    return next(n for n, each in enumerate(efficiency, 1) if each >= enough)


def _width(linear: _Linear, size: int, attention: Range) -> Range:
    if linear.is_qkv:
        query = linear.first_output
        low, middle, high = (
            own * query + beside * size
            for own, beside in zip(attention, _BESIDE_ATTENTION, strict=True)
        )
        return low, middle, high
    own = linear.output_size + linear.first_output
    if linear.name in _GATES:
        own += linear.output_size
    # A layer after the blocks takes several rows together.
    together = max(1, linear.input_size // size)
    rows = _BEHIND_POOLING.get(linear.name, together)
    low, middle, high = (own // rows + beside * size for beside in _BESIDE_MLP)
    return low, middle, high


def _linears(module: Module, layout: ParallelLayout) -> Iterator[_Linear]:
    """Return the linear layers that widen their input; others restore its size."""
    inner = getattr(module, "layer", module)
    ranks = layout.tensor_parallel_size
    if isinstance(inner, RowParallelLinear):
        return
    if isinstance(inner, QKVParallelLinear):
        query = max(1, inner.num_heads // ranks) * inner.head_size
        yield _Linear(
            name="qkv",
            input_size=inner.input_size,
            output_size=3 * query,
            first_output=query,
            is_qkv=True,
        )
    elif isinstance(inner, ColumnParallelLinear | ReplicatedLinear):
        cut = ranks if isinstance(inner, ColumnParallelLinear) else 1
        name = inner.name.removesuffix(".linear").rpartition(".")[2]
        yield _Linear(
            name=name,
            input_size=inner.input_size,
            output_size=sum(inner.output_sizes) // cut,
            first_output=inner.output_sizes[0] // cut,
            is_qkv=name in _QUERIES,
        )
    elif isinstance(inner, Replicated):
        yield from _whole(inner)


def _whole(module: Replicated) -> Iterator[_Linear]:
    """Return the layers of a module that is given by its shapes.

    A single matrix is an embedding table; several are consecutive layers.
    """
    matrices = [shape for shape in module.shapes if len(shape) == 2]  # noqa: PLR2004
    if len(matrices) < 2:  # noqa: PLR2004
        return
    for output_size, input_size in matrices:
        is_square = output_size == input_size
        yield _Linear(
            name="whole",
            input_size=input_size,
            output_size=output_size,
            first_output=output_size,
            is_qkv=is_square and len(matrices) > 3,  # noqa: PLR2004
        )
