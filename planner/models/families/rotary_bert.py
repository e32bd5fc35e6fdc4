"""Encoders with rotary positions: GTE, Nomic, Jina's RoBERTa and ModernBERT."""

from __future__ import annotations

from functools import partial

from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import (
    Body,
    Label,
    Placement,
    Skeleton,
    assemble,
)
from planner.models.families.bert import (
    Head,
    labelled,
    linear32,
    pooled_and_labelled,
    read_bert,
)
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    encoder_only,
    gated_mlp,
    norms,
    plain_mlp,
)
from planner.models.families.embedding import colbert_linear
from planner.models.families.facts import Facts
from planner.models.families.layered import typed_ropes
from planner.models.families.rope import rope_cache
from planner.models.layers import (
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    Sharded,
    VocabParallelEmbedding,
)


def _nothing(_facts: Facts, _size: int) -> tuple[Module, ...]:
    return ()


def _assemble(
    facts: Facts,
    label: Label,
    layers: list[LayerKind],
    around: tuple[Module, ...],
    head: tuple[Module, ...],
) -> ModelArchitecture:
    skeleton = Skeleton(
        hidden_size=facts.integer("hidden_size"),
        vocab_size=facts.integer("vocab_size"),
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


def _shape(facts: Facts, *, qkv_bias: bool, output_bias: bool) -> AttentionShape:
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    return AttentionShape(
        hidden_size=size,
        num_heads=heads,
        num_kv_heads=heads,
        head_size=size // heads,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
    )


def _around(
    facts: Facts, *, max_position: int, rotary_dim: int | None
) -> tuple[Module, ...]:
    """Return what stands beside the words: types, a norm and the rotary table.

    Source: vLLM 0.33.0 `models/bert_with_rope.py` BertWithRopeEmbedding.
    """
    size, types = facts.integer("hidden_size"), facts.integer("type_vocab_size")
    head_size = size // facts.integer("num_attention_heads")
    words = VocabParallelEmbedding(
        name="token_type_embeddings", num_embeddings=types, embedding_dim=size
    )
    return (
        *((words,) if types else ()),
        norms(size, count=1, bias=True),
        *rope_cache(
            facts, head_size=head_size, max_position=max_position, dim=rotary_dim
        ),
    )


def read_gte(facts: Facts, label: Label, *, head: Head = _nothing) -> ModelArchitecture:
    """Return GTE: an MLP with a gate that has no bias.

    Source: vLLM 0.33.0 `models/bert_with_rope.py` GteNewModel, SnowflakeGteNewModel.
    """
    _only(facts, "position_embedding_type", "rope", "rotary")
    shape = _shape(facts, qkv_bias=True, output_bias=True)
    size, width = shape.hidden_size, facts.integer("intermediate_size")
    up, down = gated_mlp(size, width)
    down = gated_mlp(size, width, bias=True)[1]
    layer = LayerKind(
        caches=(encoder_only(shape),),
        modules=(*attention(shape), up, down, norms(size, bias=True)),
    )
    around = _around(
        facts,
        max_position=facts.integer("max_position_embeddings"),
        rotary_dim=facts.optional_integer("rotary_emb_dim"),
    )
    layers = [layer] * facts.integer("num_hidden_layers")
    return _assemble(facts, label, layers, around, head(facts, size))


def _only(facts: Facts, name: str, *allowed: str) -> None:
    if facts.value(name) not in (None, *allowed):
        raise facts.unsupported(name, f"{' or '.join(allowed)} is.")


def read_jina_roberta(
    facts: Facts, label: Label, *, head: Head = _nothing
) -> ModelArchitecture:
    """Return RoBERTa, with Jina's rotary positions where the config has them.

    Its table is filled up to a multiple of 8 rows unless the model runs eagerly.

    Source: vLLM 0.33.0 `models/roberta.py` _build_model, `models/config.py`
    JinaRobertaModelConfig.
    """
    if facts.value("position_embedding_type") in (None, "absolute"):
        return read_bert(facts, label, head=head)
    _only(facts, "position_embedding_type", "rotary")
    shape = _shape(facts, qkv_bias=True, output_bias=True)
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
    around = _around(
        facts,
        max_position=-(-rows // 8) * 8,
        rotary_dim=facts.optional_integer("rotary_emb_dim"),
    )
    layers = [layer] * facts.integer("num_hidden_layers")
    return _assemble(facts, label, layers, around, head(facts, size))


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
    shape = _shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    size, width = shape.hidden_size, named["intermediate_size"]
    is_gated = facts.value("activation_function") == "swiglu"
    mlp = gated_mlp if is_gated else plain_mlp
    common = (*attention(shape), norms(size, bias=True))
    dense = LayerKind(
        caches=(encoder_only(shape),),
        modules=(*common, *mlp(size, width, bias=has_bias)),
    )
    every = facts.optional_integer("moe_every_n_layers") or 0
    layers = [dense] * named["num_hidden_layers"]
    if every:
        sparse = LayerKind(
            caches=(encoder_only(shape),),
            modules=(*common, *_nomic_experts(facts, size, width)),
        )
        layers = [sparse if i % every == 1 else dense for i in range(len(layers))]
    around = _around(
        facts,
        max_position=facts.integer("max_position_embeddings", default=2048),
        rotary_dim=int(
            shape.head_size * facts.number("rotary_emb_fraction", default=1.0)
        ),
    )
    return _assemble(facts, label, layers, around, ())


def _nomic_experts(facts: Facts, size: int, width: int) -> tuple[Module, ...]:
    count = facts.integer("num_experts")
    return (
        ReplicatedLinear(
            name="mlp.router",
            part=Part.ROUTER,
            input_size=size,
            output_sizes=(count,),
            is_quantizable=False,
        ),
        Sharded(
            name="mlp.w",
            part=Part.EXPERTS,
            shapes=((width, count, size), (width, count, size)),
        ),
        Replicated(name="mlp.bias", part=Part.EXPERTS, shapes=((size,),)),
    )


def read_modernbert(
    facts: Facts, label: Label, *, head: Head = _nothing, is_divided: bool = True
) -> ModelArchitecture:
    """Return ModernBERT: windows, and no first norm in the first layer.

    `is_divided`: whether ranks share the first layer of an MLP, as since 0.29.

    Source: vLLM 0.33.0 `models/modernbert.py`; 0.28.0 ModernBertMLP (Wi).
    """
    has_bias = facts.flag("attention_bias")
    shape = _shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    size = shape.hidden_size
    width, mlp_bias = facts.integer("intermediate_size"), facts.flag("mlp_bias")
    first, second = gated_mlp(size, width, bias=mlp_bias)
    if not is_divided:
        shapes = ((2 * width, size), *(((2 * width,),) if mlp_bias else ()))
        first = Replicated(name=first.name, part=first.part, shapes=shapes)
    norm_bias = facts.flag("norm_bias")

    def layer(count: int) -> LayerKind:
        return LayerKind(
            caches=(encoder_only(shape),),
            modules=(
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
    return _assemble(facts, label, layers, around, head(facts, size))


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
    facts = Facts({**facts.config, "rope_parameters": given}, facts.model_type)
    return typed_ropes(
        facts,
        given,
        head_size=head_size,
        max_position=facts.integer("max_position_embeddings"),
    )


def _modern_pooler(facts: Facts, size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/modernbert.py` ModernBertPooler."""
    shapes: list[tuple[int, ...]] = [(size, size), (size,)]
    shapes += [(size,)] * int(facts.flag("classifier_bias"))
    shapes += [(size,)] * int(facts.flag("norm_bias"))
    return (linear32(*shapes), *labelled(facts, size))


def _prediction_head(facts: Facts, size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/modernbert.py` ModernBertPredictionHead."""
    shapes: list[tuple[int, ...]] = [(size, size), (size,)]
    shapes += [(size,)] * int(facts.flag("classifier_bias"))
    shapes += [(size,)] * int(facts.flag("norm_bias"))
    dense = Replicated(name="head", part=Part.CLASSIFIER, shapes=tuple(shapes))
    return (dense, *labelled(facts, size))


READERS = {
    "GteModel": read_gte,
    "GteNewModel": read_gte,
    "GteNewForSequenceClassification": partial(read_gte, head=pooled_and_labelled),
    "XLMRobertaModel": read_jina_roberta,
    "RobertaModel": read_jina_roberta,
    "RobertaForMaskedLM": read_jina_roberta,
    "ColBERTJinaRobertaModel": partial(read_jina_roberta, head=colbert_linear),
    "NomicBertModel": read_nomic,
    "ModernBertModel": read_modernbert,
    "ColBERTModernBertModel": partial(read_modernbert, head=colbert_linear),
    "ModernBertForTokenClassification": partial(read_modernbert, head=_prediction_head),
    "ModernBertForSequenceClassification": partial(
        read_modernbert, head=_modern_pooler
    ),
}
