"""The memory account and the KV cache of every pipeline stage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.engine.arguments import ARGUMENTS, Memory
from planner.engine.releases.change import Change
from planner.memory.account import Line
from planner.memory.compilation import (
    GraphMode,
    breaks_graphs,
    specializes_lora_graphs,
)
from planner.memory.estimate import (
    Budget,
    RankMemory,
    rank_memory,
    requested_memory_bytes,
    used_lines,
)
from planner.memory.host.offload import without_offloaded
from planner.memory.host.offloading import offloading_of
from planner.memory.kv_cache.capacity import StageCache, empty_cache, kernel_groups
from planner.memory.kv_cache.kernels import Kernels, stage_layers
from planner.memory.kv_cache.kv_groups import LayerGroup
from planner.memory.lines.activations import compile_bytes
from planner.memory.lines.drafting import loaded_buffer_bytes
from planner.memory.lines.eplb import window_size
from planner.memory.lines.non_torch import fused_all_reduce_bytes
from planner.memory.media.encoder import (
    check_whole_items,
    encoder_budget_tokens,
    items_per_prompt,
)
from planner.memory.media.frontend import decoding_bytes
from planner.memory.media.media_limits import sizes_of
from planner.memory.media.pixels import size_settings
from planner.memory.media.towers import (
    built_towers,
    limit_per_prompt,
    tower_layout,
    unserved_towers,
)
from planner.memory.profile_run import ProfileRun
from planner.memory.weights import StageWeights, follows_length, stage_weights
from planner.planning.batches import keeps_items_whole
from planner.planning.calibrations.apply import (
    FoundRecords,
    applied,
    captured_applied,
    non_torch_applied,
)
from planner.planning.calibrations.dry import dry_lines, with_dry_cache
from planner.planning.defaults import ResolvedSettings, hybrid_manager
from planner.planning.resolve import Question
from planner.units import MIB
from planner.values import frozen

if TYPE_CHECKING:
    from planner.memory.lora.lora_stacks import LoRAConfig
    from planner.memory.lora.towers import Encoding

_OVERRIDES_BLOCKS_BEFORE_CHECK = Change(
    since=(0, 20, 1),
    what=(
        "num_gpu_blocks_override replaces the memory that vLLM checks. Before, it "
        "replaced the number of blocks after the check."
    ),
    source="vLLM 0.20.1 `v1/core/kv_cache_utils.py` get_kv_cache_configs",
)


@frozen
class Stage:
    """One pipeline stage: the memory of a rank, and its KV cache at three sizes."""

    rank: RankMemory
    cache: StageCache
    """With the memory that the estimate leaves."""
    low: StageCache
    """With the memory left at the low end of the estimate's range."""
    high: StageCache
    """With the memory left at its high end."""

    def with_variant(self, argument: str, value: str) -> StageCache:
        """Return the KV cache where something is so that no engine argument shows."""
        size_bytes, _low, _high = self.rank.of(argument, value)
        return self.cache.holding(size_bytes)


def plan_stages(
    question: Question,
    resolved: ResolvedSettings,
    kernels: Kernels,
    found: FoundRecords,
) -> tuple[Stage, ...]:
    """Return every pipeline stage.

    `found` holds earlier measurements on the user's own GPU.
    """
    adapters = _adapters(question, resolved)
    weights = _weights(question, resolved, kernels, adapters)
    ranges = stage_layers(question.model, question.layout)
    is_whole = keeps_items_whole(question.settings, question.model, question.release)
    stages = []
    for pp_rank, (stage, layers) in enumerate(zip(weights, ranges, strict=True)):
        cache = empty_cache(
            kernels.layers,
            layers,
            has_hybrid_manager=_has_hybrid(question),
        )
        run = _profile_run(question, resolved, pp_rank, adapters)
        check_whole_items(run, is_whole=is_whole)
        stage = stage.with_buffer("images for the draft", loaded_buffer_bytes(run))
        lines = _lines(question, resolved, run, stage, found)
        rank = rank_memory(run, stage, lines, _budget(question, resolved), cache)
        if question.dry is not None:
            rank = with_dry_cache(rank)
        elif found.record is not None:
            rank = captured_applied(rank, found.record)
        stages.append(_stage(rank, cache, resolved.num_gpu_blocks_override))
    return tuple(stages)


def whole_groups(question: Question, kernels: Kernels) -> tuple[LayerGroup, ...]:
    """Return the KV cache groups of all layers."""
    return kernel_groups(kernels.layers, has_hybrid_manager=_has_hybrid(question))


def _has_hybrid(question: Question) -> bool:
    return hybrid_manager(question.settings, question.model, question.env)


