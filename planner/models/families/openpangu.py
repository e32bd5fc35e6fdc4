"""openPangu: latent attention, keys and values held as sinks, or Llama's attention.

Source: vLLM 0.33.0 `models/openpangu.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families import llama
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.decoder import attention_scales, experts, gated_mlp, norms
from planner.models.families.decoders import LLAMA, llama_qkv_bias
from planner.models.families.deepseek_v2 import LATENT, read_latent
from planner.models.families.facts import Facts
from planner.models.families.rope import RotaryCache
from planner.models.families.styles import Experts, experts_shape
from planner.models.layers import (
    ColumnParallelLinear,
    Condition,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
    Sharded,
)


def _norm_count(facts: Facts) -> int:
    return 4 if facts.flag("sandwich_norm") else 2


def _windows(facts: Facts, num_layers: int) -> list[int | None]:
    given = facts.value("interleaved_sliding_window")
    pattern = given if isinstance(given, list) else [given]
    return [pattern[i % len(pattern)] for i in range(num_layers)]


_EMBEDDED = replace(LLAMA, windows=_windows, norm_count=_norm_count)
_EXPERTS = Experts(
    shared="n_shared_experts",
    has_correction_bias="router_enable_expert_bias",
    is_renormalized="norm_topk_prob",
)
_LATENT = replace(LATENT, experts=_EXPERTS, norm_count=_norm_count)


def read_pangu_moe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return openPangu Ultra MoE.

    Source: vLLM 0.33.0 `models/openpangu.py` OpenPanguMLAAttention.
    """
    if facts.value("kv_lora_rank") is None:
        return read_pangu_sinks(facts, label)
    return read_latent(facts, label, style=_LATENT)


def read_pangu_embedded(facts: Facts, label: Label) -> ModelArchitecture:
    """Return openPangu's dense models."""
    if facts.value("param_sink_number"):
        return read_pangu_sinks(facts, label)
    return llama.read(facts, label, style=_EMBEDDED)


def read_pangu_sinks(facts: Facts, label: Label) -> ModelArchitecture:
    """Return openPangu with learned keys and values before those of every request.

    Source: vLLM 0.33.0 `models/openpangu.py` OpenPanguSinkAttention;
    `layers/attention/static_sink_attention.py`.
    """
    if not facts.optional_integer("param_sink_number"):
        raise facts.unsupported(
            "param_sink_number", "latent attention or keys held as sinks are."
        )
    cache, own = _sink_attention(facts)
    size = facts.integer("hidden_size")
    extra = norms(size, count=_norm_count(facts))
    layers = (LayerKind((cache,), (*own, *mlp, extra)) for mlp in _pangu_mlps(facts))
    rope = RotaryCache(
        rows=facts.integer("max_position_embeddings", default=8192),
        rows_of_images=facts.integer("max_position_embeddings", default=8192),
        columns=facts.integer("qk_rope_dim"),
    )
    return assemble(facts, label, Frame(size, (rope,)), layers)


def _pangu_mlps(facts: Facts) -> Iterator[tuple[Module, ...]]:
    """Return the MLP of each layer: plain in the first ones, experts in the others."""
    plain = gated_mlp(
        facts.integer("hidden_size"),
        facts.integer("intermediate_size"),
        bias=facts.flag("mlp_bias"),
    )
    has_experts = facts.value("n_routed_experts") is not None
    usual = LATENT.as_usual(facts)
    sparse = experts(experts_shape(usual, _EXPERTS)) if has_experts else plain
    num_layers = facts.integer("num_hidden_layers")
    first = facts.integer("first_k_dense_replace") if has_experts else num_layers
    for layer in range(num_layers):
        yield sparse if layer >= first else plain


def _sink_attention(facts: Facts) -> tuple[AttentionLayer, tuple[Module, ...]]:
    heads = facts.integer("num_attention_heads")
    kv_heads = facts.integer("num_key_value_heads", default=heads)
    wide, narrow = _sink_head_sizes(facts)
    size, count = facts.integer("hidden_size"), facts.integer("param_sink_number")
    has_bias = facts.flag("attention_bias") or facts.flag("bias")
    modules = (
        _whole_kv_heads(kv_heads),
        ColumnParallelLinear(
            "self_attn.qkv_proj",
            Part.ATTENTION,
            size,
            (heads * wide, kv_heads * wide, kv_heads * narrow),
            bias=llama_qkv_bias(facts),
            shards=("q_proj", "k_proj", "v_proj"),
        ),
        RowParallelLinear(
            "self_attn.o_proj", Part.ATTENTION, heads * narrow, size, bias=has_bias
        ),
        attention_scales(),
        Replicated("self_attn.k_layernorm", Part.NORMS, ((wide,),)),
        Sharded(
            "self_attn.param_sink",
            Part.ATTENTION,
            ((kv_heads, count, wide), (kv_heads, count, narrow)),
        ),
    )
    cache = AttentionLayer(
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_size=wide,
        head_size_v=narrow,
        num_sink_tokens=count,
    )
    return cache, modules


def _whole_kv_heads(num_kv_heads: int) -> Condition:
    """Return KV heads that ranks have to divide, as the class copies none of them."""

    def check(layout: ParallelLayout) -> None:
        ranks = layout.tensor_parallel_size
        if num_kv_heads < ranks:
            raise Refused(
                f"Number of KV heads {num_kv_heads} is less than TP size {ranks}, KV "
                "heads replication is not support yet."
            )

    return Condition(name="self_attn", part=Part.ATTENTION, check=check)


def _sink_head_sizes(facts: Facts) -> tuple[int, int]:
    """Return how wide a head's key and value are."""
    key = facts.integer("qk_rope_dim") + facts.integer("qk_nope_dim")
    return key, facts.integer("v_channels")


READERS = {
    "PanguUltraMoEForCausalLM": read_pangu_moe,
    "PanguProMoEV2ForCausalLM": read_pangu_moe,
    "PanguEmbeddedForCausalLM": read_pangu_embedded,
}
