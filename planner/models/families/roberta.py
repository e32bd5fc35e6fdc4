"""RoBERTa, with Jina's rotary positions where the config has them."""

from __future__ import annotations

from functools import partial

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.bert import read_bert
from planner.models.families.bert_with_rope import (
    beside_words,
    encoder,
    encoder_shape,
    only,
)
from planner.models.families.decoder import attention, encoder_only, norms, plain_mlp
from planner.models.families.embedding import Head, colbert_linear, no_head
from planner.models.families.facts import Facts


def read_jina_roberta(
    facts: Facts, label: Label, *, head: Head = no_head
) -> ModelArchitecture:
    """Return RoBERTa, with Jina's rotary positions where the config has them.

    Its table is filled up to a multiple of 8 rows unless the model runs eagerly.

    Source: vLLM 0.33.0 `models/roberta.py` _build_model, `models/config.py`
    JinaRobertaModelConfig.
    """
    if facts.value("position_embedding_type") in (None, "absolute"):
        return read_bert(facts, label, head=head)
    only(facts, "position_embedding_type", "rotary")
    shape = encoder_shape(facts, qkv_bias=True, output_bias=True)
    size = shape.hidden_size
    layer = LayerKind(
        caches=(encoder_only(shape),),
        modules=(
            *attention(shape),
            *plain_mlp(size, facts.integer("intermediate_size")),
            norms(size, bias=True),
        ),
    )
    rows = facts.integer("max_position_embeddings")
    around = beside_words(
        facts,
        max_position=-(-rows // 8) * 8,
        rotary_dim=facts.optional_integer("rotary_emb_dim"),
    )
    layers = [layer] * facts.integer("num_hidden_layers")
    return encoder(facts, label, layers, around, head(facts, size))


READERS = {
    "XLMRobertaModel": read_jina_roberta,
    "RobertaModel": read_jina_roberta,
    "RobertaForMaskedLM": read_jina_roberta,
    "ColBERTJinaRobertaModel": partial(read_jina_roberta, head=colbert_linear),
}
