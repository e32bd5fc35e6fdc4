"""Warnings about a start, each with its figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from planner.engine.arguments import ARGUMENTS
from planner.engine.links import slow_link
from planner.memory.host.offloading import is_ignored
from planner.memory.lines.non_torch import is_unified
from planner.models.architecture import ModelArchitecture
from planner.models.quantization.choosing import PLUGINS
from planner.models.sources.gguf_config import METADATA
from planner.planning.conditions import short
from planner.planning.defaults import ResolvedSettings
from planner.planning.refusals import is_lmcache
from planner.planning.resolve import Question
from planner.planning.stages import Stage, bounds
from planner.units import GIB, MIB, format_gib

_SMALLEST_OTHER_BYTES = 256 * MIB
_TOKEN_ID_BYTES = 4
_NAMED_FORMAT = re.compile(
    r"(?<![A-Za-z0-9])(FP8|NVFP4|MXFP4|AWQ|GPTQ|INT4|INT8|W4A16|W8A8|W8A16)(?![A-Za-z])",
    re.IGNORECASE,
)


def cautions(
    question: Question, resolved: ResolvedSettings, stages: Sequence[Stage]
) -> tuple[str, ...]:
    """Return the warnings that apply to a start."""
    ranks = question.layout.tensor_parallel_size
    found = [
        _others(question),
        _shared(stages, resolved),
        slow_link(question.gpu, ranks, question.settings.interconnect),
        _offloading(question),
        _kv_offloading(question),
        _under_windows(question, resolved),
        _processor(question),
        _plugin(question),
    ]
    bounded = (
        f"{name}={short(value)}: {ARGUMENTS[name].bound}."
        for name, value in bounds(question)
    )
    return (*(text for text in found if text), *bounded, *question.env.notes)


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


def _plugin(question: Question) -> str:
    """Say which package a method needs where the release does not hold it."""
    method = question.model.quantization or ""
    package, moved = PLUGINS.get(method, ("", None))
    if moved is None or not question.release.has(moved):
        return ""
    needs = ""
    if question.model.source.startswith(METADATA):
        needs = (
            " The package reads the model from a config.json, which the plan made of "
            "the file's metadata: put it beside the file, or name it by "
            "hf_config_path or tokenizer."
        )
    return (
        f"quantization={method}: vLLM {question.release.version} does not hold it. "
        f"Install {package} beside vLLM, which is counted as the package has it; "
        f"without it, vLLM does not know {method}.{needs}"
    )


def _shared(stages: Sequence[Stage], resolved: ResolvedSettings) -> str:
    """Warn where GPU and CPU share their memory."""
    run = stages[0].rank.profile_run
    if run is None or not is_unified(run.gpu):
        return ""
    least = min(stage.rank.available_kv_cache_low_bytes for stage in stages)
    pinned = least // GIB * GIB
    advice = ""
    if pinned > 0 and resolved.kv_cache_memory_bytes is None:
        advice = (
            f" With kv_cache_memory_bytes={pinned}, the low end of the range, vLLM "
            "measures nothing and starts alike each time."
        )
    return (
        "GPU and processor share their memory here: every process and the page cache "
        "count against the budget, so the range is wide. Start vLLM after other "
        "programs, and drop the page cache first. What moves to CPU memory (weights, "
        f"KV blocks, adapters) stays in the same memory.{advice}"
    )


def source_notes(model: ModelArchitecture) -> tuple[str, ...]:
    """Return notes on the files that a model was read from."""
    notes: tuple[str, ...] = ()
    named = _NAMED_FORMAT.search(model.name)
    is_plain = model.quantization is None and not model.quantization_limits.mismatch
    if named is not None and is_plain:
        notes = (
            f"The name says {named[0]}, but the configuration names no quantization "
            "that vLLM reads: planned as vLLM would load it, unquantised.",
        )
    return (*notes, *provenance(model))


def provenance(model: ModelArchitecture) -> tuple[str, ...]:
    """Say where a model's configuration comes from, and how it compares with its files.

    Empty for a model whose own configuration was read, without tensor headers.
    """
    origin = ""
    if model.shape_of:
        origin = f"The config of {model.name} is another's: {model.source}."
    elif not model.is_certain:
        origin = f"The config of {model.name} is a reconstruction: {model.source}."
    return tuple(filter(None, (origin, _beside_checkpoint(model))))


@lru_cache(maxsize=64)
def _beside_checkpoint(model: ModelArchitecture) -> str:
    """Write the computed weights beside a checkpoint's headers, where these are known.

    Once for a model: a checkpoint may have a hundred thousand tensors.
    """
    if model.files is None or not model.files.tensor_shapes:
        return ""
    from planner.memory.checkpoint import reconcile  # noqa: PLC0415 - few need it

    found = reconcile(model, model.files.tensor_shapes)
    return "" if found is None else str(found)
