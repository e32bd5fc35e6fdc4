"""Warnings about a start, each with its figure, and what its account does not count."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from planner.engine.arguments import ARGUMENTS, Memory
from planner.engine.links import slow_link
from planner.engine.releases.change import Change
from planner.engine.settings import moe_backend, table
from planner.memory.host.offloading import is_ignored
from planner.memory.lines.non_torch import is_unified
from planner.models.architecture import ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.experts import FusedMoE
from planner.models.quantization.choosing import PLUGINS
from planner.models.sources.gguf_config import METADATA
from planner.models.tensors import ExpertsKernel
from planner.planning.defaults import ResolvedSettings
from planner.planning.refusals import is_lmcache
from planner.planning.resolve import Question
from planner.planning.stages import Stage, bounds
from planner.units import GIB, MIB, format_gib

_SMALLEST_OTHER_BYTES = 256 * MIB
_TOKEN_ID_BYTES = 4
_SINKS_FAIL = Change(
    since=(0, 33),
    what="Models with keys held as sinks end their start with an error.",
    source=(
        "vLLM 0.33.0 `v1/core/single_type_kv_cache_manager.py` "
        "SinkFullAttentionManager, which lacks an argument that it is called with"
    ),
)

_TABLES = ("attention_config", "kernel_config", "compilation_config")
_UNSET: tuple[object, ...] = (None, False, "False", "false", "auto", {}, [])
_ON_BY_DEFAULT = ("use_inductor", "use_cudagraph")
"""Keys of tables that are something only where they are off."""
_SHOWN = 60
_STATES = (
    *("use_replayssm", "replayssm_buffer_len", "enable_mamba_shared_prefix_checkpoint"),
    *("kda_decode_backend", "kda_prefill_backend"),
)
_MEDIA = ("mm_encoder_attn_dtype", "mm_processor_device", "mm_device_do_normalize")
_LATENT = ("VLLM_MLA_DISABLE", "dcp_q_replicate", "sparse_indexer_topk_backend")
_EXPERTS_TOGETHER = ("all2all_backend", "VLLM_ALL2ALL_BACKEND")
_SEVERAL_RANKS = ("VLLM_ALLREDUCE", "VLLM_FLASHINFER_ALLREDUCE", "VLLM_USE_NCCL")
_QUANTISED = ("VLLM_USE_DEEP_GEMM_", "VLLM_BLOCKSCALE")
_EXPERTS = ("enable_return_routed_experts", "VLLM_USE_FLASHINFER_MOE")
_STATES_ALIKE = Change(
    since=(0, 21),
    what=(
        "Ray's workers are those of mp, without a channel of Ray's own between "
        "pipeline stages."
    ),
    source="vLLM 0.21.0 `envs.py` VLLM_USE_RAY_V2_EXECUTOR_BACKEND (on by default)",
)
_BACKENDS: Mapping[str, tuple[ExpertsKernel, ...]] = {
    "triton": (ExpertsKernel.TRITON, ExpertsKernel.OAI_TRITON),
    "cutlass": (ExpertsKernel.CUTLASS_FP4,),
    "deep_gemm": (ExpertsKernel.DEEPGEMM,),
    "flashinfer_cutlass": (ExpertsKernel.FLASHINFER_CUTLASS,),
    "flashinfer_trtllm": (ExpertsKernel.TRTLLM,),
    "humming": (ExpertsKernel.HUMMING,),
    "marlin": (ExpertsKernel.MARLIN,),
}
"""Kernels that a name of moe_backend stands for."""
_NAMED_FORMAT = re.compile(
    r"(?<![A-Za-z0-9])(FP8|NVFP4|MXFP4|AWQ|GPTQ|INT4|INT8|W4A16|W8A8|W8A16)(?![A-Za-z])",
    re.IGNORECASE,
)


def conditions(question: Question) -> tuple[str, ...]:
    """Return what the account of a start does not count, each with its setting."""
    found = [
        f"{setting}: {what}"
        for setting, what in (*_arguments(question), *question.env.uncounted)
        if _matters(setting, question)
    ]
    return tuple(found)


def _arguments(question: Question) -> Iterator[tuple[str, str]]:
    """Return settings whose effect is not counted, and what that is."""
    settings = question.settings
    for name, value in settings.others:
        argument = ARGUMENTS[name]
        is_off = value is None or value in argument.off
        if argument.memory is Memory.UNKNOWN and not is_off:
            yield f"{name}={_short(value)}", argument.uncounted
    for name in _TABLES:
        if getattr(settings, name) is not None:
            yield from _keys(name, _entries(question, name))
    speculation = question.settings.speculative_config
    if isinstance(speculation, Mapping):
        yield from _keys("speculative_config", speculation)
    if question.uncounted_draft:
        yield (
            "speculative_config",
            "the draft: its weights, its KV cache and its share of the peak "
            f"({question.uncounted_draft})",
        )
    yield from _kernels(question)
    yield from _ray(question)


def _entries(question: Question, name: str) -> Mapping[str, object]:
    given = getattr(question.settings, name)
    if isinstance(given, int):
        return {"mode": given}
    return table(question.settings, name)


def _keys(name: str, entries: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Return the keys of a table, and of tables in it, that are not counted."""
    known = ARGUMENTS[name].keys
    for key, value in entries.items():
        if isinstance(value, Mapping):
            inner = {f"{key}.{part}": given for part, given in value.items()}
            yield from _keys(name, inner)
        what = known.get(key, "" if "." in key else "what it changes")
        if what and _is_set(key, value):
            yield f"{name}.{key}={_short(value)}", what


