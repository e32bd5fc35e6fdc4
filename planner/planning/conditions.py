"""What the account of a start does not count: arguments, variables, releases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from planner.engine.arguments import ARGUMENTS, Memory
from planner.engine.releases.change import Change
from planner.engine.settings import moe_backend, table
from planner.memory.host.kv_connectors import IS_READ
from planner.memory.kv_cache.layer_tuples import UNREAD_BYTES, is_unread
from planner.models.experts import FusedMoE
from planner.models.tensors import ExpertsKernel
from planner.planning.resolve import Question
from planner.units import format_gib

_TABLES = ("attention_config", "kernel_config", "compilation_config")
_UNSET: tuple[object, ...] = (None, False, "False", "false", "auto", {}, [])
_ON_BY_DEFAULT = ("use_inductor", "use_cudagraph")
"""Keys of tables that are something only where they are off."""
_SHOWN = 60
_APPLIED = ("VLLM_ENABLE_STARTUP_PLAN",)
"""It fixes the size of the KV cache, unless that is given."""
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
            yield f"{name}={short(value)}", argument.uncounted
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
    yield from _earlier(question)


def _earlier(question: Question) -> Iterator[tuple[str, str]]:
    """Return what a release may do in its own way, where only later ones were read."""
    release = question.release
    connector = dict(question.settings.others).get("kv_transfer_config")
    if connector and not release.has(IS_READ):
        yield (
            "kv_transfer_config",
            f"what only the connectors of vLLM {release.version} do: they are planned "
            "as those of 0.28.0",
        )
    if is_unread(question.model, release):
        yield (
            f"vllm_version={release.version}",
            "what this release allocates beside later ones while DeepSeek-V4 runs, up "
            f"to {format_gib(UNREAD_BYTES)} in the range; its KV cache is grouped as "
            "this release does it",
        )


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
            yield f"{name}.{key}={short(value)}", what


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
    (_APPLIED, lambda question: question.settings.kv_cache_memory_bytes is None),
    (_STATES, lambda question: bool(question.model.state_layers)),
    (_MEDIA, lambda question: question.model.is_multimodal),
    (_LATENT, lambda question: question.model.has_latent_attention),
    (_EXPERTS_TOGETHER, _balances),
    (_SEVERAL_RANKS, lambda question: question.layout.tensor_parallel_size > 1),
    (_QUANTISED, lambda question: question.model.quantization is not None),
    (_EXPERTS, lambda question: any(True for _ in _experts(question))),
)
"""Settings by how they begin, and whether the start has what they are about."""


def short(value: object) -> str:
    """Write a value in a sentence, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
