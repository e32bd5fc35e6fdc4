"""Warnings about common pitfalls of a start, each with its figure."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from planner.memory.host.offloading import is_ignored
from planner.memory.lines.non_torch import is_unified
from planner.planning.defaults import ResolvedSettings
from planner.planning.refusals import is_lmcache
from planner.planning.resolve import Question
from planner.planning.stages import Stage
from planner.units import MIB, format_gib

_SMALLEST_OTHER_BYTES = 256 * MIB
_SMALLEST_NAMED_BYTES = 16 * MIB
_TOKEN_ID_BYTES = 4


def cautions(
    question: Question, resolved: ResolvedSettings, stages: Sequence[Stage]
) -> tuple[str, ...]:
    """Return the warnings that apply to a start."""
    found = [
        _room(question, resolved, stages),
        _others(question),
        _shared(stages),
        _offloading(question),
        _kv_offloading(question),
        _under_windows(question, resolved),
        _processor(question),
    ]
    return tuple(text for text in found if text)


def _room(
    question: Question, resolved: ResolvedSettings, stages: Sequence[Stage]
) -> str:
    """Warn where memory outside the budget is less than vLLM needs there."""
    total = question.gpu.total_memory_bytes
    rank = max((s.rank for s in stages), key=lambda r: r.outside_bytes)
    room = total - rank.requested_memory_bytes
    if rank.outside_bytes <= room or resolved.kv_cache_memory_bytes is not None:
        return ""
    safe = safe_utilization(total, rank.outside_bytes)
    needs = ", ".join(
        f"{line.name} {format_gib(line.size_bytes)}"
        for line in rank.outside
        if line.size_bytes >= _SMALLEST_NAMED_BYTES
    )
    return (
        f"gpu_memory_utilization={resolved.gpu_memory_utilization:g} leaves "
        f"{format_gib(room)} outside vLLM's budget, where about "
        f"{format_gib(rank.outside_bytes)} are needed ({needs}). vLLM may run out of "
        f"memory after it has sized the KV cache. Use {safe:g} or less."
    )


def safe_utilization(total_memory_bytes: int, outside_bytes: int) -> float:
    """Return the largest share, to two decimals, that leaves room outside the budget.

    >>> safe_utilization(80 * 2**30, 3 * 2**30)
    0.96
    """
    return floor(100 * (total_memory_bytes - outside_bytes) / total_memory_bytes) / 100


def _others(question: Question) -> str:
    """Warn where other processes hold GPU memory."""
    gpu = question.gpu
    if gpu.free_memory_bytes is None or gpu.is_cpu:
        return ""
    taken = gpu.total_memory_bytes - gpu.free_memory_bytes
    if taken < _SMALLEST_OTHER_BYTES:
        return ""
    return (
        f"{format_gib(taken)} of this GPU are in use already. The budget is a share of "
        "the whole GPU, so vLLM does not make room for them; what they take or give "
        "back while it starts changes the KV cache."
    )


def _offloading(question: Question) -> str:
    """Warn where cpu_offload_gb has no effect."""
    forced = question.env.use_v2_model_runner
    if not question.settings.cpu_offload_gb or not is_ignored(
        question.model, question.release, forces_v2_runner=forced
    ):
        return ""
    return (
        f"vLLM {question.release.version} ignores cpu_offload_gb for this model: its "
        "second model runner moves nothing to host memory before 0.28.0."
    )


def _kv_offloading(question: Question) -> str:
    """Explain what KV blocks in host memory do, and what they do not.

    Source: vLLM 0.33.0 `distributed/kv_transfer/kv_connector/v1/offloading/`.
    """
    size = question.settings.kv_offloading_size
    if size is not None and is_lmcache(question.settings):
        return (
            "kv_offloading_backend=lmcache: blocks go to a server of LMCache's own, "
            "which decides itself how much memory it takes; vLLM does not hand "
            "kv_offloading_size on, so it is not part of any account here."
        )
    if not size:
        return ""
    return (
        f"kv_offloading_size takes {size:g} GiB of host memory and leaves the GPU as "
        "it is: prompts that begin like earlier ones come from there, but no more "
        "requests are worked on at once."
    )


def _processor(question: Question) -> str:
    """Say which CPU feature determines the KV cache.

    Source: vLLM 0.33.0 `platforms/cpu.py` check_and_update_config.
    """
    gpu, model = question.gpu, question.model
    if not gpu.is_cpu or gpu.processor is None:
        return ""
    if model.has_latent_attention:
        flag, what = "amx_tile", "the kernel of latent attention and its blocks"
    elif model.state_layers:
        flag, what = "avx512_bf16", "the dtype of the states"
    else:
        return ""
    has = "has" if gpu.processor.has(flag) else "does not have"
    return f"This processor {has} {flag}, which decides {what}; others may differ."


def _under_windows(question: Question, resolved: ResolvedSettings) -> str:
    """Warn under WSL, where Windows uses GPU memory and vLLM may be unable to pin any.

    Source: vLLM 0.33.0 `platforms/interface.py` is_pin_memory_available,
    `v1/worker/gpu/states.py` (all_token_ids).
    """
    if not question.gpu.is_under_wsl:
        return ""
    table = resolved.max_num_seqs * resolved.max_model_len * _TOKEN_ID_BYTES
    return (
        "WSL: Windows' desktop holds some of this GPU, and drivers may let vLLM pin no "
        f"host memory; its table of token ids ({format_gib(table)}: "
        f"{resolved.max_num_seqs:,} max_num_seqs x {resolved.max_model_len:,} tokens x "
        "4 bytes) is then on the GPU, outside vLLM's budget."
    )


def _shared(stages: Sequence[Stage]) -> str:
    """Warn where GPU and CPU share their memory."""
    run = stages[0].rank.profile_run
    if run is None or not is_unified(run.gpu):
        return ""
    return (
        "GPU and processor share their memory here: every process and the page cache "
        "count against the budget, so the range is wide. Start vLLM after other "
        "programs, and drop the page cache first. What moves to CPU memory (weights, "
        "KV blocks, adapters) stays in the same memory."
    )
