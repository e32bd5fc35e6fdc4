"""Which modules of a model vLLM wraps for adapters, and what it allocates for experts.

What each model class lets adapters change, by release, is in `data/lora_classes.json`,
which `tools/lora_classes.py` extracts from the sources of the releases.

Source: vLLM 0.33.0 `lora/model_manager.py` LoRAModelManager._create_lora_modules;
`lora/layers/fused_moe.py` FusedMoEWithLoRA, FusedMoE3DWithLoRA.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from itertools import chain
from typing import Any

from planner.data import DATA
from planner.engine.layout import ParallelLayout, divide, pad_vocabulary
from planner.engine.releases import Release
from planner.engine.releases.change import Change, recorded
from planner.errors import Refused, UnknownArchitecture
from planner.memory.lora.lora_stacks import (
    HEAD_PADDING,
    ClassifierStacks,
    EmbeddingStacks,
    Linear,
    LinearStacks,
    LogitsStacks,
    LoRAConfig,
    PackedLinear,
    Stacks,
    round_up,
)
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.experts import FusedMoE
from planner.models.layers import Module, Part, ReplicatedLinear, VocabParallelEmbedding
from planner.models.tensors import ExpertsKernel, Tensor, Tensors
from planner.values import frozen

WRAPS_ALL_MODELS = Change(
    since=(0, 22, 0),
    what=(
        "vLLM gives models of every kind slots for adapters (enable_lora) as from "
        "0.22.0, the oldest release whose way is modelled for all of them."
    ),
)
LONG_KNOWN = (
    *("GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM"),
    *("GraniteForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"),
    *("Phi3ForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"),
)
WRAPS_MORE_MODELS = Change(
    since=(0, 12),
    what=(
        "vLLM gives more dense models, such as Cohere's and Qwen2-VL, slots for "
        "adapters (enable_lora) as from 0.12.0, the oldest release whose way is "
        "modelled for them."
    ),
)
"""As from then, adapters add no words to the vocabulary."""
MORE_KNOWN = (
    *("ApertusForCausalLM", "CohereForCausalLM", "Cohere2ForCausalLM"),
    *("ExaoneForCausalLM", "Exaone4ForCausalLM", "Glm4ForCausalLM"),
    *("InternLM2ForCausalLM", "NemotronForCausalLM", "Olmo2ForCausalLM"),
    *("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
    *("Qwen3VLForConditionalGeneration", "SeedOssForCausalLM", "StableLmForCausalLM"),
    "Starcoder2ForCausalLM",
)
_EXPERTS_KERNELS = (ExpertsKernel.TRITON, ExpertsKernel.MARLIN)
"""Kernels that support adapters."""
_SHARDED_WITH_EXPERT_PARALLEL = (
    "AssertionError: Fused MoE LoRA does not support enable_expert_parallel=True "
    "together with fully_sharded_loras=True. Disable one of them."
)
OWN_NAMES = ("GPTNeoXForCausalLM", "GPTBigCodeForCausalLM")
"""Transformers models whose word embeddings have another name."""
_UNPACKED = ("c_attn",)
"""Fused attention layers of Transformers models that are in no packed mapping."""
_HEAD = "lm_head"
_CLASSIFIERS = ("score", "classifier")
"""Heads that adapters may replace, whatever lora_target_modules says."""
_TAKES_LARGER_VOCABULARIES = Change(
    since=(0, 17),
    what=(
        "With enable_lora, a vocabulary may have 258,048 words; before, 257,024 with "
        "those that an adapter adds."
    ),
    source=(
        "vLLM 0.16.0 and 0.33.0 `lora/layers/logits_processor.py` create_lora_weights"
    ),
)


@frozen
class LoRAClass:
    """A model class, as far as adapters may change it.

    Source: vLLM 0.33.0 `models/interfaces.py` SupportsLoRA; `models/module_mapping.py`
    MultiModelKeys.
    """

    embedding_modules: tuple[str, ...] = ()
    """Names of the word embeddings and the head that adapters may change."""
    packed: Mapping[str, int]
    """Number of adapter layers packed into one layer of the class, by its name."""
    has_3d_experts: bool = False
    """Whether adapters hold gate and up projections of all experts as one tensor."""
    is_non_gated: bool = False
    """Whether experts have no gate projection."""
    language_prefix: str | None = None
    """Prefix of the language model's layers, the only ones that adapters change beside
    encoders; None: they change every layer."""
    tower_prefixes: tuple[str, ...] = ()
    """Prefixes of encoders that adapters may change as well."""
    connector_prefixes: tuple[str, ...] = ()
    """Prefixes of the connectors between encoders and language model."""
    shares_head_module: bool = False
    """Whether a tied head is the embeddings' module, which is then wrapped twice."""
    is_of_transformers: bool = False
    """Whether it is a Transformers model whose layers vLLM replaces."""
    language_models: tuple[str, ...] = ()
    """Architectures of the inner language model; empty: the config names it."""


