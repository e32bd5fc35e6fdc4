"""Ling and Ring 2.5: linear attention, and latent attention every few layers."""

from __future__ import annotations

from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.bailing_moe import BAILING_EXPERTS
from planner.models.families.decoder import experts, gated_mlp, norms
from planner.models.families.facts import Facts
from planner.models.families.mla import (
    declared_heads,
    latent_attention,
    latent_shape,
    mla_layer,
)
from planner.models.families.rope import rope_cache, rope_dict
from planner.models.families.styles import experts_shape, unless_off
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    RowParallelLinear,
)
from planner.models.states import LinearAttentionState
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen


@frozen
class GroupNorm:
    """A norm of each rank's share, in groups that ranks must not cut.

    Source: vLLM 0.33.0 `layers/mamba/linear/bailing_linear_attn.py`.
    """

    name: str
    size: int
    groups: int
    part: Part = Part.NORMS

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the weight on a rank.

        Raises:
            Refused: in vLLM's words, where the ranks do not divide the groups.
        """
        ranks = layout.tensor_parallel_size
        if ranks > self.groups:
            raise Refused("tp_size must be <= group_norm_size for local rms norm")
        if self.groups % ranks:
            raise Refused("group_norm_size must be divisible by tp_size")
        return (Tensor(self.size // ranks),)


def read_bailing_v2_5(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Ling 2.5. Source: vLLM 0.33.0 `models/bailing_moe_linear.py`."""
    shape = latent_shape(facts)
    size, num_layers = shape.hidden_size, facts.integer("num_hidden_layers")
    group = facts.integer("layer_group_size", default=1)
    heads = shape.num_heads
    head_size = linear_head_size(facts)
    state = LinearAttentionState(num_heads=heads, head_dim=head_size)
    linear = ((state,), _linear_attention(facts, size, heads, head_size))
    latent = ((mla_layer(shape),), latent_attention(shape))
    has_bias = facts.flag("use_bias")
    dense = gated_mlp(size, facts.integer("intermediate_size"), bias=has_bias)
    sparse = experts(experts_shape(facts, _EXPERTS))
    first = facts.integer("first_k_dense_replace", default=0)
    if facts.integer("num_experts") <= 1:
        first = num_layers

    def layer(index: int) -> LayerKind:
        is_linear = group > 0 and (index + 1) % group != 0
        caches, modules = linear if is_linear else latent
        mlp = dense if index < first else sparse
        return LayerKind(caches, (*modules, norms(size), *mlp))

    frame = Frame(size, _ropes(facts, head_size, shape.qk_rope_head_dim), is_tied=False)
    return assemble(
        facts,
        label,
        frame,
        map(layer, range(num_layers)),
        **declared_heads(facts, shape),
    )


def linear_head_size(facts: Facts) -> int:
    """Return the size of a head of linear attention.

    Transformers' own class overwrites it; the publisher's code keeps it.

    Source: Transformers' BailingHybridConfig.__post_init__.
    """
    if facts.model_type == "bailing_hybrid" and not facts.mapping("auto_map"):
        return facts.integer("qk_rope_head_dim")
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    return facts.optional_integer("head_dim") or size // heads


def _linear_attention(
    facts: Facts, size: int, heads: int, head_size: int
) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `layers/mamba/linear/bailing_linear_attn.py`."""
    wide, has_bias = heads * head_size, facts.flag("use_bias")
    qk_norms = Replicated("self_attn.qk_norm", Part.NORMS, ((head_size,), (head_size,)))
    return (
        QKVParallelLinear(
            name="self_attn.query_key_value",
            part=Part.MIXERS,
            input_size=size,
            num_heads=heads,
            num_kv_heads=heads,
            head_size=head_size,
            bias=has_bias or facts.flag("use_qkv_bias"),
            shards=(),
        ),
        *((qk_norms,) if facts.flag("use_qk_norm") else ()),
        ColumnParallelLinear("self_attn.g_proj", Part.MIXERS, size, (wide,)),
        RowParallelLinear("self_attn.dense", Part.MIXERS, wide, size, bias=has_bias),
        GroupNorm(
            name="self_attn.g_norm",
            size=wide,
            groups=facts.integer("group_norm_size", default=1),
        ),
    )


def _ropes(facts: Facts, head_size: int, latent_size: int) -> tuple[Module, ...]:
    """Return the tables of linear attention, of part of a head, and of the latent's."""
    max_position = facts.integer("max_position_embeddings", default=8192)
    plain = {
        key: value
        for key, value in rope_dict(facts).items()
        if key != "partial_rotary_factor"
    }
    whole = Facts(
        {
            **facts.config,
            "partial_rotary_factor": None,
            "rope_scaling": None,
            "rope_parameters": plain,
        },
        facts.model_type,
    )
    return (
        *rope_cache(facts, head_size, max_position=max_position),
        *rope_cache(whole, latent_size, max_position=max_position),
    )


_EXPERTS = replace(
    BAILING_EXPERTS,
    router_dtype=lambda facts: (
        "float32" if facts.value("router_dtype") in (None, "fp32") else "bfloat16"
    ),
    is_renormalized=unless_off("norm_topk_prob"),
)
READERS = {"BailingMoeV2_5ForCausalLM": read_bailing_v2_5}
