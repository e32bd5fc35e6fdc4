"""Which kernel serves latent attention, and what a token takes in its KV cache."""

from dataclasses import replace
from typing import Any

import pytest

from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.errors import Refused
from planner.memory.kv_cache.backend import CachePlace
from planner.memory.kv_cache.cache_context import BlockSizes, CacheContext
from planner.memory.kv_cache.kv_groups import bytes_per_block, group
from planner.memory.kv_cache.layer_caches import (
    BackedCache,
    first_block_size,
    preferred_block_size,
)
from planner.memory.kv_cache.layout import KVCacheLayout
from planner.memory.kv_cache.mla_backends import CutlassMLA
from planner.memory.kv_cache.mla_buffers import (
    cutlass_workspace,
    imported_workspaces,
    sparse_buffers,
)
from planner.memory.kv_cache.mla_caches import indexer_spec, mla_backend, mla_spec
from planner.memory.kv_cache.mla_sparse_backends import (
    DeepseekV32Indexer,
    FlashMLASparse,
)
from planner.models.caches import IndexerCacheLayer, MLALayer
from tests.configs import gpu

HOPPER = gpu()
BLACKWELL = gpu(compute_capability=(10, 0), device_name="NVIDIA B200", num_sms=148)
WORKSTATION = gpu(compute_capability=(12, 0), device_name="NVIDIA RTX PRO 6000")
AMPERE = gpu(compute_capability=(8, 0), device_name="NVIDIA A100-SXM4-80GB")
ADA = gpu(compute_capability=(8, 9), device_name="NVIDIA L40S")
TURING = gpu(compute_capability=(7, 5), device_name="Tesla T4")
V3 = MLALayer(
    num_heads=128,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
)
V32 = replace(V3, index_topk=2048, has_indexer=True)
KEYS = IndexerCacheLayer(row_bytes=132)


def context(device: GPU = HOPPER, *, ranks: int = 1, **changes: Any) -> CacheContext:
    """Return a usual deployment with some facts replaced."""
    usual = CacheContext(
        gpu=device,
        layout=ParallelLayout(
            compute_capability=device.compute_capability, tensor_parallel_size=ranks
        ),
        dtype="bfloat16",
    )
    return replace(usual, **changes)


@pytest.mark.parametrize(
    ("device", "changes", "name", "block_size"),
    [
        (HOPPER, {}, "FLASH_ATTN_MLA", 16),
        (HOPPER, {"kv_cache_dtype": "fp8"}, "FLASHMLA", 64),
        (BLACKWELL, {}, "FLASHINFER_MLA", 32),
        (AMPERE, {}, "TRITON_MLA", 16),
        (ADA, {"kv_cache_dtype": "fp8"}, "TRITON_MLA", 16),
        (WORKSTATION, {}, "TRITON_MLA", 16),
        (BLACKWELL, {"requested_backend": "cutlass_mla"}, "CUTLASS_MLA", 128),
    ],
)
def test_dense_attention_takes_the_first_kernel_that_can(
    device: GPU, changes: dict[str, Any], name: str, block_size: int
) -> None:
    """Each generation has its own order; the block is the kernel's smallest."""
    here = context(device, **changes)
    backend = mla_backend(V3, here)
    assert name == backend.name
    assert block_size == preferred_block_size((backend,), here)


@pytest.mark.parametrize(
    ("device", "ranks", "dtype", "name"),
    [
        (HOPPER, 1, "auto", "FLASH_ATTN_MLA_SPARSE"),
        (HOPPER, 1, "fp8", "FLASHMLA_SPARSE"),
        (HOPPER, 1, "fp8_e4m3", "FLASHINFER_MLA_SPARSE_SM90"),
        (BLACKWELL, 1, "auto", "FLASHMLA_SPARSE"),
        (BLACKWELL, 8, "auto", "FLASH_ATTN_MLA_SPARSE_FA4"),
        (BLACKWELL, 1, "fp8", "FLASHINFER_MLA_SPARSE"),
        (BLACKWELL, 1, "nvfp4_ds_mla", "FLASHMLA_SPARSE"),
        (WORKSTATION, 1, "auto", "FLASHINFER_MLA_SPARSE_SM120"),
    ],
)
def test_sparse_attention_goes_by_cache_dtype_and_heads(
    device: GPU, ranks: int, dtype: str, name: str
) -> None:
    """128 heads on 8 ranks are 16 a rank, which FlashAttention 4 takes."""
    here = context(device, ranks=ranks, kv_cache_dtype=dtype)
    assert name == mla_backend(V32, here).name


