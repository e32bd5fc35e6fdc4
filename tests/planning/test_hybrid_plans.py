"""Whole plans of models with recurrent layers."""

import pytest

import planner
from planner.errors import PlannerError
from planner.planning.result import Plan
from tests.configs import architecture
from tests.hybrids import NEMOTRON_H, QWEN3_NEXT


def plan(config: dict[str, object], gpu: str = "H100", **arguments: object) -> Plan:
    """Plan a tiny hybrid of that config."""
    return planner.plan(architecture(config), gpu=gpu, **arguments)


def groups(found: Plan) -> list[tuple[str, int, int, int]]:
    """Kind, layers, tokens of a block and bytes of a page of each group."""
    return [
        (g.kind, g.num_layers, g.block_size, g.page_size_bytes) for g in found.kv_groups
    ]


def test_three_states_beside_one_layer_of_attention() -> None:
    """A token takes 2 x 2 heads x 16 x 2 bytes = 128, a state 48 x 3 + 4 x 32 values.

    272 x 2 bytes = 544 fit in one block of 16 tokens, 2,048 bytes; FlashInfer saves
    states on an H100, which makes it 64 tokens, 8,192 bytes.
    """
    found = plan(QWEN3_NEXT, max_model_len=10)
    state = ("MambaSpec", 1, 64, 8192)
    assert [state] * 3 + [("FullAttentionSpec", 1, 64, 8192)] == groups(found)
    assert 3 * 3 + 1 == found.blocks_per_request
    on_ada = plan(QWEN3_NEXT, gpu="L4", max_model_len=10)
    assert ("FullAttentionSpec", 1, 16, 2048) == groups(on_ada)[-1]
    assert 3 * 2 + 1 == on_ada.blocks_per_request


def test_without_prefix_caching_a_request_has_one_state() -> None:
    """Three groups of states with a block each, and one of attention."""
    found = plan(QWEN3_NEXT, enable_prefix_caching=False, max_model_len=10)
    assert ("MambaSpec", 1, 10, 2048) == groups(found)[0]
    assert 4 == found.blocks_per_request
    assert found.resolved is not None
    assert 10 == found.resolved.mamba_block_size


def test_float32_states_need_larger_pages() -> None:
    """272 values of 4 bytes are 1,088: nine tokens of 128 instead of five."""
    wide = plan(
        QWEN3_NEXT, gpu="L4", mamba_cache_dtype="float32", num_gpu_blocks_override=9
    )
    assert ("MambaSpec", 1, 16, 2048) == groups(wide)[0]
    tight = {**QWEN3_NEXT, "num_key_value_heads": 1, "head_dim": 8}
    assert 48 == groups(plan(tight, gpu="L4", mamba_cache_dtype="float32"))[0][2]
    assert 32 == groups(plan(tight, gpu="L4"))[0][2]
    only = plan(tight, gpu="L4", mamba_ssm_cache_dtype="float32")
    assert 32 == groups(only)[0][2]


def test_more_sequences_than_states_do_not_start() -> None:
    """1,024 sequences at once on 100 blocks; without CUDA graphs nobody checks."""

    def with_blocks(blocks: int, **arguments: object) -> Plan:
        return plan(
            NEMOTRON_H, num_gpu_blocks_override=blocks, max_model_len=64, **arguments
        )

    found = with_blocks(100)
    assert found.error is not None
    assert "num_seqs" == found.error.kind
    assert "max_num_seqs (1024) exceeds available Mamba cache blocks (100)." in (
        found.error.message
    )
    assert 100 == found.num_gpu_blocks
    assert with_blocks(1024).fits
    assert with_blocks(100, enforce_eager=True).fits
    assert with_blocks(100, max_num_seqs=100).fits


def test_a_state_dtype_that_vllm_does_not_know_is_named() -> None:
    """fp8 states do not exist."""
    with pytest.raises(PlannerError, match="mamba_cache_dtype='fp8': use one of auto"):
        plan(QWEN3_NEXT, mamba_cache_dtype="fp8")


def test_states_without_chunked_prefill_are_refused() -> None:
    """vLLM asserts it for every model with recurrent layers."""
    found = plan(QWEN3_NEXT, enable_chunked_prefill=False)
    assert found.error is not None
    assert "Chunked prefill is required for Mamba prefix caching." == (
        found.error.message
    )
