"""Step 3, 3.5 and 3.7, with images or without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Frame, Label, Reader, assemble
from planner.models.families.composite import Composite, Text, sub_config
from planner.models.families.decoder import (
    ExpertsShape,
    attention,
    attention_gate,
    attention_scales,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache, typed_ropes, with_rope
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.windows import FULL, SLIDING
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
)


def read_step3_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Step 3: one KV head, queries through a narrow layer.

    Source: vLLM 0.33.0 `models/step3_text.py`.
    """
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    head_size = facts.integer("head_dim")
    narrow = facts.optional_integer("share_q_dim") or heads * head_size
    common = (
        ReplicatedLinear(
            "self_attn.qkv_proj",
            Part.ATTENTION,
            size,
            (narrow, head_size, head_size),
            shards=("q_proj", "k_proj", "v_proj"),
        ),
        RowParallelLinear("self_attn.o_proj", Part.ATTENTION, heads * head_size, size),
        Replicated("self_attn.inter_norm", Part.NORMS, ((narrow,),)),
        ColumnParallelLinear(
            "self_attn.wq", Part.ATTENTION, narrow, (heads * head_size,)
        ),
        attention_scales(),
        norms(size),
    )
    sparse = step_experts(
        facts,
        facts.integer("share_expert_dim"),
        routed=(facts.integer("moe_num_experts"), facts.integer("moe_top_k")),
        is_balanced=False,
    )
    dense = gated_mlp(size, facts.integer("intermediate_size"))
    kept = AttentionLayer(num_heads=heads, num_kv_heads=1, head_size=head_size)
    num_layers = facts.integer("num_hidden_layers")
    listed = listed_layers(facts.value("moe_layers_enum"), range(1, num_layers))
    layers = (
        LayerKind((kept,), (*common, *(sparse if i in listed else dense)))
        for i in range(num_layers)
    )
    rope = rope_cache(
        facts,
        head_size,
        max_position=facts.integer(
            "max_position_embedding", "max_position_embeddings", default=8192
        ),
    )
    # vLLM's class passes no quantisation to its head, and never ties it.
    frame = Frame(size, rope, is_head_quantizable=False, is_tied=False)
    return assemble(facts, label, frame, layers)


def listed_layers(given: Any, default: range) -> set[int]:  # noqa: ANN401 - the untyped border
    """Return the layers with experts, as Step's configs list them."""
    if given is None:
        return set(default)
    names = given.strip().split(",") if isinstance(given, str) else given
    return {int(name) for name in names}


