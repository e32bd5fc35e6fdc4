"""Puts a model together from layers, embeddings and head, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from enum import Enum
from math import inf
from typing import TypeAlias

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import (
    AttentionLayer,
    CacheLayer,
    EncoderOnlyAttentionLayer,
)
from planner.models.families.decoder import embeddings, lm_head, norms
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_parameters
from planner.models.layers import Module, Part, ReplicatedLinear
from planner.models.states import StateLayer
from planner.values import frozen

_LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)

_FLOAT16_REFUSALS = dict.fromkeys(
    ("gemma2", "gemma3", "gemma3_text", "glm4"),
    "Numerical instability. Please use bfloat16 or float32 instead.",
)


def float16_refusal(model_type: str) -> str | None:
    """Return vLLM's reason for refusing float16 with a model type.

    Source: vLLM 0.33.0 `config/model.py` _FLOAT16_NOT_SUPPORTED_MODELS.
    """
    return _FLOAT16_REFUSALS.get(model_type)


class Placement(Enum):
    """On which pipeline stages a vLLM model class builds a module."""

    BY_STAGE = "embeddings on the first, norm and head on the last"
    EVERYWHERE = "on every stage, used or not"


@frozen
class Label:
    """What a model is called: by the user, and in config.json's `architectures`."""

    name: str
    architecture: str
    readers: Mapping[str, Reader] = field(default_factory=dict, compare=False)
    """By architecture, for the language model inside a model; none in a draft's."""

    def of(self, architecture: str) -> Label:
        """Return the label of the model inside, or of the one that it is read as."""
        return replace(self, architecture=architecture)


Reader: TypeAlias = Callable[[Facts, Label], ModelArchitecture]
"""Returns the model that a config.json describes."""


@frozen(kw_only=False)
class Frame:
    """What surrounds the decoder layers of a model."""

    hidden_size: int
    every_stage: tuple[Module, ...] = ()
    """Rotary tables, and what else each stage holds once."""
    placement: Placement = Placement.BY_STAGE
    embeddings_on: Placement | None = None
    """Where it differs from the placement of the rest; so below."""
    norm_on: Placement | None = None
    head_on: Placement | None = None
    is_tied: bool | None = None
    """None: as tie_word_embeddings says."""
    vocab_size: int | None = None
    """None: as the config says."""
    final_norm: tuple[Module, ...] | None = None
    """None: one norm, without a bias."""
    lm_head_bias: bool = False
    is_head_quantizable: bool = True
    """False where vLLM's class does not pass the quantisation on to its LM head."""
    extra_embeddings: tuple[Module, ...] = ()
    """Learned positions and the like, placed with the word embeddings."""
    classifier: tuple[Module, ...] | None = None
    """Replaces the LM head: a score layer, or nothing for an embedding model."""


@frozen
class _Stages:
    first: tuple[Module, ...]
    last: tuple[Module, ...]
    every: tuple[Module, ...]
    tied: tuple[Module, ...]


def _stages(frame: Frame, vocab_size: int, *, is_tied: bool) -> _Stages:
    """Place embeddings, norm and head; a module on every stage is counted once."""
    size = frame.hidden_size
    words = (embeddings(vocab_size, size), *frame.extra_embeddings)
    norm = frame.final_norm
    first: list[Module] = []
    last: list[Module] = []
    every = list(frame.every_stage)

    def part(by_stage: list[Module], own: Placement | None) -> list[Module]:
        return by_stage if (own or frame.placement) is Placement.BY_STAGE else every

    part(first, frame.embeddings_on).extend(words)
    part(last, frame.norm_on).extend((norms(size, count=1),) if norm is None else norm)
    if frame.classifier is not None:
        every.extend(frame.classifier)  # vLLM's adapters build it on each stage
    elif not is_tied:
        head = lm_head(vocab_size, size, bias=frame.lm_head_bias)
        part(last, frame.head_on).append(
            replace(head, is_quantizable=frame.is_head_quantizable)
        )
    needs_copy = is_tied and words[0] in first
    return _Stages(
        first=tuple(first),
        last=tuple(last),
        every=tuple(every),
        tied=words if needs_copy else (),
    )


