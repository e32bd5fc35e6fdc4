"""What latent attention needs beside weights and caches, in each release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import MODELLED, resolve_version
from planner.memory.lines.expert_workspace import expert_workspace_bytes
from planner.memory.lines.latent_context import (
    context_tokens,
    latent_context,
    latent_context_bytes,
)
from planner.memory.lines.shared_workspace import latent_workspace, shared_workspace
from planner.memory.profile_run import ProfileRun
from planner.models.architecture import LayerKind
from planner.models.caches import CompressedIndexerLayer, IndexerCacheLayer, MLALayer
from planner.units import GIB, MIB
from tests.configs import LLAMA_8B, architecture, gpu
from tests.rows import each_row

V3 = MLALayer(
    num_heads=128,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
)
V32 = MLALayer(
    num_heads=128,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    index_topk=2048,
    has_indexer=True,
)
GLM = MLALayer(
    num_heads=64,
    kv_lora_rank=512,
    qk_nope_head_dim=192,
    qk_rope_head_dim=64,
    v_head_dim=256,
)
KEYS = IndexerCacheLayer(row_bytes=132)


def latent_workspace_bytes(run: ProfileRun, **settings: str) -> int:
    """Bytes of the workspace."""
    return latent_workspace(run, **settings).size_bytes


def run(
    *caches: Any,
    version: str = "0.33.0",
    max_model_len: int = 163840,
    capability: tuple[int, int] = (9, 0),
    **layout: Any,
) -> ProfileRun:
    """Return the profile run of a model of one layer that keeps those caches."""
    release, _ = resolve_version(version)
    kind = LayerKind(caches=caches, modules=())
    return ProfileRun(
        model=replace(architecture(LLAMA_8B), layer_kinds=(kind,), layers=(0,)),
        gpu=gpu(compute_capability=capability),
        layout=ParallelLayout(compute_capability=capability, release=release, **layout),
        dtype="bfloat16",
        max_num_batched_tokens=8192,
        max_num_seqs=256,
        max_model_len=max_model_len,
        block_size=64,
        is_first_stage=True,
        is_last_stage=True,
    )


def test_context_of_deepseek_v3_on_eight_ranks() -> None:
    """65,536 tokens x 16 heads x (128 + 128) x 2 bytes = 0.5 GiB; one rank: 4 GiB."""
    assert GIB // 2 == latent_context_bytes(run(V3, tensor_parallel_size=8))
    assert 4 * GIB == latent_context_bytes(run(V3))


def test_without_compilation_queries_and_output_are_held_beside() -> None:
    """8,192 tokens x 16 heads x (128 + 64 + 128) x 2 bytes more than 0.5 GiB."""
    eager = replace(run(V3, tensor_parallel_size=8), enforce_eager=True)
    held = 8192 * 16 * (128 + 64 + 128) * 2
    assert GIB // 2 + held == latent_context_bytes(eager)


def test_context_is_that_of_eight_requests_in_whole_blocks() -> None:
    """8 x 1,001 = 8,008 tokens, less than 4 x 256 blocks of 64 = 65,536.

    8 x 10,001 tokens are more than the limit of 65,536.
    """
    few = replace(run(V3, max_model_len=1001), max_num_seqs=1)
    assert 8064 == context_tokens(few)
    assert 65536 == context_tokens(replace(few, max_num_seqs=256))
    assert 65536 == context_tokens(replace(few, max_model_len=10001))


def test_before_0_28_context_held_a_block_of_each_request() -> None:
    """0.27.1: 8 x 1,001 tokens as they are; 2,048 requests x 64 exceed 65,536."""
    few = replace(run(V3, version="0.27.1", max_model_len=1001), max_num_seqs=1)
    assert 8008 == context_tokens(few)
    assert 2048 * 64 == context_tokens(replace(few, max_num_seqs=2048))


@pytest.mark.parametrize(
    ("version", "dense", "sparse"),
    [
        ("0.10.2", False, False),
        ("0.11.0", True, False),
        ("0.15.1", True, False),
        ("0.16.0", True, True),
    ],
)
def test_context_came_with_0_11_and_for_chosen_tokens_with_0_16(
    version: str, dense: bool, sparse: bool
) -> None:
    """4 GiB where it is taken."""
    assert 4 * GIB * dense == latent_context_bytes(run(V3, version=version))
    assert 4 * GIB * sparse == latent_context_bytes(run(V32, version=version))


def test_an_indexer_keeps_825_mib_of_keys() -> None:
    """0.13.0: 40 x 163,840 tokens x 132 bytes = 825 MiB, as vLLM's own comment says."""
    size = latent_workspace_bytes(run(KEYS, version="0.13.0"))
    assert 825 * MIB == 40 * 163840 * 132 == size
    assert 0 == latent_workspace_bytes(run(KEYS, version="0.12.0"))


def test_an_indexer_of_compressed_tokens_keeps_fewer() -> None:
    """0.33.0: 40 x 163,840 / 4 tokens x 132 bytes, and 1 MiB for the choice."""
    keys = CompressedIndexerLayer(head_size=128, compress_ratio=4)
    assert 10 * 163840 * 132 + MIB == latent_workspace_bytes(run(keys))


def test_very_long_contexts_keep_fewer_keys_since_0_32() -> None:
    """16 instead of 40 x 1,048,576 tokens x 132 bytes, and 1 MiB for the choice."""
    length = 2**20
    old = run(KEYS, version="0.31.0", max_model_len=length)
    assert 40 * length * 132 + MIB == latent_workspace_bytes(old)
    assert 16 * length * 132 + MIB == (
        latent_workspace_bytes(run(KEYS, max_model_len=length))
    )