def read_step3p5(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Step 3.5: windows, and heads whose number differs with them.

    Source: vLLM 0.33.0 `models/step3p5.py`.
    """
    num_layers = facts.integer("num_hidden_layers")
    types = (facts.value("layer_types") or [FULL] * num_layers)[:num_layers]
    width = facts.integer("share_expert_dim", "shared_expert_intermediate_size")
    routed = (
        facts.integer("moe_num_experts", "n_routed_experts"),
        facts.integer("moe_top_k", "num_experts_per_tok"),
    )
    sparse = step_experts(facts, width, routed=routed)
    dense = gated_mlp(facts.integer("hidden_size"), facts.integer("intermediate_size"))
    mlps = facts.value("mlp_layer_types")
    listed = listed_layers(facts.value("moe_layers_enum"), range(1, num_layers))
    if mlps is not None:
        listed = {i for i, kind in enumerate(mlps) if kind == "sparse"}
    layers = [
        _layer(facts, kind, sparse if i in listed else dense)
        for i, kind in enumerate(types)
    ]
    head_size = facts.optional_integer("head_dim") or facts.integer(
        "hidden_size"
    ) // facts.integer("num_attention_heads")
    frame = Frame(
        facts.integer("hidden_size"), _ropes(facts, types, head_size), is_tied=False
    )
    return assemble(facts, label, frame, layers)


def _layer(facts: Facts, kind: str, mlp: tuple[Module, ...]) -> LayerKind:
    plain = attention_shape(facts, qkv_bias=facts.flag("attention_bias"))
    other = facts.mapping("attention_other_setting")
    heads = plain.num_heads
    if kind == SLIDING:
        heads = facts.optional_integer("num_sliding_attention_heads") or heads
        if other.get("attention_type") == kind:
            heads = other["num_attention_heads"]
    if facts.value("per_layer_config"):
        raise facts.unsupported("per_layer_config", "heads by layer are not.")
    shape = replace(
        plain,
        num_heads=heads,
        num_kv_heads=facts.integer("num_attention_groups", "num_key_value_heads"),
        qk_norm_sizes=(plain.head_size, plain.head_size),
    )
    modules = (*attention(shape), norms(shape.hidden_size))
    if facts.flag("use_head_wise_attn_gate"):
        modules = (*modules, attention_gate(shape, heads))
    window = facts.optional_integer("sliding_window") if kind == SLIDING else None
    return LayerKind((replace(kv_of(shape), sliding_window=window),), (*modules, *mlp))


def step_experts(
    facts: Facts,
    width: int,
    *,
    routed: tuple[int, int],
    is_balanced: bool = True,
    shared: str = "share_expert",
) -> tuple[Module, ...]:
    """Return routed experts, and a shared MLP of this width and name.

    `routed`: how many there are, and how many of them a token takes; `is_balanced`: by
    a bias, with a router in float32.
    """
    size = facts.integer("hidden_size")
    block = ExpertsShape(
        hidden_size=size,
        num_experts=routed[0],
        top_k=routed[1],
        intermediate_size=facts.integer("moe_intermediate_size"),
        is_renormalized=facts.flag("norm_expert_weight"),
        router_dtype="float32" if is_balanced else None,
        has_correction_bias=is_balanced,
        name="moe",
    )
    beside = gated_mlp(size, width, part=Part.SHARED_EXPERTS, name=shared)
    return (*experts(block), *beside)


def _ropes(facts: Facts, types: list[str], head_size: int) -> tuple[Module, ...]:
    """Return the tables, whose parameters old configs keep by layer."""
    max_position = facts.integer("max_position_embeddings")
    by_type = facts.mapping("rope_parameters")
    if any(isinstance(value, dict) for value in by_type.values()):
        return typed_ropes(facts, types, head_size)
    scaled_only = facts.value("yarn_only_types")
    thetas, factors = facts.value("rope_theta"), facts.value("partial_rotary_factors")
    tables: dict[str, Module] = {}
    for index, kind in enumerate(types):
        scaling = dict(facts.mapping("rope_scaling"))
        if scaled_only and kind not in scaled_only:
            scaling = {}
        theta = thetas[index] if isinstance(thetas, list) else thetas
        factor = factors[index] if factors else 1.0
        rope = {**scaling, "rope_theta": theta, "partial_rotary_factor": factor}
        own = with_rope(facts, rope)
        key = str(sorted(rope.items(), key=str))
        if key not in tables:
            (tables[key],) = rope_cache(own, head_size, max_position=max_position)
    return tuple(tables.values())


def _step3_vl_tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/step3_vl.py`."""
    vision = sub_config(facts, "vision_config", "step3_vision_encoder")
    size, out = vision.integers("hidden_size", "output_hidden_size")
    text_size, bias = facts.integer("hidden_size"), facts.flag("projector_bias")
    modules = (
        *_encoder(vision),
        blocks.convolution("vit_downsampler", out, size, 2, 2, bias=True),
        blocks.convolution("vit_downsampler2", 2 * out, out, 3, 3, bias=True),
        blocks.linear("vit_large_projector", 2 * out, text_size, bias=bias),
    )
    return Tower(IMAGE, modules, supports_data_parallel=True)


def _encoder(facts: Facts) -> Iterator[Module]:
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    size, channels = sizes.width, facts.integer("num_channels")
    positions = (facts.integer("image_size") // patch) ** 2 + 1
    name = "vision_model.embeddings"
    yield blocks.replicated(name, (size,), (positions, size))
    patches = f"{name}.patch_embedding"
    yield blocks.convolution(patches, size, channels, patch, patch, bias=True)
    yield blocks.replicated(f"{name}.position_ids", (positions,), dtype="int64")
    layers = blocks.layers(
        "vision_model.transformer.layers", sizes, blocks.Parts(norms_last=True)
    )
    yield from blocks.unquantised(*layers)


# Step-VL, Step 3.7 and Step 5 with images: the perception encoder.
_NAME = "vision_model"


def _step_vl_tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/step_vl.py`, `models/step3p7.py`."""
    vision = sub_config(facts, "vision_config", "perception_encoder")
    wide, bias = 4 * vision.integer("width"), facts.flag("projector_bias", default=True)
    projector = blocks.column("vit_large_projector", wide, text_size, bias=bias)
    return Tower(IMAGE, (*_perception(vision), projector), supports_data_parallel=True)


def _perception(facts: Facts) -> Iterator[Module]:
    """Yield the encoder, each of whose layers has a rotary table of its own.

    Source: vLLM 0.33.0 `models/step_vl.py` PerceptionEncoder.
    """
    width, patch = facts.integers("width", "patch_size")
    has_class = facts.flag("use_cls_token")
    positions = (facts.integer("image_size") // patch) ** 2 + int(has_class)
    yield blocks.convolution(f"{_NAME}.conv1", width, 3, patch, patch, bias=False)
    for number, size in ((1, width), (2, 2 * width)):
        name = f"{_NAME}.vit_downsampler{number}"
        yield blocks.convolution(name, 2 * size, size, 3, 3, bias=True)
    for norm in ("ln_pre", "ln_post"):
        if facts.flag(f"use_{norm}", default=True):
            yield blocks.norms(f"{_NAME}.{norm}", width, bias=True)
    if has_class:
        yield blocks.replicated(f"{_NAME}.class_embedding", (width,))
    if facts.flag("use_abs_posemb", default=True):
        yield blocks.replicated(f"{_NAME}.positional_embedding", (positions, width))
    yield from _layers(facts, width, positions)


def _layers(facts: Facts, width: int, positions: int) -> tuple[Module, ...]:
    heads = facts.integer("heads")
    mlp_size = int(width * facts.number("mlp_ratio", default=4.0))
    has_scale = facts.value("ls_init_value") is not None
    scales = (blocks.replicated("ls", (width,), (width,)),) if has_scale else ()
    return blocks.repeated(
        f"{_NAME}.transformer.resblocks",
        facts.integer("layers"),
        blocks.qkv("attn.qkv_proj", width, heads, bias=True),
        blocks.row("attn.out_proj", width, width, bias=True),
        blocks.replicated("attn.rope", (positions, width // heads), dtype="float32"),
        *blocks.plain_mlp("mlp.fc1", "mlp.fc2", width, mlp_size),
        blocks.norms("ln", width, count=2, bias=True),
        *scales,
    )


READERS: dict[str, Reader] = {
    "Step3TextForCausalLM": read_step3_text,
    "Step3p5ForCausalLM": read_step3p5,
    "Step3VLForConditionalGeneration": Composite(
        _step3_vl_tower, text=Text("step3_text", "Step3TextForCausalLM")
    ),
    **dict.fromkeys(
        (
            "StepVLForConditionalGeneration",
            "Step3p7ForConditionalGeneration",
            "Step5ForConditionalGeneration",
        ),
        Composite(_step_vl_tower, text=Text("step3p5")),
    ),
}
