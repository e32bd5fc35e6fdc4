"""Which modules of a model vLLM wraps for adapters, and in what.

Source: vLLM 0.33.0 `lora/model_manager.py` LoRAModelManager._create_lora_modules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

from planner.errors import Refused, UnknownArchitecture
from planner.experts import FusedMoE
from planner.layers import (
    Module,
    Part,
    ReplicatedLinear,
    VocabParallelEmbedding,
)
from planner.memory.lora_classes import WIDE, LoRAClass
from planner.memory.lora_experts import ExpertStacks
from planner.memory.lora_stacks import (
    HEAD_PADDING,
    ClassifierStacks,
    EmbeddingStacks,
    Linear,
    LinearStacks,
    LogitsStacks,
    LoRAConfig,
    PackedLinear,
    round_up,
)
from planner.model import LayerKind, ModelArchitecture
from planner.parallel import pad_vocabulary

OWN_NAMES = ("GPTNeoXForCausalLM", "GPTBigCodeForCausalLM")
"""Models of Transformers that call their word embeddings otherwise."""
_UNPACKED = ("c_attn",)
"""Attention of Transformers' models in one layer that no packing names."""
_HEAD = "lm_head"
_CLASSIFIERS = ("score", "classifier")
"""Heads that adapters may replace as a whole, whatever lora_target_modules says."""


def unknown(what: str) -> UnknownArchitecture:
    """Return the refusal of what is not modelled."""
    return UnknownArchitecture(
        f"enable_lora {what} is not modelled yet. Leave enable_lora out."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapping:
    """Which modules of a model vLLM wraps, and in what."""

    model: ModelArchitecture
    config: LoRAConfig
    kept: LoRAClass

    def of_layer(self, kind: LayerKind) -> tuple[Module, ...]:
        """Return a layer's modules with what adapters keep beside them."""
        prefix = f"{self.model.layer_prefix}.0."
        stacks = (self._stacks(module, prefix) for module in kind.modules)
        return (*kind.modules, *chain(*stacks))

    def of_encoder(self, modules: Iterable[Module]) -> tuple[Module, ...]:
        """Return what adapters keep beside the modules of an encoder.

        Raises:
            UnknownArchitecture: naming a module of which that is not known.
        """
        return tuple(
            chain(*(self._beside_any(module, module.name) for module in modules))
        )

    def of_stage(self, modules: tuple[Module, ...]) -> tuple[Module, ...]:
        """Return modules outside of the layers with what is kept beside them."""
        return tuple(chain(*(self._beside(module) for module in modules)))

    def head(self) -> tuple[Module, ...]:
        """Return what is kept for the head, whether or not it is tied."""
        model, config = self.model, self.config
        if not self._wraps(_HEAD) or model.is_pooling:
            return ()
        _check_vocabulary(model.vocab_size, config)
        stacks: list[Module] = [
            LogitsStacks(
                vocab_size=model.vocab_size,
                hidden_size=model.hidden_size,
                config=config,
            )
        ]
        is_tied = not any(m.part is Part.LM_HEAD for m in model.last_stage)
        if is_tied and self.kept.shares_head_module:
            stacks += [
                EmbeddingStacks(base=module, config=config)
                for module in model.first_stage
                if isinstance(module, VocabParallelEmbedding)
            ]
        return tuple(stacks)

    def _beside(self, module: Module) -> tuple[Module, ...]:
        if not isinstance(module, VocabParallelEmbedding):
            return (module, *self._stacks(module, ""))
        own = _widened(module, self.config) if self.kept.embedding_modules else module
        # Whatever vLLM calls them: embed_tokens, wte.
        names = [n for n in self.kept.embedding_modules if n != _HEAD]
        if self.model.architecture in OWN_NAMES:
            names = []
        is_wrapped = any(self._wraps(name) for name in names)
        if module.part is Part.LM_HEAD or not is_wrapped:
            return (own,)
        return own, EmbeddingStacks(base=module, config=self.config)

    def _wraps(self, name: str) -> bool:
        return name in self.kept.embedding_modules and self._is_asked(name)

    def _is_asked(self, *names: str) -> bool:
        """Whether lora_target_modules leaves a layer in, by one of its names.

        Source: vLLM 0.33.0 `lora/utils.py` is_in_target_modules.
        """
        targets = self.config.targets
        return targets is None or any(name in targets for name in names)

    def _stacks(self, module: Module, prefix: str) -> tuple[Module, ...]:
        """Return what is kept beside one module, if anything."""
        name = prefix + module.name
        if not name.startswith(self.kept.language_prefix or ""):
            return ()
        return self._beside_any(module, name)

    def _beside_any(self, module: Module, name: str) -> tuple[Module, ...]:
        if isinstance(module, FusedMoE):
            return self._experts(module)
        if isinstance(module, Linear | PackedLinear):
            return self._linear(module, name)
        if hasattr(module, "method"):
            raise unknown(f"with {name} of {self.model.architecture}")
        return ()

    def _experts(self, module: FusedMoE) -> tuple[Module, ...]:
        config = self.config
        if not config.release.since(*WIDE):
            raise unknown(f"with routed experts in vLLM {config.release.version}")
        if not self._is_asked(_last(module.name)):
            return ()
        is_2d = config.forces_2d_experts or config.shares_expert_factors
        is_3d = self.kept.has_3d_experts and not is_2d
        return (ExpertStacks(base=module, config=config, is_3d=is_3d),)

    def _linear(self, module: Linear | PackedLinear, name: str) -> tuple[Module, ...]:
        if isinstance(module, ReplicatedLinear) and name in _CLASSIFIERS:
            return (ClassifierStacks(base=module, config=self.config),)
        is_left_out = self.kept.is_non_gated and name.endswith("mixer.gate")
        shards = getattr(module, "shards", ())
        if is_left_out or not self._is_asked(_last(name), *shards):
            return ()
        packed = self._num_packed(module)
        return (LinearStacks(base=module, config=self.config, num_packed=packed),)

    def _num_packed(self, module: Linear | PackedLinear) -> int:
        if self.kept.is_of_transformers:
            is_left_out = _last(module.name) in _UNPACKED
            return 0 if is_left_out else len(getattr(module, "shards", ())) or 1
        return self.kept.packed.get(_last(module.name), 0)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _widened(
    module: VocabParallelEmbedding, config: LoRAConfig
) -> VocabParallelEmbedding:
    """Return embeddings or head with rows for the words that adapters add.

    Source: vLLM 0.11.2 `models/llama.py` LlamaModel (lora_vocab), LlamaForCausalLM
    (unpadded_vocab_size, padding_size).
    """
    extra = config.extra_vocabulary
    if not extra:
        return module
    if module.part is Part.LM_HEAD:
        rows = round_up(module.num_embeddings, HEAD_PADDING) + extra
    else:
        rows = pad_vocabulary(module.num_embeddings) + extra * config.max_loras
    return replace(module, num_embeddings=rows)


def _check_vocabulary(vocab_size: int, config: LoRAConfig) -> None:
    """Refuse a vocabulary too large for the kernels of the head.

    Source: vLLM 0.33.0 `lora/layers/logits_processor.py` create_lora_weights; other
    words and another limit until 0.16.0.
    """
    if config.release.since(0, 17):
        if vocab_size > 258048:  # noqa: PLR2004 - vLLM's number
            raise Refused("When using LoRA, vocab size must be <= 258048")
    elif vocab_size + config.extra_vocabulary > 257024:  # noqa: PLR2004 - as above
        raise Refused(
            "When using LoRA, vocab size must be 32000 >= vocab_size <= 257024"
        )