def _weights(
    question: Question,
    resolved: ResolvedSettings,
    kernels: Kernels,
    lora: LoRAConfig | None,
) -> tuple[StageWeights, ...]:
    model, settings, dtype = question.model, question.settings, resolved.dtype
    layout = replace(
        question.layout,
        dtype=dtype,
        max_num_batched_tokens=resolved.max_num_batched_tokens,
        # Weights are kept for the next length, but for those that depend on it.
        max_model_len=resolved.max_model_len if follows_length(model) else 0,
        enforce_eager=resolved.enforce_eager,
    )
    offloading = offloading_of(
        settings,
        model,
        release=question.release,
        forces_v2_runner=question.env.use_v2_model_runner,
        layout=layout,
    )
    towers = tuple(
        (tower, tower_layout(tower, layout, settings))
        for tower in built_towers(model, settings, question.release)
    )
    wrapped, adapted = model, towers
    if lora is not None:
        from planner.memory.lora.lora import with_adapters  # noqa: PLC0415 - adapters only

        wrapped = with_adapters(model, lora)
        if model.is_multimodal:
            from planner.memory.lora.towers import with_tower_adapters  # noqa: PLC0415 - adapters only

            run = _profile_run(question, resolved, 0, lora)
            adapted = with_tower_adapters(towers, model, lora, _encoding(run))
    loaded = stage_weights(wrapped, layout, dtype, kernels.buffers, adapted)
    return without_offloaded(loaded, model, layout, dtype, offloading, towers)


def _adapters(question: Question, resolved: ResolvedSettings) -> LoRAConfig | None:
    """Return the requested adapters; None without enable_lora."""
    if not question.settings.enable_lora:
        return None
    from planner.memory.lora.lora import lora_config  # noqa: PLC0415 - adapters only

    return lora_config(
        question.settings,
        question.release,
        max_num_seqs=resolved.max_num_seqs,
        is_on_cpu=question.gpu.is_cpu,
    )


def _encoding(run: ProfileRun) -> Encoding:
    """Return the most that vLLM encodes, which sizes the adapters' tables."""
    from planner.memory.lora.towers import Encoding  # noqa: PLC0415 - adapters only

    return Encoding(
        budget_tokens=encoder_budget_tokens(run),
        items_per_prompt=items_per_prompt(run),
    )


def _lines(
    question: Question,
    resolved: ResolvedSettings,
    run: ProfileRun,
    weights: StageWeights,
    found: FoundRecords,
) -> tuple[Line, ...]:
    """Return every line except the KV cache, as computed or as measured before."""
    is_free = resolved.kv_cache_memory_bytes is None
    is_charged = is_free and question.env.estimate_cudagraphs
    lines = used_lines(run, weights, is_cudagraph_charged=is_charged)
    lines = _widened(lines, question)
    if question.dry is not None:
        return dry_lines(lines, question.dry, run.pp_rank)
    if found.kin is not None and not fused_all_reduce_bytes(run):
        return non_torch_applied(lines, found.kin, run.pp_rank)
    if found.record is None:
        return lines
    return applied(
        lines,
        found.record,
        run.pp_rank,
        is_cudagraph_charged=is_charged,
        compile_bytes=compile_bytes(run),
    )


def bounds(question: Question) -> tuple[tuple[str, object], ...]:
    """Return the arguments whose effect is bounded, with their values."""
    return tuple(
        (name, value)
        for name, value in question.settings.others
        if ARGUMENTS[name].memory is Memory.BOUNDED
        and value is not None
        and value not in ARGUMENTS[name].off
        and _has_part(name, question)
    )


def _has_part(name: str, question: Question) -> bool:
    """Whether the start has what a bounded argument is about."""
    if name == "disable_custom_all_reduce":
        return question.layout.tensor_parallel_size > 1
    return question.model.is_multimodal


def _widened(lines: tuple[Line, ...], question: Question) -> tuple[Line, ...]:
    """Widen the range of non-torch memory by what arguments change at most."""
    found = [ARGUMENTS[name] for name, _value in bounds(question)]
    below, above = (
        sum(one.below_mib for one in found) * MIB,
        sum(one.above_mib for one in found) * MIB,
    )
    if not (below or above):
        return lines
    return tuple(
        replace(
            line,
            low_bytes=max(0, line.low_bytes - below),
            high_bytes=line.high_bytes + above,
        )
        if line.name == "non-torch"
        else line
        for line in lines
    )


def _budget(question: Question, resolved: ResolvedSettings) -> Budget:
    fixed = resolved.kv_cache_memory_bytes
    return Budget(
        requested_bytes=requested_memory_bytes(
            question.gpu.total_memory_bytes, resolved.gpu_memory_utilization
        ),
        kv_cache_memory_bytes=(
            None if fixed is None else fixed - _decoding_bytes(question)
        ),
    )


