"""Adapters in CPU memory, from which the rooms on the GPU are filled."""

from __future__ import annotations

from dataclasses import replace

from planner.engine import EngineSettings
from planner.layers import Part
from planner.memory.host import HostLine
from planner.memory.lora import lora_config, with_adapters
from planner.memory.weights import stage_weights
from planner.model import ModelArchitecture
from planner.parallel import ParallelLayout
from planner.result import Basis
from planner.units import format_size


def adapters_on_host(
    model: ModelArchitecture,
    settings: EngineSettings,
    layout: ParallelLayout,
    dtype: str,
) -> HostLine | None:
    """Return what a worker keeps of max_cpu_loras adapters at most; None without.

    A worker reads adapters whole, whatever ranks and stages there are. One that has a
    lower rank, or changes fewer layers, takes less.

    Source: vLLM 0.33.0 `lora/worker_manager.py` LRUCacheWorkerLoRAManager.add_adapter;
    `lora/lora_model.py` LoRAModel.from_local_checkpoint.
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
    )
    (stage,) = stage_weights(with_adapters(model, one), alone, dtype)
    each = sum(part.size_bytes for part in stage.parts if part.name == Part.LORA)
    count = max(settings.max_cpu_loras or 0, config.max_loras)
    return HostLine(
        name="LoRA adapters",
        size_bytes=count * each,
        basis=Basis.ASSUMED,
        why=f"at most: {count} max_cpu_loras x {format_size(each)}, an adapter of rank "
        f"{config.max_lora_rank} that changes every layer, whole in each worker",
    )
