"""BERT, and encoders without a KV cache: what they share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import (
    Body,
    Label,
    Placement,
    Skeleton,
    assemble,
    num_labels,
)
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    encoder_only,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.heads import Head, colbert_linear, no_head
from planner.models.layers import Module, Part, Replicated, VocabParallelEmbedding


def encoder_shape(
    facts: Facts, *, qkv_bias: bool = True, output_bias: bool = True
) -> AttentionShape:
    """Return attention whose heads are all its own, and share the model's width."""
    size, heads = facts.integers("hidden_size", "num_attention_heads")
    return AttentionShape(
        hidden_size=size,
        num_heads=heads,
        num_kv_heads=heads,
        head_size=size // heads,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
    )


def plain_layer(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    """Return attention, an MLP of two layers and two norms, all with biases."""
    mlp = plain_mlp(shape.hidden_size, facts.integer("intermediate_size"))
    return (*attention(shape), *mlp, norms(shape.hidden_size, bias=True))


def encoder(
    facts: Facts,
    label: Label,
    layers: list[LayerKind],
    around: tuple[Module, ...],
    head: tuple[Module, ...],
) -> ModelArchitecture:
    """Return an encoder of these layers, which runs in one pipeline stage.

    Args:
        facts: its config.
        label: what it is called.
        layers: of the encoder.
        around: what stands beside the word embeddings.
        head: what is built on it, for embeddings or classification.
    """
    skeleton = Skeleton(
        hidden_size=facts.integer("hidden_size"),
        final_norm=(),
        embeddings_on=Placement.EVERYWHERE,
        extra_embeddings=around,
        classifier=head,
    )
    return assemble(
        facts,
        label,
        skeleton,
        Body.of(layers),
        supports_pp=False,
        is_pooling=True,
        is_encoder_only=True,
    )


def read_bert(
    facts: Facts,
    label: Label,
    *,
    head: Head = no_head,
    embedding: Callable[..., Module] = VocabParallelEmbedding,
) -> ModelArchitecture:
    """Return an encoder for embeddings or classification.

    Source: vLLM 0.33.0 `models/bert.py` and `models/roberta.py`.
    """
    if facts.value("position_embedding_type") not in (None, "absolute"):
        raise facts.unsupported("position_embedding_type", "only absolute is.")
    shape = encoder_shape(facts)
    size, positions = shape.hidden_size, facts.integer("max_position_embeddings")
    types = facts.integer("type_vocab_size")
    kind = LayerKind((encoder_only(shape),), plain_layer(facts, shape))
    around = (
        embedding(
            name="position_embeddings", num_embeddings=positions, embedding_dim=size
        ),
        embedding(
            name="token_type_embeddings", num_embeddings=types, embedding_dim=size
        ),
        norms(size, count=1, bias=True),
        Replicated("position_ids", Part.BUFFERS, ((1, positions),), dtype="int64"),
    )
    layers = [kind] * facts.integer("num_hidden_layers")
    return encoder(facts, label, layers, around, head(facts, size))


def linear32(*shapes: tuple[int, ...]) -> Module:
    """Return layers of a pooling head: float32, in full on every rank."""
    return Replicated("classifier", Part.CLASSIFIER, shapes, dtype="float32")


def labelled(facts: Facts, size: int) -> tuple[Module, ...]:
    """Return the layer of a classifier, with its bias."""
    labels = num_labels(facts)
    return (linear32((labels, size), (labels,)),)


def pooled_and_labelled(facts: Facts, size: int) -> tuple[Module, ...]:
    """Return a pooler, or RoBERTa's first layer of two, and a classifier."""
    return (linear32((size, size), (size,)), *labelled(facts, size))


def _masked_words(facts: Facts, size: int) -> tuple[Module, ...]:
    """Return the head that predicts words, in the model's dtype.

    Source: vLLM 0.33.0 `models/bert.py` BertMLMHead.
    """
    words = facts.integer("vocab_size")
    dense = (size, size), (size,)
    return (
        Replicated(
            "mlm_head",
            Part.CLASSIFIER,
            (*dense, (size,), (size,), (words, size), (words,)),
        ),
    )


READERS = {
    "BertModel": read_bert,
    "BertForMaskedLM": partial(read_bert, head=_masked_words),
    "BertSpladeSparseEmbeddingModel": partial(read_bert, head=_masked_words),
    "BertForTokenClassification": partial(read_bert, head=labelled),
    "BertForSequenceClassification": partial(read_bert, head=pooled_and_labelled),
    "HF_ColBERT": partial(read_bert, head=colbert_linear),
}
