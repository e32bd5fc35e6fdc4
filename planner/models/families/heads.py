"""Decoders with another head: for embeddings, rewards, ranks and late interaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from planner.errors import Refused
from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label, classification_head, num_labels
from planner.models.families.conversion import without_head
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import (
    Module,
    Part,
    Replicated,
)
from planner.values import frozen

Head = Callable[[Facts, int], tuple[Module, ...]]
"""What a class builds instead of the LM head, by the config and the model's width."""
_JINA_WIDTH = 512


def pooled(
    model: ModelArchitecture,
    label: Label,
    head: tuple[Module, ...],
    *,
    is_whole: bool = False,
) -> ModelArchitecture:
    """Return a model with another head, on every stage, for pooling.

    `is_whole` says that prompts are not split: the first token is pooled, or each step.

    Source: vLLM 0.33.0 `config/model.py` attn_type, is_chunked_prefill_supported,
    is_prefix_caching_supported.
    """
    return replace(
        model,
        architecture=label.architecture,
        last_stage=without_head(model.last_stage),
        every_stage=(*without_head(model.every_stage), *head),
        is_pooling=True,
        is_encoder_only=is_whole or model.is_encoder_only,
    )


def colbert_linear(facts: Facts, size: int) -> tuple[Module, ...]:
    """Return the projection of each token, where the config says how wide it is.

    Otherwise it comes from sentence-transformers' own files.

    Source: vLLM 0.33.0 `models/colbert.py` get_colbert_dim_from_config.
    """
    columns = facts.optional_integer("colbert_dim", "dim", "projection_dim")
    if not columns:
        return ()
    return (_linear("colbert_linear", (columns, size), dtype="float32"),)


def _linear(name: str, *shapes: tuple[int, ...], dtype: str | None = None) -> Module:
    return Replicated(name, Part.CLASSIFIER, shapes, dtype=dtype)


def no_head(_facts: Facts, _size: int) -> tuple[Module, ...]:
    """Return nothing, as for embeddings."""
    return ()


def _score(facts: Facts, size: int) -> tuple[Module, ...]:
    return classification_head(size, num_labels(facts))


def _jina_projector(_facts: Facts, size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/jina.py` JinaForRanking, `models/config.py`."""
    return (_linear("projector", (size // 2, size), (_JINA_WIDTH, size // 2)),)


def _voyage_linear(facts: Facts, size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/voyage.py`."""
    return (_linear("linear", (num_labels(facts), size)),)


def _reward(labels: int, _facts: Facts, size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/qwen2_rm.py` Qwen2RewardBaseModel."""
    first = blocks.column("score.0", size, size, bias=True)
    second = blocks.row("score.2", size, labels, bias=True)
    return tuple(
        replace(layer, part=Part.CLASSIFIER, dtype="float32")
        for layer in (first, second)
    )


def _value_head(_facts: Facts, size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/internlm2.py` InternLM2ForRewardModel."""
    head = blocks.row("v_head", size, 1, bias=False)
    own = replace(head, part=Part.CLASSIFIER, dtype="float32", is_quantizable=False)
    return (own,)


@frozen(kw_only=False)
class _Kind:
    """What becomes of a language model: its head, its attention, its stages."""

    base: str
    head: Head = no_head
    is_causal: bool = True
    is_whole: bool = False
    supports_pp: bool = True


def _read(facts: Facts, label: Label, kind: _Kind) -> ModelArchitecture:
    """Return the language model with the head of its own.

    Source: vLLM 0.33.0 `models/config.py` LlamaBidirectionalConfig and others, which
    make attention encoder-only.
    """
    if not kind.is_causal:
        facts = facts.having(is_causal=False)
    if label.architecture.startswith("LlamaBidirectional"):
        _check_pooling(facts)
    model = label.readers[kind.base](facts, label.of(kind.base))
    own = kind.head(facts, model.hidden_size)
    model = replace(model, supports_pp=kind.supports_pp and model.supports_pp)
    return pooled(model, label, own, is_whole=kind.is_whole or not kind.is_causal)


def _check_pooling(facts: Facts) -> None:
    """Refuse a config.json that does not say how the model pools.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `models/config.py` LlamaBidirectionalConfig.
    """
    pooling = facts.value("pooling")
    if pooling is None:
        raise Refused(
            "This bidirectional model requires a 'pooling' field in its HF config (one "
            "of 'avg', 'cls', 'last'), but none was found. Unlike the VL variants, no "
            "default is assumed here because silently picking a pooling for an "
            "embedding model can produce wrong embeddings."
        )
    if pooling not in ("avg", "cls", "last"):
        raise Refused(f"pool_type {pooling!r} not supported")


def read_jina_v5(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Jina's fifth embeddings: Qwen3, or Llama in both directions.

    Source: vLLM 0.33.0 `models/jina.py` JinaEmbeddingsV5Model.
    """
    if facts.flag("is_decoder", default=True):
        return _read(facts, label, _Kind("Qwen3ForCausalLM"))
    return _read(facts, label, _Kind("LlamaForCausalLM", is_causal=False))


def read_gemma3_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Gemma 3 for embeddings. Source: vLLM 0.33.0 `models/gemma3.py`."""
    if facts.flag("use_bidirectional_attention"):
        raise facts.unsupported("use_bidirectional_attention", "one direction is.")
    return _read(facts, label, _Kind("Gemma3ForCausalLM", supports_pp=False))


def read_jamba_classifier(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Jamba as a classifier, which keeps its LM head.

    Source: vLLM 0.33.0 `models/jamba.py` JambaForSequenceClassification.
    """
    base = "JambaForCausalLM"
    model = label.readers[base](facts, label.of(base))
    labels = num_labels(facts)
    score = [(labels, model.hidden_size)]
    score += [(labels,)] * int(facts.flag("score_bias"))  # type: ignore[list-item]
    return replace(
        model,
        architecture=label.architecture,
        every_stage=(*model.every_stage, _linear("score", *score, dtype="float32")),
        is_pooling=True,
    )


_KINDS = {
    "GPT2ForSequenceClassification": _Kind(
        "GPT2LMHeadModel", _score, supports_pp=False
    ),
    "JinaForRanking": _Kind("Qwen3ForCausalLM", _jina_projector, supports_pp=False),
    "LlamaBidirectionalModel": _Kind("LlamaForCausalLM", is_causal=False),
    "LlamaBidirectionalForSequenceClassification": _Kind(
        "LlamaForCausalLM", _score, is_causal=False
    ),
    "VoyageQwen3BidirectionalEmbedModel": _Kind(
        "Qwen3ForCausalLM", _voyage_linear, is_causal=False, supports_pp=False
    ),
    "Qwen2ForRewardModel": _Kind("Qwen2ForCausalLM", partial(_reward, 1)),
    "Qwen2ForProcessRewardModel": _Kind(
        "Qwen2ForCausalLM", partial(_reward, 2), is_whole=True
    ),
    "InternLM2ForRewardModel": _Kind("InternLM2ForCausalLM", _value_head),
    "ColBERTLfm2Model": _Kind(
        "Lfm2ForCausalLM", colbert_linear, is_whole=True, supports_pp=False
    ),
}
READERS = {
    "JambaForSequenceClassification": read_jamba_classifier,
    "Gemma3TextModel": read_gemma3_text,
    "JinaEmbeddingsV5Model": read_jina_v5,
    **{name: partial(_read, kind=kind) for name, kind in _KINDS.items()},
}