@lru_cache(maxsize=256)
def lora_class(architecture: str, release: Release) -> LoRAClass | None:
    """Return what a class lets adapters change; None where it does not support them.

    Raises:
        KeyError: for an unknown class.
    """
    found: Mapping[str, Any] | None = None
    for facts in _classes()[architecture]:
        if release.has(_change(architecture, facts["since"])):
            found = facts
    if found is None or not found.get("packed_known", True):
        raise KeyError(architecture)
    if not found["supports_lora"]:
        return None
    return LoRAClass(
        embedding_modules=tuple(found.get("embeddings", ())),
        packed=found.get("packed", {}),
        has_3d_experts=found.get("has_3d_experts", False),
        is_non_gated=found.get("is_non_gated", False),
        language_prefix=found.get("language"),
        tower_prefixes=tuple(found.get("towers", ())),
        connector_prefixes=tuple(found.get("connectors", ())),
        shares_head_module=found.get("shares_head", False),
        is_of_transformers=found.get("is_of_transformers", False),
        language_models=tuple(found.get("language_models", ())),
    )


def _change(architecture: str, since: str) -> Change:
    return recorded(
        f"Adapters (enable_lora) may change what the class {architecture} names for "
        f"them as from {since}.",
        since=since,
        source="planner/data/lora_classes.json",
    )


@cache
def _classes() -> dict[str, list[dict[str, Any]]]:
    path = DATA / "lora_classes.json"
    classes: dict[str, list[dict[str, Any]]] = json.loads(
        path.read_text(encoding="utf-8")
    )["classes"]
    return classes


