"""Hunyuan's models: V4, and the family of HunyuanOCR."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import Frame, Label, Reader, assemble
from planner.models.families.composite import (
    Tie,
    known_as,
    read_as,
    sub_config,
    text_facts,
    with_towers,
)
from planner.models.families.decoder import ExpertsShape, experts, gated_mlp, norms
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.mla import (
    LatentShape,
    declared_heads,
    latent_attention,
    latent_shape,
    mla_layer,
)
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    Sharded,
    TokenBuffer,
)
from planner.values import frozen

# Hunyuan V4: latent attention with a gate and sinks, several residual streams.
_SPARSE = ("sparse_attention", "sparse", "indexed_attention")


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
        return Replicated(name, Part.HYPER_CONNECTIONS, shapes, dtype="float32")


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
        LayerKind(kept, (*common, *(dense if kind == "dense" else sparse)))
        for kind in facts.value("mlp_layer_types")[:num_layers]
    )
    rope = rope_cache(
        facts,
        shape.qk_rope_head_dim,
        default_positions=8192,
    )
    frame = Frame(
        size,
        (*rope, *_choices(facts)),
        final_norm=(norms(size, count=1), *(streams.head() if streams else ())),
    )
    return assemble(
        facts,
        label,
        frame,
        layers,
        **declared_heads(facts, shape),
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
                "self_attn.linear_gate",
                Part.ATTENTION,
                shape.hidden_size,
                (shape.num_heads * by_head[kind],),
            )
        )
    if facts.flag("learnable_sink"):
        modules.append(
            Sharded(
                "self_attn.learnable_sink_param",
                Part.ATTENTION,
                ((shape.num_heads,),),
                dtype="bfloat16",
            )
        )
    return tuple(modules)


def _choices(facts: Facts) -> tuple[Module, ...]:
    """Return the buffer of chosen tokens, which is there even where none are."""
    columns = facts.optional_integer("index_topk")
    if columns is None:
        return ()
    return (TokenBuffer("model.topk_indices_buffer", columns, dtype="int32"),)


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


# The family of HunyuanOCR, which vLLM leaves to Transformers, encoder and all.
_TEXT = own_defaults("HunYuanVLTextConfig")
_VISION = own_defaults("HunYuanVLVisionConfig")


def _read(facts: Facts, label: Label) -> ModelArchitecture:
    """Return a model of images; a flat config, as Tencent's are, describes the text.

    Source: vLLM 0.33.0 `models/transformers/multimodal.py`; Transformers 5.20.2
    `hunyuan_vl` (HunYuanVLConfig, HunYuanVLVisionTransformer).
    """
    text = text_facts(facts, "hunyuan_vl_text", flat_keys=facts.config, tie=Tie.EITHER)
    text = Facts(text.config, text.model_type, _TEXT)
    model = read_as(text, label, "HunYuanDenseV1ForCausalLM")
    given = sub_config(facts, "vision_config", "hunyuan_vl_vision")
    vision = Facts(given.config, given.model_type, _VISION)
    tower = Tower(IMAGE, tuple(_modules(vision, model.hidden_size)))
    layers = "model.language_model.layers"
    whole = with_towers(model, (tower,), layer_prefix=layers)
    return known_as(whole, facts, label)


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Yield the tower, which each rank holds in full."""
    size, name = facts.integer("hidden_size"), "model.vision_tower"
    wide, patch = facts.integers("intermediate_size", "patch_size")
    positions = (facts.integer("max_image_size") // patch) ** 2 + 1
    embedding, channels = f"{name}.embeddings", facts.integer("num_channels")
    patches = f"{embedding}.patch_embedding"
    yield blocks.convolution(patches, size, channels, patch, patch, bias=True)
    yield blocks.replicated(f"{embedding}.position_embedding", (positions, size))
    yield from blocks.repeated(
        f"{name}.layers",
        facts.integer("num_hidden_layers"),
        blocks.norms("layer_norm", size, count=2, bias=True),
        *(
            blocks.whole(f"self_attn.{part}_proj", size, size, bias=True)
            for part in ("q", "k", "v", "o")
        ),
        blocks.whole("mlp.fc1", size, wide, bias=True),
        blocks.whole("mlp.fc2", wide, size, bias=True),
    )
    kernel, merger = (facts.integer("spatial_merge_size"),) * 2, f"{name}.patch_merger"
    convolution, output = f"{merger}.proj_conv", f"{merger}.proj_out"
    yield blocks.convolution(convolution, 2 * size, size, *kernel, bias=True)
    yield blocks.convolution(output, 4 * size, 2 * size, 1, 1, bias=True)
    yield blocks.whole(f"{merger}.mlp", 4 * size, text_size, bias=True)
    yield blocks.replicated(f"{merger}.image_newline", (4 * size,))
    yield blocks.replicated(f"{merger}.image_marks", *((text_size,),) * 3)
    yield blocks.norms(f"{merger}.before_rms", size, bias=False)
    yield blocks.norms(f"{merger}.after_rms", text_size, bias=False)


READERS: dict[str, Reader] = {
    "HYV4ForCausalLM": read_hy_v4,
    "HunYuanVLForConditionalGeneration": _read,
}
