"""Which kernel serves a layer, what block size follows, what is refused."""

from dataclasses import replace

import pytest

import planner
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.memory.kv_cache.attention_backends import FlashAttention, FlashInfer
from planner.memory.kv_cache.attention_caches import attention_backend, other_backend
from planner.memory.kv_cache.backend import ENCODER_DECODER
from planner.memory.kv_cache.cache_context import CacheContext
from planner.memory.kv_cache.choosing import kernel_buffers
from planner.memory.kv_cache.layer_caches import preferred_block_size
from planner.models.caches import AttentionLayer, CrossAttentionLayer
from tests.configs import LLAMA_8B, architecture, gpu

HOPPER = gpu()
BLACKWELL = gpu(compute_capability=(10, 0), device_name="NVIDIA B200", num_sms=148)
AMPERE = gpu(compute_capability=(8, 0), device_name="NVIDIA A100-SXM4-80GB")
TURING = gpu(compute_capability=(7, 5), device_name="Tesla T4")
LAYER = AttentionLayer(num_heads=32, num_kv_heads=8, head_size=128)


def context(device: GPU = HOPPER, **changes: object) -> CacheContext:
    """Return a usual deployment with some facts replaced."""
    usual = CacheContext(
        gpu=device,
        layout=ParallelLayout(compute_capability=device.compute_capability),
        dtype="bfloat16",
        head_size=128,
        num_heads=32,
        num_kv_heads=8,
    )
    return replace(usual, **changes)


@pytest.mark.parametrize(
    ("device", "layer", "changes", "expected"),
    [
        (HOPPER, {}, {}, "FLASH_ATTN"),
        (BLACKWELL, {}, {}, "FLASHINFER"),
        (BLACKWELL, {"head_size": 96}, {}, "FLASH_ATTN"),
        (HOPPER, {}, {"dtype": "float32"}, "TRITON_ATTN"),
        (HOPPER, {}, {"kv_cache_dtype": "fp8"}, "FLASH_ATTN"),
        (HOPPER, {}, {"kv_cache_dtype": "fp8_e5m2"}, "FLASHINFER"),
        (HOPPER, {}, {"kv_cache_dtype": "int8_per_token_head"}, "TRITON_ATTN"),
        (HOPPER, {}, {"kv_cache_dtype": "turboquant_k8v4"}, "TURBOQUANT"),
        (AMPERE, {}, {"kv_cache_dtype": "fp8"}, "FLASHINFER"),
        (AMPERE, {"has_sinks": True}, {}, "TRITON_ATTN"),
        (TURING, {}, {"dtype": "float16"}, "TRITON_ATTN"),
        (HOPPER, {"head_size_v": 64}, {}, "FLASH_ATTN_DIFFKV"),
        (AMPERE, {"head_size_v": 64}, {}, "TRITON_ATTN_DIFFKV"),
        (HOPPER, {"head_size": 256}, {"is_mm_prefix_lm": True}, "TRITON_FLASH_ATTN"),
        (BLACKWELL, {"head_size": 256}, {"is_mm_prefix_lm": True}, "TRITON_FLASHINFER"),
        (AMPERE, {"head_size": 256}, {"is_mm_prefix_lm": True}, "TRITON_ATTN"),
    ],
)
def test_the_first_kernel_that_accepts_the_layer_is_taken(
    device: GPU, layer: dict[str, object], changes: dict[str, object], expected: str
) -> None:
    """Order by GPU generation, conditions by kernel."""
    asked = replace(LAYER, **layer)
    assert expected == attention_backend(asked, context(device, **changes)).name


def test_fp8_before_ada_is_refused_where_only_triton_is_left() -> None:
    """Head size 96 rules FlashInfer out; Triton needs capability 8.9 for fp8."""
    layer = replace(LAYER, head_size=96)
    with pytest.raises(
        Refused, match=r"compute capability 8\.0.*--kv-cache-dtype bfloat16"
    ):
        attention_backend(layer, context(AMPERE, kv_cache_dtype="fp8"))


def test_a_block_size_that_no_kernel_reads_is_refused_with_the_reasons() -> None:
    """All of them want multiples of 16."""
    with pytest.raises(Refused, match="No valid attention backend found") as refusal:
        attention_backend(LAYER, context(requested_block_size=8))
    text = str(refusal.value)
    assert "block_size=8, use_mla=False, has_sink=False" in text
    assert (
        "Reasons: {FLASH_ATTN: [block_size not supported], "
        "FLASHINFER: [block_size not supported], "
        "TRITON_ATTN: [block_size not supported], "
        "FLEX_ATTENTION: [block_size not supported], "
        "TURBOQUANT: [kv_cache_dtype not supported, block_size not supported]}."
    ) in text


def test_fp8_checkpoints_refuse_the_other_fp8() -> None:
    """Their scales are made for E4M3."""
    told = context(kv_cache_dtype="fp8_e5m2", has_kv_cache_scales=True)
    with pytest.raises(Refused, match="fp8_e5m2 kv-cache is not supported with fp8"):
        attention_backend(LAYER, told)


def test_a_backend_may_be_asked_for() -> None:
    """One that does not fit is refused by name; a stranger is named."""
    told = context(requested_backend="TRITON_ATTN")
    assert "TRITON_ATTN" == attention_backend(LAYER, told).name
    with pytest.raises(Refused, match="FLASH_ATTN is not valid"):
        attention_backend(
            LAYER, context(requested_backend="FLASH_ATTN", dtype="float32")
        )
    with pytest.raises(UnknownArchitecture, match="attention_backend='B12X'"):
        attention_backend(LAYER, context(requested_backend="B12X"))


def test_attention_to_an_encoder_is_not_flashinfers() -> None:
    """With fp8 E5M2 only Triton is left."""
    layer = CrossAttentionLayer(num_heads=8, num_kv_heads=8, head_size=64)
    told = context(kv_cache_dtype="fp8_e5m2")
    found = other_backend(layer, told, attn_type=ENCODER_DECODER)
    assert "TRITON_ATTN" == found.name


def test_blocks_hold_16_tokens_unless_the_kernel_wants_more() -> None:
    """FlashAttention 4 reads head size 256 in pages of 128 on capability 10."""
    wide = context(BLACKWELL, head_size=256)
    assert 16 == preferred_block_size((FlashAttention(),), context())
    assert 128 == preferred_block_size((FlashAttention(),), wide)
    assert 16 == preferred_block_size((FlashInfer(),), wide)
    assert 128 == preferred_block_size((FlashAttention(), FlashInfer()), wide)


def test_flashinfer_keeps_a_counter_for_all_layers() -> None:
    """16,384 tokens x 32 heads x 4 bytes = 2 MiB."""
    (buffer,) = kernel_buffers(
        FlashInfer(), max_num_batched_tokens=16384, num_heads=32, gpu=BLACKWELL
    )
    assert 16384 * 32 == buffer.tensors(ParallelLayout())[0].elements
    assert () == kernel_buffers(
        FlashAttention(), max_num_batched_tokens=16384, num_heads=32, gpu=HOPPER
    )


def test_the_counter_came_with_0_33() -> None:
    """16,384 tokens x 32 heads x 4 bytes = 2 MiB more than in 0.32.0."""
    device = GPU.named("B200")
    model = architecture(LLAMA_8B)
    newer, older = (
        planner.plan(
            model, device, vllm_version=version, max_num_batched_tokens=16384
        ).ranks[0]
        for version in ("0.33.0", "0.32.0")
    )
    assert 2 << 20 == newer.weights_bytes - older.weights_bytes
