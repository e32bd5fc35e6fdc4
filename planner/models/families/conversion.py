"""Architectures that vLLM makes from another one: classifiers and embedding models.

The suffix of the name decides, whatever the model.

Source: vLLM 0.33.0 `config/model.py` _SUFFIX_TO_DEFAULTS, `models/registry.py`
_normalize_arch, `models/adapters.py` as_seq_cls_model and as_embedding_model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.caches import EncoderOnlyAttentionLayer
from planner.models.families.assembly import classification_head, num_labels
from planner.models.families.facts import Facts
from planner.models.layers import Module, Part

_CLASSIFIERS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForAudioClassification",
    "ForImageClassification",
    "ForVideoClassification",
    "ClassificationModel",
)
_GENERATORS = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")
SUFFIXES = (
    *_GENERATORS,
    "ForTextEncoding",
    "EmbeddingModel",
    *_CLASSIFIERS,
    "ForRewardModeling",
    "RewardModel",
    "Model",
)
"""In vLLM's order."""


def base_of(architecture: str, known: Collection[str]) -> str | None:
    """Return the name among `known` whose class vLLM converts, or None."""
    suffix = next((s for s in SUFFIXES if architecture.endswith(s)), None)
    if suffix is None or suffix in _GENERATORS:
        return None
    names = (architecture.replace(suffix, other) for other in SUFFIXES)
    return next((name for name in names if name in known), None)


def converted(
    model: ModelArchitecture, facts: Facts, architecture: str
) -> ModelArchitecture:
    """Return the model without its LM head, a classifier with a score layer instead.

    Each pipeline stage has the score layer. A model that pools already stays as it is.
    """
    if model.is_pooling:
        return replace(model, architecture=architecture)
    score: tuple[Module, ...] = ()
    if architecture.endswith(_CLASSIFIERS):
        score = _score(model, facts)
    return replace(
        model,
        architecture=architecture,
        language_architecture=model.language_architecture or model.architecture,
        last_stage=without_head(model.last_stage),
        every_stage=(*without_head(model.every_stage), *score),
        is_pooling=True,
        is_encoder_only=sees_both_ways(model),
    )


def sees_both_ways(model: ModelArchitecture) -> bool:
    """Whether a model that pools has attention to later tokens, and so no KV cache.

    Source: vLLM 0.33.0 `config/model.py` attn_type.
    """
    kinds = (type(layer) for layer in model.cache_layers)
    return model.is_encoder_only or EncoderOnlyAttentionLayer in kinds


def without_head(modules: Iterable[Module]) -> tuple[Module, ...]:
    """Return the modules without the LM head, which no pooling model has."""
    return tuple(module for module in modules if module.part is not Part.LM_HEAD)


def _score(model: ModelArchitecture, facts: Facts) -> tuple[Module, ...]:
    """Return the score layer; one made from the LM head is never quantised."""
    inner = Facts(facts.mapping("text_config"), facts.model_type)
    own = [facts.value("classifier_from_token"), facts.value("method")]
    nested = [inner.value("classifier_from_token"), inner.value("method")]
    labels = num_labels(facts)
    if inner.config and labels == _DEFAULT_LABELS:
        labels = num_labels(inner)
    return classification_head(
        model.hidden_size,
        labels,
        is_quantizable=all(value is None for value in (*own, *nested)),
    )


_DEFAULT_LABELS = 2
