"""Medusa and mlp_speculator: heads without layers, dropped with 0.33.0."""

from __future__ import annotations

from typing import Any

import pytest

from tests.configs import LLAMA_8B
from tests.models.test_speculating import draft_bytes, drafted
from tests.plans import assert_draft_uncounted

ASKED = {"method": "medusa", "num_speculative_tokens": 3}
MEDUSA: dict[str, Any] = {
    "model_type": "medusa",
    "hidden_size": 4096,
    "vocab_size": 128256,
    "medusa_num_heads": 3,
    "medusa_num_layers": 1,
    "max_position_embeddings": 8192,
}


@pytest.mark.parametrize("version", ["0.18.0", "0.25.1", "0.32.0"])
def test_medusas_heads_written_out(tmp_path, version) -> None:
    """Three blocks of 4096 x 4096, and three heads of 128,256 x 4096; no cache.

    On two ranks the blocks are whole and the heads halved.
    """
    blocks, heads = 3 * 4096 * 4096, 3 * 128256 * 4096
    plan = drafted(tmp_path, LLAMA_8B, ASKED, MEDUSA, vllm_version=version)
    assert 2 * (blocks + heads) == draft_bytes(plan)
    assert [32] == [group.num_layers for group in plan.kv_groups]
    two = drafted(
        tmp_path,
        LLAMA_8B,
        ASKED,
        MEDUSA,
        vllm_version=version,
        tensor_parallel_size=2,
    )
    assert 2 * (blocks + heads // 2) == draft_bytes(two)


def test_medusa_may_have_one_head_of_fewer_words_and_biases(tmp_path) -> None:
    """32,000 words once for all three; 3 x 4096 biases."""
    draft = {
        **MEDUSA,
        "original_lm_head": True,
        "truncated_vocab_size": 32000,
        "medusa_fc_bias": True,
    }
    plan = drafted(tmp_path, LLAMA_8B, ASKED, draft, vllm_version="0.32.0")
    assert 2 * (3 * 4096 * 4097 + 32000 * 4096) == draft_bytes(plan)
    assert plan.resolved is not None
    assert not plan.resolved.async_scheduling


def test_old_checkpoints_without_words_take_their_targets(tmp_path) -> None:
    """Where the method is named, from 0.25.0 on; before, 32,001 words do not fit."""
    old = {k: v for k, v in MEDUSA.items() if k != "vocab_size"}
    plan = drafted(tmp_path, LLAMA_8B, ASKED, old, vllm_version="0.32.0")
    assert 2 * (3 * 4096 * 4096 + 3 * 128256 * 4096) == draft_bytes(plan)
    assert_draft_uncounted(
        drafted(tmp_path, LLAMA_8B, ASKED, old, vllm_version="0.24.0"),
        "32,001 words",
    )


@pytest.mark.parametrize(
    ("asked", "kind", "version", "words"),
    [
        ({}, "mlp_speculator", "0.32.0", "Unknown speculative decoding method: mlp_sp"),
        (
            {"method": "mlp_speculator"},
            "mlp_speculator",
            "0.25.1",
            "Unknown speculative decoding method: mlp_speculator",
        ),
        (
            {"method": "medusa"},
            "medusa",
            "0.33.0",
            "1 validation error for SpeculativeConfig\nmethod",
        ),
    ],
)
def test_what_a_release_does_not_know_is_refused(
    tmp_path, asked, kind, version, words
) -> None:
    """In its words."""
    draft = {**MEDUSA, "model_type": kind}
    named = {"num_speculative_tokens": 3, **asked}
    plan = drafted(tmp_path, LLAMA_8B, named, draft, vllm_version=version)
    assert plan.error is not None
    assert plan.error.message.startswith(words)
