"""Images for retrieval: ColPali, ColQwen, SigLIP, CLIP, Nemotron's embeddings.

Except for Nemotron's, they keep the head of the model that they are made from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import (
    Body,
    Label,
    Placement,
    Skeleton,
    assemble,
    classification_head,
    num_labels,
)
from planner.models.families.bert import linear32
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    encoder_only,
    kv_of,
    norms,
    plain_mlp,
)
from planner.models.families.embedding import pooled
from planner.models.families.facts import Facts
from planner.models.families.gemma_mm import read_paligemma
from planner.models.families.llama import LLAMA
from planner.models.families.llama import read as read_llama
from planner.models.families.multimodal import (
    composed,
    quant_method,
    sub_config,
    text_facts,
)
from planner.models.families.qwen_vl import read_qwen3_5, read_qwen3_vl
from planner.models.families.rotary_bert import read_modernbert
from planner.models.families.siglip_models import shuffled_mlp
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import clip_layers, siglip_vision
from planner.models.layers import Module, Part, Replicated, VocabParallelEmbedding

_WIDTHS = ("embed_dim", "dims", "dim", "projection_dim", "colbert_dim")
_IMAGE = ("image",)


def _as_retriever(
    model: ModelArchitecture, columns: int | None, *, bias: bool = False
) -> ModelArchitecture:
    """Return a model that projects each token, whose prompts are not split."""
    shapes: tuple[tuple[int, ...], ...] = ()
    if columns:
        shapes = ((columns, model.hidden_size), (columns,))[: 2 if bias else 1]
    projection = Replicated(
        name="custom_text_proj", part=Part.CLASSIFIER, shapes=shapes, dtype="float32"
    )
    return replace(
        model,
        every_stage=(*model.every_stage, projection),
        is_pooling=True,
        is_encoder_only=True,
    )


def read_colpali(facts: Facts, label: Label) -> ModelArchitecture:
    """Return ColPali: PaliGemma within a config of its own.

    Source: vLLM 0.33.0 `models/colpali.py`.
    """
    outer = {
        key: facts.config[key]
        for key in ("dtype", "torch_dtype")
        if key in facts.config
    }
    inner = Facts({**facts.mapping("vlm_config"), **outer}, "paligemma")
    model = read_paligemma(inner, label)
    columns = facts.optional_integer("embedding_dim", *_WIDTHS)
    return _as_retriever(replace(model, model_type=facts.model_type), columns)


def read_colqwen(
    facts: Facts,
    label: Label,
    *,
    base: Callable[[Facts, Label], ModelArchitecture],
    default: int | None = None,
) -> ModelArchitecture:
    """Return Qwen3-VL or Qwen3.5 as a retriever.

    Source: vLLM 0.33.0 `models/colqwen3.py`, `models/colqwen3_5.py`.
    """
    columns = facts.optional_integer(*_WIDTHS) or default
    return _as_retriever(base(facts, label), columns, bias=default is not None)


def read_llama_nemotron_vl(
    facts: Facts, label: Label, *, is_classifier: bool = False
) -> ModelArchitecture:
    """Return Nemotron's embeddings of images: SigLIP and Llama in both directions.

    Source: vLLM 0.33.0 `models/nemotron_vl.py` LlamaNemotronVLForEmbedding.
    """
    name = "llm_config" if facts.mapping("llm_config") else "text_config"
    text = text_facts(facts, "llama", name=name)
    text = Facts({**text.config, "is_causal": False}, "llama")
    inner = label.of("LlamaForCausalLM")
    model = read_llama(text, inner, style=LLAMA)
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    modules = (
        *siglip_vision(vision, "vision_model", quant_method=quant_method(facts)),
        *shuffled_mlp(facts, vision, model.hidden_size),
    )
    tower = Tower(modalities=_IMAGE, modules=modules)
    score: tuple[Module, ...] = ()
    if is_classifier:
        score = classification_head(model.hidden_size, num_labels(text))
    whole = composed(facts, label, pooled(model, inner, score, is_whole=True), tower)
    input_norm = blocks.input_norm("input_norm")
    return replace(whole, every_stage=(*whole.every_stage, input_norm))


def read_modern_vbert(facts: Facts, label: Label) -> ModelArchitecture:
    """Return ModernVBERT: SigLIP's tower before ModernBERT.

    Source: vLLM 0.33.0 `models/colmodernvbert.py`.
    """
    inner = facts
    if facts.mapping("vlm_config"):
        inner = Facts({**facts.config, **facts.mapping("vlm_config")}, "modernvbert")
    text = text_facts(inner, "modernbert")
    own = label.of("ModernBertModel")
    vision = sub_config(inner, "vision_config", "siglip_vision_model")
    factor = inner.integer("pixel_shuffle_factor")
    columns = facts.integer("embedding_dim", default=128)

    def head(_facts: Facts, size: int) -> tuple[Module, ...]:
        return (linear32((columns, size), (columns,)),)

    model = read_modernbert(text, own, head=head)
    shuffled = vision.integer("hidden_size") * factor**2
    modules = (
        *siglip_vision(vision, "vision_model", quant_method=quant_method(facts)),
        blocks.replicated("connector.proj", (model.hidden_size, shuffled)),
    )
    tower = Tower(modalities=_IMAGE, modules=modules)
    return composed(facts, label, model, tower, prefix="")


def _text_encoder(
    facts: Facts, label: Label, *, is_causal: bool, head: tuple[Module, ...]
) -> ModelArchitecture:
    """Return the text half of CLIP, which has a KV cache, or of SigLIP."""
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    positions = facts.integer("max_position_embeddings")
    shape = AttentionShape(
        hidden_size=size,
        num_heads=heads,
        num_kv_heads=heads,
        head_size=size // heads,
        qkv_bias=True,
        output_bias=True,
        heeds_kv_cache_dtype=False,
    )
    kind = LayerKind(
        caches=(kv_of(shape) if is_causal else encoder_only(shape),),
        modules=(
            *attention(shape),
            *plain_mlp(size, facts.integer("intermediate_size")),
            norms(size, bias=True),
        ),
    )
    numbers = Replicated(
        name="embeddings.position_ids",
        part=Part.BUFFERS,
        shapes=((positions,),),
        dtype="int64",
    )
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(size, count=1, bias=True),),
        embeddings_on=Placement.EVERYWHERE,
        extra_embeddings=(
            VocabParallelEmbedding(
                name="position_embedding",
                num_embeddings=positions,
                embedding_dim=size,
            ),
            *(() if is_causal else (numbers,)),
        ),
        classifier=head,
    )
    body = Body.alike(kind, facts.integer("num_hidden_layers"))
    return assemble(
        facts,
        label,
        skeleton,
        body,
        supports_pp=False,
        is_pooling=True,
        is_encoder_only=not is_causal,
    )


def read_siglip(facts: Facts, label: Label) -> ModelArchitecture:
    """Return SigLIP with both its halves.

    Source: vLLM 0.33.0 `models/siglip.py` SiglipEmbeddingModel.
    """
    text = text_facts(facts, "siglip_text_model")
    size = text.integer("hidden_size")
    columns = text.integer("projection_size", default=size)
    head = Replicated(
        name="head", part=Part.CLASSIFIER, shapes=((columns, size), (columns,))
    )
    model = _text_encoder(text, label, is_causal=False, head=(head,))
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    modules = siglip_vision(vision, "vision", quant_method=quant_method(facts))
    if vision.flag("vision_use_head", default=True):
        modules = (*modules, *_pooling_head(vision))
    tower = Tower(modalities=_IMAGE, modules=modules)
    whole = composed(facts, label, model, tower, prefix="text_model.")
    return replace(whole, is_encoder_only=True)


def _pooling_head(facts: Facts) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/siglip.py` SiglipMultiheadAttentionPoolingHead."""
    size, name = facts.integer("hidden_size"), "vision_model.head"
    return (
        blocks.replicated(
            name, (size,), (3 * size, size), (3 * size,), (size, size), (size,)
        ),
        blocks.norms(f"{name}.layernorm", size, bias=True),
        *blocks.plain_mlp(
            f"{name}.mlp.fc1",
            f"{name}.mlp.fc2",
            size,
            facts.integer("intermediate_size"),
        ),
    )


