"""Models that vLLM leaves to Transformers, with experts or latent attention.

Decoders without either are styles in `styles.py`.

Source: vLLM 0.33.0 `models/transformers/base.py`, `moe.py`; Transformers 5.20.2, the
modeling file of each.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.decoder import (
    ExpertsShape,
    attention,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.deepseek import read_latent
from planner.models.families.facts import Facts
from planner.models.families.layered import FULL, SLIDING, Frame, decoder
from planner.models.families.llama import check_head_dim
from planner.models.families.rope import (
    for_layer_type,
    inverse_frequencies,
)
from planner.models.layers import Module, Part, Replicated
from planner.values import frozen


@frozen
class Sparse:
    """How a mixture-of-experts model of Transformers differs from Mixtral."""

    has_qk_norm: bool = False
    is_qk_norm_wide: bool = False
    has_output_bias: bool = True
    """Whether attention_bias holds for the output projection too."""
    norm_count: int = 2
    norm_bias: bool = False
    shared: str = ""
    """Name of the shared experts; empty: there are none."""
    has_correction_bias: bool = False
    router_dtype: str | None = None


_FAMILIES = {
    "AriaTextForCausalLM": Sparse(shared="shared_experts"),
    "FlexOlmoForCausalLM": Sparse(has_qk_norm=True, is_qk_norm_wide=True),
    "HunYuanMoEV1ForCausalLM": Sparse(
        has_qk_norm=True, shared="shared_mlp", router_dtype="float32"
    ),
    "Kolibri1ForCausalLM": Sparse(
        has_qk_norm=True,
        norm_count=4,
        shared="shared_experts",
        has_correction_bias=True,
    ),
    "MellumForCausalLM": Sparse(has_qk_norm=True),
    "PhimoeForCausalLM": Sparse(norm_bias=True),
    "SolarOpenForCausalLM": Sparse(
        has_output_bias=False, shared="shared_experts", has_correction_bias=True
    ),
}


def read_sparse(facts: Facts, label: Label) -> ModelArchitecture:
    """Return a mixture-of-experts decoder that vLLM always leaves to Transformers."""
    return read_sparse_as(facts, label, _FAMILIES[label.architecture])


def read_sparse_as(facts: Facts, label: Label, family: Sparse) -> ModelArchitecture:
    """Return a mixture-of-experts decoder of Transformers."""
    check_head_dim(facts)
    has_bias = facts.flag("attention_bias")
    shape = attention_shape(
        facts,
        qkv_bias=has_bias,
        output_bias=has_bias and family.has_output_bias,
        has_qk_norm=family.has_qk_norm,
    )
    if family.is_qk_norm_wide:
        wide = (shape.num_heads, shape.num_kv_heads)
        sizes = tuple(heads * shape.head_size for heads in wide)
        shape = replace(shape, qk_norm_sizes=sizes)
    num_layers = facts.integer("num_hidden_layers")
    types = facts.value("layer_types") or [FULL] * num_layers
    mlps = facts.value("mlp_layer_types") or ["sparse"] * num_layers
    around = norms(shape.hidden_size, count=family.norm_count, bias=family.norm_bias)
    common = (*attention(shape), around)
    sparse = _experts(facts, family)
    dense = gated_mlp(
        shape.hidden_size, facts.optional_integer("intermediate_size") or 0
    )
    window = facts.optional_integer("sliding_window")
    layers = (
        LayerKind(
            caches=(
                replace(
                    kv_of(shape), sliding_window=window if kind == SLIDING else None
                ),
            ),
            modules=(*common, *(sparse if mlp == "sparse" else dense)),
        )
        for kind, mlp in zip(types[:num_layers], mlps, strict=False)
    )
    frame = Frame(
        hidden_size=shape.hidden_size,
        rope=_frequencies(facts, types, shape.head_size),
        norm_bias=family.norm_bias,
    )
    return decoder(facts, label, frame, layers)


def _frequencies(facts: Facts, types: list[str], head_size: int) -> tuple[Module, ...]:
    """Return the buffers, a pair for each kind of layer where they are kept so."""
    by_type = facts.mapping("rope_parameters")
    kinds = [
        kind for kind in dict.fromkeys(types) if isinstance(by_type.get(kind), dict)
    ]
    own = [for_layer_type(facts, kind) for kind in kinds] or [facts]
    return tuple(
        buffers for each in own for buffers in inverse_frequencies(each, head_size)
    )


def _experts(facts: Facts, family: Sparse) -> tuple[Module, ...]:
    """Return router, experts and shared experts of a layer."""
    size = facts.integer("hidden_size")
    width = facts.integer("moe_intermediate_size", "intermediate_size")
    modules = experts(
        ExpertsShape(
            hidden_size=size,
            num_experts=_num_experts(facts),
            top_k=_top_k(facts),
            intermediate_size=width,
            router_dtype=family.router_dtype,
            is_renormalized=facts.flag("norm_topk_prob", default=True),
        )
    )
    bias = Replicated(
        name="mlp.gate.e_score_correction_bias",
        part=Part.ROUTER,
        shapes=((_num_experts(facts),),),
        dtype="float32",
    )
    shared = _shared_width(facts, width) if family.shared else 0
    return (
        *modules,
        *((bias,) if family.has_correction_bias else ()),
        *(
            gated_mlp(
                size, shared, part=Part.SHARED_EXPERTS, name=f"mlp.{family.shared}"
            )
            if shared
            else ()
        ),
    )


def _num_experts(facts: Facts) -> int:
    """Return the routed experts of a layer, by any of their names."""
    return facts.integer(
        "num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"
    )


def _top_k(facts: Facts) -> int:
    """Return the experts of a token; a list says how many in each layer."""
    given = facts.value("num_experts_per_tok", "moe_topk", "num_experts_per_token")
    if isinstance(given, list):
        return int(given[0])
    return facts.integer("num_experts_per_tok", "moe_topk", "num_experts_per_token")


def _shared_width(facts: Facts, width: int) -> int:
    own = facts.optional_integer("shared_expert_intermediate_size")
    if own is not None:
        return own
    count = facts.optional_integer(
        "n_shared_experts", "num_shared_experts", "moe_num_shared_experts"
    )
    return width if count is None else width * count


def read_youtu(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Youtu: latent attention and a plain MLP in each layer."""
    if facts.flag("attention_bias"):
        raise facts.unsupported("attention_bias", "latent attention has none here.")
    model = read_latent(facts, label, _no_experts)
    frequencies = inverse_frequencies(facts, facts.integer("qk_rope_head_dim"))
    tied = facts.flag("tie_word_embeddings")
    last = tuple(m for m in model.last_stage if not (tied and m.part is Part.LM_HEAD))
    return replace(
        model,
        every_stage=frequencies,
        last_stage=last,
        tied_embeddings=model.first_stage if tied else (),
    )


def _no_experts(facts: Facts) -> ExpertsShape:
    raise facts.unsupported("n_routed_experts", "it has no experts.")


READERS = {
    **dict.fromkeys(_FAMILIES, read_sparse),
    "YoutuForCausalLM": read_youtu,
}
