"""EAGLE and EAGLE-3 heads: one or a few layers that read the target's.

They are built like Llama; an EAGLE-3 head also like DeepSeek, with latent attention and
without experts.

Word embeddings are the target's where the head has their shape; the LM head too, unless
the draft's vocabulary is only a part of the target's.

Source: vLLM 0.33.0 `models/llama_eagle.py`, `llama_eagle3.py`, `deepseek_eagle3.py`;
`transformers_utils/configs/eagle.py` EAGLEConfig, `configs/speculators/algos.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.errors import UnknownArchitecture
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.drafts.config import SpeculativeConfig
from planner.models.drafts.methods import check_modelled, runs
from planner.models.drafts.shared import (
    Target,
    notes_on_shared,
    raised_positions,
    shares_rope,
    target_ids,
)
from planner.models.families import deepseek_v2, llama
from planner.models.families.assembly import Label
from planner.models.families.decoder import embeddings, lm_head
from planner.models.families.facts import Facts
from planner.models.files import ModelFiles
from planner.models.layers import (
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    ReplicatedLinear,
)
from planner.models.quantization import quantised
from planner.values import frozen

_EAGLE = ("LlamaForCausalLM", "EagleLlamaForCausalLM")
_EAGLE3 = (
    *("LlamaForCausalLM", "Eagle3LlamaForCausalLM", "LlamaForCausalLMEagle3"),
    *("Eagle3Qwen2_5vlForCausalLM", "Eagle3Qwen3vlForCausalLM"),
)
_LATENT = ("Eagle3DeepseekV2ForCausalLM", "Eagle3DeepseekV3ForCausalLM")
_AUX_STATES = 3
_RUNS_EAGLE = runs("EAGLE heads", "0.18.0")
_RAISES_POSITIONS = Change(
    since=(0, 27),
    what=(
        "The rotary tables of EAGLE heads have as many positions as the target's "
        "max_model_len, if the head has fewer."
    ),
    source=(
        "vLLM 0.27.0 `config/speculative.py` "
        "_maybe_override_draft_max_position_embeddings"
    ),
)
_READS_STATES = (
    *("self_attn.fused_qkv_a_proj", "self_attn.kv_a_proj_with_mqa"),
    "self_attn.q_proj",
)
"""Projections of latent attention that read the hidden states."""


def read_eagle(
    requested: SpeculativeConfig,
    method: str,
    files: ModelFiles,
    target: Target,
    release: Release,
) -> tuple[ModelArchitecture, tuple[str, ...]]:
    """Return the draft and notes on what was assumed.

    Raises:
        UnknownArchitecture: for a draft that is built like neither.
    """
    check_modelled(_RUNS_EAGLE, f"method={method!r}", release)
    config = _plain(files.config)
    known = _EAGLE if method == "eagle" else (*_EAGLE3, *_LATENT)
    architecture = next(iter(config.get("architectures") or ("",)))
    if architecture not in known:
        raise UnknownArchitecture(
            f"speculative_config.model: a draft of architecture {architecture!r} is "
            f"not modelled for {method}; {', '.join(known)} are."
        )
    config = {**config, "max_position_embeddings": _positions(config, target, release)}
    facts = Facts(config, str(config.get("model_type") or "llama"))
    base = _base(facts, files.name, is_latent=architecture in _LATENT)
    head = _Head(facts=facts, method=method, base=base, target=target)
    draft = _assembled(head, has_rope=not shares_rope(config, target.files))
    return (
        quantised(draft, files, requested.quantization),
        _notes(head),
    )


def _base(facts: Facts, name: str, *, is_latent: bool) -> ModelArchitecture:
    """Return the model whose layers are changed for the head."""
    if not is_latent:
        label = Label(name=name, architecture="LlamaForCausalLM")
        return llama.read(facts, label, style=llama.LLAMA)
    config = {**facts.config, "n_routed_experts": None, "index_topk": None}
    label = Label(name=name, architecture="DeepseekV3ForCausalLM")
    return deepseek_v2.read_deepseek_text(Facts(config, facts.model_type), label)


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config as vLLM's own classes flatten it."""
    layer = config.get("transformer_layer_config")
    if not isinstance(layer, Mapping):
        return dict(config)
    names = (
        *("draft_vocab_size", "target_hidden_size", "norm_before_fc", "fc_norm"),
        "eagle_aux_hidden_state_layer_ids",
    )
    own = {name: config[name] for name in names if config.get(name) is not None}
    is_llama = str(layer.get("model_type") or "llama") == "llama"
    architecture = "Eagle3LlamaForCausalLM" if is_llama else "Eagle3Qwen3ForCausalLM"
    return {**layer, **own, "architectures": [architecture]}


