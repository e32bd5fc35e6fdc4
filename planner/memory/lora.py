"""What enable_lora keeps on a GPU: room for the adapters beside each layer.

vLLM wraps every linear layer of the model (and, where its class says so, the word
embeddings and the head) once the weights are loaded, and allocates the two factors of
`max_loras` adapters of rank `max_lora_rank` for each. That lies within "Model loading
took".

Source: vLLM 0.33.0 `lora/model_manager.py` LoRAModelManager._create_lora_modules,
`lora/layers/` create_lora_weights, `lora/punica_wrapper/`; releases differ as said
below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

from planner.engine import EngineSettings
from planner.errors import Refused, UnknownArchitecture
from planner.experts import FusedMoE
from planner.layers import Module, Part, ReplicatedLinear, VocabParallelEmbedding
from planner.memory.lora_classes import LONG_KNOWN, WIDE, LoRAClass, lora_class
from planner.memory.lora_experts import ExpertStacks
from planner.memory.lora_stacks import (
    HEAD_PADDING,
    ClassifierStacks,
    EmbeddingStacks,
    IndexBuffers,
    Linear,
    LinearStacks,
    LogitsStacks,
    LoRAConfig,
    PackedLinear,
    round_up,
)
from planner.model import LayerKind, ModelArchitecture
from planner.parallel import pad_vocabulary
from planner.releases import Release

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
_HEAD = "lm_head"
_OWN_NAMES = ("GPTNeoXForCausalLM",)
"""Models of Transformers that call their word embeddings otherwise."""
_OF_TRANSFORMERS = (
    *_OWN_NAMES,
    *("GlmForCausalLM", "OlmoForCausalLM", "Olmo3ForCausalLM", "PhiForCausalLM"),
    "SeedOssForCausalLM",
    "SmolLM3ForCausalLM",
)
"""Those whose layers were compared with vLLM's own."""
_CLASSIFIERS = ("score", "classifier")
"""Heads that adapters may replace as a whole, whatever lora_target_modules says."""
_QUANTIZATIONS = (None, "auto_awq", "auto_gptq", "compressed-tensors", "fp8")
"""Methods that leave the sizes a layer declares alone, by which factors are made."""


def lora_config(
    settings: EngineSettings,
    release: Release,
    *,
    max_num_seqs: int,
    is_on_cpu: bool = False,
) -> LoRAConfig | None:
    """Return the adapters asked for; None without.

    `is_on_cpu`: vLLM runs on a processor.

    Raises:
        Refused: in vLLM's words.
    """
    if not settings.enable_lora:
        return None
    rank = 16 if settings.max_lora_rank is None else settings.max_lora_rank
    loras = settings.max_loras or 1
    _check_rank(rank, release)
    on_host = settings.max_cpu_loras
    if on_host and on_host < loras:
        end = "." if release.since(0, 14) else ""
        raise Refused(f"max_cpu_loras ({on_host}) must be >= max_loras ({loras}){end}")
    _check_targets(settings.lora_target_modules)
    return LoRAConfig(
        max_loras=loras,
        max_lora_rank=rank,
        dtype=None if settings.lora_dtype in (None, "auto") else settings.lora_dtype,
        is_fully_sharded=bool(settings.fully_sharded_loras),
        targets=settings.lora_target_modules,
        forces_2d_experts=bool(settings.enable_mixed_moe_lora_format),
        shares_expert_factors=bool(settings.enable_moe_shared_loras),
        max_cls_labels=settings.max_lora_cls_labels,
        has_graphs_by_count=bool(settings.specialize_active_lora),
        max_num_seqs=max_num_seqs,
        is_on_cpu=is_on_cpu,
        release=release,
    )


def _check_targets(names: tuple[str, ...] | None) -> None:
    """Leave out what tells layers of one kind apart.

    Raises:
        UnknownArchitecture: for names of single layers.
    """
    whole = [name for name in names or () if "." in name]
    if whole:
        raise _unknown(f"with lora_target_modules={whole[0]!r}, a single layer,")


def _check_rank(rank: int, release: Release) -> None:
    """Refuse a rank that vLLM does not list.

    Source: vLLM 0.11.0 `config/lora.py` (a tuple); 0.11.1 MaxLoRARanks (a Literal).
    """
    if not release.since(0, 11, 1):
        if rank not in _RANKS[1:]:
            raise Refused(f"max_lora_rank ({rank}) must be one of {_RANKS[1:]}.")
        return
    if rank not in _RANKS:
        *others, last = map(str, _RANKS)
        raise Refused(
            "1 validation error for LoRAConfig\nmax_lora_rank\n  Input should be "
            f"{', '.join(others)} or {last} [type=literal_error, input_value={rank}, "
            "input_type=int]"
        )


def graph_cases(config: LoRAConfig | None, *, uses_v2_runner: bool) -> int:
    """Return how many CUDA graphs vLLM captures for each size of a batch.

    Two where it keeps one for batches with adapters and one for those without.

    Source: vLLM 0.11.1 `config/compilation.py` cudagraph_specialize_lora; the second
    model runner heeds it from 0.24.0 (`v1/worker/gpu/cudagraph_utils.py`).
    """
    if config is None:
        return 1
    release = config.release
    if not release.since(*((0, 24, 0) if uses_v2_runner else (0, 11, 1))):
        return 1
    most = config.max_loras + 1
    if not (config.has_graphs_by_count and release.since(0, 16)):
        return 2
    # None, then 1, 2, 4, ... and as many as there may be, requests without one too.
    powers = most.bit_length()
    return 1 + powers + (0 if most == 1 << (powers - 1) else 1)


