"""Mixtures of experts that differ from Llama and Mixtral by facts only.

Source: vLLM 0.33.0 `models/afmoe.py`, `cohere2_moe.py`, `dbrx.py`, `ernie45_moe.py`,
`exaone_moe.py`, `glm4_moe.py`, `granitemoe.py`, `granitemoeshared.py`, `hy_v3.py`,
`minimax_m2.py`, `mixtral.py`, `olmoe.py`, `phimoe.py`, `qwen2_moe.py`, `qwen3_moe.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.models.families.assembly import Placement
from planner.models.families.decoder import AttentionShape, gated_mlp
from planner.models.families.decoders import (
    BIASED,
    granite_ropes,
    granite_sinks,
    with_granite_sinks,
)
from planner.models.families.facts import Facts
from planner.models.families.styles import Experts, Style
from planner.models.families.windows import no_windows, typed_windows
from planner.models.layers import ColumnParallelLinear, Module, Part, RowParallelLinear

_EVERYWHERE = Placement.EVERYWHERE
_W_NAMES = ("w1", "w3", "w2")
"""Of an expert's gate, up and down projections, in checkpoints like Mixtral's."""
_MIXTRAL_NAMES = {
    "num_experts": "num_local_experts",
    "moe_intermediate_size": "intermediate_size",
}


def after_first(facts: Facts, layer: int) -> bool:
    """Return whether a layer comes after the first ones, which hold a plain MLP."""
    return layer >= facts.integer("first_k_dense_replace")


def _by_steps(facts: Facts, layer: int) -> bool:
    """Source: vLLM 0.33.0 `models/qwen3_moe.py` Qwen3MoeDecoderLayer."""
    if layer in set(facts.value("mlp_only_layers") or ()):
        return False
    return (layer + 1) % facts.integer("decoder_sparse_step", default=1) == 0


def _shared_width(facts: Facts) -> int:
    return facts.optional_integer("shared_expert_intermediate_size") or 0


_QWEN = Style(
    fields={"num_experts": ("num_experts", "num_local_experts")},
    is_sparse=_by_steps,
    placement=_EVERYWHERE,
)
_QWEN_EXPERTS = Experts(
    shared=_shared_width, shared_name="shared_expert", is_renormalized="norm_topk_prob"
)


def _dbrx(part: str, name: str, default: int | None = None) -> Callable[[Facts], int]:
    """Return what reads a whole number of a part of DBRX's config."""
    return lambda facts: Facts(facts.mapping(part), "dbrx").integer(
        name, default=default
    )


def granite_shared_mlp(facts: Facts, size: int) -> tuple[Module, ...]:
    """Return the MLP beside the experts, under the names of Granite's checkpoints.

    Source: vLLM 0.33.0 `models/granitemoeshared.py` GraniteMoeSharedMLP.
    """
    width = facts.optional_integer("shared_intermediate_size") or 0
    part = Part.SHARED_EXPERTS if facts.value("num_local_experts") else Part.MLP
    if not width:
        return ()
    return (
        ColumnParallelLinear("shared_mlp.input_linear", part, size, (width, width)),
        RowParallelLinear("shared_mlp.output_linear", part, width, size),
    )


