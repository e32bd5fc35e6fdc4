"""Llama 4: chunked attention, layers without positions, experts, and its tower."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.composite import (
    composed,
    sub_config,
    text_facts,
)
from planner.models.families.decoder import (
    AttentionShape,
    ExpertsShape,
    attention,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks, tiles
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
)
from planner.models.passes import Attention, Moment, TowerPass


def read_llama4_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the language model of Llama 4 from its text config.

    Source: vLLM 0.33.0 `models/llama4.py`.
    """
    shape = attention_shape(facts)
    num_layers = facts.integer("num_hidden_layers")
    rope = _has_rope(facts, num_layers)
    step = facts.integer("interleave_moe_layer_step", default=1)
    layers = (
        _layer(
            facts,
            shape,
            has_rope=rope[layer],
            is_sparse=step > 0 and (layer + 1) % step == 0,
        )
        for layer in range(num_layers)
    )
    tables = rope_cache(
        facts,
        shape.head_size,
        default_positions=8192,
    )
    return assemble(facts, label, Frame(shape.hidden_size, tables), layers)


def _has_rope(facts: Facts, num_layers: int) -> tuple[bool, ...]:
    """Return which layers rotate queries and keys; every fourth does not.

    Source: Transformers' Llama4TextConfig.
    """
    given = facts.value("no_rope_layers")  # 1 means that the layer has RoPE
    if given:
        return tuple(map(bool, given[:num_layers]))
    every = facts.integer("no_rope_layer_interval", default=4)
    return tuple((layer + 1) % every != 0 for layer in range(num_layers))


def _layer(
    facts: Facts, shape: AttentionShape, *, has_rope: bool, is_sparse: bool
) -> LayerKind:
    chunk = facts.optional_integer("attention_chunk_size") if has_rope else None
    cache = replace(kv_of(shape), attention_chunk_size=chunk or None)
    feed_forward = (
        _experts(facts, shape.hidden_size)
        if is_sparse
        else gated_mlp(
            shape.hidden_size,
            facts.integer("intermediate_size_mlp"),
            name="feed_forward",
        )
    )
    modules = (*attention(shape), *feed_forward, norms(shape.hidden_size))
    if has_rope and facts.flag("use_qk_norm", default=True):
        modules = (*modules, _unit_norm(shape.head_size))
    return LayerKind((cache,), modules)


def _unit_norm(head_size: int) -> Replicated:
    """Return what the norm of queries and keys holds without a weight to learn."""
    return Replicated(
        "self_attn.qk_norm", Part.BUFFERS, ((head_size,),), dtype="float32"
    )


def _experts(facts: Facts, hidden_size: int) -> tuple[Module, ...]:
    """Return router, experts and the one shared expert of a layer.

    Source: vLLM 0.33.0 `models/llama4.py` Llama4MoE.
    """
    intermediate_size = facts.integer("intermediate_size")
    shape = ExpertsShape(
        hidden_size=hidden_size,
        num_experts=facts.integer("num_local_experts"),
        top_k=facts.integer("num_experts_per_tok"),
        intermediate_size=intermediate_size,
        shared_intermediate_size=intermediate_size,
        is_renormalized=False,
        name="feed_forward",
        router_name="router",
        shared_name="shared_expert",
    )
    return experts(shape)


