"""Models of towers beside a language model, each as a row of what is its own.

A reader of such a model reads its language model as a model of text, builds the
towers, and puts both together here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.caches import AttentionLayer, CacheLayer
from planner.models.families.assembly import Label, Reader, float16_refusal, with_caches
from planner.models.families.facts import Facts
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import ALL_LAYERS, Depth, siglip_vision
from planner.models.layers import Module, prefixed
from planner.values import frozen

MODEL_RENAMES = (
    ("lm_head.", "language_model.lm_head."),
    ("model.", "language_model.model."),
)
"""Names of a language model's own checkpoint, within a whole."""
_DTYPE_KEYS = ("dtype", "torch_dtype")


class Tie(Enum):
    """Whose tie_word_embeddings counts for a language model within a model."""

    OUTER = "the outer config's, where its class has it"
    EITHER = "the outer config's, or an inner one that is true"
    INNER = "the inner config's"


def nested(facts: Facts, name: str, model_type: str | None = None) -> Facts:
    """Return a config within the config, with its own class's defaults.

    Args:
        facts: the outer config.
        name: its field, such as "text_config".
        model_type: of the inner config where it does not say.

    Raises:
        UnknownArchitecture: when there is none.
    """
    inner: Any = facts.value(name)
    if not isinstance(inner, Mapping):
        raise facts.unsupported(name, "a nested config is needed.")
    return Facts(inner, str(inner.get("model_type") or model_type or ""))


def sub_config(facts: Facts, name: str, model_type: str) -> Facts:
    """Return a config within the config as the class of `model_type` reads it.

    Unlike `nested`, the class is known from the outer config, whatever model type the
    inner one claims (old checkpoints repeat the outer one), and where there is no inner
    config its class's defaults are used.
    """
    inner = facts.mapping(name)
    return Facts(inner, model_type)


def text_facts(
    facts: Facts,
    model_type: str,
    *,
    name: str = "text_config",
    flat_keys: Iterable[str] = (),
    tie: Tie = Tie.OUTER,
) -> Facts:
    """Return the language model's config as Transformers and vLLM pass it on.

    Args:
        facts: the outer config.
        model_type: of the class that reads the inner config.
        name: field of the inner config.
        flat_keys: fields that belong to the inner config and are in the outer one
            when there is no inner config.
        tie: whose tie_word_embeddings counts: vLLM passes the outer one on unless its
            class builds the language model from the inner config itself; some of
            Transformers' classes take over an inner one first.

    Source: vLLM 0.33.0 `config/vllm.py` with_hf_config (tie_word_embeddings),
    `transformers_utils/model_arch_config_convertor.py` get_torch_dtype; Transformers'
    configuration classes of composite models.
    """
    given = facts.config.get(name)
    if isinstance(given, Mapping):
        inner = dict(given)
    else:
        inner = {key: facts.config[key] for key in flat_keys if key in facts.config}
    tied = facts.value("tie_word_embeddings")
    if tied is not None and tie is not Tie.INNER:
        by_class = Facts(inner, model_type).flag("tie_word_embeddings")
        was_tied = tie is Tie.EITHER and by_class
        inner["tie_word_embeddings"] = bool(tied or was_tied)
    dtype = model_dtype(facts, inner)
    return Facts({**inner, "dtype": dtype} if dtype else inner, model_type)


def named(text: Facts, architecture: str, model_type: str | None = None) -> Facts:
    """Return an inner config as vLLM builds it, whatever it calls itself."""
    given = {**text.config, "architectures": [architecture]}
    return Facts(given, text.model_type if model_type is None else model_type)


def text_of(facts: Facts, name: str = "text_config") -> Facts:
    """Return the language model's config by the model type that it gives, or Llama."""
    return text_facts(facts, inner_type(facts, "llama", name), name=name)


def inner_type(facts: Facts, default: str, name: str = "text_config") -> str:
    """Return the model type of the inner config, as its own class would."""
    return str(facts.mapping(name).get("model_type") or default)


