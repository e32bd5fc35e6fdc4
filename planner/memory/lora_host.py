"""Adapters in CPU memory, from which the rooms on the GPU are filled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from planner.dtypes import element_bytes
from planner.engine import EngineSettings
from planner.layers import Module, Part
from planner.memory.host import HostLine
from planner.memory.host_tables import pinned_bytes
from planner.memory.lora import lora_config, with_adapters
from planner.memory.lora_stacks import IndexBuffers, LoRAConfig
from planner.memory.lora_towers import Encoding, with_tower_adapters
from planner.memory.towers import built_towers
from planner.model import ModelArchitecture
from planner.parallel import ParallelLayout
from planner.result import Basis
from planner.units import format_size

_NO_TABLES = Encoding(budget_tokens=0, items_per_prompt=1)


def adapters_on_host(
    model: ModelArchitecture,
    settings: EngineSettings,
    layout: ParallelLayout,
    dtype: str,
) -> HostLine | None:
    """Return what a worker keeps of max_cpu_loras adapters at most; None without.

    A worker reads adapters whole, whatever ranks and stages there are. One that has a
    lower rank, or changes fewer layers, takes less. Each factor is pinned on its own.

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
    """Return what one adapter may change: modules, and how many there are of each."""
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
