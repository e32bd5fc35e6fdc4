"""Which attention kernel vLLM picks, as far as it decides block sizes and refusals.

Source: vLLM 0.33.0 `platforms/cuda.py` _get_backend_priorities and
get_attn_backend_cls; `v1/attention/backends/flash_attn.py`, `flashinfer.py`,
`triton_attn.py`, `flex_attention.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.dtypes import FP8_KV_CACHE_DTYPES as _FP8
from planner.errors import Refused, UnknownArchitecture
from planner.gpu import GPU
from planner.layers import Module, Part, Replicated
from planner.parallel import DATACENTER_BLACKWELL

DEFAULT_BLOCK_SIZE = 16
_PLAIN = ("auto", "float16", "bfloat16")
_FA4_PAGED_HEAD_SIZE = 256
_FA4_HEAD_256_PAGE = 128
_SMALLEST_TRITON_HEAD = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionNeeds:
    """What a decoder layer asks of an attention kernel."""

    head_size: int
    dtype: str
    kv_cache_dtype: str
    block_size: int | None


def select_backend(needs: AttentionNeeds, gpu: GPU) -> str:
    """Return the name of the first attention backend that accepts the layer.

    Raises:
        Refused: when none does, or the one chosen refuses when it is built.
        UnknownArchitecture: for a KV cache dtype that is not modelled yet.
    """
    if needs.kv_cache_dtype not in (*_FP8, *_PLAIN):
        raise UnknownArchitecture(
            f"kv_cache_dtype={needs.kv_cache_dtype!r} is not modelled yet; "
            f"{', '.join((*_PLAIN, *_FP8))} are."
        )
    order = ["FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION"]
    if gpu.compute_capability[0] == DATACENTER_BLACKWELL:
        order[:2] = ["FLASHINFER", "FLASH_ATTN"]
    for name in order:
        if _ACCEPTS[name](needs, gpu):
            if name == "TRITON_ATTN":
                _refuse_fp8_before_ada(needs, gpu)
            return name
    raise Refused(
        "No valid attention backend found for cuda with "
        f"AttentionSelectorConfig(head_size={needs.head_size}, "
        f"dtype=torch.{needs.dtype}, kv_cache_dtype={needs.kv_cache_dtype}, "
        f"block_size={needs.block_size}, use_mla=False)"
    )


def preferred_block_size(backend: str, needs: AttentionNeeds, gpu: GPU) -> int:
    """Return the block size that the backend takes when the user gives none."""
    is_fa4_head_256 = (
        backend == "FLASH_ATTN"
        and needs.head_size == _FA4_PAGED_HEAD_SIZE
        and gpu.compute_capability[0] in (10, 11)
    )
    return _FA4_HEAD_256_PAGE if is_fa4_head_256 else DEFAULT_BLOCK_SIZE


def kernel_buffers(
    backend: str, *, max_num_batched_tokens: int, num_heads: int, gpu: GPU
) -> tuple[Module, ...]:
    """Return what the backend allocates on a rank while the model is built.

    FlashInfer keeps one counter of 4 bytes per token and query head, for all layers.

    Source: vLLM 0.33.0 `v1/attention/backends/flashinfer.py` FlashInferImpl.__init__;
    FlashInfer `utils.py` get_trtllm_gen_multi_ctas_kv_counter_bytes.
    """
    if backend != "FLASHINFER":
        return ()
    counters = max(max_num_batched_tokens * num_heads, gpu.num_sms or 0)
    rounded = -(-counters // 8) * 8
    return (
        Replicated(
            name="multi_ctas_kv_counter",
            part=Part.BUFFERS,
            shapes=((rounded,),),
            dtype="int32",
        ),
    )


def _flash_attn(needs: AttentionNeeds, gpu: GPU) -> bool:
    is_fa4 = gpu.compute_capability[0] in (9, 10, 11)
    largest = 512 if is_fa4 else 256
    if needs.dtype == "float32" or gpu.compute_capability < (8, 0):
        return False
    if needs.head_size % 8 or needs.head_size > largest:
        return False
    return _block_fits(needs, 16) and _flash_attn_reads(needs, gpu)


def _flash_attn_reads(needs: AttentionNeeds, gpu: GPU) -> bool:
    if needs.kv_cache_dtype in _PLAIN:
        return True
    return needs.kv_cache_dtype != "fp8_e5m2" and gpu.compute_capability[0] in (9, 10)


def _flashinfer(needs: AttentionNeeds, gpu: GPU) -> bool:
    return (
        needs.dtype != "float32"
        and (8, 0) <= gpu.compute_capability <= (12, 1)
        and needs.head_size in (64, 128, 256, 512)
        and _block_fits(needs, 16)
    )


def _triton(needs: AttentionNeeds, _gpu: GPU) -> bool:
    return needs.head_size >= _SMALLEST_TRITON_HEAD and _block_fits(needs, 16)


def _flex(needs: AttentionNeeds, _gpu: GPU) -> bool:
    return needs.kv_cache_dtype in _PLAIN and _block_fits(needs, 16)


_ACCEPTS = {
    "FLASH_ATTN": _flash_attn,
    "FLASHINFER": _flashinfer,
    "TRITON_ATTN": _triton,
    "FLEX_ATTENTION": _flex,
}


def _block_fits(needs: AttentionNeeds, base: int) -> bool:
    return needs.block_size is None or needs.block_size % base == 0


def _refuse_fp8_before_ada(needs: AttentionNeeds, gpu: GPU) -> None:
    if needs.kv_cache_dtype not in _FP8 or gpu.compute_capability >= (8, 9):
        return
    major, minor = gpu.compute_capability
    other = "float16" if gpu.compute_capability < (8, 0) else "bfloat16"
    raise Refused(
        "FP8 KV cache is not supported by the Triton attention backend on "
        f"{gpu.device_name} (compute capability {major}.{minor}); native FP8 "
        f"(fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype {other}."
    )