CAUSAL_LM_OF = {
    "cohere2": "Cohere2ForCausalLM",
    "cohere2_moe": "Cohere2MoeForCausalLM",
    "exaone4": "Exaone4ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "granite": "GraniteForCausalLM",
    "granitemoe": "GraniteMoeForCausalLM",
    "granitemoehybrid": "GraniteMoeHybridForCausalLM",
    "hyperclovax": "HyperCLOVAXForCausalLM",
    "lfm2": "Lfm2ForCausalLM",
    "lfm2_moe": "Lfm2MoeForCausalLM",
    "llama": "LlamaForCausalLM",
    "ministral3": "Ministral3ForCausalLM",
    "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "nemotron_h": "NemotronHForCausalLM",
    "opt": "OPTForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "step3p5": "Step3p5ForCausalLM",
}
"""Transformers' class for text of each model type, or the one that models bring."""


def read_language_model(text: Facts, label: Label) -> ModelArchitecture:
    """Return the language model that the inner config names by its architecture.

    Where it names none, Transformers' class for its model type is used.

    Raises:
        UnknownArchitecture: naming the architecture that was not understood.

    Source: vLLM 0.33.0 `models/utils.py` init_vllm_registered_model.
    """
    names = text.value("architectures") or [CAUSAL_LM_OF.get(text.model_type)]
    if names[0] not in label.readers:
        raise text.unsupported("architectures", "this language model is not.")
    return read_as(text, label, names[0])


def read_as(text: Facts, label: Label, architecture: str) -> ModelArchitecture:
    """Return the language model as that of an architecture is read."""
    return label.readers[architecture](text, label.of(architecture))


def model_dtype(facts: Facts, text_config: Mapping[str, Any]) -> str | None:
    """Return the dtype of the published weights: the first config that names one."""
    for config in (facts.config, text_config, facts.mapping("vision_config")):
        for key in _DTYPE_KEYS:
            if config.get(key) is not None:
                return str(config[key])
    return None


def with_towers(
    model: ModelArchitecture,
    towers: tuple[Tower, ...],
    *,
    layer_prefix: str,
    prefix_renames: tuple[tuple[str, str], ...] = (),
    head_prefix: str = "",
) -> ModelArchitecture:
    """Return the language model with its towers, under the names of the whole.

    Args:
        model: the language model, as its own reader gives it.
        towers: the encoders with their projectors.
        layer_prefix: vLLM's name of the decoder layers within the whole model.
        prefix_renames: beginnings of names in the checkpoint and in vLLM.
        head_prefix: put before the names of embeddings, final norm and head.
    """
    return replace(
        model,
        towers=towers,
        layer_prefix=layer_prefix,
        prefix_renames=prefix_renames,
        first_stage=prefixed(model.first_stage, head_prefix),
        last_stage=prefixed(model.last_stage, head_prefix),
        every_stage=prefixed(model.every_stage, head_prefix),
        tied_embeddings=prefixed(model.tied_embeddings, head_prefix),
    )


def with_mm_prefix(model: ModelArchitecture) -> ModelArchitecture:
    """Return the language model with images that attend in both directions."""

    def marked(cache: CacheLayer) -> CacheLayer:
        if not isinstance(cache, AttentionLayer):
            return cache
        return replace(cache, is_mm_prefix=True)

    return with_caches(model, marked)


def composed(
    facts: Facts,
    label: Label,
    model: ModelArchitecture,
    *towers: Tower,
    prefix: str = "language_model.",
    renames: tuple[tuple[str, str], ...] = (),
) -> ModelArchitecture:
    """Return the whole of a language model and its towers, whatever it is called."""
    whole = with_towers(
        model,
        towers,
        layer_prefix=prefix + model.layer_prefix,
        prefix_renames=renames,
        head_prefix=prefix,
    )
    return known_as(whole, facts, label)


