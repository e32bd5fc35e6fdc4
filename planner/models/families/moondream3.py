"""Moondream 3: a tower, and a decoder whose attention has temperatures of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import LayerKind, MediaItem, ModelArchitecture, Tower
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Frame, Label, Placement, assemble
from planner.models.families.composite import composed, with_mm_prefix
from planner.models.families.decoder import attention_scales, norms
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.towers.grids import RGB, Items, if_known
from planner.models.layers import (
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
    Sharded,
)

_TEXT = own_defaults("moondream3.text")
_EXPERTS = own_defaults("moondream3.experts")
_VISION = own_defaults("moondream3.vision")
_ROTATED = 32
"""Dimensions of each head."""


def read_moondream3(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Moondream 3, whose decoder is on every stage but for its layers.

    Source: vLLM 0.33.0 `models/moondream3.py` Moondream3ForCausalLM.
    """
    given = Facts(facts.mapping("config"), facts.model_type)
    named = {**_TEXT, **given.mapping("text")}
    moe = Facts({**_EXPERTS, **(named.pop("moe", None) or {})}, "")
    longest = {"max_position_embeddings": named["max_context"]}
    dtype = facts.value("dtype", "torch_dtype")
    text = Facts({**named, **longest, "dtype": dtype, **_under_usual_names(named)}, "")
    vision = Facts({**_VISION, **given.mapping("vision")}, "")
    size, layers = text.integer("dim"), range(text.integer("n_layers"))
    kept = AttentionLayer(
        num_heads=text.integer("n_heads"),
        num_kv_heads=text.integer("n_kv_heads"),
        head_size=size // text.integer("n_heads"),
    )
    frame = Frame(
        size,
        rope_cache(
            Facts({"rope_theta": text.value("rope_theta")}, ""),
            kept.head_size,
            max_position=text.integer("max_context"),
            dim=_ROTATED,
        ),
        final_norm=(norms(size, count=1, bias=True),),
        placement=Placement.EVERYWHERE,
        is_tied=False,
        lm_head_bias=True,
    )
    kinds = [_layer(text, moe, kept, index) for index in layers]
    model = assemble(text, label, frame, kinds, num_experts=moe.integer("n_experts"))
    tower = Tower(("image",), tuple(_tower(vision, size)), items=_items(vision))
    return composed(facts, label, with_mm_prefix(model), tower, prefix="text.")


def _under_usual_names(text: dict[str, int]) -> dict[str, int]:
    names = {"n_heads": "num_attention_heads", "n_kv_heads": "num_key_value_heads"}
    return {"hidden_size": text["dim"], **{names[n]: text[n] for n in names}}


def _layer(text: Facts, moe: Facts, kept: AttentionLayer, index: int) -> LayerKind:
    """Source: vLLM 0.33.0 `models/moondream3.py` Moondream3DecoderLayer."""
    size = text.integer("dim")
    is_sparse = index >= moe.integer("start_layer")
    dense = tuple(_mlp(size, text.integer("ff_dim")))
    mlp = _experts(moe, size) if is_sparse else dense
    heads = kept.num_heads
    modules: tuple[Module, ...] = (
        QKVParallelLinear(
            name="attn.qkv_proj",
            input_size=size,
            num_heads=heads,
            num_kv_heads=kept.num_kv_heads,
            head_size=kept.head_size,
            bias=True,
            shards=(),
        ),
        RowParallelLinear("attn.out_proj", Part.ATTENTION, size, size, bias=True),
        attention_scales("attn.attn"),
        Sharded(
            "attn.tau", Part.ATTENTION, ((heads,), (heads, 3 * size), (heads, 3 * size))
        ),
        *mlp,
        norms(size, count=1, bias=True),
    )
    return LayerKind((kept,), modules)


def _mlp(size: int, wide: int) -> Iterator[Module]:
    for layer in blocks.plain_mlp("mlp.fc1", "mlp.fc2", size, wide):
        yield replace(layer, part=Part.MLP)


def _experts(moe: Facts, size: int) -> tuple[Module, ...]:
    """Return experts that the ranks share whole, whatever expert parallel is.

    Source: vLLM 0.33.0 `models/moondream3.py` Moondream3TextMoE.
    """
    count, inner = moe.integers("n_experts", "expert_inner_dim")
    return (
        ReplicatedLinear(
            "mlp.gate", Part.ROUTER, size, (count,), bias=True, is_quantizable=False
        ),
        Sharded(
            "mlp.experts",
            Part.EXPERTS,
            ((count, 2 * inner, size), (count, size, inner)),
        ),
        Replicated("mlp._expert_map", Part.BUFFERS, ((count,),), dtype="int32"),
        Sharded(
            "mlp._fused_w1_bias", Part.BUFFERS, ((count, 2 * inner),), dtype="float32"
        ),
    )


def _tower(vision: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/moondream3.py` Moondream3VisionEncoder."""
    names = ("enc_dim", "enc_n_heads", "enc_ff_dim", "enc_n_layers")
    sizes = blocks.Sizes(*vision.integers(*names))
    size, patch = sizes.width, vision.integer("enc_patch_size")
    positions = (vision.integer("crop_size") // patch) ** 2
    yield blocks.linear("vision.patch_emb", RGB * patch**2, size, bias=True)
    yield blocks.replicated("vision.pos_emb", (positions, size))
    parts = blocks.Parts(
        norms="ln", qkv="attn.qkv_proj", out="attn.out_proj", norms_last=True
    )
    yield from blocks.layers("vision.blocks", sizes, parts)
    yield blocks.norms("vision.post_ln", size, bias=True)
    inner = vision.integer("proj_inner_dim")
    yield blocks.column("vision_proj.fc1", 2 * size, inner, bias=True)
    yield blocks.row("vision_proj.fc2", inner, text_size, bias=True)


@if_known
def _items(vision: Facts) -> Items:
    """Return an image of two crops: 729 tokens and one before them.

    Source: vLLM 0.33.0 `models/moondream3.py` Moondream3ProcessingInfo.
    """
    side = vision.integer("crop_size")
    patches = (side // vision.integer("enc_patch_size")) ** 2
    return (
        MediaItem(
            "image",
            730,
            patches=2 * patches,
            inputs=2 * RGB * side * side,
            per_prompt=1,
        ),
    )


READERS = dict.fromkeys(("HfMoondream", "Moondream3ForCausalLM"), read_moondream3)