@frozen
class ExpertStacks(Stacks):
    """Both factors of each adapter for every expert on a rank, and flags of use.

    Gate and up projections have a pair each, unless the model's adapters hold them as
    one tensor ("3D": stacked over experts).
    """

    base: FusedMoE
    is_3d: bool = False

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the factors of w13 and w2, then the flags of the adapters.

        Raises:
            Refused: for fully sharded adapters under expert parallelism.
            UnknownArchitecture: for kernels that are not modelled with adapters.
        """
        config = self.config
        self._check(layout)
        served = self.base.served(layout)
        if served.kernel not in _EXPERTS_KERNELS:
            raise UnknownArchitecture(
                f"enable_lora with experts that {served.kernel} computes is not "
                "modelled yet. Leave enable_lora out."
            )
        experts = layout.local_num_experts(self.base.num_experts)
        shared = 1 if config.shares_expert_factors else experts
        on_rank = self.base.on_rank(layout)
        hidden = on_rank.hidden_size
        columns = on_rank.intermediate_size_per_partition
        if served.is_declared:
            hidden, columns = served.hidden_size, served.intermediate_size
        rank, rank_rows, outputs = config.max_lora_rank, config.max_lora_rank, hidden
        if config.is_fully_sharded:
            ranks = layout.experts_tensor_parallel_size
            rank_rows, outputs = divide(rank, ranks), divide(hidden, ranks)
        slices = 1 if self.is_3d or not self.base.is_gated else 2
        rows = 2 * columns if self.is_3d else columns
        sizes = (
            *(shared * rank_rows * hidden,) * slices,
            experts * rank * columns,
            *(experts * rows * rank,) * slices,
            shared * outputs * rank,
        )
        return (
            *(Tensor(config.max_loras * size, config.dtype) for size in sizes),
            Tensor(config.max_loras + 1, "int32"),
        )

    def _check(self, layout: ParallelLayout) -> None:
        shares = layout.enable_expert_parallel and layout.expert_ranks > 1
        if not shares:
            return
        if self.config.is_fully_sharded:
            raise Refused(_SHARDED_WITH_EXPERT_PARALLEL)
        if layout.tensor_parallel_size > 1 and layout.data_parallel_size > 1:
            # vLLM stops with a bare assertion here.
            raise Refused(
                "AssertionError: not moe_config.moe_parallel_config."
                "is_sequence_parallel (enable_lora with enable_expert_parallel, "
                "tensor_parallel_size and data_parallel_size)"
            )


def unknown(what: str) -> UnknownArchitecture:
    """Return the refusal of a case that is not modelled."""
    return UnknownArchitecture(
        f"enable_lora {what} is not modelled yet. Leave enable_lora out."
    )


@frozen
class Wrapping:
    """Which modules of a model vLLM wraps, and in which layers."""

    model: ModelArchitecture
    config: LoRAConfig
    kept: LoRAClass

    def of_layer(self, kind: LayerKind) -> tuple[Module, ...]:
        """Return a layer's modules with the adapters' tensors beside them."""
        prefix = f"{self.model.layer_prefix}.0."
        stacks = (self._stacks(module, prefix) for module in kind.modules)
        return (*kind.modules, *chain(*stacks))

    def of_encoder(self, modules: Iterable[Module]) -> tuple[Module, ...]:
        """Return the adapters' tensors for the modules of an encoder.

        Raises:
            UnknownArchitecture: naming a module whose tensors are not known.
        """
        return tuple(
            chain(*(self._any_stacks(module, module.name) for module in modules))
        )

    def of_stage(self, modules: tuple[Module, ...]) -> tuple[Module, ...]:
        """Return modules outside the layers with the adapters' tensors beside them."""
        return tuple(chain(*(self._with_stacks(module) for module in modules)))

    def head(self) -> tuple[Module, ...]:
        """Return the adapters' tensors for the head, whether or not it is tied."""
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

    def _with_stacks(self, module: Module) -> tuple[Module, ...]:
        if not isinstance(module, VocabParallelEmbedding):
            return (module, *self._stacks(module, ""))
        own = _widened(module, self.config) if self.kept.embedding_modules else module
        # Any name that vLLM uses for them: embed_tokens, wte.
        names = [n for n in self.kept.embedding_modules if n != _HEAD]
        if self.model.architecture in OWN_NAMES:
            names = []
        is_wrapped = any(self._wraps(name) for name in names)
        if module.part is Part.LM_HEAD or not is_wrapped:
            return (own,)
        return own, EmbeddingStacks(base=module, config=self.config)

    def _wraps(self, name: str) -> bool:
        return name in self.kept.embedding_modules and self._is_target(name)

    def _is_target(self, *names: str) -> bool:
        """Whether lora_target_modules includes a layer, by one of its names.

        Source: vLLM 0.33.0 `lora/utils.py` is_in_target_modules.
        """
        targets = self.config.targets
        return targets is None or any(name in targets for name in names)

    def _stacks(self, module: Module, prefix: str) -> tuple[Module, ...]:
        """Return the adapters' tensors for one module, if any."""
        name = prefix + module.name
        if not name.startswith(self.kept.language_prefix or ""):
            return ()
        return self._any_stacks(module, name)

    def _any_stacks(self, module: Module, name: str) -> tuple[Module, ...]:
        if isinstance(module, FusedMoE):
            return self._experts(module)
        if isinstance(module, Linear | PackedLinear):
            return self._linear(module, name)
        if hasattr(module, "method"):
            raise unknown(f"with {name} of {self.model.architecture}")
        return ()

    def _experts(self, module: FusedMoE) -> tuple[Module, ...]:
        config = self.config
        if not config.release.has(WRAPS_ALL_MODELS):
            raise unknown(f"with routed experts in vLLM {config.release.version}")
        if not self._is_target(_last(module.name)):
            return ()
        is_2d = config.forces_2d_experts or config.shares_expert_factors
        is_3d = self.kept.has_3d_experts and not is_2d
        return (ExpertStacks(base=module, config=config, is_3d=is_3d),)

    def _linear(self, module: Linear | PackedLinear, name: str) -> tuple[Module, ...]:
        if isinstance(module, ReplicatedLinear) and name in _CLASSIFIERS:
            return (ClassifierStacks(base=module, config=self.config),)
        is_left_out = self.kept.is_non_gated and name.endswith("mixer.gate")
        shards = getattr(module, "shards", ())
        if is_left_out or not self._is_target(_last(name), *shards):
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
    """Return embeddings or head with the rows for words that adapters add.

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
    """Refuse a vocabulary too large for the kernels of the head."""
    if config.release.has(_TAKES_LARGER_VOCABULARIES):
        if vocab_size > 258048:  # noqa: PLR2004 - vLLM's number
            raise Refused("When using LoRA, vocab size must be <= 258048")
    elif vocab_size + config.extra_vocabulary > 257024:  # noqa: PLR2004 - as above
        raise Refused(
            "When using LoRA, vocab size must be 32000 >= vocab_size <= 257024"
        )
