"""Molmo: a tower whose sizes vLLM fixes, and a decoder like Llama's; Molmo 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import LayerKind, MediaItem, ModelArchitecture, Tower
from planner.models.families.assembly import Frame, Label, Placement, Reader, assemble
from planner.models.families.composite import (
    composed,
    nested,
    text_facts,
    with_mm_prefix,
)
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
from planner.models.families.rope import rope_cache, rope_dict
from planner.models.families.towers import blocks, tiles
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.families.towers.grids import RGB, Items, if_known
from planner.models.layers import ColumnParallelLinear, Module, QKVParallelLinear

_EXTRA_WORDS = 128
_SIZE, _MLP_SIZE, _LAYERS, _POSITIONS, _PATCH = 1024, 4096, 23, 577, 14
_FEATURE_LAYERS, _IMAGE_SIZE = 2, 336
RENAMES = (
    ("model.vision_backbone.", "vision_backbone."),
    ("model.transformer.blocks.", "model.layers."),
    ("model.transformer.ln_f.", "model.norm."),
    ("model.transformer.ff_out.", "lm_head."),
)


def read_molmo(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Molmo with its tower. Source: vLLM 0.33.0 `models/molmo.py`."""
    if facts.flag("weight_tying"):
        raise facts.unsupported("weight_tying", "vLLM's class cannot do it.")
    shape = attention_shape(facts, qkv_bias=facts.flag("qkv_bias"))
    if facts.flag("attention_layer_norm"):
        kv_size = shape.num_kv_heads * shape.head_size
        shape = replace(shape, qk_norm_sizes=(shape.hidden_size, kv_size))
    half = facts.integer("intermediate_size") // 2
    vocab_size = facts.optional_integer("embedding_size") or facts.integer("vocab_size")
    head = lm_head(vocab_size, shape.hidden_size)
    frame = Frame(
        shape.hidden_size,
        rope_cache(facts, shape.head_size, default_positions=8192),
        vocab_size=vocab_size + _EXTRA_WORDS,
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        classifier=(head,),  # the head has no words of its own for images
        is_tied=False,
    )
    layer = LayerKind(
        caches=(kv_of(shape),),
        modules=(
            # The checkpoint packs as vLLM does.
            *(
                replace(m, shards=()) if isinstance(m, QKVParallelLinear) else m
                for m in attention(shape)
            ),
            *gated_mlp(shape.hidden_size, half),
            norms(shape.hidden_size),
        ),
    )
    tower = Tower(
        ("image",),
        tuple(_molmo_tower(shape.hidden_size, half)),
        items=tiles.molmo_items(_IMAGE_SIZE, _PATCH),
    )
    return assemble(
        facts,
        label,
        frame,
        [layer] * facts.integer("num_hidden_layers"),
        vocab_size=facts.integer("vocab_size"),
        towers=(tower,),
        prefix_renames=RENAMES,
    )


def _molmo_tower(text_size: int, half_mlp: int) -> Iterator[Module]:
    """Yield the tower; the config does not say its sizes.

    Source: vLLM 0.33.0 `models/molmo.py` VisionBackboneConfig, MolmoVisionBackbone.
    """
    name = "vision_backbone"
    vit, wide = f"{name}.image_vit", _FEATURE_LAYERS * _SIZE
    yield blocks.replicated(f"{name}.pad_embed", (2, wide))
    yield blocks.replicated(f"{vit}.class_embedding", (_SIZE,), (_POSITIONS, _SIZE))
    yield blocks.replicated(f"{vit}.patch_embedding", (_SIZE, 3 * _PATCH**2))
    yield blocks.norms(f"{vit}.pre_ln", _SIZE, bias=True)
    mlp = "feed_forward.w1", "feed_forward.w2"
    yield from blocks.repeated(
        f"{vit}.transformer.resblocks",
        _LAYERS,
        *_attention("attention", _SIZE),
        *blocks.plain_mlp(*mlp, _SIZE, _MLP_SIZE),
        blocks.norms("norm", _SIZE, count=2, bias=True),
    )
    yield from _attention(f"{name}.image_pooling_2d", wide)
    merged, halves = f"{name}.image_projector.merged_linear", (half_mlp, half_mlp)
    gate = blocks.GATE_AND_UP
    yield blocks.column(merged, _SIZE, *halves, bias=False, shards=gate)
    down = f"{name}.image_projector.down_proj"
    yield blocks.row(down, half_mlp, text_size, bias=False)


def _attention(name: str, input_size: int) -> Iterator[Module]:
    for part in ("wq", "wk", "wv"):
        yield blocks.column(f"{name}.{part}", input_size, _SIZE, bias=True)
    yield blocks.row(f"{name}.wo", _SIZE, _SIZE, bias=True)


# Molmo 2: a tower up to the layers that are used, pooled by attention, and Qwen 3.
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
    frame = Frame(
        size,
        _ropes(text, shape),
        vocab_size=words + extra,
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        classifier=(lm_head(words, size),),  # without the additional words
        is_tied=False,
    )
    layers = [layer] * text.integer("num_hidden_layers")
    model = assemble(text, label, frame, layers, vocab_size=words)
    vision, adapter = nested(facts, "vit_config"), nested(facts, "adapter_config")
    tower = Tower(
        IMAGE_AND_VIDEO, tuple(_molmo2_tower(vision, adapter)), items=_items(vision)
    )
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


def _molmo2_tower(vision: Facts, adapter: Facts) -> Iterator[Module]:
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


READERS: dict[str, Reader] = {
    "MolmoForCausalLM": read_molmo,
    "Molmo2ForConditionalGeneration": read_molmo2,
}
