"""BERT and RoBERTa: encoders without a KV cache."""

from __future__ import annotations

from functools import partial

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
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
from planner.models.families.embedding import Head, colbert_linear, no_head
from planner.models.families.facts import Facts
from planner.models.layers import Module, Part, Replicated, VocabParallelEmbedding
from planner.models.tensors import Tensor
from planner.values import frozen


def read_bert(facts: Facts, label: Label, *, head: Head = no_head) -> ModelArchitecture:
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
        extra_embeddings=_embeddings(facts, size, _embedding_class(label)),
        classifier=head(facts, size),
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


_DIVIDES_ROBERTAS_POSITIONS = Change(
    since=(0, 25),
    what=(
        "RoBERTa's embeddings of positions and types are cut by rows, as BERT's always "
        "were."
    ),
    source="vLLM 0.25.0 `models/roberta.py` RobertaEmbedding",
)


@frozen
class RobertaEmbedding:
    """An embedding that every rank held in full, and that is cut by rows since."""

    name: str
    num_embeddings: int
    embedding_dim: int
    part: Part = Part.EMBEDDINGS

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:
        """Return the weight on a rank."""
        if not layout.release.has(_DIVIDES_ROBERTAS_POSITIONS):
            return (Tensor(self.num_embeddings * self.embedding_dim),)
        cut = VocabParallelEmbedding(
            name=self.name,
            num_embeddings=self.num_embeddings,
            embedding_dim=self.embedding_dim,
        )
        return cut.tensors(layout)


_Embedding = type[VocabParallelEmbedding] | type[RobertaEmbedding]


def _embedding_class(label: Label) -> _Embedding:
    """Source: vLLM 0.33.0 `models/roberta.py` (BgeM3EmbeddingModel is there too)."""
    is_roberta = "Roberta" in label.architecture or label.architecture.startswith("Bge")
    return RobertaEmbedding if is_roberta else VocabParallelEmbedding


def _embeddings(facts: Facts, size: int, embedding: _Embedding) -> tuple[Module, ...]:
    positions = facts.integer("max_position_embeddings")
    return (
        embedding(
            name="position_embeddings", num_embeddings=positions, embedding_dim=size
        ),
        embedding(
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


def linear32(*shapes: tuple[int, ...]) -> Module:
    """Return layers of a pooling head: float32, in full on every rank."""
    return Replicated(
        name="classifier", part=Part.CLASSIFIER, shapes=shapes, dtype="float32"
    )


def _dense(size: int) -> tuple[tuple[int, ...], ...]:
    return (size, size), (size,)


def labelled(facts: Facts, size: int) -> tuple[Module, ...]:
    """Return the layer of a classifier, with its bias."""
    labels = num_labels(facts)
    return (linear32((labels, size), (labels,)),)


def pooled_and_labelled(facts: Facts, size: int) -> tuple[Module, ...]:
    """Return a pooler, or RoBERTa's first layer of two, and a classifier."""
    return (linear32(*_dense(size)), *labelled(facts, size))


def _masked_words(facts: Facts, size: int) -> tuple[Module, ...]:
    """Return the head that predicts words, in the model's dtype.

    Source: vLLM 0.33.0 `models/bert.py` BertMLMHead.
    """
    words = facts.integer("vocab_size")
    return (
        Replicated(
            name="mlm_head",
            part=Part.CLASSIFIER,
            shapes=(*_dense(size), (size,), (size,), (words, size), (words,)),
        ),
    )


def _sparse_and_colbert(_facts: Facts, size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/roberta.py` BgeM3EmbeddingModel."""
    return (linear32((1, size), (1,), *_dense(size)),)


READERS = {
    "BertModel": read_bert,
    "BertForMaskedLM": partial(read_bert, head=_masked_words),
    "BertSpladeSparseEmbeddingModel": partial(read_bert, head=_masked_words),
    "BertForTokenClassification": partial(read_bert, head=labelled),
    "BertForSequenceClassification": partial(read_bert, head=pooled_and_labelled),
    "HF_ColBERT": partial(read_bert, head=colbert_linear),
    "BgeM3EmbeddingModel": partial(read_bert, head=_sparse_and_colbert),
    "RobertaForTokenClassification": partial(read_bert, head=labelled),
    "XLMRobertaForTokenClassification": partial(read_bert, head=labelled),
    "RobertaForSequenceClassification": partial(read_bert, head=pooled_and_labelled),
    "XLMRobertaForSequenceClassification": partial(read_bert, head=pooled_and_labelled),
}
