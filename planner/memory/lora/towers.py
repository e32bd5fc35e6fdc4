"""Adapters beside the encoders, and the adapters in CPU memory.

With enable_tower_connector_lora (and for Whisper) vLLM also wraps the linear layers of
the encoders and of the connectors to the language model, where the class supports it;
index buffers for the rows of each are allocated with them. The adapters in CPU memory
are those from which the slots on the GPU are filled.

Source: vLLM 0.33.0 `lora/model_manager.py` LoRAModelManager._maybe_init_mm,
_get_punica_wrapper; get_mm_lora_token_counts of each class (before 0.28.0
get_num_mm_encoder_tokens and get_num_mm_connector_tokens).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from planner.engine.dtypes import element_bytes
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings
from planner.errors import Refused, UnknownArchitecture
from planner.memory.account import Basis, HostLine
from planner.memory.host.tables import pinned_bytes
from planner.memory.lora.lora import lora_config, with_adapters, wrapping_of
from planner.memory.lora.lora_stacks import IndexBuffers, LoRAConfig
from planner.memory.media.towers import built_towers
from planner.models.architecture import ModelArchitecture, Tower
from planner.models.layers import Module, Part
from planner.units import format_size
from planner.values import frozen

BuiltTower = tuple[Tower, ParallelLayout]
_GEMMA_PATCHES = 16
_ROW_PER_TOKEN = (
    "LlavaForConditionalGeneration",
    "Mistral3ForConditionalGeneration",
    "PaliGemmaForConditionalGeneration",
)
"""Classes with one encoder row per token of a prompt."""
_MERGED = (
    *("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
    *("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"),
    *("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"),
    *("Glm4vForConditionalGeneration", "Glm4vMoeForConditionalGeneration"),
)
"""Classes that merge spatial_merge_size x spatial_merge_size rows into a token."""
_UNPACKED = {
    "Glm4vForConditionalGeneration": "attn.qkv_proj",
    "Glm4vMoeForConditionalGeneration": "attn.qkv_proj",
}
"""Encoder layers whose attribute in the class, qkv, is in no packed mapping."""
_IGNORES_FLAG = Change(
    since=(0, 30),
    what=(
        "enable_tower_connector_lora has no effect for classes whose encoders adapters "
        "cannot change."
    ),
)


@frozen
class Encoding:
    """The limits of what vLLM encodes."""

    budget_tokens: int
    """Encoder budget of a step."""
    items_per_prompt: int
    """Items per prompt of the modality with the highest limit."""


class _Rows(NamedTuple):
    encoder: int
    connector: int


def with_tower_adapters(
    towers: tuple[BuiltTower, ...],
    model: ModelArchitecture,
    config: LoRAConfig | None,
    encoding: Encoding,
) -> tuple[BuiltTower, ...]:
    """Return towers with the adapters' tensors beside their modules.

    Raises:
        UnknownArchitecture: naming enable_tower_connector_lora or enable_lora, where
            the tensors are not known.
        Refused: where vLLM stops.
    """
    if config is None:
        return towers
    if wrapping_of(model, config).kept.language_prefix is None:
        return _wrapped(towers, model, config)
    if not config.reaches_towers or not _is_supported(model, config):
        return towers
    if not encoding.items_per_prompt:
        raise Refused(
            "ValueError: max() iterable argument is empty "
            "(enable_tower_connector_lora with a limit of 0 for every modality)"
        )
    return _wrapped(towers, model, config) + _tables(model, config, encoding, towers)


def _is_supported(model: ModelArchitecture, config: LoRAConfig) -> bool:
    """Whether the class lets adapters change its encoders; if not, the flag is ignored.

    Raises:
        UnknownArchitecture: where that is not known.
    """
    kept = wrapping_of(model, config).kept
    if not kept.tower_prefixes and config.release.has(_IGNORES_FLAG):
        return False
    if model.architecture not in (
        *_ROW_PER_TOKEN,
        *_MERGED,
        "Gemma3ForConditionalGeneration",
    ):
        raise _unknown(f"with {model.architecture}", config.release)
    return True


def _unknown(what: str, release: Release) -> UnknownArchitecture:
    return UnknownArchitecture(
        f"enable_tower_connector_lora {what} in vLLM {release.version} is not modelled "
        "yet. Leave enable_tower_connector_lora out."
    )


@lru_cache(maxsize=64)
def _wrapped(
    towers: tuple[BuiltTower, ...], model: ModelArchitecture, config: LoRAConfig
) -> tuple[BuiltTower, ...]:
    """Return towers with their stacks, cached so that equal towers stay one object."""
    wrapping = wrapping_of(model, config)
    unpacked = _UNPACKED.get(model.architecture)
    found = []
    for tower, layout in towers:
        wrapped = tower.modules
        if unpacked is not None:
            wrapped = tuple(m for m in wrapped if not m.name.endswith(unpacked))
        modules = (*tower.modules, *wrapping.of_encoder(wrapped))
        found.append((replace(tower, modules=modules), layout))
    return tuple(found)


@lru_cache(maxsize=64)
def _tables(
    model: ModelArchitecture,
    config: LoRAConfig,
    encoding: Encoding,
    towers: tuple[BuiltTower, ...],
) -> tuple[BuiltTower, ...]:
    """Return the index buffers for the rows of encoder and connector."""
    rows = _rows(model, encoding.budget_tokens)
    kept = wrapping_of(model, config).kept
    config = replace(
        config, max_num_seqs=config.max_num_seqs * encoding.items_per_prompt
    )
    counts = (rows.encoder, rows.connector) if kept.connector_prefixes else rows[:1]
    buffers = tuple(IndexBuffers(config=config, tokens=count) for count in counts)
    return ((Tower((), buffers), towers[0][1]),)


def _rows(model: ModelArchitecture, budget: int) -> _Rows:
    """Return the rows of encoder and connector for `budget` tokens of prompts."""
    if model.architecture in _ROW_PER_TOKEN:
        return _Rows(budget, budget)
    if model.architecture in _MERGED:
        return _Rows(budget * _merge_size(model) ** 2, budget)
    return _Rows(budget * _GEMMA_PATCHES, budget * _GEMMA_PATCHES)


def _merge_size(model: ModelArchitecture) -> int:
    config: Mapping[str, Any] = {} if model.files is None else model.files.config
    vision = config.get("vision_config")
    size = vision.get("spatial_merge_size") if isinstance(vision, Mapping) else None
    return size if isinstance(size, int) else 2


_NO_TABLES = Encoding(budget_tokens=0, items_per_prompt=1)


def adapters_on_host(
    model: ModelArchitecture,
    settings: EngineSettings,
    layout: ParallelLayout,
    dtype: str,
) -> HostLine | None:
    """Return the most that a worker holds of max_cpu_loras adapters; None without.

    A worker reads whole adapters, whatever the ranks and stages. An adapter of lower
    rank, or for fewer layers, takes less. Each factor is pinned separately.

    Source: vLLM 0.33.0 `lora/worker_manager.py` LRUCacheWorkerLoRAManager.add_adapter;
    `lora/lora_model.py` LoRAModel.from_local_checkpoint; `lora/model_manager.py`
    LoRAModelManager._create_merged_loras_inplace.
    """
    config = lora_config(settings, layout.release, max_num_seqs=0)
    if config is None:
        return None
    one = replace(config, max_loras=1, is_fully_sharded=False)
    alone = replace(
        layout,
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        data_parallel_size=1,
        enable_expert_parallel=False,
        pp_layer_partition=None,
        max_num_batched_tokens=0,
        dtype=dtype,
    )
    own = each = 0
    for module, times in _factors(model, settings, one, alone):
        for tensor in module.tensors(alone):
            size = tensor.elements * element_bytes(tensor.dtype or dtype)
            own += times * size
            each += times * pinned_bytes(size)
    count = max(settings.max_cpu_loras or 0, config.max_loras)
    return HostLine(
        name="LoRA adapters",
        size_bytes=count * each,
        basis=Basis.ASSUMED,
        why=f"at most: {count} max_cpu_loras x {format_size(each)}, an adapter of rank "
        f"{config.max_lora_rank} that changes every layer ({format_size(own)}, each "
        "factor pinned in a power of two), whole in each worker",
    )


def _factors(
    model: ModelArchitecture,
    settings: EngineSettings,
    config: LoRAConfig,
    alone: ParallelLayout,
) -> Iterator[tuple[Module, int]]:
    """Return the modules that an adapter may change, and how many there are of each."""
    whole = with_adapters(model, config)
    towers = tuple(
        (tower, alone) for tower in built_towers(model, settings, alone.release)
    )
    layers = (
        (module, times)
        for index, times in Counter(whole.layers).items()
        for module in whole.layer_kinds[index].modules
    )
    others = chain(
        whole.first_stage,
        whole.last_stage,
        whole.every_stage,
        *(t.modules for t, _ in with_tower_adapters(towers, model, config, _NO_TABLES)),
    )
    for module, times in chain(layers, ((module, 1) for module in others)):
        if module.part is Part.LORA and not isinstance(module, IndexBuffers):
            yield module, times