def quant_method(facts: Facts) -> str:
    """Return the checkpoint's quantisation method, empty where it has none."""
    inner = facts.mapping("text_config").get("quantization_config")
    own = facts.mapping("quantization_config") or (inner or {})
    return str(own.get("quant_method") or "")


def known_as(model: ModelArchitecture, facts: Facts, label: Label) -> ModelArchitecture:
    """Return the model under the name and type of the outer config.

    vLLM checks the architecture and float16 by that config, heads and lengths by the
    language model's.
    """
    return replace(
        model,
        architecture=label.architecture,
        language_architecture=model.architecture,
        model_type=facts.model_type,
        float16_refusal=float16_refusal(facts.model_type),
    )


Towers: TypeAlias = Callable[[Facts, int], Tower | Iterable[Tower | Module]]
"""Returns towers, or the modules of one, by the outer config and the words' width."""


@frozen(kw_only=False)
class Text:
    """Where a config keeps its language model, and what class reads that."""

    model_type: str = "llama"
    """Of the inner config; with no architecture, where it does not say."""
    architecture: str | None = None
    """vLLM's class, if it is always this one."""
    name: str = "text_config"
    """Empty: the outer config has the fields of both."""
    other_name: str = ""
    """Used where it is there."""
    tie: Tie = Tie.OUTER
    flat_keys: Iterable[str] = ()

    def facts(self, facts: Facts) -> Facts:
        """Return the language model's config."""
        if not self.name:
            return Facts(facts.config, self.model_type or facts.model_type)
        is_other = self.other_name and facts.mapping(self.other_name)
        name = self.other_name if is_other else self.name
        kind = self.model_type
        if self.architecture is None:
            kind = inner_type(facts, kind, name)
        return text_facts(
            facts, kind, name=name, flat_keys=self.flat_keys, tie=self.tie
        )

    def __call__(self, facts: Facts, label: Label) -> ModelArchitecture:
        """Return the language model."""
        text = self.facts(facts)
        if self.architecture is not None:
            text = named(text, self.architecture)
        return read_language_model(text, label)


@frozen(kw_only=False)
class Composite:
    """A reader of a language model and a tower beside it."""

    tower: Towers
    text: Reader = Text()
    modalities: tuple[str, ...] = IMAGE
    """Of a tower that is given by its modules."""
    prefix: str = "language_model."
    renames: tuple[tuple[str, str], ...] = ()
    beside: Callable[[Facts, int], Iterable[Module]] | None = None
    """Modules that are there on every stage, also where the tower is not."""
    has_mm_prefix: bool = False
    supports_pp: bool = True

    def __call__(self, facts: Facts, label: Label) -> ModelArchitecture:
        """Return the model that a config.json describes."""
        model = self.text(facts, label)
        size = model.hidden_size
        if self.has_mm_prefix:
            model = with_mm_prefix(model)
        towers = self._towers(self.tower(facts, size))
        whole = composed(
            facts, label, model, *towers, prefix=self.prefix, renames=self.renames
        )
        beside = self.beside(facts, size) if self.beside else ()
        return replace(
            whole,
            every_stage=(*whole.every_stage, *beside),
            supports_pp=whole.supports_pp and self.supports_pp,
        )

    def _towers(self, made: Tower | Iterable[Tower | Module]) -> tuple[Tower, ...]:
        if isinstance(made, Tower):
            return (made,)
        parts = tuple(made)
        towers = tuple(part for part in parts if isinstance(part, Tower))
        modules = tuple(part for part in parts if not isinstance(part, Tower))
        return towers or (Tower(self.modalities, modules),)


def siglip_of(
    facts: Facts, name: str, depth: Depth = ALL_LAYERS
) -> tuple[Facts, tuple[Module, ...]]:
    """Return SigLIP's config within a config, and its layers."""
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    method = quant_method(facts)
    return vision, siglip_vision(vision, name, depth, quant_method=method)
