"""BERT and RoBERTa, and encoders without a KV cache: what they share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import (
    Frame,
    Label,
    Placement,
    Reader,
    assemble,
    num_labels,
)
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    encoder_only,
    gated_mlp,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.heads import Head, colbert_linear, no_head
from planner.models.families.rope import rope_cache
from planner.models.layers import (
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    Sharded,
    VocabParallelEmbedding,
)
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen


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
    frame = Frame(
        facts.integer("hidden_size"),
        final_norm=(),
        embeddings_on=Placement.EVERYWHERE,
        extra_embeddings=around,
        classifier=head,
    )
    return assemble(
        facts,
        label,
        frame,
        layers,
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


# RoBERTa, with Jina's rotary positions where the config has them, and BGE-M3.
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


# Encoders with rotary positions: GTE and Nomic.
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
    facts = facts.having(**named)
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


READERS: dict[str, Reader] = {
    "BertModel": read_bert,
    "BertForMaskedLM": partial(read_bert, head=_masked_words),
    "BertSpladeSparseEmbeddingModel": partial(read_bert, head=_masked_words),
    "BertForTokenClassification": partial(read_bert, head=labelled),
    "BertForSequenceClassification": partial(read_bert, head=pooled_and_labelled),
    "HF_ColBERT": partial(read_bert, head=colbert_linear),
    "BgeM3EmbeddingModel": partial(_read, head=_sparse_and_colbert),
    "RobertaModel": _read_jina,
    "XLMRobertaModel": _read_jina,
    "RobertaForMaskedLM": _read_jina,
    "ColBERTJinaRobertaModel": partial(_read_jina, head=colbert_linear),
    f"Roberta{_TOKENS}": partial(_read, head=labelled),
    f"XLMRoberta{_TOKENS}": partial(_read, head=labelled),
    f"Roberta{_SEQUENCES}": partial(_read, head=pooled_and_labelled),
    f"XLMRoberta{_SEQUENCES}": partial(_read, head=pooled_and_labelled),
    "GteModel": read_gte,
    "GteNewModel": read_gte,
    "GteNewForSequenceClassification": partial(read_gte, head=pooled_and_labelled),
    "NomicBertModel": read_nomic,
}
