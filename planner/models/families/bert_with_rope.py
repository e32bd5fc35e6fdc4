"""Encoders with rotary positions: GTE and Nomic."""

from __future__ import annotations

from functools import partial

from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.bert import encoder, encoder_shape, pooled_and_labelled
from planner.models.families.decoder import (
    attention,
    encoder_only,
    gated_mlp,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.heads import Head, no_head
from planner.models.families.rope import rope_cache
from planner.models.layers import (
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    Sharded,
    VocabParallelEmbedding,
)


def read_gte(facts: Facts, label: Label, *, head: Head = no_head) -> ModelArchitecture:
    """Return GTE: an MLP with a gate that has no bias.

    Source: vLLM 0.33.0 `models/bert_with_rope.py` GteNewModel, SnowflakeGteNewModel.
    """
    only(facts, "position_embedding_type", "rope", "rotary")
    shape = encoder_shape(facts)
    size, width = shape.hidden_size, facts.integer("intermediate_size")
    up, down = gated_mlp(size, width)
    down = gated_mlp(size, width, bias=True)[1]
    layer = LayerKind(
        (encoder_only(shape),), (*attention(shape), up, down, norms(size, bias=True))
    )
    around = beside_words(
        facts,
        max_position=facts.integer("max_position_embeddings"),
        rotary_dim=facts.optional_integer("rotary_emb_dim"),
    )
    layers = [layer] * facts.integer("num_hidden_layers")
    return encoder(facts, label, layers, around, head(facts, size))


def read_nomic(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Nomic's BERT, with experts in some layers of its second version.

    Source: vLLM 0.33.0 `models/bert_with_rope.py` NomicMoE, `models/config.py`
    NomicBertModelConfig.

    Raises:
        Refused: in vLLM's words, for a config.json of Transformers' own class, which
            has another name for the activation.
    """
    if facts.value("activation_function") is None:
        raise Refused("'NomicBertConfig' object has no attribute 'activation_function'")
    named = {
        "hidden_size": facts.integer("n_embd", "hidden_size"),
        "intermediate_size": facts.integer("n_inner", "intermediate_size"),
        "num_hidden_layers": facts.integer("n_layer", "num_hidden_layers"),
        "num_attention_heads": facts.integer("n_head", "num_attention_heads"),
    }
    facts = Facts({**facts.config, **named}, facts.model_type)
    has_bias = facts.flag("qkv_proj_bias")
    shape = encoder_shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    size, width = shape.hidden_size, named["intermediate_size"]
    is_gated = facts.value("activation_function") == "swiglu"
    mlp = gated_mlp if is_gated else plain_mlp
    common = (*attention(shape), norms(size, bias=True))
    dense = LayerKind(
        (encoder_only(shape),), (*common, *mlp(size, width, bias=has_bias))
    )
    every = facts.optional_integer("moe_every_n_layers") or 0
    layers = [dense] * named["num_hidden_layers"]
    if every:
        sparse = LayerKind(
            (encoder_only(shape),), (*common, *_nomic_experts(facts, size, width))
        )
        layers = [sparse if i % every == 1 else dense for i in range(len(layers))]
    around = beside_words(
        facts,
        max_position=facts.integer("max_position_embeddings", default=2048),
        rotary_dim=int(
            shape.head_size * facts.number("rotary_emb_fraction", default=1.0)
        ),
    )
    return encoder(facts, label, layers, around, ())


def _nomic_experts(facts: Facts, size: int, width: int) -> tuple[Module, ...]:
    count = facts.integer("num_experts")
    return (
        ReplicatedLinear(
            "mlp.router", Part.ROUTER, size, (count,), is_quantizable=False
        ),
        Sharded("mlp.w", Part.EXPERTS, ((width, count, size), (width, count, size))),
        Replicated("mlp.bias", Part.EXPERTS, ((size,),)),
    )


def beside_words(
    facts: Facts, *, max_position: int, rotary_dim: int | None
) -> tuple[Module, ...]:
    """Return what stands beside the words: types, a norm and the rotary table.

    Source: vLLM 0.33.0 `models/bert_with_rope.py` BertWithRopeEmbedding.
    """
    size, types = facts.integers("hidden_size", "type_vocab_size")
    head_size = size // facts.integer("num_attention_heads")
    words = VocabParallelEmbedding("token_type_embeddings", types, size)
    return (
        *((words,) if types else ()),
        norms(size, count=1, bias=True),
        *rope_cache(facts, head_size, max_position=max_position, dim=rotary_dim),
    )


def only(facts: Facts, name: str, *allowed: str) -> None:
    """Refuse another value of a field than these."""
    if facts.value(name) not in (None, *allowed):
        raise facts.unsupported(name, f"{' or '.join(allowed)} is.")


READERS = {
    "GteModel": read_gte,
    "GteNewModel": read_gte,
    "GteNewForSequenceClassification": partial(read_gte, head=pooled_and_labelled),
    "NomicBertModel": read_nomic,
}