def read_llama4(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Llama 4 with its tower.

    Source: vLLM 0.33.0 `models/mllama4.py` Llama4ForConditionalGeneration.
    """
    model = read_llama4_text(text_facts(facts, "llama4_text"), label)
    vision = sub_config(facts, "vision_config", "llama4_vision_model")
    towers = llama4_towers(vision, model.hidden_size)
    return composed(facts, label, model, *towers)


def llama4_towers(facts: Facts, text_size: int) -> tuple[Tower, ...]:
    """Return the vision model, and its projector, which is always cut by the ranks.

    Source: vLLM 0.33.0 `models/mllama4.py` Llama4VisionModel,
    Llama4MultiModalProjector.
    """
    projector = blocks.column(
        "multi_modal_projector.linear_1",
        facts.integer("vision_output_dim"),
        text_size,
        bias=False,
    )
    return (
        Tower(
            ("image",),
            blocks.unquantised(*_vision_model(facts, "vision_model")),
            items=tiles.llama4_items(facts),
            supports_data_parallel=True,
            tile_rows=tiles.tile_rows(facts),
            forward=_vision_pass(facts),
        ),
        Tower(("image",), blocks.unquantised(projector)),
    )


def _vision_pass(facts: Facts) -> TowerPass:
    """Return the widest points: queries and keys are rotated as complex fp32 numbers.

    At the end of that each is there three times: in fp32 before and after, and cast
    back.

    Source: vLLM 0.33.0 `models/mllama4.py` Llama4VisionAttention,
    Llama4VisionEncoderLayer; `layers/rotary_embedding/llama4_vision_rope.py`
    Llama4VisionRotaryEmbedding.
    """
    size, heads = facts.integers("hidden_size", "num_attention_heads")
    positions = (facts.integer("image_size") // facts.integer("patch_size")) ** 2 + 1
    return TowerPass(
        moments=(
            Moment("rotating", whole=3 * size, cut=(3 + 2 * (2 + 2 + 1)) * size),
            Moment("attention", whole=3 * size, cut=6 * size, per_split=2 * size),
            Moment("attention's output", whole=4 * size, cut=7 * size, reduced=size),
            Moment("MLP", whole=3 * size, cut=2 * facts.integer("intermediate_size")),
        ),
        attention=Attention(num_heads=heads, head_size=size // heads, length=positions),
    )


def _vision_model(facts: Facts, name: str) -> Iterable[Module]:
    size, heads = facts.integers("hidden_size", "num_attention_heads")
    mlp_size, patch = facts.integers("intermediate_size", "patch_size")
    positions = (facts.integer("image_size") // patch) ** 2 + 1
    channels = facts.integer("num_channels")
    yield blocks.replicated(
        f"{name}.class_embedding", (size,), (positions, size)
    )  # with the positions' own
    yield blocks.column(
        f"{name}.patch_embedding.linear", channels * patch**2, size, bias=False
    )
    yield blocks.norms(f"{name}.layernorm", size, count=2, bias=True)
    # Complex numbers of 8 bytes, for half of a head's dimensions.
    yield blocks.replicated(
        f"{name}.rotary_emb", (positions, size // heads // 2, 2), dtype="float32"
    )
    yield from blocks.repeated(
        f"{name}.model.layers",
        facts.integer("num_hidden_layers"),
        blocks.qkv("self_attn.qkv_proj", size, heads, bias=True),
        blocks.row("self_attn.o_proj", size, size, bias=True),
        blocks.norms("layernorm", size, count=2, bias=True),
        *blocks.plain_mlp("mlp.fc1", "mlp.fc2", size, mlp_size),
    )
    yield from _adapter(facts, f"{name}.vision_adapter.mlp")


def _adapter(
    facts: Facts, name: str
) -> tuple[ColumnParallelLinear | RowParallelLinear, ...]:
    """Return the layers after the pixel shuffle.

    Source: vLLM 0.33.0 `models/mllama4.py` Llama4VisionPixelShuffleMLP.
    """
    inner = facts.integer("projector_input_dim")
    bias = facts.flag("multi_modal_projector_bias")
    return (
        blocks.column(
            f"{name}.fc1", facts.integer("intermediate_size"), inner, bias=bias
        ),
        blocks.row(
            f"{name}.fc2", inner, facts.integer("projector_output_dim"), bias=bias
        ),
    )


READERS = {
    "Llama4ForCausalLM": read_llama4_text,
    "Llama4ForConditionalGeneration": read_llama4,
}
