"""Step 5: sparse attention whose indexer reads summaries of regions, and experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.engine.layout import ParallelLayout, divide
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import (
    CacheLayer,
    RegionSummaryLayer,
    RegionTailLayer,
    SummarisedAttentionLayer,
)
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    gated_mlp,
    kv_of,
)
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.rope import RotaryCache, rope_cache
from planner.models.families.step3 import listed_layers, step_experts
from planner.models.families.windows import FULL, SLIDING
from planner.models.layers import (
    ColumnParallelLinear,
    Linear,
    Module,
    Part,
    Replicated,
    kv_heads_per_rank,
)
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen

_DEFAULTS = own_defaults("Step5Config")
_NORM_DTYPES = {"bf16": "bfloat16", "bfloat16": "bfloat16"}
_NORM_DTYPES |= {"fp32": "float32", "float32": "float32"}
_PROXY = 256
_WORKSPACES = (128 << 20, 8 << 20)
"""Of FlashInfer's kernels for prompts, made with the model."""


@frozen
class Indexer:
    """What the config says of the sparse attention.

    Source: vLLM 0.33.0 `models/step5/nvidia/config.py` Step5SparseConfig.
    """

    num_heads: int
    num_groups: int
    rope_dim: int

    @classmethod
    def of(cls, facts: Facts) -> Indexer | None:
        """Return it, or None where the config switches it off."""
        given = facts.value("sparse_config")
        if not isinstance(given, Mapping):
            raise Refused(
                "Step5 requires a checkpoint with a sparse_config section; "
                "dense-only checkpoints are not supported."
            )
        own = Facts(given, facts.model_type)
        if not own.flag("enabled", default=True):
            return None
        if own.integer("proxy_dim", default=_PROXY) != _PROXY:
            raise own.unsupported("proxy_dim", "vLLM requires 256.")
        return cls(
            num_heads=own.integer("sparse_indexer_num_heads", default=16),
            num_groups=own.integer("index_tp_size", "num_provider_groups", default=4),
            rope_dim=own.integer("sparse_indexer_rope_dim", default=32),
        )

    def groups(self, layout: ParallelLayout) -> int:
        """Return the groups of heads on a rank: a share of them, or a copy of one."""
        return kv_heads_per_rank(self.num_groups, layout)


@frozen
class IndexedProjection(Linear):
    """Queries, keys, values, the gate and all of the indexer in one plain weight.

    Source: vLLM 0.33.0 `models/step5/nvidia/model.py` Step5FusedQKVIndexerLinear.
    """

    shape: AttentionShape
    indexer: Indexer
    name: str = "self_attn.qkv_indexer_proj"
    part: Part = Part.ATTENTION
    shards: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the weight on a rank, and the indexer's weights of heads.

        Raises:
            Refused: in vLLM's words, for a quantised layer.
        """
        if self.method is not None:
            raise Refused(
                "Step5 DSA layers fuse qkv with the sparse indexer into one plain GEMM "
                "and cannot be quantized."
            )
        shape, indexer, ranks = self.shape, self.indexer, layout.tensor_parallel_size
        heads = divide(shape.num_heads, ranks)
        kv_heads = kv_heads_per_rank(shape.num_kv_heads, layout)
        chosen = indexer.num_heads // indexer.num_groups * indexer.groups(layout)
        rows = (heads + 2 * kv_heads) * shape.head_size + heads + (chosen + 2) * _PROXY
        return (Tensor((rows + chosen) * shape.hidden_size),)


def read_step5(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Step 5's language model.

    Source: vLLM 0.33.0 `models/step5/nvidia/model.py`; its Step5Config.
    """
    facts = Facts(facts.config, facts.model_type, _DEFAULTS)
    indexer, size = Indexer.of(facts), facts.integer("hidden_size")
    num_layers = facts.integer("num_hidden_layers")
    types = facts.value("layer_types_with_mtp") or facts.value("layer_types")
    listed = listed_layers(
        facts.value("moe_layers_enum", "moe_layer_list"), range(1, num_layers)
    )
    sparse = _experts(facts)
    dense = gated_mlp(size, facts.integer("intermediate_size"))
    layers = []
    for index in range(num_layers):
        kind = types[index] if types else FULL
        caches, modules = _attention(facts, kind, indexer if kind == FULL else None)
        mlp = sparse if index in listed else dense
        layers.append(
            LayerKind(caches, (*modules, *mlp, _norms(facts, "layer", size, size)))
        )
    frame = Frame(
        size,
        tuple(_ropes(facts, types, indexer)),
        final_norm=(_norms(facts, "model.norm", size),),
    )
    return assemble(facts, label, frame, layers)


def _norms(facts: Facts, name: str, *sizes: int) -> Replicated:
    named = str(facts.value("norm_dtype")).lower()
    return Replicated(
        name,
        Part.NORMS,
        tuple((size,) for size in sizes),
        dtype=_NORM_DTYPES.get(named),
    )