def _unknown(what: str) -> UnknownArchitecture:
    return UnknownArchitecture(
        f"enable_lora {what} is not modelled yet. Leave enable_lora out."
    )


def with_adapters(
    model: ModelArchitecture, config: LoRAConfig | None
) -> ModelArchitecture:
    """Return the model with what adapters keep beside each of its modules.

    Raises:
        UnknownArchitecture: naming enable_lora, where it is not certain what is kept.
        Refused: in vLLM's words.
    """
    if config is None:
        return model
    wrapping = _Wrapping(model=model, config=config, kept=_model_class(model, config))
    kinds = tuple(
        replace(kind, modules=wrapping.of_layer(kind)) for kind in model.layer_kinds
    )
    buffers = IndexBuffers(config=config)
    return replace(
        model,
        layer_kinds=kinds,
        first_stage=wrapping.of_stage(model.first_stage),
        tied_embeddings=wrapping.of_stage(model.tied_embeddings),
        last_stage=(*wrapping.of_stage(model.last_stage), *wrapping.head()),
        every_stage=(*wrapping.of_stage(model.every_stage), buffers),
    )


def _model_class(model: ModelArchitecture, config: LoRAConfig) -> LoRAClass:
    """Return what vLLM's class lets adapters change.

    Raises:
        UnknownArchitecture: where that is not certain.
        Refused: for a class that takes no adapters.

    Source: vLLM 0.33.0 `config/lora.py` verify_with_model_config; 0.32.0
    `v1/worker/lora_model_runner_mixin.py` load_lora_model.
    """
    release = config.release
    if not release.since(*WIDE):
        _check_old(model, release)
    try:
        found = lora_class(model.architecture, release)
    except KeyError:
        raise _unknown(f"with {model.architecture}") from None
    if found is None:
        if not release.since(0, 33):
            raise Refused(f"{model.architecture} does not support LoRA yet.")
        raise Refused(
            f"LoRA is not supported for {model.architecture} ({model.name}). Supported "
            "models implement the `SupportsLoRA` interface. Run this model without "
            "`enable_lora`."
        )
    if found.is_of_transformers and model.architecture not in _OF_TRANSFORMERS:
        raise _unknown(f"with {model.architecture}, which Transformers computes,")
    if model.is_multimodal:
        return _whole_class(model, found, release)
    return found


def _check_old(model: ModelArchitecture, release: Release) -> None:
    """Leave out what was not read in older releases.

    Raises:
        UnknownArchitecture: naming the release from which on it is modelled.
    """
    if (
        model.architecture not in LONG_KNOWN
        or model.is_pooling
        or model.quantization not in _QUANTIZATIONS
    ):
        raise UnknownArchitecture(
            f"enable_lora with {model.architecture} is not modelled before vLLM "
            f"{'.'.join(map(str, WIDE))} (vllm_version={release.version})."
        )


def _whole_class(
    model: ModelArchitecture, found: LoRAClass, release: Release
) -> LoRAClass:
    """Return a multimodal class with what its language model's class adds.

    Raises:
        UnknownArchitecture: where that is not certain, or encoders are changed too.
    """
    if found.language_prefix is None:
        raise _unknown(f"with the encoders of {model.architecture}")
    names = found.language_models or (model.language_architecture,)
    try:
        inner = [lora_class(name, release) for name in names if name is not None]
    except KeyError:
        raise _unknown(f"with the language model of {model.architecture}") from None
    embeddings = {*found.embedding_modules}
    packed = dict(found.packed)
    for each in inner:
        if each is not None:
            embeddings |= {*each.embedding_modules}
            packed = {**each.packed, **packed} if not found.packed else packed
    return replace(found, embedding_modules=tuple(sorted(embeddings)), packed=packed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wrapping:
    """Which modules of a model vLLM wraps, and in what."""

    model: ModelArchitecture
    config: LoRAConfig
    kept: LoRAClass

    def of_layer(self, kind: LayerKind) -> tuple[Module, ...]:
        """Return a layer's modules with what adapters keep beside them."""
        prefix = f"{self.model.layer_prefix}.0."
        stacks = (self._stacks(module, prefix) for module in kind.modules)
        return (*kind.modules, *chain(*stacks))

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
        if self.model.architecture in _OWN_NAMES:
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
        if isinstance(module, FusedMoE):
            return self._experts(module)
        if isinstance(module, Linear | PackedLinear):
            return self._linear(module, name)
        if hasattr(module, "method"):
            raise _unknown(f"with {name} of {self.model.architecture}")
        return ()

    def _experts(self, module: FusedMoE) -> tuple[Module, ...]:
        config = self.config
        if not config.release.since(*WIDE):
            raise _unknown(f"with routed experts in vLLM {config.release.version}")
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
            return len(getattr(module, "shards", ())) or 1
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
