"""Molmo: a tower whose sizes vLLM fixes, and a decoder like Llama's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
from planner.models.families.decoder import (
    attention,
    attention_shape,
    gated_mlp,
    kv_of,
    lm_head,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks, tiles
from planner.models.layers import Module, QKVParallelLinear

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
    skeleton = Skeleton(
        hidden_size=shape.hidden_size,
        vocab_size=vocab_size + _EXTRA_WORDS,
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        classifier=(head,),  # the head has no words of its own for images
        every_stage=rope_cache(
            facts,
            shape.head_size,
            default_positions=8192,
        ),
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
        tuple(_tower(shape.hidden_size, half)),
        items=tiles.molmo_items(_IMAGE_SIZE, _PATCH),
    )
    return assemble(
        facts,
        label,
        skeleton,
        Body.alike(layer, facts.integer("num_hidden_layers")),
        vocab_size=facts.integer("vocab_size"),
        towers=(tower,),
        prefix_renames=RENAMES,
    )


def _tower(text_size: int, half_mlp: int) -> Iterator[Module]:
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


READERS = {"MolmoForCausalLM": read_molmo}