def read_clip(facts: Facts, label: Label) -> ModelArchitecture:
    """Return CLIP with both its halves.

    Source: vLLM 0.33.0 `models/clip.py` CLIPEmbeddingModel.
    """
    text = text_facts(facts, "clip_text_model")
    vision = sub_config(facts, "vision_config", "clip_vision_model")
    columns = facts.integer("projection_dim")
    head = Replicated(
        name="text_projection",
        part=Part.CLASSIFIER,
        shapes=((columns, text.integer("hidden_size")),),
    )
    model = _text_encoder(text, label, is_causal=True, head=(head,))
    modules = (
        *clip_layers(vision, "vision_model"),
        blocks.replicated(
            "visual_projection", (columns, vision.integer("hidden_size"))
        ),
    )
    tower = Tower(modalities=_IMAGE, modules=modules)
    return composed(facts, label, model, tower, prefix="text_model.")


READERS = {
    "ColModernVBertForRetrieval": read_modern_vbert,
    "ModernVBertModel": read_modern_vbert,
    "CLIPModel": read_clip,
    "ColPaliForRetrieval": read_colpali,
    "ColQwen3": partial(read_colqwen, base=read_qwen3_vl),
    "OpsColQwen3Model": partial(read_colqwen, base=read_qwen3_vl),
    "Qwen3VLNemotronEmbedModel": partial(read_colqwen, base=read_qwen3_vl),
    "ColQwen3_5": partial(read_colqwen, base=read_qwen3_5, default=128),
    "LlamaNemotronVLModel": read_llama_nemotron_vl,
    "LlamaNemotronVLForSequenceClassification": partial(
        read_llama_nemotron_vl, is_classifier=True
    ),
    "SiglipModel": read_siglip,
}
