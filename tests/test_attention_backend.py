"""Which kernel serves a layer, what block size follows, what is refused."""

import pytest

from planner.errors import Refused, UnknownArchitecture
from planner.memory.attention_backend import (
    AttentionNeeds,
    kernel_buffers,
    preferred_block_size,
    select_backend,
)
from planner.parallel import ParallelLayout
from tests.configs import gpu

HOPPER = gpu()
BLACKWELL = gpu(compute_capability=(10, 0), device_name="NVIDIA B200", num_sms=148)
AMPERE = gpu(compute_capability=(8, 0), device_name="NVIDIA A100-SXM4-80GB")
TURING = gpu(compute_capability=(7, 5), device_name="Tesla T4")


def needs(**changes: object) -> AttentionNeeds:
    """Return a usual layer with some facts replaced."""
    facts = {
        "head_size": 128,
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "block_size": None,
        **changes,
    }
    return AttentionNeeds(**facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("device", "changes", "expected"),
    [
        (HOPPER, {}, "FLASH_ATTN"),
        (BLACKWELL, {}, "FLASHINFER"),
        (BLACKWELL, {"head_size": 96}, "FLASH_ATTN"),
        (HOPPER, {"dtype": "float32"}, "TRITON_ATTN"),
        (HOPPER, {"kv_cache_dtype": "fp8"}, "FLASH_ATTN"),
        (HOPPER, {"kv_cache_dtype": "fp8_e5m2"}, "FLASHINFER"),
        (AMPERE, {"kv_cache_dtype": "fp8"}, "FLASHINFER"),
        (TURING, {"dtype": "float16"}, "TRITON_ATTN"),
    ],
)
def test_the_first_kernel_that_accepts_the_layer_is_taken(
    device: object, changes: dict[str, object], expected: str
) -> None:
    """Order by GPU generation, conditions by kernel."""
    assert expected == select_backend(needs(**changes), device)  # type: ignore[arg-type]


def test_fp8_before_ada_is_refused_where_only_triton_is_left() -> None:
    """Head size 96 rules FlashInfer out; Triton needs capability 8.9 for fp8."""
    with pytest.raises(
        Refused, match=r"compute capability 8\.0.*--kv-cache-dtype bfloat16"
    ):
        select_backend(needs(head_size=96, kv_cache_dtype="fp8"), AMPERE)


def test_a_block_size_that_no_kernel_reads_is_refused() -> None:
    """All of them want multiples of 16."""
    with pytest.raises(Refused, match="No valid attention backend found for cuda"):
        select_backend(needs(block_size=8), HOPPER)


def test_an_unknown_kv_dtype_is_named() -> None:
    """nvfp4 waits for its own page layout."""
    with pytest.raises(UnknownArchitecture, match="kv_cache_dtype='nvfp4'"):
        select_backend(needs(kv_cache_dtype="nvfp4"), BLACKWELL)


def test_blocks_hold_16_tokens_unless_the_kernel_wants_more() -> None:
    """FlashAttention 4 reads head size 256 in pages of 128 on capability 10."""
    assert 16 == preferred_block_size("FLASH_ATTN", needs(), HOPPER)
    wide = needs(head_size=256)
    assert 128 == preferred_block_size("FLASH_ATTN", wide, BLACKWELL)
    assert 16 == preferred_block_size("FLASHINFER", wide, BLACKWELL)


def test_flashinfer_keeps_a_counter_for_all_layers() -> None:
    """16,384 tokens x 32 heads x 4 bytes = 2 MiB."""
    (buffer,) = kernel_buffers(
        "FLASHINFER", max_num_batched_tokens=16384, num_heads=32, gpu=BLACKWELL
    )
    assert 16384 * 32 == buffer.tensors(ParallelLayout())[0].elements
    assert () == kernel_buffers(
        "FLASH_ATTN", max_num_batched_tokens=16384, num_heads=32, gpu=HOPPER
    )