@pytest.mark.parametrize(
    ("device", "dtype", "row_bytes"),
    [
        (HOPPER, "auto", (512 + 64) * 2),
        (HOPPER, "fp8", 656),
        (BLACKWELL, "fp8", 512 + 64),
        (BLACKWELL, "nvfp4_ds_mla", 352),
        (WORKSTATION, "auto", 656),
    ],
)
def test_a_page_is_one_row_per_token(device: GPU, dtype: str, row_bytes: int) -> None:
    """64 rows: plain values, or 512 bytes + 4 scales of 4 + 64 x 2 = 656 bytes."""
    here = context(device, kv_cache_dtype=dtype)
    sizes = BlockSizes(block_size=64)
    spec = mla_spec(V32, CachePlace(mla_backend(V32, here), here, sizes))
    assert 64 * row_bytes == spec.page_size_bytes


def test_attention_and_indexers_share_one_group() -> None:
    """61 layers: 64 x (656 + 132) bytes each, 3,076,352 bytes a block."""
    here = context(kv_cache_dtype="fp8")
    sizes = BlockSizes(block_size=64)
    place = CachePlace(mla_backend(V32, here), here, sizes)
    beside = CachePlace(DeepseekV32Indexer(), here, sizes)
    kept = place.stored(mla_spec(V32, place))
    keys = beside.stored(indexer_spec(KEYS, beside))
    specs = [(layer, spec) for layer in range(61) for spec in (keys, kept)]
    (together,) = group(specs)
    assert ("UniformTypeKVCacheSpecs", 122) == (
        together.spec.kind,
        together.num_layers,
    )
    assert 3076352 == bytes_per_block((together,), KVCacheLayout.LBNHC)


@pytest.mark.parametrize(
    ("device", "layer", "changes", "message"),
    [
        (AMPERE, V3, {"kv_cache_dtype": "fp8"}, "Triton MLA backend on NVIDIA A100"),
        (TURING, V3, {"kv_cache_dtype": "bfloat16"}, "bfloat16 requires SM80"),
        (HOPPER, V3, {"kv_cache_dtype": "fp8_e5m2"}, "No valid attention backend"),
        (HOPPER, V32, {"requested_block_size": 32}, "block_size not supported"),
        (AMPERE, V32, {}, "FlashMLA Sparse is only supported on Hopper"),
        (HOPPER, V3, {"requested_backend": "CUTLASS_MLA"}, "CUTLASS_MLA is not valid"),
    ],
)
def test_what_no_kernel_does_is_refused(
    device: GPU, layer: MLALayer, changes: dict[str, Any], message: str
) -> None:
    """vLLM's words name the kernels and why each refuses."""
    with pytest.raises(Refused, match=message):
        mla_backend(layer, context(device, **changes))


def test_the_places_of_chosen_tokens_are_kept_once_per_choice() -> None:
    """16 requests and one more row of 2,048 places; the first layer always has one."""
    here = context(max_num_batched_tokens=64, max_num_seqs=16)
    taking = replace(V32, has_indexer=False)
    kernel = FlashMLASparse()
    caches = [
        BackedCache(layer=i, cache=layer, backend=kernel)
        for i, layer in enumerate((taking, V32, taking, V32))
    ]
    groups = [
        [tensor.elements for tensor in buffer.tensors(here.layout)]
        for buffer in sparse_buffers(caches, here)
    ]
    assert [[17 * 2048, 17]] * 3 == groups


def test_places_of_chosen_tokens_are_held_since_0_30() -> None:
    """A group for each layer that chooses, none in older releases."""
    caches = [BackedCache(layer=i, cache=V32, backend=FlashMLASparse()) for i in (0, 1)]
    there = context(max_num_batched_tokens=64, max_num_seqs=16)
    for minor, groups in ((30, 2), (29, 0)):
        layout = ParallelLayout(release=Release((0, minor, 0)))
        assert groups == len(sparse_buffers(caches, replace(there, layout=layout)))


