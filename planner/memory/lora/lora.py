"""The memory of enable_lora on a GPU: slots for the adapters beside each layer.

After loading the weights vLLM wraps every linear layer of the model (and, where its
class says so, the word embeddings and the head), and allocates the two factors of
`max_loras` adapters of rank `max_lora_rank` for each. "Model loading took" includes
them.

Source: vLLM 0.33.0 `lora/model_manager.py` LoRAModelManager._create_lora_modules,
`lora/layers/` create_lora_weights, `lora/punica_wrapper/`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.engine.dtypes import element_bytes
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings
from planner.errors import Refused, UnknownArchitecture
from planner.memory.lora.lora_stacks import (
    EmbeddingStacks,
    IndexBuffers,
    LoRAConfig,
)
from planner.memory.lora.wrapping import (
    LONG_KNOWN,
    MORE_KNOWN,
    OWN_NAMES,
    WRAPS_ALL_MODELS,
    WRAPS_MORE_MODELS,
    LoRAClass,
    Wrapping,
    lora_class,
    unknown,
)
from planner.models.architecture import ModelArchitecture

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
_OF_TRANSFORMERS = (
    *OWN_NAMES,
    *("GlmForCausalLM", "OlmoForCausalLM", "Olmo3ForCausalLM", "PhiForCausalLM"),
    "SeedOssForCausalLM",
    "SmolLM3ForCausalLM",
)
"""Transformers' models whose layers were compared with vLLM's own."""
_ENCODERS_TOO = ("WhisperForConditionalGeneration",)
"""Classes that do not mark their encoder, so that adapters change it like the rest."""
_QUANTIZATIONS = (None, "auto_awq", "auto_gptq", "compressed-tensors", "fp8")
"""Methods that keep the sizes that a layer declares, from which factors are made."""
_ENDS_WITH_FULL_STOP = Change(
    since=(0, 14),
    what="The refusal of a max_cpu_loras below max_loras ends with a full stop.",
)
_TAKES_RANK_1 = Change(
    since=(0, 11, 1),
    what=(
        "max_lora_rank may be 1, and ranks that are not listed are refused by a "
        "validation error."
    ),
    source="vLLM 0.11.0 `config/lora.py` (a tuple); 0.11.1 MaxLoRARanks (a Literal)",
)
_SPECIALIZES_GRAPHS = Change(
    since=(0, 11, 1),
    what=(
        "With the first model runner, batches without adapters have CUDA graphs of "
        "their own (cudagraph_specialize_lora)."
    ),
    source="vLLM 0.11.1 `config/compilation.py` cudagraph_specialize_lora",
)
_SPECIALIZES_GRAPHS_V2 = Change(
    since=(0, 24),
    what=(
        "With the second model runner, batches without adapters have CUDA graphs of "
        "their own."
    ),
    source="vLLM 0.24.0 `v1/worker/gpu/cudagraph_utils.py`",
)
_CAPTURES_BY_COUNT = Change(
    since=(0, 16),
    what=(
        "specialize_active_lora captures CUDA graphs for 1, 2, 4, ... adapters in a "
        "batch."
    ),
)
_NAMES_MODEL_WITHOUT_LORA = Change(
    since=(0, 33),
    what=(
        "The refusal of adapters for a class that does not support them names the "
        "model, and says to leave enable_lora out."
    ),
    source=(
        "vLLM 0.33.0 `config/lora.py` verify_with_model_config; 0.32.0 "
        "`v1/worker/lora_model_runner_mixin.py` load_lora_model"
    ),
)


def lora_config(
    settings: EngineSettings,
    release: Release,
    *,
    max_num_seqs: int,
    is_on_cpu: bool = False,
) -> LoRAConfig | None:
    """Return the requested adapters; None without enable_lora.

    `is_on_cpu`: whether vLLM runs on a CPU.

    Raises:
        Refused: in vLLM's words.
    """
    if not settings.enable_lora:
        return None
    rank = 16 if settings.max_lora_rank is None else settings.max_lora_rank
    loras = settings.max_loras or 1
    _check_rank(rank, release)
    max_on_host = settings.max_cpu_loras
    if max_on_host and max_on_host < loras:
        end = "." if release.has(_ENDS_WITH_FULL_STOP) else ""
        raise Refused(
            f"max_cpu_loras ({max_on_host}) must be >= max_loras ({loras}){end}"
        )
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
        reaches_towers=_reaches_towers(settings),
        max_num_seqs=max_num_seqs,
        is_on_cpu=is_on_cpu,
        release=release,
    )


def _reaches_towers(settings: EngineSettings) -> bool:
    """Whether adapters may change encoders as well.

    Source: vLLM 0.33.0 `lora/model_manager.py` _maybe_init_mm.
    """
    is_requested = bool(settings.enable_tower_connector_lora)
    return is_requested and not settings.language_model_only


def _check_targets(names: tuple[str, ...] | None) -> None:
    """Leave out targets that distinguish layers of one kind.

    Raises:
        UnknownArchitecture: for names of single layers.
    """
    whole = [name for name in names or () if "." in name]
    if whole:
        raise unknown(f"with lora_target_modules={whole[0]!r}, a single layer,")


def _check_rank(rank: int, release: Release) -> None:
    """Refuse a rank that vLLM does not list."""
    if not release.has(_TAKES_RANK_1):
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


def graph_cases(
    config: LoRAConfig | None, *, uses_v2_runner: bool, is_specialized: bool = True
) -> int:
    """Return how many CUDA graphs vLLM captures for each batch size.

    Two where batches with and without adapters have their own graphs; one where
    `is_specialized` is False (cudagraph_specialize_lora).
    """
    if config is None:
        return 1
    release = config.release
    if not release.has(
        _SPECIALIZES_GRAPHS_V2 if uses_v2_runner else _SPECIALIZES_GRAPHS
    ):
        return 1
    if not is_specialized:
        # The second runner captures graphs of batches without adapters anyway.
        return 2 if uses_v2_runner else 1
    most = config.max_loras + 1
    if not (config.has_graphs_by_count and release.has(_CAPTURES_BY_COUNT)):
        return 2
    # No adapter, then 1, 2, 4, ... and the largest number, which includes "none".
    powers = most.bit_length()
    return 1 + powers + (0 if most == 1 << (powers - 1) else 1)


def with_adapters(
    model: ModelArchitecture, config: LoRAConfig | None
) -> ModelArchitecture:
    """Return the model with the adapters' tensors beside each of its modules.

    Raises:
        UnknownArchitecture: naming enable_lora, where the tensors are not known.
        Refused: in vLLM's words.
    """
    if config is None:
        return model
    wrapping = wrapping_of(model, config)
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


def embedding_factor_bytes(
    model: ModelArchitecture, config: LoRAConfig, layout: ParallelLayout, dtype: str
) -> int:
    """Return the adapters' first factors of the word embeddings; 0 without any."""
    modules = wrapping_of(model, config).of_stage(model.first_stage)
    return sum(
        tensor.elements * element_bytes(tensor.dtype or dtype)
        for module in modules
        if isinstance(module, EmbeddingStacks)
        for tensor in module.tensors(layout)[:1]
    )


