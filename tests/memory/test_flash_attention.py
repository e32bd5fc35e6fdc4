"""Which release of FlashAttention serves heads of several sizes."""

from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.memory.kv_cache.cache_context import CacheContext
from planner.memory.kv_cache.flash_attention import Heads, for_mixed_head_sizes, version


def context(gpu: str, **changes: str) -> CacheContext:
    """A deployment in bfloat16 of a model with several head sizes."""
    plain = CacheContext(
        gpu=GPU.named(gpu), layout=ParallelLayout(), dtype="bfloat16", **changes
    )
    return for_mixed_head_sizes(plain)


def test_all_layers_use_the_release_that_takes_the_largest_heads() -> None:
    """On Hopper 4 for 256 and 512 alike, but what suits each with FP8."""
    sizes = Heads(size=256), Heads(size=512)
    assert [4, 4] == [version(context("H100"), heads) for heads in sizes]
    fp8 = context("H100", kv_cache_dtype="fp8")
    assert [3, 4] == [version(fp8, heads) for heads in sizes]


def test_triton_serves_them_where_release_4_does_not_run() -> None:
    """On Ampere, unless the user has chosen another."""
    assert context("A100").requested_backend == "TRITON_ATTN"
    chosen = context("A100", requested_backend="FLASHINFER")
    assert chosen.requested_backend == "FLASHINFER"
    assert context("H100").requested_backend is None
