"""RoBERTa, with Jina's rotary positions where the config has them, and BGE-M3."""

from __future__ import annotations

from functools import partial

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label, Reader
from planner.models.families.bert import (
    encoder,
    encoder_shape,
    labelled,
    linear32,
    plain_layer,
    pooled_and_labelled,
    read_bert,
)
from planner.models.families.bert_with_rope import beside_words, only
from planner.models.families.decoder import encoder_only
from planner.models.families.facts import Facts
from planner.models.families.heads import Head, colbert_linear, no_head
from planner.models.layers import Module, Part, VocabParallelEmbedding
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen

_DIVIDES_POSITIONS = Change(
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

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the weight on a rank."""
        if not layout.release.has(_DIVIDES_POSITIONS):
            return (Tensor(self.num_embeddings * self.embedding_dim),)
        cut = VocabParallelEmbedding(self.name, self.num_embeddings, self.embedding_dim)
        return cut.tensors(layout)


def _read_jina(
    facts: Facts, label: Label, *, head: Head = no_head
) -> ModelArchitecture:
    """Return RoBERTa, or one with Jina's rotary positions.

    Its table is filled up to a multiple of 8 rows unless the model runs eagerly.

    Source: vLLM 0.33.0 `models/roberta.py` _build_model, `models/config.py`
    JinaRobertaModelConfig.
    """
    if facts.value("position_embedding_type") in (None, "absolute"):
        return _read(facts, label, head=head)
    only(facts, "position_embedding_type", "rotary")
    shape = encoder_shape(facts)
    layer = LayerKind((encoder_only(shape),), plain_layer(facts, shape))
    rows = facts.integer("max_position_embeddings")
    around = beside_words(
        facts,
        max_position=-(-rows // 8) * 8,
        rotary_dim=facts.optional_integer("rotary_emb_dim"),
    )
    layers = [layer] * facts.integer("num_hidden_layers")
    return encoder(facts, label, layers, around, head(facts, shape.hidden_size))


def _sparse_and_colbert(_facts: Facts, size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/roberta.py` BgeM3EmbeddingModel."""
    return (linear32((1, size), (1,), (size, size), (size,)),)


_read = partial(read_bert, embedding=RobertaEmbedding)
_TOKENS, _SEQUENCES = "ForTokenClassification", "ForSequenceClassification"
READERS: dict[str, Reader] = {
    "BgeM3EmbeddingModel": partial(_read, head=_sparse_and_colbert),
    "RobertaModel": _read_jina,
    "XLMRobertaModel": _read_jina,
    "RobertaForMaskedLM": _read_jina,
    "ColBERTJinaRobertaModel": partial(_read_jina, head=colbert_linear),
    f"Roberta{_TOKENS}": partial(_read, head=labelled),
    f"XLMRoberta{_TOKENS}": partial(_read, head=labelled),
    f"Roberta{_SEQUENCES}": partial(_read, head=pooled_and_labelled),
    f"XLMRoberta{_SEQUENCES}": partial(_read, head=pooled_and_labelled),
}
