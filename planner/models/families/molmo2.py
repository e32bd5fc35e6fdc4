"""Molmo 2: a tower up to the layers that are used, pooled by attention, and Qwen 3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import LayerKind, MediaItem, ModelArchitecture, Tower
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    attention_shape,
    gated_mlp,
    kv_of,
    lm_head,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    nested,
    text_facts,
    with_mm_prefix,
)
from planner.models.families.rope import rope_cache, rope_dict
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.facts import RGB, Items, if_known
from planner.models.layers import ColumnParallelLinear, Module, QKVParallelLinear

_CROPS, _FRAMES = 8, 384
"""max_crops and num_frames of the published processors."""
_FRAME_POOL, _MARGIN = 3, 4
_RENAMES = (
    ("model.transformer.blocks.", "model.layers."),
    ("model.transformer.ln_f.", "model.norm."),
    ("model.transformer.", "model."),
    ("model.vision_backbone.", "vision_backbone."),
)


def read_molmo2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Molmo 2 by the configuration class that its checkpoints bring along.

    Source: vLLM 0.33.0 `models/molmo2.py` Molmo2ForConditionalGeneration.
    """
    name = "text_config" if facts.mapping("text_config") else "llm_config"
    text = text_facts(facts, "", name=name)
    shape = _shape(text)
    size, words = shape.hidden_size, text.integer("vocab_size")
    extra = text.optional_integer("additional_vocab_size") or 0
    # The checkpoint packs as vLLM does.
    packed = (*attention(shape), *gated_mlp(size, text.integer("intermediate_size")))
    layer = LayerKind(
        (kv_of(shape),), (*(_unpacked(module) for module in packed), norms(size))
    )
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=words + extra,
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        classifier=(lm_head(words, size),),  # without the additional words
        every_stage=_ropes(text, shape),
    )
    body = Body.alike(layer, text.integer("num_hidden_layers"))
    model = assemble(text, label, skeleton, body, vocab_size=words)
    vision, adapter = nested(facts, "vit_config"), nested(facts, "adapter_config")
    tower = Tower(IMAGE_AND_VIDEO, tuple(_tower(vision, adapter)), items=_items(vision))
    seen = with_mm_prefix(model)
    return composed(facts, label, seen, tower, prefix="", renames=_RENAMES)


def _shape(text: Facts) -> AttentionShape:
    """Source: vLLM 0.33.0 `models/molmo2.py` Molmo2Attention."""
    shape = attention_shape(text, qkv_bias=text.flag("qkv_bias"))
    if not text.flag("use_qk_norm"):
        return shape
    counts = (shape.num_heads, shape.num_kv_heads)
    if text.value("qk_norm_type") == "qwen3":
        counts = (1, 1)
    sizes = tuple(count * shape.head_size for count in counts)
    return replace(shape, qk_norm_sizes=sizes)


def _unpacked(module: Module) -> Module:
    if isinstance(module, ColumnParallelLinear | QKVParallelLinear):
        return replace(module, shards=())
    return module


def _ropes(text: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    """Return the rotary table, and a plain one where only some layers are scaled."""
    sizes = {
        "head_size": shape.head_size,
        "max_position": text.integer("max_position_embeddings"),
    }
    scaled = rope_cache(text, **sizes)
    chosen = text.value("rope_scaling_layers")
    num_layers = text.integer("num_hidden_layers")
    if chosen is None or rope_dict(text)["rope_type"] == "default":
        return scaled
    own = {**text.config, "rope_scaling": None, "rope_parameters": None}
    plain = rope_cache(Facts(own, text.model_type), **sizes)
    if set(range(num_layers)) <= set(chosen):
        return scaled
    return (*scaled, *plain) if set(chosen) & set(range(num_layers)) else plain


def _tower(vision: Facts, adapter: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/molmo2.py` Molmo2VisionBackbone."""
    sizes, patch = blocks.Sizes.of(vision), vision.integer("image_patch_size")
    size, positions = sizes.width, vision.integer("image_num_pos")
    layers = adapter.value("vit_layers")
    used = [at + (sizes.depth if at < 0 else 0) for at in layers]
    vit = "vision_backbone.image_vit"
    yield blocks.replicated(vit, (positions, size))
    yield blocks.linear(f"{vit}.patch_embedding", RGB * patch**2, size, bias=True)
    qkv, shards = "attention.merged_qkv", ("wq", "wk", "wv")
    packed = blocks.qkv(qkv, size, sizes.heads, bias=True, shards=shards)
    mlp = "feed_forward.w1", "feed_forward.w2"
    yield from blocks.repeated(
        f"{vit}.transformer.resblocks",
        min(sizes.depth, max(used) + 1),
        replace(packed, num_kv_heads=vision.integer("num_key_value_heads")),
        blocks.row("attention.wo", size, size, bias=True),
        *blocks.plain_mlp(*mlp, size, sizes.mlp),
        blocks.norms("norm", size, count=2, bias=True),
    )
    yield from _pooling(adapter, size * len(used))


def _pooling(facts: Facts, seen: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/molmo2.py` ImagePoolingAttention."""
    size, wide, out = facts.integers(
        "hidden_size", "intermediate_size", "text_hidden_size"
    )
    keys = (facts.integer("num_key_value_heads") * facts.integer("head_dim"),) * 2
    name = "vision_backbone.image_pooling_2d"
    projector, gates = "vision_backbone.image_projector", blocks.GATE_AND_UP
    both, merged = ("k_proj", "v_proj"), f"{projector}.merged_linear"
    yield blocks.column(f"{name}.q_proj", seen, size, bias=True)
    yield blocks.column(f"{name}.merged_kv", seen, *keys, bias=True, shards=both)
    yield blocks.row(f"{name}.o_proj", size, size, bias=True)
    yield blocks.column(merged, size, wide, wide, bias=False, shards=gates)
    yield blocks.row(f"{projector}.down_proj", wide, out, bias=False)


@if_known
def _items(vision: Facts) -> Items:
    """Return 8 crops that overlap below each other and the whole, and 384 frames.

    Crops and the whole are pooled by two, frames by three.

    Source: vLLM 0.33.0 `models/molmo2.py` Molmo2ProcessingInfo.
    """
    side = int(vision.value("image_default_input_size")[0])
    patch = vision.integer("image_patch_size")
    grid = side // patch
    whole, frame = -(-grid // 2), -(-grid // _FRAME_POOL)
    high = -(-(_CROPS * (grid - 2 * _MARGIN) + 2 * _MARGIN) // 2)
    image = MediaItem(
        "image",
        whole * high + whole * whole,
        marks=high + 2 + 2,
        patches=(_CROPS + 1) * grid * grid,
        inputs=(_CROPS + 1) * RGB * side * side,
    )
    video = MediaItem(
        "video",
        frame * frame,
        marks=2,
        patches=grid * grid,
        inputs=RGB * side * side,
        most_parts=_FRAMES,
        per_prompt=1,
    )
    return (image, video)


READERS = {"Molmo2ForConditionalGeneration": read_molmo2}
