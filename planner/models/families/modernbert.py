"""ModernBERT: windows, and no first norm in the first layer."""

from __future__ import annotations

from functools import partial

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.bert import encoder, encoder_shape, labelled, linear32
from planner.models.families.decoder import attention, encoder_only, gated_mlp, norms
from planner.models.families.facts import Facts
from planner.models.families.heads import Head, colbert_linear, no_head
from planner.models.families.rope import typed_ropes
from planner.models.layers import Module, Part, Replicated


def read_modernbert(
    facts: Facts, label: Label, *, head: Head = no_head, is_divided: bool = True
) -> ModelArchitecture:
    """Return ModernBERT: windows, and no first norm in the first layer.

    `is_divided`: whether ranks share the first layer of an MLP, as since 0.29.

    Source: vLLM 0.33.0 `models/modernbert.py`; 0.28.0 ModernBertMLP (Wi).
    """
    has_bias = facts.flag("attention_bias")
    shape = encoder_shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    size = shape.hidden_size
    width, mlp_bias = facts.integer("intermediate_size"), facts.flag("mlp_bias")
    first, second = gated_mlp(size, width, bias=mlp_bias)
    if not is_divided:
        shapes = ((2 * width, size), *(((2 * width,),) if mlp_bias else ()))
        first = Replicated(first.name, first.part, shapes)
    norm_bias = facts.flag("norm_bias")

    def layer(count: int) -> LayerKind:
        return LayerKind(
            (encoder_only(shape),),
            (
                *attention(shape),
                first,
                second,
                norms(size, count=count, bias=norm_bias),
            ),
        )

    num_layers = facts.integer("num_hidden_layers")
    around = (
        norms(size, count=2, bias=norm_bias),
        *_modernbert_ropes(facts, shape.head_size),
    )
    layers = [layer(1), *[layer(2)] * (num_layers - 1)]
    return encoder(facts, label, layers, around, head(facts, size))


def _modernbert_ropes(facts: Facts, head_size: int) -> tuple[Module, ...]:
    """Return two tables, as full attention and windows have their own base.

    Source: Transformers' ModernBertConfig, which turns older fields into these.
    """
    given = facts.mapping("rope_parameters")
    if not given:
        given = {
            "full_attention": {"rope_theta": facts.value("global_rope_theta")},
            "sliding_attention": {"rope_theta": facts.value("local_rope_theta")},
        }
    facts = facts.having(rope_parameters=given)
    return typed_ropes(facts, given, head_size)


def _head_shapes(facts: Facts, size: int) -> tuple[tuple[int, ...], ...]:
    biases = facts.flag("classifier_bias"), facts.flag("norm_bias")
    return ((size, size), (size,), *((size,),) * sum(biases))


def _modern_pooler(facts: Facts, size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/modernbert.py` ModernBertPooler."""
    return (linear32(*_head_shapes(facts, size)), *labelled(facts, size))


def _prediction_head(facts: Facts, size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/modernbert.py` ModernBertPredictionHead."""
    shapes = _head_shapes(facts, size)
    dense = Replicated("head", Part.CLASSIFIER, shapes)
    return (dense, *labelled(facts, size))


READERS = {
    "ModernBertModel": read_modernbert,
    "ColBERTModernBertModel": partial(read_modernbert, head=colbert_linear),
    "ModernBertForTokenClassification": partial(read_modernbert, head=_prediction_head),
    "ModernBertForSequenceClassification": partial(
        read_modernbert, head=_modern_pooler
    ),
}