def _positions(config: Mapping[str, Any], target: Target, release: Release) -> int:
    """Return the positions of the draft's rotary table."""
    if release.has(_RAISES_POSITIONS):
        return raised_positions(config, target)
    return Facts(config, "llama").integer("max_position_embeddings", default=8192)


@frozen
class _Head:
    facts: Facts
    method: str
    base: ModelArchitecture
    target: Target

    @property
    def hidden_size(self) -> int:
        return self.base.hidden_size

    @property
    def is_third(self) -> bool:
        return self.method == "eagle3"

    @property
    def draft_vocab_size(self) -> int:
        return self.facts.integer("draft_vocab_size", default=self.base.vocab_size)

    @property
    def has_embeddings(self) -> bool:
        """Whether the draft's word embeddings cannot be the target's."""
        target = self.target.model
        return (
            self.hidden_size != target.hidden_size
            or self.base.vocab_size != target.vocab_size
        )

    @property
    def has_head(self) -> bool:
        """Whether the draft's head cannot be the target's."""
        target = self.target.model
        return self.is_third and (
            self.draft_vocab_size != target.vocab_size
            or self.hidden_size != target.hidden_size
        )


def _assembled(head: _Head, *, has_rope: bool) -> ModelArchitecture:
    base, size = head.base, head.hidden_size
    modules: list[Module] = []
    for index, kind_index in enumerate(base.layers):
        kind = base.layer_kinds[kind_index]
        modules += [_in_layer(head, m, index) for m in kind.modules]
        if head.is_third:
            modules.append(_norm("hidden_norm", size))
    modules += _outside_layers(head)
    if head.has_head:
        modules.append(lm_head(head.draft_vocab_size, size))
    if head.is_third and head.draft_vocab_size != head.target.model.vocab_size:
        modules.append(target_ids(head.draft_vocab_size))
    words = embeddings(base.vocab_size, size)
    kinds = tuple(LayerKind(base.layer_kinds[kind].caches, ()) for kind in base.layers)
    return replace(
        base,
        first_stage=() if head.has_embeddings else (words,),
        last_stage=(*modules, *((words,) if head.has_embeddings else ())),
        every_stage=base.every_stage if has_rope else (),
        tied_embeddings=(),
        layer_kinds=kinds,
        layers=tuple(range(len(kinds))),
    )


def _in_layer(head: _Head, module: Module, index: int) -> Module:
    """Return a Llama layer's module, changed as the head needs it."""
    first = index == 0
    if first and head.is_third and isinstance(module, QKVParallelLinear):
        bias = head.facts.flag("attention_bias")
        return replace(module, input_size=2 * head.hidden_size, bias=bias)
    if first and head.is_third and module.name in _READS_STATES:
        latent: Any = module
        widened: Module = replace(latent, input_size=2 * head.hidden_size)
        return widened
    if first and not head.is_third and module.part is Part.NORMS:
        return _norm(module.name, head.hidden_size)  # no norm before its attention
    return module


def _outside_layers(head: _Head) -> list[Module]:
    """Return the projection of the target's hidden states, and the norms around it."""
    size = head.hidden_size
    if not head.is_third:
        return [_fc(2 * size, size)]
    found: list[Module] = [_norm("norm", size)]
    nested = head.facts.mapping("eagle_config")
    if nested.get("use_aux_hidden_state") is False:
        return found
    states = head.facts.optional_integer("num_aux_hidden_states")
    if states is None:
        listed = nested.get("eagle_aux_hidden_state_layer_ids")
        states = len(listed) if listed else _AUX_STATES
    each = head.facts.integer("target_hidden_size", default=size)
    if nested.get("norm_before_fc", head.facts.flag("norm_before_fc")):
        found.append(_norm("input_norm", states * each))
    if head.facts.flag("fc_norm"):
        found.append(Replicated("fc_norm", Part.NORMS, ((each,),) * states))
    return [*found, _fc(states * each, size)]


def _fc(inputs: int, outputs: int) -> ReplicatedLinear:
    return ReplicatedLinear("model.fc", Part.MLP, inputs, (outputs,))


def _norm(name: str, size: int) -> Replicated:
    return Replicated(name, Part.NORMS, ((size,),))


def _notes(head: _Head) -> tuple[str, ...]:
    own = ("word embeddings", head.has_embeddings), ("head", head.has_head)
    return notes_on_shared(*(words for words, is_own in own if not is_own))
