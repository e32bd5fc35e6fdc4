"""BERT and RoBERTa: encoders without a KV cache."""

from __future__ import annotations

from planner.errors import UnknownArchitecture
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    encoder_only,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.llama import num_labels
from planner.models.layers import Module, Part, Replicated, VocabParallelEmbedding

_EMBEDDING_MODELS = (
    "BertModel",
    "RobertaModel",
    "XLMRobertaModel",
    "RobertaForMaskedLM",
)
_CLASSIFIERS = (
    "RobertaForSequenceClassification",
    "XLMRobertaForSequenceClassification",
)


def read_bert(facts: Facts, label: Label) -> ModelArchitecture:
    """Return an encoder for embeddings or classification.

    Source: vLLM 0.33.0 `models/bert.py` and `models/roberta.py`.
    """
    if facts.value("position_embedding_type") not in (None, "absolute"):
        raise facts.unsupported("position_embedding_type", "only absolute is.")
    size = facts.integer("hidden_size")
    num_heads = facts.integer("num_attention_heads")
    shape = AttentionShape(
        hidden_size=size,
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_size=size // num_heads,
        qkv_bias=True,
        output_bias=True,
    )
    modules = (
        *attention(shape),
        *plain_mlp(size, facts.integer("intermediate_size")),
        norms(size, bias=True),
    )
    kind = LayerKind(caches=(encoder_only(shape),), modules=modules)
    body = Body.alike(kind, facts.integer("num_hidden_layers"))
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(),
        embeddings_on=Placement.EVERYWHERE,
        extra_embeddings=_embeddings(facts, size),
        classifier=_head(facts, label.architecture, size),
    )
    return assemble(
        facts,
        label,
        skeleton,
        body,
        supports_pp=False,
        is_pooling=True,
        is_encoder_only=True,
    )


def _embeddings(facts: Facts, size: int) -> tuple[Module, ...]:
    positions = facts.integer("max_position_embeddings")
    return (
        VocabParallelEmbedding(
            name="position_embeddings", num_embeddings=positions, embedding_dim=size
        ),
        VocabParallelEmbedding(
            name="token_type_embeddings",
            num_embeddings=facts.integer("type_vocab_size"),
            embedding_dim=size,
        ),
        norms(size, count=1, bias=True),
        Replicated(
            name="position_ids",
            part=Part.BUFFERS,
            shapes=((1, positions),),
            dtype="int64",
        ),
    )


def _head(facts: Facts, architecture: str, size: int) -> tuple[Module, ...]:
    if architecture in _EMBEDDING_MODELS:
        return ()
    if architecture in _CLASSIFIERS:
        labels = num_labels(facts)
        return (
            Replicated(
                name="classifier",
                part=Part.CLASSIFIER,
                shapes=((size, size), (size,), (labels, size), (labels,)),
                dtype="float32",
            ),
        )
    raise UnknownArchitecture(
        f"architectures: {architecture!r}: its head is not modelled yet."
    )


READERS = dict.fromkeys((*_EMBEDDING_MODELS, *_CLASSIFIERS), read_bert)