def _decoding_bytes(question: Question) -> int:
    return decoding_bytes(
        question.settings, question.model, question.env, question.entrypoint
    )


def _profile_run(
    question: Question,
    resolved: ResolvedSettings,
    pp_rank: int,
    lora: LoRAConfig | None,
) -> ProfileRun:
    sizes = question.layout.stage_sizes(question.model.num_hidden_layers)
    towers = built_towers(question.model, question.settings, question.release)
    modalities = dict.fromkeys(m for tower in towers for m in tower.modalities)
    return ProfileRun(
        towers=tuple(
            (t, tower_layout(t, question.layout, question.settings)) for t in towers
        ),
        mm_limits=tuple(
            (m, limit_per_prompt(m, question.settings)) for m in modalities
        ),
        mm_settings=size_settings(question.settings),
        mm_sizes=sizes_of(question.settings, question.model),
        divides_items=question.settings.mm_encoder_tp_mode == "data",
        skip_mm_profiling=bool(question.settings.skip_mm_profiling),
        takes_prompt_embeds=bool(question.settings.enable_prompt_embeds),
        embeds_only=unserved_towers(
            question.model, question.settings, question.release
        ),
        eplb_window=window_size(question.settings),
        decoding_bytes=_decoding_bytes(question),
        model=question.model,
        gpu=question.gpu,
        layout=question.layout,
        interconnect=question.settings.interconnect,
        dtype=resolved.dtype,
        is_batch_given=question.settings.max_num_batched_tokens is not None,
        max_model_len=resolved.max_model_len,
        max_num_batched_tokens=resolved.max_num_batched_tokens,
        max_num_seqs=resolved.max_num_seqs,
        block_size=resolved.block_size,
        env=question.env,
        enforce_eager=resolved.enforce_eager,
        is_compiled=resolved.is_compiled
        and not breaks_graphs(question.release, question.model.architecture),
        may_fuse_all_reduce=resolved.may_fuse_all_reduce,
        graph_mode=GraphMode(resolved.cudagraph_mode),
        capture_sizes=resolved.cudagraph_capture_sizes,
        pp_rank=pp_rank,
        num_layers=sizes[pp_rank],
        is_first_stage=pp_rank == 0,
        is_last_stage=pp_rank == len(sizes) - 1,
        uses_v2_runner=resolved.uses_v2_model_runner,
        graph_cases=_graph_cases(question, resolved, lora),
        kv_cache_dtype=resolved.kv_cache_dtype,
        use_flashinfer_sampler=_uses_flashinfer(question),
        compile_cache=question.settings.compile_cache,
        embedding_factor_bytes=_embedding_factor_bytes(question, resolved, lora),
    )


def _uses_flashinfer(question: Question) -> bool | None:
    """Whether FlashInfer samples, by vLLM's variable or by the user's word for it."""
    given, sampler = question.env.use_flashinfer_sampler, question.settings.sampler
    if given is not None or sampler is None:
        return given
    return sampler == "flashinfer"


def _embedding_factor_bytes(
    question: Question, resolved: ResolvedSettings, lora: LoRAConfig | None
) -> int:
    if lora is None:
        return 0
    from planner.memory.lora.lora import embedding_factor_bytes  # noqa: PLC0415 - adapters only

    return embedding_factor_bytes(question.model, lora, question.layout, resolved.dtype)


def _graph_cases(
    question: Question, resolved: ResolvedSettings, lora: LoRAConfig | None
) -> int:
    """Return how many CUDA graphs vLLM captures for each batch size."""
    if lora is None:
        return 1
    from planner.memory.lora.lora import graph_cases  # noqa: PLC0415 - adapters only

    return graph_cases(
        lora,
        uses_v2_runner=resolved.uses_v2_model_runner,
        is_specialized=specializes_lora_graphs(question.settings),
    )


def _stage(rank: RankMemory, cache: StageCache, num_blocks: int | None) -> Stage:
    """Size the cache: the memory that is left, or num_gpu_blocks_override's blocks."""
    if num_blocks is not None and not cache.release.has(_OVERRIDES_BLOCKS_BEFORE_CHECK):
        cache = replace(cache, num_gpu_blocks_override=num_blocks)
        num_blocks = None
    left = (
        rank.available_kv_cache_bytes,
        rank.available_kv_cache_low_bytes,
        rank.available_kv_cache_high_bytes,
    )
    if num_blocks is not None:
        left = (num_blocks * cache.bytes_per_block,) * 3
    middle, low, high = (cache.holding(size) for size in left)
    return Stage(rank=rank, cache=middle, low=low, high=high)