def _shape(facts: Facts, kind: str) -> AttentionShape:
    """Return the attention of a kind of layer."""
    size, heads = facts.integers("hidden_size", "num_attention_heads")
    groups = facts.integer("num_attention_groups")
    head_size = facts.optional_integer("head_dim")
    other = facts.mapping("attention_other_setting")
    if other and other.get("attention_type") == kind:
        heads, groups = other["num_attention_heads"], other["num_attention_groups"]
        head_size = other["head_dim"]
    if kind == SLIDING and facts.value("sliding_window") is not None:
        heads = facts.integer("swa_num_attention_heads", default=heads)
    return AttentionShape(
        hidden_size=size,
        num_heads=heads,
        num_kv_heads=groups,
        head_size=head_size or size // heads,
    )


def _attention(
    facts: Facts, kind: str, indexer: Indexer | None
) -> tuple[tuple[CacheLayer, ...], tuple[Module, ...]]:
    shape = _shape(facts, kind)
    qk_norm = _norms(facts, "self_attn.qk_norm", shape.head_size, shape.head_size)
    if indexer is None:
        return _plain_attention(facts, kind, shape, qk_norm)
    if indexer.num_groups != shape.num_kv_heads:
        raise Refused(
            "Step5 DSA provider groups must align with attention KV groups: "
            f"{indexer.num_groups} != {shape.num_kv_heads}"
        )
    kept = SummarisedAttentionLayer(
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_size=shape.head_size,
    )
    caches = (
        kept,
        RegionSummaryLayer(width=_PROXY),
        RegionTailLayer(attention=kept, width=_PROXY),
    )
    modules = (
        IndexedProjection(shape=shape, indexer=indexer),
        *attention(shape)[1:],
        qk_norm,
        Replicated("self_attn.sparse_indexer_norm", Part.NORMS, ((_PROXY,),) * 3),
        Replicated(
            "self_attn.ssmax_s", Part.ATTENTION, ((shape.num_heads,),), dtype="float32"
        ),
    )
    return caches, modules


def _plain_attention(
    facts: Facts, kind: str, shape: AttentionShape, qk_norm: Module
) -> tuple[tuple[CacheLayer, ...], tuple[Module, ...]]:
    window = facts.optional_integer("sliding_window") if kind == SLIDING else None
    gate = ColumnParallelLinear(
        "self_attn.g_proj", Part.ATTENTION, shape.hidden_size, (shape.num_heads,)
    )
    has_gate = facts.flag("use_head_wise_attn_gate")
    modules = (*attention(shape), qk_norm, *((gate,) if has_gate else ()))
    return (replace(kv_of(shape), sliding_window=window),), modules


def _experts(facts: Facts) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/step5/nvidia/model.py` Step5MoE."""
    width, top_k = facts.integers("moe_intermediate_size", "moe_top_k")
    shared = facts.integer("share_expert_dim", default=width * top_k)
    routed = (facts.integer("moe_num_experts"), top_k)
    return step_experts(facts, shared, routed=routed, shared="moe.share_expert")


def _ropes(
    facts: Facts, types: list[str] | None, indexer: Indexer | None
) -> list[Module]:
    """Return a table for each set of parameters, and the indexer's."""
    num_layers = facts.integer("num_hidden_layers")
    kinds = list(types or [FULL] * num_layers)[:num_layers]
    rows = facts.integer("max_position_embeddings", "max_seq_len")
    factors = facts.value("partial_rotary_factors") or []
    thetas, scaled_only = facts.value("rope_theta"), facts.value("yarn_only_types")
    tables: dict[str, RotaryCache] = {}
    for index, kind in enumerate(kinds):
        is_scaled = not scaled_only or kind in scaled_only
        scaling = dict(facts.mapping("rope_scaling"))
        theta = thetas[index] if isinstance(thetas, list) else thetas
        factor = factors[index] if index < len(factors) else 1.0
        own = {**(scaling if is_scaled else {}), "rope_theta": theta}
        head_size = _shape(facts, kind).head_size
        dims = [int(head_size * factor)]
        sets = [own]
        if indexer is not None and kind == FULL:
            dims.append(indexer.rope_dim)
            sets.append({**scaling, "rope_theta": theta})
        for parameters, dim in zip(sets, dims, strict=True):
            given = {"rope_scaling": None, "rope_parameters": parameters}
            rotated = facts.having(**given)
            key = f"{sorted(parameters.items(), key=str)} {dim}"
            (tables[key],) = rope_cache(rotated, head_size, max_position=rows, dim=dim)
    buffers = Replicated(
        "sparse_attention.workspace",
        Part.BUFFERS,
        tuple((size,) for size in _WORKSPACES),
        dtype="uint8",
    )
    has_sparse = indexer is not None and FULL in kinds
    return [*tables.values(), *((buffers,) if has_sparse else ())]


READERS = {"Step5ForCausalLM": read_step5}
