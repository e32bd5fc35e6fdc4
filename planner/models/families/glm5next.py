"""GLM-5.3-Flash: Kimi delta attention, sparse latent attention, hyper-connections.

Its vision tower is GLM-OCR's with a longer rotary table.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from functools import cache
from math import ceil, prod

from planner.models.architecture import LayerKind, MediaItem, ModelArchitecture, Tower
from planner.models.caches import CacheLayer, IndexerTailLayer, PooledIndexerLayer
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.composite import (
    Tie,
    composed,
    sub_config,
    text_facts,
)
from planner.models.families.decoder import (
    experts,
    gated_mlp,
    hyper_connections,
    norms,
)
from planner.models.families.deepseek_v2 import EXPERTS, LATENT
from planner.models.families.delta_attention import (
    PartlyDividedLinear,
    delta_parameters,
)
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.glm4_1v import downsampling, ocr_blocks, tower_merger
from planner.models.families.mla import (
    IndexerShape,
    LatentShape,
    declared_heads,
    indexer,
    indexer_shape,
    latent_attention,
    latent_shape,
    mla_layer,
)
from planner.models.families.qwen_vl import QWEN3_RENAMES
from planner.models.families.styles import experts_shape
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.grids import RGB, Items, if_known
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
    TokenBuffer,
)
from planner.models.states import KimiDeltaAttentionState

_IMAGE = (80, 100)
"""Rows and columns of tokens: 8,000 as the most nearly square rectangle of them."""
_SIDE = 28
"""Pixels of a token: it has no effect but that of rounding."""
_OF_VIDEO = 30_000
"""vLLM's own limit; the processor's is 240,000."""
_FRAMES = 64
"""Of 600 that vLLM tries: the best of more are few tokens better."""
_ANY_LENGTH = 1 << 62
_PAIRS, _TOKENS_OF_A_TIME = 320, 6
"""Marks of time in the longest video, whose tokens depend on the tokeniser."""


@if_known
def glm5_next_items(facts: Facts) -> Items:
    """Return 8,000 tokens of an image, and the video of most for each length.

    vLLM rounds an odd number of frames to an even number of pairs when it fits them
    into the budget, and then pads them, so that 9 frames have more tokens than it: for
    lengths of 37,345 tokens and more.

    Source: vLLM 0.33.0 `models/glm5next/common/multimodal.py` Glm5NextProcessingInfo,
    `models/glm4_1v.py` Glm4vProcessingInfo; Transformers 5.20
    Glm5NextImageProcessor, Glm5NextVideoProcessor.
    """
    height, width = _IMAGE
    counted = _OF_VIDEO + _PAIRS * _TOKENS_OF_A_TIME + 2
    return (
        _item(facts, "image", height * width, height * width),
        *(
            _item(facts, "video", counted, tokens, lengths=lengths)
            for tokens, lengths in _videos()
        ),
    )


@cache
def _videos() -> tuple[tuple[int, range], ...]:
    """Return each video's tokens with the lengths for which most of them fit."""
    tokens = sorted({_video_tokens(frames) for frames in range(1, _FRAMES + 1)})
    starts, ends = [0, *tokens[1:]], [*tokens[1:], _ANY_LENGTH]
    return tuple(zip(tokens, map(range, starts, ends), strict=True))