def test_an_indexer_takes_its_logits_for_a_moment() -> None:
    """512 MiB since 0.19.0; since 0.32.0 ranks exchange 2 x 8,192 x 2,048 x 4 bytes.

    On sixteen ranks the context is smaller: 65,536 x 8 x 256 x 2 bytes = 256 MiB.
    """
    ranks = {"tensor_parallel_size": 16}
    assert 256 * MIB == latent_context_bytes(run(V32, KEYS, version="0.18.1", **ranks))
    assert 512 * MIB == latent_context_bytes(run(V32, KEYS, version="0.19.0", **ranks))
    assert 512 * MIB + 2 * 8192 * 2048 * 4 == (
        latent_context_bytes(run(V32, KEYS, **ranks))
    )


def test_flashmla_keeps_the_context_of_a_quantised_cache() -> None:
    """Hopper, eight ranks, 163,840 tokens: 5 x 163,840 x 576 x 2 bytes = 900 MiB.

    0.18.0 adds queries of 8,192 x 16 x 576, 0.31.0 those padded to 64 heads and
    outputs of 8,192 x (64 + 16) x 512, 2 bytes each.
    """
    sizes = [
        latent_workspace_bytes(
            run(V32, KEYS, version=version, tensor_parallel_size=8),
            kv_cache_dtype="fp8_ds_mla",
        )
        for version in ("0.13.0", "0.18.0", "0.31.0")
    ]
    queries = 8192 * 16 * 576 * 2
    outputs = 8192 * (64 * 576 + (64 + 16) * 512) * 2
    context = 5 * 163840 * 576 * 2
    assert [context, context + queries, context + queries + outputs] == sizes


def test_flashinfer_prefills_heads_of_glm_on_b200() -> None:
    """394 MiB since 0.22.0, which had no other kernel for its heads."""
    b200 = {"capability": (10, 0)}
    assert 394 * MIB == latent_workspace_bytes(run(GLM, **b200))
    assert 0 == latent_workspace_bytes(run(GLM, version="0.21.0", **b200))
    assert 0 == latent_workspace_bytes(run(V3, **b200))


def test_triton_keeps_the_logits_of_its_splits() -> None:
    """A100: 256 requests x 128 heads x 64 splits x 513 x 4 bytes, since 0.33.0.

    32,768 tokens make 64 splits of 512; at most 2 for each of 132 multiprocessors.
    """
    a100 = run(V3, max_model_len=32768, capability=(8, 0))
    assert 256 * 128 * 64 * 513 * 4 == latent_workspace_bytes(a100)
    longer = run(V3, max_model_len=2**20, capability=(8, 0))
    assert 256 * 128 * 264 * 513 * 4 == latent_workspace_bytes(longer)
    assert 0 == latent_workspace_bytes(run(V3, version="0.32.0", capability=(8, 0)))


def test_experts_and_latent_attention_share_the_larger_workspace() -> None:
    """Here experts need none, so it is the indexer's."""
    start = run(V32, KEYS)
    assert 0 == expert_workspace_bytes(start)
    assert latent_workspace(start) == shared_workspace(start)


@each_row("version", MODELLED)
def test_other_attention_needs_nothing(version: str) -> None:
    """Llama's is not latent; where nothing is held, nothing is explained."""
    release, _ = resolve_version(version)
    plain = replace(
        run(),
        model=architecture(LLAMA_8B),
        layout=ParallelLayout(release=release),
    )
    assert 0 == latent_context_bytes(plain) == latent_workspace_bytes(plain)
    assert latent_context(plain).why == "" == latent_workspace(plain).why


def test_deepseek_v32_has_no_context_since_its_class_is_its_own() -> None:
    """Its attention returns before it allocates; 0.28 serves it by DeepSeek-V2's."""

    def peak_of_context(version: str) -> int:
        made = planner.plan(
            "deepseek-ai/DeepSeek-V3.2",
            gpu="H200",
            vllm_version=version,
            tensor_parallel_size=8,
            max_model_len=65536,
            enforce_eager=True,
        )
        return latent_context_bytes(made.ranks[0].profile_run)

    tokens, heads, indexer = 65536, 128 // 8, 512 * MIB
    assert peak_of_context("0.28.0") > 2 * tokens * heads * (128 + 128)
    # Latent vectors before and after their norms; a rank's queries, keys and output.
    of_attention = 2 * 2112 + heads * (128 + 64 + 512 + 64 + 128)
    # Queries, and in FP8, keys and weights, and weights in fp32.
    of_indexer = 64 * 128 + 64 * 128 // 2 + 128 + 64 + 2 * 64
    inputs = 2 * 8192 * (of_attention + of_indexer)
    assert indexer + inputs == peak_of_context("0.29.0")


def test_the_indexer_of_glm_5_3_runs_beside_what_attention_projected() -> None:
    """On eight ranks, for 8,192 tokens, as a traced dry run of 0.33.0 had it.

    Queries of 1,536 and keys of 512 values, and once more behind their norms; 2,048 of
    a rank's heads; 4,096 of the indexer's queries, as many bytes in FP8, and 160 more.
    """
    plan = planner.plan(
        "zai-org/GLM-5.3-Flash",
        gpu="H100",
        max_model_len=32768,
        max_num_seqs=16,
        max_num_batched_tokens=8192,
        tensor_parallel_size=8,
        enforce_eager=True,
    )
    values = 2 * (1536 + 512) + 2048 + 4096 + 4096 // 2 + 128 + 32
    streams = (2 * 4 + 2) * 4096
    choices = 2 * 8192 * 2176 * 4
    images = 250 * MIB  # 31,980 of 4,096 values are 249.8
    size_bytes = 8192 * (values + streams) * 2 + 512 * MIB + choices + images
    assert size_bytes == plan.ranks[0].line("peak activation").size_bytes
