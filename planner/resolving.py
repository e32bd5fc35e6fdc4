"""The arguments as vLLM resolves them, and what it refuses on the way.

In vLLM's order, for its first complaint is the one that the user reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner import defaults
from planner.defaults import ResolvedSettings
from planner.engine import EngineSettings
from planner.environment import Environment
from planner.gpu import GPU
from planner.layers import Module
from planner.memory import attention_backend
from planner.memory.attention_backend import AttentionNeeds
from planner.model import ModelArchitecture
from planner.parallel import ParallelLayout
from planner.refusals import (
    check_batch,
    check_kv_cache_dtype,
    check_kv_scales,
    check_parallel,
    check_quantization,
    check_quantization_argument,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything a plan depends on, read and checked."""

    model: ModelArchitecture
    gpu: GPU
    settings: EngineSettings
    env: Environment
    layout: ParallelLayout
    entrypoint: str
    vllm_version: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """What the attention kernels decide: block size and buffers of their own."""

    block_size: int
    buffers: tuple[Module, ...]


def resolve(question: Question) -> tuple[ResolvedSettings, Kernels]:
    """Fill in vLLM's defaults and refuse what it refuses, in its order."""
    model, gpu, settings = question.model, question.gpu, question.settings
    dtype = defaults.resolve_dtype(settings.dtype, model, gpu)
    length = defaults.resolve_max_model_len(settings.max_model_len, model, question.env)
    check_quantization_argument(model)
    kv_dtype = defaults.resolve_kv_cache_dtype(settings.kv_cache_dtype, model)
    check_kv_cache_dtype(kv_dtype, dtype)
    tokens, seqs = defaults.resolve_batch(
        settings, model, gpu, question.entrypoint, length
    )
    chunked = defaults.chunked_prefill(settings, model)
    check_batch(tokens, seqs, length, has_chunked_prefill=chunked)
    check_parallel(model, question.layout)
    check_quantization(model, dtype, gpu)
    sizes = defaults.capture_sizes(
        settings, gpu, max_num_seqs=seqs, max_num_batched_tokens=tokens
    )
    check_kv_scales(model, kv_dtype)
    kernels = _kernels(question, dtype, kv_dtype, tokens)
    resolved = ResolvedSettings(
        dtype=dtype,
        quantization=model.quantization,
        kv_cache_dtype=kv_dtype,
        max_model_len=length,
        is_max_model_len_auto=settings.max_model_len in ("auto", -1),
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        gpu_memory_utilization=settings.gpu_memory_utilization
        or defaults.GPU_MEMORY_UTILIZATION,
        kv_cache_memory_bytes=defaults.kv_cache_bytes(settings.kv_cache_memory_bytes),
        num_gpu_blocks_override=settings.num_gpu_blocks_override,
        block_size=kernels.block_size,
        tensor_parallel_size=question.layout.tensor_parallel_size,
        pipeline_parallel_size=question.layout.pipeline_parallel_size,
        data_parallel_size=question.layout.data_parallel_size,
        decode_context_parallel_size=question.layout.decode_context_parallel_size,
        enable_expert_parallel=question.layout.enable_expert_parallel,
        enforce_eager=bool(settings.enforce_eager),
        cudagraph_capture_sizes=sizes,
        max_cudagraph_capture_size=max(sizes, default=0),
        performance_mode=settings.performance_mode or "balanced",
        async_scheduling=defaults.async_scheduling(settings, model),
        enable_prefix_caching=defaults.prefix_caching(settings, model),
        enable_chunked_prefill=chunked,
    )
    return resolved, kernels


def _kernels(
    question: Question, dtype: str, kv_cache_dtype: str, max_num_batched_tokens: int
) -> Kernels:
    asked = question.settings.block_size
    layout = question.layout
    preferred = attention_backend.DEFAULT_BLOCK_SIZE
    buffers: tuple[Module, ...] = ()
    for layer in question.model.attention_layers:
        needs = AttentionNeeds(
            head_size=layer.head_size,
            dtype=dtype,
            kv_cache_dtype=kv_cache_dtype if layer.heeds_kv_cache_dtype else "auto",
            block_size=asked,
        )
        backend = attention_backend.select_backend(needs, question.gpu)
        preferred = attention_backend.preferred_block_size(backend, needs, question.gpu)
        heads = layer.num_heads // layout.tensor_parallel_size
        buffers = attention_backend.kernel_buffers(
            backend,
            max_num_batched_tokens=max_num_batched_tokens,
            num_heads=heads * layout.decode_context_parallel_size,
            gpu=question.gpu,
        )
    return Kernels(block_size=asked or preferred, buffers=buffers)