def _video_tokens(frames: int) -> int:
    """Return the tokens of a video of the largest image's shape.

    Source: Transformers 5.20 `models/glm5_next/image_processing_glm5_next.py`
    smart_resize.
    """
    # Python rounds halves to even numbers, as the processor does.
    pairs = max(1, round(frames / 2))
    height, width = _IMAGE
    if pairs * height * width > _OF_VIDEO:
        height, width = _within(_OF_VIDEO // pairs)
    return ceil(frames / 2) * height * width


def _within(tokens: int) -> tuple[int, int]:
    """Return the largest rectangle of the image's shape that has no more tokens."""
    heights = range(1, _IMAGE[0] * _SIDE + 1)
    fitting = bisect_right(heights, tokens, key=lambda pixels: prod(_grid(pixels)))
    return _grid(max(fitting, 1))


def _grid(pixels: int) -> tuple[int, int]:
    """Return the rows and columns of tokens of the image's shape, so many pixels high.

    Source: as `_video_tokens`.
    """
    height, width = _IMAGE
    return ceil(pixels / _SIDE), ceil(max(1, width * pixels // height) / _SIDE)


def _item(
    facts: Facts,
    modality: str,
    counted: int,
    tokens: int,
    *,
    lengths: range | None = None,
) -> MediaItem:
    patches = tokens * facts.integer("spatial_merge_size") ** 2
    times, patch = facts.integers("temporal_patch_size", "patch_size")
    return MediaItem(
        modality,
        counted,
        patches=patches,
        inputs=patches * times * RGB * patch**2,
        embeddings=tokens,
        for_lengths=lengths,
    )


_LINEAR = "linear_attention"
_FIRST_DENSE = 3
_FULL_EVERY = 4
_ROW_TILE = 128
_DEFAULTS = own_defaults("Glm5NextTextConfig")


def read_glm5_next_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Read GLM-5.3-Flash's language model, whose experts are DeepSeek's.

    Raises:
        UnknownArchitecture: for rotated positions, or full latent attention.

    Source: vLLM 0.33.0 `models/glm5next/common/model.py` Glm5NextModel; Transformers'
    Glm5NextTextConfig.
    """
    facts = Facts(facts.config, facts.model_type, _DEFAULTS)
    shape = latent_shape(facts)
    if shape.qk_rope_head_dim:
        raise facts.unsupported("qk_rope_head_dim", "latent vectors without it are.")
    index = indexer_shape(facts)
    choices = TokenBuffer(
        "model.topk_indices_buffer", _choice_width(facts), dtype="int32"
    )
    layers = range(facts.integer("num_hidden_layers"))
    return assemble(
        facts,
        label,
        Frame(shape.hidden_size, (choices,), is_tied=False),
        (_layer(facts, shape, index, layer) for layer in layers),
        **declared_heads(facts, shape),
        residual_streams=facts.integer("hc_mult"),
    )


def read_glm5_next(facts: Facts, label: Label) -> ModelArchitecture:
    """Read GLM-5.3-Flash with its vision tower.

    Source: vLLM 0.33.0 `models/glm5next/common/model.py`
    Glm5NextForConditionalGeneration.
    """
    text = text_facts(facts, "glm5_next_text", tie=Tie.INNER)
    model = read_glm5_next_text(text, label)
    length = Facts(text.config, text.model_type, _DEFAULTS).integer(
        "max_position_embeddings"
    )
    vision = sub_config(facts, "vision_config", "glm5_next_vision")
    tower = _glm5_next_tower(vision, max_position=length)
    return composed(facts, label, model, tower, renames=QWEN3_RENAMES)


def _choice_width(facts: Facts) -> int:
    """Return the columns of the buffer of choices: room for a pool not full yet.

    Source: vLLM 0.33.0 `models/glm5next/common/model.py` get_sparse_topk_buffer_width.
    """
    chosen = facts.integer("index_topk") + facts.integer("index_kpool") - 1
    return -(-chosen // _ROW_TILE) * _ROW_TILE


def _layer(
    facts: Facts, shape: LatentShape, index: IndexerShape, layer: int
) -> LayerKind:
    types = facts.value("layer_types")
    is_linear = (
        layer % _FULL_EVERY != _FULL_EVERY - 1
        if types is None
        else types[layer] == _LINEAR
    )
    caches, attention = (
        _delta_attention(facts) if is_linear else _sparse_attention(facts, shape, index)
    )
    mlp_types = facts.value("mlp_layer_types")
    is_sparse = (
        layer >= _FIRST_DENSE if mlp_types is None else mlp_types[layer] == "sparse"
    )
    mlp = (
        experts(experts_shape(LATENT.as_usual(facts), EXPERTS))
        if is_sparse
        else gated_mlp(shape.hidden_size, facts.integer("intermediate_size"))
    )
    size, modules = shape.hidden_size, (*attention, norms(shape.hidden_size))
    if facts.flag("mhc"):
        modules = (*modules, hyper_connections(facts.integer("hc_mult"), size))
    return LayerKind(caches, (*modules, *mlp))


def _sparse_attention(
    facts: Facts, shape: LatentShape, index: IndexerShape
) -> tuple[tuple[CacheLayer, ...], tuple[Module, ...]]:
    """Return a latent layer: the indexer's keys stand for several tokens each.

    Nothing of it is quantised.

    Source: vLLM 0.33.0 `models/glm5next/common/attention.py` Glm5NextMLAAttention.
    """
    pool, size = facts.integer("index_kpool"), index.head_size
    name = "self_attn.indexer"
    modules: tuple[Module, ...] = (
        *latent_attention(shape),
        *indexer(shape, index, name=name),
        Replicated(
            f"{name}.index_kpool_compress_ape",
            Part.ATTENTION,
            ((pool, size),),
            dtype="float32",
        ),
        Replicated(
            f"{name}.index_kpool_compress_gate",
            Part.ATTENTION,
            ((size, shape.hidden_size),),
            dtype="bfloat16",
        ),
    )
    caches = (
        PooledIndexerLayer(row_bytes=index.cache.row_bytes, tokens_per_state=pool),
        IndexerTailLayer(head_size=size, num_tokens=pool),
        replace(
            mla_layer(shape, index_topk=index.topk, has_indexer=True),
            choice_width=_choice_width(facts),
        ),
    )
    return caches, blocks.unquantised(*modules)


def _delta_attention(
    facts: Facts,
) -> tuple[tuple[CacheLayer, ...], tuple[Module, ...]]:
    """Return a linear layer, of which nothing is quantised.

    Source: vLLM 0.33.0 `models/glm5next/common/kda.py` Glm5NextLinearAttention.
    """
    hidden = facts.integer("hidden_size")
    heads, size = facts.integer("linear_num_heads"), facts.integer("linear_head_dim")
    kernel, width = facts.integer("linear_conv_kernel_dim"), heads * size
    modules: tuple[Module, ...] = (
        PartlyDividedLinear(
            "self_attn.in_proj_qkvbfg_a",
            Part.MIXERS,
            hidden,
            (width, width, width, heads),
            (size, size),
            is_quantizable=False,
        ),
        *(
            ColumnParallelLinear(
                name, Part.MIXERS, size, (width,), is_quantizable=False
            )
            for name in ("self_attn.f_b_proj", "self_attn.g_b_proj")
        ),
        *delta_parameters("self_attn", heads, *((width, kernel),) * 3, head_size=size),
        RowParallelLinear(
            "self_attn.o_proj", Part.MIXERS, width, hidden, is_quantizable=False
        ),
    )
    state = KimiDeltaAttentionState(
        num_heads=heads,
        head_dim=size,
        conv_kernel=kernel,
        may_use_flash_kda=facts.value("linear_lower_bound") is not None,
    )
    return (state,), modules


def _glm5_next_tower(facts: Facts, *, max_position: int) -> Tower:
    """Return the tower, of which nothing is quantised.

    `max_position` is the language model's, which decides the rotary table.

    Source: vLLM 0.33.0 `models/glm5next/common/multimodal.py`
    Glm5NextVisionTransformer.
    """
    size, patch = facts.integers("hidden_size", "patch_size")
    name = "visual"
    channels, times = facts.integer("in_channels", default=3), "temporal_patch_size"
    kernel = (channels, facts.integer(times), patch, patch)
    table = (max_position, size // facts.integer("num_heads") // 2)
    output, wide = facts.integers("out_hidden_size", "projection_intermediate_size")
    modules = (
        blocks.convolution(f"{name}.patch_embed.proj", size, *kernel, bias=True),
        blocks.replicated(f"{name}.rotary_pos_emb.cos_sin_cache", table),
        *ocr_blocks(
            facts, name, qkv="attn.qkv", qkv_shards=(), gate_and_up=blocks.GATE_AND_UP
        ),
        *tower_merger(f"{name}.merger", output, wide, blocks.GATE_AND_UP),
        *downsampling(facts, name),
    )
    return Tower(
        IMAGE_AND_VIDEO,
        blocks.unquantised(*modules),
        items=glm5_next_items(facts),
        supports_data_parallel=True,
    )


READERS = {
    "Glm5NextForCausalLM": read_glm5_next_text,
    "Glm5NextForConditionalGeneration": read_glm5_next,
}