@pytest.mark.parametrize(
    ("device", "asked", "version", "kept"),
    [
        (BLACKWELL, None, (0, 33, 0), ["CUTLASS_MLA"]),
        (BLACKWELL, None, (0, 24, 0), ["FLASHINFER_MLA", "CUTLASS_MLA"]),
        (BLACKWELL, None, (0, 11, 0), ["CUTLASS_MLA"]),
        (BLACKWELL, None, (0, 9, 2), []),
        (BLACKWELL, "FLASHINFER_MLA", (0, 24, 0), ["FLASHINFER_MLA"]),
        (BLACKWELL, "FLASHINFER_MLA", (0, 25, 0), []),
        (BLACKWELL, "FLASHMLA", (0, 19, 0), []),
        (HOPPER, None, (0, 24, 0), ["FLASHINFER_MLA"]),
        (HOPPER, None, (0, 25, 0), []),
        (HOPPER, None, (0, 11, 0), []),
        (WORKSTATION, None, (0, 23, 0), ["FLASHINFER_MLA"]),
        (WORKSTATION, None, (0, 24, 0), []),
    ],
)
def test_what_is_imported_keeps_its_workspace(
    device: GPU, asked: str | None, version: tuple[int, int, int], kept: list[str]
) -> None:
    """128 MiB for every backend asked since 0.11.1, before for the chosen one alone."""
    layout = ParallelLayout(release=Release(version))
    here = replace(context(device), layout=layout, requested_backend=asked)
    caches = [BackedCache(layer=0, cache=V3, backend=None)] * 2
    made = imported_workspaces(caches, here)
    assert [f"{name}'s workspace" for name in kept] == [m.name for m in made]
    for module in made:
        (tensor,) = module.tensors(layout)
        assert (128 << 20, "uint8") == (tensor.elements, tensor.dtype)
    assert () == imported_workspaces([], here)


def test_cutlass_keeps_one_workspace_for_all_layers() -> None:
    """128 MiB, and nothing for other kernels."""
    caches = [BackedCache(layer=i, cache=V3, backend=CutlassMLA()) for i in range(3)]
    (workspace,) = cutlass_workspace(caches, context(BLACKWELL))
    assert [128 * 2**20] == [t.elements for t in workspace.tensors(ParallelLayout())]
    caches = [BackedCache(layer=0, cache=V32, backend=FlashMLASparse())]
    assert () == cutlass_workspace(caches, context(BLACKWELL))


@pytest.mark.parametrize(
    ("device", "layer", "release", "expected"),
    [
        (HOPPER, V3, (0, 9, 2), 64),
        (HOPPER, V3, (0, 17, 1), 64),
        (HOPPER, V3, (0, 18, 0), 16),
        (BLACKWELL, V3, (0, 10, 0), 16),
        (BLACKWELL, V3, (0, 10, 1), 128),
        (BLACKWELL, V3, (0, 15, 0), 64),
        (BLACKWELL, replace(V3, qk_nope_head_dim=64), (0, 15, 0), 128),
        (BLACKWELL, V3, (0, 18, 0), 32),
        (AMPERE, V3, (0, 17, 1), 16),
        (HOPPER, V32, (0, 11, 0), 64),
        (BLACKWELL, V32, (0, 12, 0), 64),
    ],
)
def test_blocks_were_fixed_by_gpu_before_kernels_were_asked(
    device: GPU, layer: MLALayer, release: tuple[int, int, int], expected: int
) -> None:
    """What vLLM thought its kernel would want, until 0.17.1."""
    layout = ParallelLayout(
        compute_capability=device.compute_capability, release=Release(release)
    )
    here = context(device, layout=layout)
    backend = mla_backend(layer, here)
    caches = (BackedCache(layer=0, cache=layer, backend=backend),)
    assert expected == first_block_size(caches, (backend,), here)


def test_a_block_of_the_users_was_enlarged_to_suit() -> None:
    """On Hopper 16 becomes 64, 128 stays."""
    layout = ParallelLayout(release=Release((0, 16, 0)))
    found = []
    for asked in (16, 128):
        here = context(layout=layout, requested_block_size=asked)
        caches = (BackedCache(layer=0, cache=V3, backend=mla_backend(V3, here)),)
        found.append(first_block_size(caches, (), here))
    assert [64, 128] == found


@pytest.mark.parametrize(
    ("device", "layer", "release", "name"),
    [
        (BLACKWELL, V3, (0, 10, 0), "TRITON_MLA"),
        (BLACKWELL, V3, (0, 14, 1), "CUTLASS_MLA"),
        (BLACKWELL, V3, (0, 15, 0), "FLASHINFER_MLA"),
        (HOPPER, V32, (0, 24, 0), "FLASHMLA_SPARSE"),
        (HOPPER, V32, (0, 25, 0), "FLASH_ATTN_MLA_SPARSE"),
    ],
)
def test_kernels_came_one_after_another(
    device: GPU, layer: MLALayer, release: tuple[int, int, int], name: str
) -> None:
    """What is first in the order today is tried from its release on."""
    layout = ParallelLayout(
        compute_capability=device.compute_capability, release=Release(release)
    )
    assert name == mla_backend(layer, context(device, layout=layout)).name