def assemble(
    facts: Facts,
    label: Label,
    frame: Frame,
    layers: Iterable[LayerKind],
    **overrides: object,
) -> ModelArchitecture:
    """Return a model of these layers; `overrides` replace what the config says.

    Source of the length rules: vLLM 0.33.0
    `transformers_utils/model_arch_config_convertor.py` derive_max_model_len_and_key.
    """
    if "num_experts" not in overrides:
        overrides["num_experts"] = declared_experts(facts)
    kinds: dict[LayerKind, int] = {}
    numbers = tuple(kinds.setdefault(kind, len(kinds)) for kind in layers)
    length, key = _derived_length(facts)
    vocab_size = frame.vocab_size
    if vocab_size is None:
        vocab_size = facts.integer("vocab_size")
    tied = frame.is_tied
    if tied is None:
        tied = facts.flag("tie_word_embeddings")
    stages = _stages(frame, vocab_size, is_tied=tied)
    heads = _declared_heads(facts, tuple(kinds))
    values: dict[str, object] = {
        "name": label.name,
        "architecture": label.architecture,
        "model_type": facts.model_type,
        "config_dtype": str(facts.value("dtype", "torch_dtype") or "float32"),
        "hidden_size": frame.hidden_size,
        "vocab_size": vocab_size,
        "num_attention_heads": heads.num_heads,
        "num_kv_heads": heads.num_kv_heads,
        "head_size": heads.head_size,
        "max_position_embeddings": length,
        "max_len_key": key,
        "model_max_length": facts.optional_integer("model_max_length"),
        "original_max_position_embeddings": facts.optional_integer(
            "original_max_position_embeddings"
        ),
        "rope_parameters": rope_parameters(facts),
        "first_stage": stages.first,
        "last_stage": stages.last,
        "every_stage": stages.every,
        "tied_embeddings": stages.tied,
        "layer_kinds": tuple(kinds),
        "layers": numbers,
        "attention_chunk_size": facts.optional_integer("attention_chunk_size"),
        "has_softcap": bool(facts.value("attn_logit_softcapping")),
        "float16_refusal": float16_refusal(facts.model_type),
        **overrides,
    }
    return ModelArchitecture(**values)  # type: ignore[arg-type]


def with_caches(
    model: ModelArchitecture, change: Callable[[CacheLayer], CacheLayer | None]
) -> ModelArchitecture:
    """Return a model whose layers keep other things; None: nothing in its place."""

    def changed(kind: LayerKind) -> LayerKind:
        caches = map(change, kind.caches)
        return replace(kind, caches=tuple(one for one in caches if one is not None))

    return replace(model, layer_kinds=tuple(map(changed, model.layer_kinds)))


def in_both_directions(model: ModelArchitecture) -> ModelArchitecture:
    """Return a model whose attention sees what comes after, and keeps nothing."""

    def seen(cache: CacheLayer) -> CacheLayer | None:
        if not isinstance(cache, AttentionLayer):
            return None
        return EncoderOnlyAttentionLayer(
            num_heads=cache.num_heads,
            num_kv_heads=cache.num_kv_heads,
            head_size=cache.head_size,
        )

    return with_caches(model, seen)


def declared_experts(facts: Facts) -> int:
    """Return the experts that vLLM's checks see.

    Source: vLLM 0.33.0 `transformers_utils/config.py` CONFIG_FIELD_ALIASES.
    """
    names = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
    return facts.optional_integer(*names) or 0


def _declared_heads(facts: Facts, kinds: tuple[LayerKind, ...]) -> AttentionLayer:
    """Return heads as vLLM's checks see them, also where no layer keeps a cache."""
    kept = next(
        (
            layer
            for kind in kinds
            for layer in kind.caches
            if isinstance(layer, AttentionLayer)
        ),
        None,
    )
    if kept is not None:
        return kept
    if facts.value("num_attention_heads") is None and _has_states(kinds):
        return AttentionLayer(num_heads=0, num_kv_heads=0, head_size=0)
    num_heads = facts.integer("num_attention_heads")
    return AttentionLayer(
        num_heads=num_heads,
        num_kv_heads=facts.integer("num_key_value_heads", default=num_heads),
        head_size=facts.optional_integer("head_dim")
        or facts.integer("hidden_size") // num_heads,
    )


def _has_states(kinds: tuple[LayerKind, ...]) -> bool:
    """Whether layers keep states: models of nothing else have no heads."""
    return any(isinstance(layer, StateLayer) for kind in kinds for layer in kind.caches)


def _derived_length(facts: Facts) -> tuple[float, str | None]:
    length, key = inf, None
    for name in _LENGTH_KEYS:
        value = facts.value(name)
        if value is not None and value < length:
            length, key = value, name
    if facts.value("model_max_length"):  # Cohere: this one wins even when larger
        return facts.integer("model_max_length"), "model_max_length"
    return length, key


def classification_head(
    hidden_size: int, num_labels: int, *, is_quantizable: bool = True
) -> tuple[Module, ...]:
    """Return the score layer of a sequence classifier, float32 in vLLM.

    Source: vLLM 0.33.0 `models/adapters.py` as_seq_cls_model; pooling heads run in
    float32 (`config/model.py` _get_head_dtype).
    """
    return (
        ReplicatedLinear(
            "score",
            Part.CLASSIFIER,
            hidden_size,
            (num_labels,),
            dtype="float32",
            is_quantizable=is_quantizable,
        ),
    )


def num_labels(facts: Facts) -> int:
    """Return the classes of a classifier; Transformers assumes two."""
    labels = facts.value("id2label")
    return len(labels) if labels else facts.integer("num_labels", default=2)
