"""DeepSeek-V4: compressed attention, its caches, and its checkpoints' formats."""

from __future__ import annotations

from typing import Any

import pytest

from planner import plan
from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.memory.kv_cache.kv_spec import CannotMergeError, Request
from planner.memory.kv_cache.specs_of_latent import (
    CompressedMLASpec,
    SlidingWindowMLASpec,
)
from planner.memory.weights import stage_weights
from tests.configs import architecture

TINY: dict[str, Any] = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "torch_dtype": "bfloat16",
    "vocab_size": 128,
    "hidden_size": 256,
    "moe_intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 64,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "q_lora_rank": 128,
    "o_lora_rank": 128,
    "o_groups": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "num_hash_layers": 1,
    "topk_method": "noaux_tc",
    "max_position_embeddings": 4096,
    "compress_ratios": [0, 4, 128, 4, 0],
    "rope_scaling": {
        "type": "yarn",
        "factor": 16,
        "original_max_position_embeddings": 512,
    },
}


def parts_of(
    config: dict[str, Any], layout: ParallelLayout, stage: int = 0
) -> dict[str, int]:
    """Bytes by part on one stage, in bfloat16."""
    weights = stage_weights(architecture(config), layout, "bfloat16")[stage]
    return {part.name: part.size_bytes for part in weights.parts}


def test_hyper_connections_mix_four_streams_in_float32() -> None:
    """4 streams need (2 + 4) x 4 = 24 mixes of 4 x 256 = 1,024 inputs.

    A half of a layer: 24 x 1,024 + 24 + 3 = 24,603 float32; four layers of two halves.
    Once a stage the head: 4 x 1,024 + 4 + 1 = 4,101; on the first stage the first
    layer's mixes summed over the streams: 24 x 256 = 6,144.
    """
    held = parts_of(TINY, ParallelLayout(max_num_batched_tokens=8))
    assert held["hyper-connections"] == (8 * 24_603 + 4_101 + 6_144) * 4


def test_router_holds_a_table_on_hashed_layers_and_a_bias_on_others() -> None:
    """Four gates of 4 x 256 in bfloat16.

    A table of 128 tokens x 2 experts of 4 bytes in the first layer; a bias of 4
    float32 in each of the other three.
    """
    held = parts_of(TINY, ParallelLayout(max_num_batched_tokens=8))
    assert held["router"] == 4 * 4 * 256 * 2 + 128 * 2 * 4 + 3 * 4 * 4


def test_each_stage_holds_the_rotary_tables_of_its_own_layers() -> None:
    """Two stages of two layers: without and with compression, compressed alone.

    A table without: 4,096 rows of 64 float32;
    with: 512 x 16 = 8,192 rows. Both stages have the buffer of choices, 8 x 512 int32.
    """
    layout = ParallelLayout(pipeline_parallel_size=2, max_num_batched_tokens=8)
    choices = 8 * 512 * 4
    first = parts_of(TINY, layout, 0)["buffers"]
    second = parts_of(TINY, layout, 1)["buffers"]
    assert first == (4_096 + 8_192) * 64 * 4 + choices
    assert second == 8_192 * 64 * 4 + choices


def test_caches_of_a_layer_with_an_indexer() -> None:
    """A window of 64 tokens x 584 bytes = 37,376 is padded to 65 x 576 = 37,440.

    256 / 4 compressed tokens take as much; index keys take 64 x (128 + 4) = 8,448,
    padded to 15 x 576 = 8,640. 256 / 128 = 2 tokens take 1,168, padded to 1,728.
    """
    answer = plan(
        architecture(TINY), "H200", max_model_len=4096, max_num_batched_tokens=2048
    )
    found = [(g.block_size, g.num_layers, g.page_size_bytes) for g in answer.kv_groups]
    # Four windows; two indexers, two layers of ratio 4 and one of ratio 128.
    windows = [(n, page) for block, n, page in found if block == 64]
    assert sum(n for n, _ in windows) == 4
    assert sum(page for _, page in windows) == 4 * 37_440
    assert (256, 5, 2 * 8_640 + 2 * 37_440 + 1_728) in found


def test_only_fp8_is_kept_in_packed_pages() -> None:
    """FlashMLA reads its own format of FP8; another dtype ends the start."""
    answer = plan(architecture(TINY), "H200", kv_cache_dtype="bfloat16")
    assert answer.error is not None
    assert answer.error.message.startswith(
        "DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got bfloat16."
    )


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("0.22.0", "DeepseekV4 only supports fp8 kv-cache format for now, got auto"),
        ("0.23.0", "DeepseekV4 FlashMLA fp8 layout only supports fp8 kv-cache, got "),
        ("0.29.0", "DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got auto"),
    ],
)
def test_fp8_had_to_be_asked_for(release: str, words: str) -> None:
    """Before 0.30, auto was no FP8; the words of the assertion changed twice."""
    answer = plan(architecture(TINY), "H200", vllm_version=release)
    assert answer.error is not None
    assert answer.error.message.startswith(words)
    newer = plan(architecture(TINY), "H200", vllm_version="0.30.0", max_model_len=4096)
    assert newer.fits