def _granite_swa_own(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    width = facts.optional_integer("shared_intermediate_size") or 0
    shared = gated_mlp(
        shape.hidden_size, width, part=Part.SHARED_EXPERTS, name="shared_mlp"
    )
    return (*(shared if width else ()), *granite_sinks(facts, shape))


GRANITE_EXPERTS = Experts(name="block_sparse_moe")
GRANITE = Style(
    fields=_MIXTRAL_NAMES,
    experts=GRANITE_EXPERTS,
    placement=_EVERYWHERE,
)


def _ernie_sparse(facts: Facts, layer: int) -> bool:
    start = facts.integer("moe_layer_start_index", default=0)
    last = facts.integer("num_hidden_layers") - 1
    end = facts.integer("moe_layer_end_index", default=last)
    step = facts.integer("moe_layer_interval", default=1)
    return start <= layer <= end and (layer + 1) % step == 0


def shared_by_count(facts: Facts) -> int:
    """Return the width of so many shared experts as the config has to say."""
    width = facts.integer("moe_intermediate_size")
    return width * facts.integer("num_shared_experts")


def _cohere2_dense_width(facts: Facts) -> int:
    width = facts.integer("intermediate_size")
    return facts.integer("prefix_dense_intermediate_size", default=width)


def _cohere2_windows(facts: Facts, num_layers: int) -> list[int | None]:
    window = facts.integer("sliding_window") + 1
    return [window if own else None for own in typed_windows(facts, num_layers)]


def _patterned_windows(facts: Facts, num_layers: int, every: str) -> list[int | None]:
    """Return windows by layer_types, or on all layers but each n-th."""
    if facts.value("layer_types"):
        return typed_windows(facts, num_layers)
    window, step = facts.optional_integer("sliding_window"), facts.integer(every)
    return [window if (i + 1) % step else None for i in range(num_layers)]


def _afmoe_gate(_facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    return (
        ColumnParallelLinear(
            "self_attn.gate_proj",
            Part.ATTENTION,
            shape.hidden_size,
            (shape.num_heads * shape.head_size,),
        ),
    )


def _exaone_sparse(facts: Facts, layer: int) -> bool:
    types = facts.value("mlp_layer_types")
    return bool(types[layer] == "sparse") if types else after_first(facts, layer)


def _exaone_windows(facts: Facts, num_layers: int) -> list[int | None]:
    if facts.value("sliding_windows") is not None:
        raise facts.unsupported("sliding_windows", "one window for all layers is.")
    return _patterned_windows(facts, num_layers, "sliding_window_pattern")


_EXAONE = replace(
    BIASED,
    qkv_bias=("attention_bias", "bias"),
    output_bias=("attention_bias", "bias"),
    mlp_bias="mlp_bias",
    qk_norm=True,
    windows=_exaone_windows,
    is_sparse=_exaone_sparse,
    experts=Experts(
        shared=shared_by_count,
        has_correction_bias=True,
        is_renormalized="norm_topk_prob",
    ),
)

ROWS = {
    "MixtralForCausalLM": Style(
        fields=_MIXTRAL_NAMES,
        experts=Experts(name="block_sparse_moe", shards=_W_NAMES),
        placement=_EVERYWHERE,
    ),
    # The gate of the shared expert is there whether or not the expert is.
    "Qwen2MoeForCausalLM": replace(
        _QWEN, qkv_bias=True, experts=replace(_QWEN_EXPERTS, has_shared_gate=True)
    ),
    "Qwen3MoeForCausalLM": replace(
        _QWEN,
        qkv_bias="attention_bias",
        qk_norm=True,
        experts=replace(
            _QWEN_EXPERTS,
            has_shared_gate=lambda facts: bool(_shared_width(facts)),
            is_router_quantizable=True,
        ),
    ),
    "Glm4MoeForCausalLM": Style(
        fields={"num_experts": "n_routed_experts"},
        qkv_bias="attention_bias",
        qk_norm="use_qk_norm",
        is_sparse=after_first,
        experts=Experts(
            shared="n_shared_experts",
            router_dtype="float32",
            has_correction_bias=True,
            is_renormalized="norm_topk_prob",
        ),
    ),
    "MiniMaxM2ForCausalLM": Style(
        fields=_MIXTRAL_NAMES,
        qk_norm=True,
        is_qk_norm_per_rank=True,
        rotary_dim=lambda facts, _size: facts.optional_integer("rotary_dim"),
        experts=Experts(
            router_dtype="float32",
            has_correction_bias="use_routing_bias",
            shards=_W_NAMES,
        ),
    ),
    "DbrxForCausalLM": Style(
        fields={
            "hidden_size": ("d_model", "hidden_size"),
            "num_attention_heads": ("n_heads", "num_attention_heads"),
            "num_key_value_heads": _dbrx("attn_config", "kv_n_heads", 1),
            "num_hidden_layers": ("n_layers", "num_hidden_layers"),
            "max_position_embeddings": ("max_seq_len", "max_position_embeddings"),
            "num_experts": _dbrx("ffn_config", "moe_num_experts"),
            "num_experts_per_tok": _dbrx("ffn_config", "moe_top_k"),
            "moe_intermediate_size": _dbrx("ffn_config", "ffn_hidden_size"),
        },
        experts=Experts(),
        placement=_EVERYWHERE,
    ),
    # Its experts' weights are never renormalised, whatever norm_topk_prob says.
    "OlmoeForCausalLM": Style(
        fields={"moe_intermediate_size": "intermediate_size"},
        qk_norm=True,
        is_qk_norm_wide=True,
        experts=Experts(is_renormalized=False),
        placement=_EVERYWHERE,
    ),
    "GraniteMoeForCausalLM": GRANITE,
    "GraniteMoeSharedForCausalLM": replace(
        GRANITE, own=lambda facts, shape: granite_shared_mlp(facts, shape.hidden_size)
    ),
    "GraniteMoeSWAForCausalLM": replace(
        GRANITE,
        windows=typed_windows,
        cache=with_granite_sinks,
        own=_granite_swa_own,
        rope=granite_ropes,
    ),
    # It has a routing function of its own.
    "PhiMoEForCausalLM": Style(
        fields=_MIXTRAL_NAMES,
        qkv_bias=True,
        output_bias=True,
        norm_bias=True,
        lm_head_bias=True,
        is_head_quantizable=False,
        experts=Experts(
            is_renormalized=False, name="block_sparse_moe", shards=_W_NAMES
        ),
        placement=_EVERYWHERE,
    ),
    # A softmax with a bias has no kernel of its own.
    "Ernie4_5_MoeForCausalLM": Style(
        fields={"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
        qkv_bias="use_bias",
        mlp_bias="use_bias",
        is_sparse=_ernie_sparse,
        experts=Experts(
            shared="moe_num_shared_experts",
            shared_bias="use_bias",
            router_dtype="float32",
            has_correction_bias=True,
            is_renormalized=False,
        ),
    ),
    "HYV3ForCausalLM": Style(
        fields={
            "moe_intermediate_size": ("expert_hidden_dim", "moe_intermediate_size")
        },
        qk_norm="qk_norm",
        windows=no_windows,
        is_sparse=after_first,
        experts=Experts(
            shared=shared_by_count,
            shared_name="shared_mlp",
            router_dtype="float32",
            has_correction_bias=True,
            is_renormalized="route_norm",
        ),
        placement=_EVERYWHERE,
    ),
    "Cohere2MoeForCausalLM": Style(
        fields={
            "max_position_embeddings": lambda facts: (
                facts.optional_integer("model_max_length")
                or facts.integer("max_position_embeddings", default=8192)
            ),
            "moe_intermediate_size": lambda facts: facts.integer("intermediate_size"),
            "intermediate_size": _cohere2_dense_width,
            "tie_word_embeddings": True,
        },
        norm_count=1,
        windows=_cohere2_windows,
        is_sparse=lambda facts, layer: facts.value("mlp_layer_types")[layer] != "dense",
        experts=Experts(
            shared="num_shared_experts",
            is_renormalized=lambda facts: (
                facts.flag("norm_topk_prob", default=True)
                and facts.value("expert_selection_fn") != "sigmoid"
            ),
        ),
        placement=_EVERYWHERE,
    ),
    # A gate on attention's output; always a head of its own.
    "AfmoeForCausalLM": Style(
        fields={
            "first_k_dense_replace": "num_dense_layers",
            "tie_word_embeddings": False,
        },
        qk_norm=True,
        own=_afmoe_gate,
        norm_count=4,
        windows=lambda facts, count: _patterned_windows(
            facts, count, "global_attn_every_n_layers"
        ),
        is_sparse=after_first,
        experts=Experts(
            shared=shared_by_count,
            router_dtype="float32",
            has_correction_bias=True,
            is_renormalized=lambda facts: (
                facts.flag("route_norm") and facts.value("score_func") == "sigmoid"
            ),
        ),
    ),
    "ExaoneMoeForCausalLM": _EXAONE,
    "ExaoneMoEForCausalLM": _EXAONE,
}
"""By architecture."""