def wrapping_of(model: ModelArchitecture, config: LoRAConfig) -> Wrapping:
    """Return which of a model's modules are wrapped, and in which layers.

    Raises:
        UnknownArchitecture: naming enable_lora, where the tensors are not known.
        Refused: in vLLM's words.
    """
    return Wrapping(model=model, config=config, kept=_model_class(model, config))


def _model_class(model: ModelArchitecture, config: LoRAConfig) -> LoRAClass:
    """Return what vLLM's class lets adapters change.

    Raises:
        UnknownArchitecture: where that is not known.
        Refused: for a class without support for adapters.
    """
    release = config.release
    if not release.has(WRAPS_ALL_MODELS):
        _check_older(model, release)
    try:
        found = lora_class(model.architecture, release)
    except KeyError:
        raise unknown(f"with {model.architecture}") from None
    if found is None:
        if not release.has(_NAMES_MODEL_WITHOUT_LORA):
            raise Refused(f"{model.architecture} does not support LoRA yet.")
        raise Refused(
            f"LoRA is not supported for {model.architecture} ({model.name}). Supported "
            "models implement the `SupportsLoRA` interface. Run this model without "
            "`enable_lora`."
        )
    if found.is_of_transformers and model.architecture not in _OF_TRANSFORMERS:
        raise unknown(f"with {model.architecture}, which Transformers computes,")
    if model.is_multimodal:
        return _whole_class(model, found, release)
    return found


def _check_older(model: ModelArchitecture, release: Release) -> None:
    """Leave out models that were not analysed in older releases.

    Raises:
        UnknownArchitecture: naming the release from which on it is modelled.
    """
    more = MORE_KNOWN if release.has(WRAPS_MORE_MODELS) else ()
    known = (*LONG_KNOWN, *more)
    if (
        model.architecture not in known
        or model.is_pooling
        or model.quantization not in _QUANTIZATIONS
    ):
        raise UnknownArchitecture(
            f"enable_lora with {model.architecture} is not modelled before vLLM "
            f"{'.'.join(map(str, WRAPS_ALL_MODELS.since))} "
            f"(vllm_version={release.version})."
        )


def _whole_class(
    model: ModelArchitecture, found: LoRAClass, release: Release
) -> LoRAClass:
    """Return a multimodal class, completed from its language model's class.

    Raises:
        UnknownArchitecture: where that is not known, or encoders are changed too.
    """
    if model.architecture in _ENCODERS_TOO:
        return found
    if found.language_prefix is None:
        raise unknown(f"with the encoders of {model.architecture}")
    names = found.language_models or (model.language_architecture,)
    try:
        inner = [lora_class(name, release) for name in names if name is not None]
    except KeyError:
        raise unknown(f"with the language model of {model.architecture}") from None
    embeddings = {*found.embedding_modules}
    packed = dict(found.packed)
    for each in inner:
        if each is not None:
            embeddings |= {*each.embedding_modules}
            packed = {**each.packed, **packed} if not found.packed else packed
    return replace(found, embedding_modules=tuple(sorted(embeddings)), packed=packed)