def test_more_heads_than_a_kernel_reads_are_refused() -> None:
    """FlashMLA reads 64 or 128 heads; 256 on one rank are too many, on two not."""
    config = {**TINY, "num_attention_heads": 256}
    answer = plan(architecture(config), "H200", max_model_len=4096)
    assert answer.error is not None
    assert answer.error.message.startswith(
        "DeepseekV4 FlashMLA does not support 256 heads"
    )
    halved = plan(
        architecture(config), "H200", max_model_len=4096, tensor_parallel_size=2
    )
    assert "heads" not in str(halved.error)


def test_ranks_hold_whole_blocks_of_the_shared_experts() -> None:
    """3 blocks of 128 on 2 ranks are 2 on each: 4 x 128 = 512 columns for 384.

    Gate and up on a rank: 2 x 256 rows of 256; down: 256 rows of 256; with a float32
    scale for each block of 128 x 128: 4 x 2 + 2 x 2.
    """
    fp8 = {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
    }
    config = {**TINY, "n_shared_experts": 3, "quantization_config": fp8}
    layout = ParallelLayout(tensor_parallel_size=2, max_num_batched_tokens=8)
    layer = 2 * 256 * 256 + 256 * 256 + (4 * 2 + 2 * 2) * 4
    assert parts_of(config, layout)["shared experts"] == 4 * layer


def test_an_unknown_ratio_is_named() -> None:
    """Compressors make one of 4 or of 128 tokens."""
    with pytest.raises(UnknownArchitecture, match="compress_ratios"):
        architecture({**TINY, "compress_ratios": [0, 4, 64, 4]})


def test_specs_of_one_kind_merge_only_when_alike() -> None:
    """Pages of 256 / 4 tokens cannot share a spec with pages of 256 / 128."""

    def compressed(ratio: int) -> CompressedMLASpec:
        return CompressedMLASpec(
            block_size=256,
            num_kv_heads=1,
            head_size=512,
            element_bytes=1,
            tokens_per_state=ratio,
            alignment_bytes=576,
        )

    assert compressed(4).merge([compressed(4)]) == compressed(4)
    with pytest.raises(CannotMergeError):
        compressed(4).merge([compressed(4), compressed(128)])


def test_a_window_of_vectors_is_never_kept_in_full() -> None:
    """A window of 8 tokens in blocks of 4, with 4 in flight.

    8 - 1 + 4 = 11 tokens are 3 blocks, and one more. Without the hybrid KV cache
    manager vLLM stumbles over a field of its own.
    """
    window = SlidingWindowMLASpec(
        block_size=4,
        num_kv_heads=1,
        head_size=512,
        element_bytes=1,
        sliding_window=8,
    )
    request = Request(max_model_len=100, max_in_flight_tokens=4)
    assert window.blocks(request) == 4
    answer = plan(
        architecture(TINY),
        "H200",
        max_model_len=4096,
        disable_hybrid_kv_cache_manager=True,
    )
    assert answer.error is not None
    assert "'bounded_replay'" in answer.error.message


def test_a_block_holds_at_least_one_compressed_token() -> None:
    """128 tokens make one; blocks of 64 end in a division by zero in vLLM."""
    for size, is_refused in ((64, True), (128, False)):
        made = plan("deepseek-ai/DeepSeek-V4-Flash", gpu="H200", block_size=size)
        said = made.error.message if made.error else ""
        assert is_refused is ("integer division or modulo by zero" in said)


def test_no_page_is_as_large_as_a_window_of_small_blocks() -> None:
    """Before 0.27 the windows' pages of 37,440 bytes are padded: 19,008 is largest."""
    for release, is_refused in (("0.26.0", True), ("0.33.0", False)):
        made = plan(
            "deepseek-ai/DeepSeek-V4-Flash",
            gpu="H200",
            block_size=128,
            kv_cache_dtype="fp8",
            vllm_version=release,
        )
        said = made.error.message if made.error else ""
        assert is_refused is said.startswith("AssertionError")


def test_attention_holds_padded_queries_and_outputs() -> None:
    """A token of DeepSeek-V4-Flash on eight ranks: 8 heads of 512, padded to 64.

    Queries and outputs: 2 x 64 x 512 x 2 bytes; the latent projections of 1,024 + 512,
    twice; in 32 bits what is compressed into 512 and, for the indexer, 128: of two
    windows, values and gates; 64 indexer heads of 128 bytes, a scale and a weight.
    """
    attention = 2 * 64 * 512 * 2 + 2 * (1024 + 512) * 2
    compressed = 2 * 2 * (512 + 128) * 4
    indexer = 64 * (128 + 4 + 2)
    streams = (2 * 4 + 2) * 4096 * 2  # before and after mixing, input and output
    each = attention + compressed + indexer + streams
    shared = 512 * 2**20 + 2 * 8192 * 512 * 4  # an indexer's logits, and choices
    planned = plan(
        "deepseek-ai/DeepSeek-V4-Flash",
        gpu="H200",
        tensor_parallel_size=8,
        max_model_len=4096,
    )
    peak = planned.ranks[0].line("peak activation")
    assert 8192 * each + shared == peak.size_bytes
    assert "64 padded heads" in peak.why
