"""Images for retrieval: models that project each token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, Placement, Reader, assemble
from planner.models.families.bert import linear32
from planner.models.families.composite import (
    Composite,
    quant_method,
    siglip_of,
    sub_config,
    text_facts,
)
from planner.models.families.decoder import (
    attention,
    attention_shape,
    encoder_only,
    gated_mlp,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.modernbert import read_modernbert
from planner.models.families.qwen_vl import read_qwen3_5, read_qwen3_vl
from planner.models.families.rope import typed_ropes
from planner.models.families.siglip import read_paligemma
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import siglip_vision
from planner.models.layers import Module, Part, Replicated


# ModernVBERT: SigLIP's tower before ModernBERT.
def _inner(facts: Facts) -> Facts:
    inner = facts.mapping("vlm_config")
    return Facts({**facts.config, **inner}, "modernvbert") if inner else facts


def _modernvbert_text(facts: Facts, label: Label) -> ModelArchitecture:
    columns = facts.integer("embedding_dim", default=128)

    def head(_facts: Facts, size: int) -> tuple[Module, ...]:
        return (linear32((columns, size), (columns,)),)

    text = text_facts(_inner(facts), "modernbert")
    return read_modernbert(text, label.of("ModernBertModel"), head=head)


def _modernvbert_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/colmodernvbert.py`."""
    inner = _inner(facts)
    vision = sub_config(inner, "vision_config", "siglip_vision_model")
    factor = inner.integer("pixel_shuffle_factor")
    shuffled = vision.integer("hidden_size") * factor**2
    yield from siglip_vision(vision, "vision_model", quant_method=quant_method(facts))
    yield blocks.replicated("connector.proj", (text_size, shuffled))


# ColUltraVBERT: SigLIP, and a decoder's layers in both directions.
def _ultravbert_text(outer: Facts, label: Label) -> ModelArchitecture:
    facts = text_facts(outer, "ultrabert")
    has_bias = facts.flag("attention_bias")
    shape = attention_shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    size, wide = shape.hidden_size, facts.integer("intermediate_size")
    mlp = gated_mlp(size, wide, bias=facts.flag("mlp_bias"))
    kind = LayerKind((encoder_only(shape),), (*attention(shape), *mlp, norms(size)))
    rope = typed_ropes(facts, facts.value("layer_types"), shape.head_size)
    # Its embeddings have no head beside them.
    frame = Frame(size, rope, placement=Placement.EVERYWHERE, is_tied=True)
    return assemble(
        facts,
        label.of("UltraBertModel"),
        frame,
        [kind] * facts.integer("num_hidden_layers"),
        supports_pp=False,
        is_pooling=True,
        is_encoder_only=True,
    )


def _ultravbert_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/colultravbert.py`."""
    vision, encoder = siglip_of(facts, "vision_model")
    merged = vision.integer("hidden_size") * facts.integer("pixel_shuffle_factor") ** 2
    last = ((text_size,),) if facts.flag("connector_norm", default=True) else ()
    yield from encoder
    yield blocks.replicated("connector", (text_size, merged), *last)


# Images for retrieval: Qwen3-VL, Qwen3.5 and PaliGemma, which keep their heads.
_WIDTHS = ("embed_dim", "dims", "dim", "projection_dim", "colbert_dim")


def _retriever(
    model: ModelArchitecture, columns: int | None, *, bias: bool = False
) -> ModelArchitecture:
    """Return a model that projects each token, whose prompts are not split."""
    shapes: tuple[tuple[int, ...], ...] = ()
    if columns:
        shapes = ((columns, model.hidden_size), (columns,))[: 2 if bias else 1]
    projection = Replicated(
        "custom_text_proj", Part.CLASSIFIER, shapes, dtype="float32"
    )
    return replace(
        model,
        every_stage=(*model.every_stage, projection),
        is_pooling=True,
        is_encoder_only=True,
    )


def _read(
    facts: Facts, label: Label, *, base: Reader, default: int | None = None
) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/colqwen3.py`, `models/colqwen3_5.py`."""
    columns = facts.optional_integer(*_WIDTHS) or default
    return _retriever(base(facts, label), columns, bias=default is not None)


def _read_colpali(facts: Facts, label: Label) -> ModelArchitecture:
    """Return ColPali: PaliGemma within a config of its own.

    Source: vLLM 0.33.0 `models/colpali.py`.
    """
    keys = {"dtype", "torch_dtype"} & set(facts.config)
    outer = {key: facts.config[key] for key in keys}
    inner = Facts({**facts.mapping("vlm_config"), **outer}, "paligemma")
    model = read_paligemma(inner, label)
    columns = facts.optional_integer("embedding_dim", *_WIDTHS)
    return _retriever(replace(model, model_type=facts.model_type), columns)


READERS: dict[str, Reader] = {
    **dict.fromkeys(
        ("ColModernVBertForRetrieval", "ModernVBertModel"),
        Composite(_modernvbert_modules, text=_modernvbert_text, prefix=""),
    ),
    "ColUltraVBertForRetrieval": Composite(
        _ultravbert_modules, text=_ultravbert_text, prefix="text_model."
    ),
    **dict.fromkeys(
        ("ColQwen3", "OpsColQwen3Model", "Qwen3VLNemotronEmbedModel"),
        partial(_read, base=read_qwen3_vl),
    ),
    "ColQwen3_5": partial(_read, base=read_qwen3_5, default=128),
    "ColPaliForRetrieval": _read_colpali,
}
