"""Hunyuan V4, and the family of HunyuanOCR.

V4 has latent attention with a gate and sinks, and several residual streams. Models like
HunyuanOCR are left to Transformers, encoder and all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.decoder import ExpertsShape, experts, gated_mlp, norms
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder
from planner.models.families.mla import (
    LatentShape,
    latent_attention,
    latent_shape,
    mla_layer,
)
from planner.models.families.multimodal import (
    Tie,
    known_as,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.transformers import ROWS
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    Sharded,
    TokenBuffer,
)
from planner.values import frozen

_SPARSE = ("sparse_attention", "sparse", "indexed_attention")
_TEXT: Mapping[str, Any] = {
    "vocab_size": 290943,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "attention_bias": False,
}
_VISION: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_channels": 3,
    "num_hidden_layers": 27,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "max_image_size": 2048,
}


@frozen
class _Streams:
    """The residual streams of a model: how many, and how wide."""

    count: int
    hidden_size: int

    def layer(self) -> tuple[Module, ...]:
        """Return what mixes them before attention and before the MLP.

        Source: vLLM 0.33.0 `models/hy_v4/nvidia/hc.py` HYV4HCPreLayer.
        """
        mixed, wide = 2 * self.count, self.count * self.hidden_size
        one = ((mixed, wide), (2,), (mixed,))
        return (self._module("hc_layers", *one, *one),)

    def head(self) -> tuple[Module, ...]:
        """Return what joins them at the end.

        Source: vLLM 0.33.0 `models/hy_v4/nvidia/hc.py` HYV4HCHeadLayer.
        """
        wide = self.count * self.hidden_size
        shapes = ((self.count, wide), (self.count,), (1,))
        return (self._module("hc_head", *shapes),)

    @staticmethod
    def _module(name: str, *shapes: tuple[int, ...]) -> Module:
        return Replicated(
            name=name, part=Part.HYPER_CONNECTIONS, shapes=shapes, dtype="float32"
        )


def read_hy_v4(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Hunyuan V4, unless its indexer chooses tokens.

    Source: vLLM 0.33.0 `models/hy_v4/nvidia/model.py` HYV4ForCausalLM.
    """
    if set(facts.value("layer_types") or ()) & set(_SPARSE):
        raise facts.unsupported("layer_types", "full attention is.")
    shape = latent_shape(facts)
    size, num_layers = shape.hidden_size, facts.integer("num_hidden_layers")
    streams = None
    if facts.flag("enable_ihc"):
        streams = _Streams(count=facts.integer("hc_mult"), hidden_size=size)
    common = (
        *latent_attention(shape),
        *_gate(facts, shape),
        norms(size),
        *(streams.layer() if streams else ()),
    )
    dense = gated_mlp(size, facts.integer("intermediate_size"))
    sparse = _experts(facts)
    kept = (mla_layer(shape),)
    layers = (
        LayerKind(
            caches=kept, modules=(*common, *(dense if kind == "dense" else sparse))
        )
        for kind in facts.value("mlp_layer_types")[:num_layers]
    )
    rope = rope_cache(
        facts,
        head_size=shape.qk_rope_head_dim,
        max_position=facts.integer("max_position_embeddings", default=8192),
    )
    frame = Frame(
        hidden_size=size,
        rope=(*rope, *_choices(facts)),
        extra_final=streams.head() if streams else (),
    )
    return decoder(
        facts,
        label,
        frame,
        layers,
        num_attention_heads=shape.num_heads,
        num_kv_heads=facts.integer("num_key_value_heads", default=shape.num_heads),
        head_size=shape.kept_size,
        residual_streams=streams.count if streams else 1,
    )


def _gate(facts: Facts, shape: LatentShape) -> tuple[Module, ...]:
    """Return the gate of the attention's output, and a sink for each head.

    The sinks are float32 where a sparse kernel reads them; these here are not read.

    Source: vLLM 0.33.0 `models/hy_v4/nvidia/attention.py` HYV4MLAAttention.
    """
    modules: list[Module] = []
    if facts.flag("gated_mla"):
        by_head = {"headwise": 1, "elementwise": shape.v_head_dim}
        kind = facts.value("gating_type")
        if kind not in by_head:
            raise facts.unsupported("gating_type", "headwise and elementwise are.")
        modules.append(
            ColumnParallelLinear(
                name="self_attn.linear_gate",
                part=Part.ATTENTION,
                input_size=shape.hidden_size,
                output_sizes=(shape.num_heads * by_head[kind],),
            )
        )
    if facts.flag("learnable_sink"):
        modules.append(
            Sharded(
                name="self_attn.learnable_sink_param",
                part=Part.ATTENTION,
                shapes=((shape.num_heads,),),
                dtype="bfloat16",
            )
        )
    return tuple(modules)


