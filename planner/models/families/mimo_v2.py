"""MiMo-V2: keys wider than values, windows with sinks, experts; images and videos.

Source: vLLM 0.33.0 `models/mimo_v2.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.experts import FusedMoE
from planner.models.families.assembly import Frame, Label, Reader, assemble
from planner.models.families.composite import Composite, read_as, sub_config
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    correction_bias,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.qwen_vl import QWEN2_RENAMES
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.layers import (
    ColumnParallelLinear,
    Linear,
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    Sharded,
)
from planner.models.tensors import Tensors
from planner.values import frozen


@frozen
class _ChunkedQKV(Linear):
    """Query, key and value as a block-quantised checkpoint packs them, in chunks.

    A rank with several chunks pads the keys and values of each to whole blocks of
    scales, unless their rows fill blocks already.

    Source: vLLM 0.33.0 `models/mimo_v2.py` _fused_qkv_kv_chunk_rows, MiMoV2Attention.
    """

    split: QKVParallelLinear
    chunks: int
    part: Part = Part.ATTENTION

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return weight and bias on a rank."""
        rows = self._rows_of_chunk(layout.tensor_parallel_size)
        if not rows:
            return replace(self.split, method=self.method, shards=()).tensors(layout)
        split = self.split
        merged = ColumnParallelLinear(
            self.name,
            self.part,
            split.input_size,
            (split.num_heads * split.head_size, self.chunks * rows),
            bias=split.bias,
            method=self.method,
        )
        return merged.tensors(layout)

    def _rows_of_chunk(self, ranks: int) -> int:
        """Return a chunk's rows of keys and values, padded; 0 where they are split."""
        split, chunks = self.split, self.chunks
        heads = (split.num_heads, split.num_kv_heads)
        if chunks <= ranks or chunks % ranks or any(count % chunks for count in heads):
            return 0
        queries, keys = (count // chunks * split.head_size for count in heads)
        size_v = split.head_size if split.head_size_v is None else split.head_size_v
        values = split.num_kv_heads // chunks * size_v
        if queries % _BLOCK or not (keys % _BLOCK or values % _BLOCK):
            return 0
        return -(-(keys + values) // _BLOCK) * _BLOCK


_BLOCK = 128
"""Rows that share a scale."""


def read_mimo_v2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MiMo-V2-Flash.

    Source: vLLM 0.33.0 `models/mimo_v2.py` MiMoV2FlashForCausalLM;
    `transformers_utils/model_arch_config_convertor.py`
    _strip_mimo_v2_attention_chunk_size.
    """
    num_layers = facts.integer("num_hidden_layers")
    slides = facts.value("hybrid_layer_pattern")
    sparse = facts.value("moe_layer_freq")
    if not isinstance(slides, list):
        raise facts.unsupported("hybrid_layer_pattern", "one entry per layer is.")
    if facts.mapping("vision_config"):
        raise facts.unsupported("vision_config", "text is, and MiMoV2OmniForCausalLM.")
    per_layer = sparse if isinstance(sparse, list) else [0] * num_layers
    layers = [
        _layer(facts, slides[layer] == 1, bool(per_layer[layer]))
        for layer in range(num_layers)
    ]
    frame = Frame(facts.integer("hidden_size"), _rotary(facts))
    # vLLM strips attention_chunk_size, which no layer of the model respects.
    return assemble(facts, label, frame, layers, attention_chunk_size=None)


def _rotary(facts: Facts) -> tuple[Module, ...]:
    """Return a table for each frequency: layers with a window have their own."""
    rows = facts.integer("max_position_embeddings", default=32768)
    heads = {(facts.integer("head_dim"), facts.value("rope_theta"))}
    window_theta = facts.value("swa_rope_theta") or facts.value("rope_theta")
    heads.add((facts.integer("swa_head_dim"), window_theta))
    return tuple(
        module
        for head_size, _ in sorted(heads, key=str)
        for module in rope_cache(facts, head_size, max_position=rows)
    )


def _shape(facts: Facts, *, slides: bool) -> AttentionShape:
    """Return one of the two kinds of attention."""
    before = "swa_" if slides else ""
    head_size = facts.integer(f"{before}head_dim")
    return AttentionShape(
        hidden_size=facts.integer("hidden_size"),
        num_heads=facts.integer(f"{before}num_attention_heads"),
        num_kv_heads=facts.integer(f"{before}num_key_value_heads"),
        head_size=head_size,
        head_size_v=facts.optional_integer(f"{before}v_head_dim") or head_size,
        qkv_bias=facts.flag("attention_bias"),
    )


def _layer(facts: Facts, slides: bool, is_sparse: bool) -> LayerKind:
    shape, has_sinks = _shape(facts, slides=slides), False
    size, window = shape.hidden_size, None
    if slides:
        window = facts.integer("sliding_window_size")
        has_sinks = facts.flag("add_swa_attention_sink_bias")
    mlp = (
        _experts(facts, size)
        if is_sparse
        else gated_mlp(size, facts.integer("intermediate_size"))
    )
    kept = replace(kv_of(shape), sliding_window=window, has_sinks=has_sinks)
    modules = _attention(facts, shape)
    if has_sinks:
        name = "self_attn.attention_sink_bias"
        modules = (*modules, Sharded(name, Part.ATTENTION, ((shape.num_heads,),)))
    return LayerKind((kept,), (*modules, *mlp, norms(size)))


def _attention(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    split, *others = attention(shape)
    is_fused = facts.value("attention_projection_layout") == "fused_qkv"
    in_blocks = facts.mapping("quantization_config").get("weight_block_size")
    chunks = facts.integer("num_key_value_heads") if is_fused and in_blocks else 0
    if chunks and isinstance(split, QKVParallelLinear):
        split = _ChunkedQKV(name=split.name, split=split, chunks=chunks)
    return (split, *others)


def _experts(facts: Facts, hidden_size: int) -> tuple[Module, ...]:
    """Return router and experts; the router's dtype is the config's own.

    Source: vLLM 0.33.0 `models/mimo_v2.py` MiMoV2MoE (gate_input).
    """
    num_experts = facts.integer("n_routed_experts")
    router_dtype = str(facts.value("moe_router_dtype") or "float32")
    return (
        Replicated(
            "mlp.gate",
            Part.ROUTER,
            ((num_experts, hidden_size),),
            dtype=router_dtype,
        ),
        correction_bias(num_experts),
        FusedMoE(
            name="mlp.experts",
            num_experts=num_experts,
            top_k=facts.integer("num_experts_per_tok"),
            hidden_size=hidden_size,
            intermediate_size=facts.integer("moe_intermediate_size"),
            is_renormalized=facts.flag("norm_topk_prob"),
            router_dtype=router_dtype,
        ),
    )


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    if facts.mapping("audio_config"):
        raise facts.unsupported(
            "audio_config", "the tokeniser of sounds has a folder of its own."
        )
    blind = facts.having(vision_config=None)
    return read_as(blind, label, "MiMoV2FlashForCausalLM")


def _modules(facts: Facts, _text_size: int) -> tuple[Module, ...]:
    return blocks.unquantised(*_vision(sub_config(facts, "vision_config", "")))


def _vision(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/mimo_v2_omni.py` MiMoVisionTransformer."""
    size, heads = facts.integers("hidden_size", "num_heads")
    keys = facts.integer("qk_channels", default=64)
    values = facts.integer("kv_channels", default=64)
    name, patch = "visual", facts.integer("patch_size")
    times = facts.integer("temporal_patch_size", default=2)
    embedding, channels = f"{name}.patch_embed.proj", facts.integer("in_channels")
    kernel = times, patch, patch
    yield blocks.convolution(embedding, size, channels, *kernel, bias=False)
    yield blocks.rotary_cache(f"{name}.rotary_pos_emb", keys)
    whole = facts.value("fullatt_block_indexes") or ()
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        yield blocks.norms(f"{block}.norm", size, count=2, bias=False)
        yield QKVParallelLinear(
            name=f"{block}.attn.qkv",
            part=Part.TOWERS,
            input_size=size,
            num_heads=heads,
            num_kv_heads=facts.integer("num_key_value_heads", default=8),
            head_size=keys,
            head_size_v=values,
            bias=True,
            shards=(),
        )
        yield blocks.row(f"{block}.attn.proj", heads * values, size, bias=True)
        if facts.flag("use_sink") and index not in whole:
            yield blocks.replicated(f"{block}.attn.sinks", (heads,))
        wide = facts.integer("intermediate_size")
        yield from blocks.gated_mlp(f"{block}.mlp", size, wide, bias=True)
    merged = size * facts.integer("spatial_merge_size") ** 2
    output = facts.integer("out_hidden_size")
    yield blocks.norms(f"{name}.merger.ln_q", size, bias=False)
    yield blocks.column(f"{name}.merger.mlp.0", merged, merged, bias=False)
    yield blocks.row(f"{name}.merger.mlp.2", merged, output, bias=False)


READERS: dict[str, Reader] = {
    "MiMoV2FlashForCausalLM": read_mimo_v2,
    "MiMoV2ForCausalLM": read_mimo_v2,
    "MiMoV2OmniForCausalLM": Composite(
        _modules, text=_text, modalities=IMAGE_AND_VIDEO, renames=QWEN2_RENAMES
    ),
}