def _is_set(key: str, value: object) -> bool:
    """Whether a key of a table differs from its default."""
    if key in _ON_BY_DEFAULT:
        return value in (False, "False", "false")
    return value not in _UNSET


def _kernels(question: Question) -> Iterator[tuple[str, str]]:
    """Return the requested kernel of experts, where the planner has another."""
    asked = moe_backend(question.settings)
    if asked == "auto":
        return
    served = {module.served(question.layout).kernel for module in _experts(question)}
    if served - set(_BACKENDS.get(asked, ())):
        yield (
            f"moe_backend={asked}",
            "the padding and the buffers of that kernel of experts; they are counted "
            f"as those of {' and '.join(sorted(served))}",
        )


def _experts(question: Question) -> Iterator[FusedMoE]:
    for kind in question.model.layer_kinds:
        for module in kind.modules:
            if isinstance(module, FusedMoE):
                yield module


def _ray(question: Question) -> Iterator[tuple[str, str]]:
    backend = dict(question.settings.others).get("distributed_executor_backend")
    is_split = question.layout.pipeline_parallel_size > 1
    if backend == "ray" and is_split and not question.release.has(_STATES_ALIKE):
        yield "distributed_executor_backend=ray", "Ray's own channel between stages"


def _matters(setting: str, question: Question) -> bool:
    """Whether a setting can matter for this model and this layout at all."""
    for names, is_there in _ONLY_WITH:
        if setting.startswith(names):
            return is_there(question)
    return True


def _balances(question: Question) -> bool:
    layout = question.layout
    return layout.enable_expert_parallel and layout.data_parallel_size > 1


_ONLY_WITH: tuple[tuple[tuple[str, ...], Callable[[Question], bool]], ...] = (
    (_STATES, lambda question: bool(question.model.state_layers)),
    (_MEDIA, lambda question: question.model.is_multimodal),
    (_LATENT, lambda question: question.model.has_latent_attention),
    (_EXPERTS_TOGETHER, _balances),
    (_SEVERAL_RANKS, lambda question: question.layout.tensor_parallel_size > 1),
    (_QUANTISED, lambda question: question.model.quantization is not None),
    (_EXPERTS, lambda question: any(True for _ in _experts(question))),
)
"""Settings by how they begin, and whether the start has what they are about."""


def _short(value: object) -> str:
    """Write a value in a sentence, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


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
        _sinks(question),
    ]
    bounded = (
        f"{name}={_short(value)}: {ARGUMENTS[name].bound}."
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


def _sinks(question: Question) -> str | None:
    """Say that the newest release does not serve keys held as sinks."""
    has_sinks = any(
        isinstance(cache, AttentionLayer) and cache.num_sink_tokens
        for kind in question.model.layer_kinds
        for cache in kind.caches
    )
    if not has_sinks or not question.layout.release.has(_SINKS_FAIL):
        return None
    return (
        "vLLM 0.33 does not serve this model: it measures what is planned here, and "
        "then ends with SinkFullAttentionManager.__init__() got an unexpected keyword "
        "argument 'needs_kv_cache_zeroing'. Use a release in which that is mended."
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