def _choices(facts: Facts) -> tuple[Module, ...]:
    """Return the buffer of chosen tokens, which is there even where none are."""
    columns = facts.optional_integer("index_topk")
    if columns is None:
        return ()
    return (
        TokenBuffer(name="model.topk_indices_buffer", columns=columns, dtype="int32"),
    )


def _experts(facts: Facts) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/hy_v4/nvidia/moe.py` HYV4MoEFused."""
    width = facts.integer("expert_hidden_dim", "moe_intermediate_size")
    return experts(
        ExpertsShape(
            hidden_size=facts.integer("hidden_size"),
            num_experts=facts.integer("num_experts", "n_routed_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=width,
            shared_intermediate_size=width
            * (facts.optional_integer("num_shared_experts", "n_shared_experts") or 0),
            router_dtype="float32",
            has_correction_bias=True,
            is_renormalized=facts.flag("route_norm", "norm_topk_prob"),
        )
    )


def read_hunyuan_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return a model of images; a flat config, as Tencent's are, describes the text.

    Source: vLLM 0.33.0 `models/transformers/multimodal.py`; Transformers 5.20.2
    `hunyuan_vl` (HunYuanVLConfig, HunYuanVLVisionTransformer).
    """
    text = text_facts(facts, "hunyuan_vl_text", flat_keys=facts.config, tie=Tie.EITHER)
    text = Facts(text.config, text.model_type, _TEXT)
    inner = label.of("HunYuanDenseV1ForCausalLM")
    model = llama.read(text, inner, style=ROWS["HunYuanDenseV1ForCausalLM"])
    given = sub_config(facts, "vision_config", "hunyuan_vl_vision")
    vision = Facts(given.config, given.model_type, _VISION)
    whole = with_towers(
        model,
        (_whole_tower(vision, model.hidden_size),),
        layer_prefix="model.language_model.layers",
    )
    return known_as(whole, facts, label)


def _whole_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower, which each rank holds in full."""
    size, name = facts.integer("hidden_size"), "model.vision_tower"
    mlp_size = facts.integer("intermediate_size")
    edge = facts.integer("max_image_size") // facts.integer("patch_size")
    patch, channels = facts.integer("patch_size"), facts.integer("num_channels")
    modules: list[Module] = [
        blocks.convolution(
            f"{name}.embeddings.patch_embedding",
            size,
            channels,
            patch,
            patch,
            bias=True,
        ),
        blocks.replicated(
            f"{name}.embeddings.position_embedding", (edge * edge + 1, size)
        ),
    ]
    for index in range(facts.integer("num_hidden_layers")):
        block = f"{name}.layers.{index}"
        modules += [
            blocks.norms(f"{block}.layer_norm", size, count=2, bias=True),
            *(
                blocks.whole(f"{block}.self_attn.{part}_proj", size, size, bias=True)
                for part in ("q", "k", "v", "o")
            ),
            blocks.whole(f"{block}.mlp.fc1", size, mlp_size, bias=True),
            blocks.whole(f"{block}.mlp.fc2", mlp_size, size, bias=True),
        ]
    merge = facts.integer("spatial_merge_size")
    merger = f"{name}.patch_merger"
    modules += [
        blocks.convolution(
            f"{merger}.proj_conv", 2 * size, size, merge, merge, bias=True
        ),
        blocks.convolution(f"{merger}.proj_out", 4 * size, 2 * size, 1, 1, bias=True),
        blocks.whole(f"{merger}.mlp", 4 * size, text_size, bias=True),
        blocks.replicated(f"{merger}.image_newline", (4 * size,)),
        blocks.replicated(f"{merger}.image_marks", *((text_size,),) * 3),
        blocks.norms(f"{merger}.before_rms", size, bias=False),
        blocks.norms(f"{merger}.after_rms", text_size, bias=False),
    ]
    return Tower(modalities=("image",), modules=tuple(modules))


READERS = {
    "HYV4ForCausalLM": read_hy_v4,
    "HunYuanVLForConditionalGeneration": read_hunyuan_vl,
}
