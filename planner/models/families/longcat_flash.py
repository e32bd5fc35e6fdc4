"""LongCat-Flash: two attentions and two MLPs a layer, and experts beside them.

Source: vLLM 0.33.0 `models/longcat_flash.py`, `models/longcat_flash_ngram.py`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.experts import FusedMoE
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.decoder import gated_mlp, norms
from planner.models.families.facts import Facts
from planner.models.families.mla import (
    declared_heads,
    latent_attention,
    latent_rope_cache,
    latent_shape,
    mla_layer,
)
from planner.models.layers import Module, Part, Replicated, VocabParallelEmbedding


def read_longcat_flash(facts: Facts, label: Label) -> ModelArchitecture:
    """Read LongCat-Flash; experts that do nothing count in the router only.

    Source: vLLM 0.33.0 `models/longcat_flash.py` FlashModel.
    """
    if facts.value("disable_quant_module"):
        raise facts.unsupported("disable_quant_module", "it names layers left alone.")
    shape = latent_shape(facts)
    kept = mla_layer(shape)
    kind = LayerKind(
        (kept, kept),
        (
            *latent_attention(shape, name="self_attn.0"),
            *latent_attention(shape, name="self_attn.1"),
            *_longcat_mlps(facts),
            *_longcat_experts(facts),
            norms(shape.hidden_size, count=4),
        ),
    )
    rope = latent_rope_cache(
        facts,
        shape.qk_rope_head_dim,
        max_position=facts.integer("max_position_embeddings", default=8192),
    )
    return assemble(
        facts,
        label,
        Frame(shape.hidden_size, rope, is_tied=False),
        [kind] * facts.integer("num_layers", "num_hidden_layers"),
        **declared_heads(facts, shape),
    )


def _longcat_mlps(facts: Facts) -> tuple[Module, ...]:
    size = facts.integer("hidden_size")
    columns = facts.integer("ffn_hidden_size", "intermediate_size")
    return (
        *gated_mlp(size, columns, name="mlps.0"),
        *gated_mlp(size, columns, name="mlps.1"),
    )


def _longcat_experts(facts: Facts) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/longcat_flash.py` LongcatMoe, LongcatRouter."""
    size, experts = facts.integer("hidden_size"), facts.integer("n_routed_experts")
    rows = experts + facts.integer("zero_expert_num")
    return (
        Replicated(
            "mlp.router.classifier",
            Part.ROUTER,
            ((rows, size), (rows,)),
            dtype="float32",
        ),
        FusedMoE(
            name="mlp.experts",
            num_experts=experts,
            top_k=facts.integer("moe_topk"),
            hidden_size=size,
            intermediate_size=facts.integer(
                "expert_ffn_hidden_size", "moe_intermediate_size"
            ),
            is_renormalized=False,
        ),
    )


def read_longcat_ngram(facts: Facts, label: Label) -> ModelArchitecture:
    """Return LongCat-Flash-Lite.

    Source: vLLM 0.33.0 `models/longcat_flash_ngram.py`.
    """
    model = read_longcat_flash(facts, label)
    if facts.value("ngram_vocab_size_ratio") is None:
        return model
    return replace(model, first_stage=(*model.first_stage, *_tables(facts)))


def _tables(facts: Facts) -> tuple[Module, ...]:
    """Return one table of all n-grams, its projections, and what they hash by."""
    size, vocabulary = facts.integer("hidden_size"), facts.integer("vocab_size")
    rows = facts.integer("ngram_vocab_size_ratio") * vocabulary
    splits, reach = facts.integer("emb_split_num"), facts.integer("emb_neighbor_num")
    count = splits * (reach - 1)
    width = size // count
    return (
        VocabParallelEmbedding(
            "ngram_embeddings.oe_embedder",
            sum(rows + 2 * i + 1 for i in range(count)),
            width,
            is_quantizable=False,
        ),
        Replicated(
            "ngram_embeddings.oe_projection", Part.EMBEDDINGS, ((count, width, size),)
        ),
        Replicated(
            "ngram_embeddings.hashes",
            Part.BUFFERS,
            ((reach - 1, splits, reach), (reach - 1, splits), (count + 1,)),
            dtype="int32",
        ),
    )


READERS = {
    "LongcatFlashForCausalLM": read_longcat_flash,
    "LongcatFlashNgramForCausalLM": read_longcat_ngram,
}
