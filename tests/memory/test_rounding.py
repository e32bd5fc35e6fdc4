"""Blocks of an eager forward pass, and those that rotary tables left for weights."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.memory.allocator import beyond_tensor, beyond_tensors
from planner.memory.lines.rounding import rounding_bytes
from planner.memory.shared_blocks import beyond_tables, tails_bytes
from planner.models.layers import Part, Replicated
from planner.planning.result import Plan
from planner.units import MIB


def start(model: str, **changes: Any) -> Plan:
    """Return an eager start of 8,192 tokens."""
    sizes = {"max_num_batched_tokens": 8192, "max_num_seqs": 8, "max_model_len": 4096}
    return planner.plan(
        model, gpu="H200", **{**sizes, "enforce_eager": True, **changes}
    )


def rounding(plan: Plan) -> int:
    """Return what its blocks have beyond their tensors."""
    return rounding_bytes(plan.ranks[0].profile_run)


def test_an_activation_takes_the_block_of_what_attention_projected() -> None:
    """Phi-3: 8,192 activations take 128 MiB, in a block of 9,216 values, 144 MiB."""
    assert 16 * MIB == rounding(start("microsoft/Phi-3-mini-128k-instruct"))


def test_hidden_states_are_rounded_to_blocks() -> None:
    """Llama's 4,096 values of 10,000 tokens: 78.1 MiB in blocks of 80, three times.

    Gate and up take 546.9 MiB in 548, the activation 273.4 in 274.
    """
    plan = start("meta-llama/Meta-Llama-3-8B-Instruct", max_num_batched_tokens=10000)
    beyond = 3 * 80 + 548 + 274 - 10000 * 2 * (3 * 4096 + 3 * 14336) / MIB
    assert beyond == rounding(plan) / MIB


def test_tensors_of_a_compiled_layer_have_blocks_of_their_own() -> None:
    """Llama's residuals, attention's output, gate and up, and the activation."""
    model = "meta-llama/Meta-Llama-3-8B-Instruct"
    plan = start(model, max_num_batched_tokens=10000, enforce_eager=False)
    tensors = 10000 * 2 * (3 * 4096 + 3 * 14336) / MIB
    assert 3 * 80 + 548 + 274 - tensors == rounding(plan) / MIB
    assert 0 == rounding(start(model, enforce_eager=False))


def test_small_tensors_have_none() -> None:
    """Blocks below 20 MiB are split."""
    model = "meta-llama/Meta-Llama-3-8B-Instruct"
    assert 0 == rounding(start(model, max_num_batched_tokens=256))
    assert 0 == rounding(start(model, vllm_version="0.30.0"))


@pytest.mark.parametrize(
    ("model", "ranks", "beyond_mib"),
    [
        # 4,096 values of four patches, 128 MiB, take blocks of 1,152 of each, 144 MiB.
        ("Qwen/Qwen3-VL-8B-Instruct", 1, 3 * (144 - 128)),
        # A rank's part of the MLP, 67.25 MiB, is in 68.
        ("Qwen/Qwen3-VL-8B-Instruct", 8, 3 * (144 - 128) + 0.75),
        # 2,048 values, 64 MiB, take blocks of a rank's queries and keys, 72 MiB.
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", 4, 3 * (72 - 64)),
        ("Qwen/Qwen3.5-9B", 1, 0),
    ],
)
def test_features_take_the_blocks_of_an_encoders_states(
    model: str, ranks: int, beyond_mib: float
) -> None:
    """Of 65,536 patches, with three levels of features or without."""
    found = start(model).model
    assert found is not None
    forward, each = found.towers[0].forward, 65536 * 2
    assert forward is not None
    steps = ((step.name, step.values(ranks) * each) for step in forward.steps)
    assert beyond_mib * MIB == beyond_tensors(steps)


@pytest.mark.parametrize(
    ("size", "left", "block"), [(19.5, 0, 19.5), (57.8, 0, 58), (57.8, 74.3, 76)]
)
def test_a_tensor_takes_a_whole_block(size: float, left: float, block: float) -> None:
    """One of its own, or a free one that is less than 20 MiB larger."""
    release, size_bytes = ParallelLayout().release, int(size * MIB)
    found = size_bytes + beyond_tensor(size_bytes, release, int(left * MIB))
    assert int(block * MIB) == found
    before = Release((0, 30))
    assert 0 == beyond_tensor(size_bytes, before, int(left * MIB))


def beyond(model: str) -> int:
    """Return what weights take beyond their own segments."""
    plan = start(model)
    read, rank = plan.model, plan.ranks[0].profile_run
    assert read is not None
    modules = (m for index in read.layers for m in read.layer_kinds[index].modules)
    return beyond_tables(read.every_stage, modules, rank.layout, "bfloat16")


def test_weights_take_the_blocks_of_a_rotary_table() -> None:
    """Qwen3-VL-2B: 262,144 angles and cosines or sines, each 64 MiB, are free.

    Two layers' gate and up, 48 MiB, take them; the joined table, 128 MiB, is too large.
    """
    assert 2 * (64 - 48) * MIB == beyond("Qwen/Qwen3-VL-2B-Instruct")


def test_a_short_table_leaves_blocks_that_are_split() -> None:
    """Qwen3-8B: 40,960 rows in fp32 are 10 and 20 MiB."""
    assert 0 == beyond("Qwen/Qwen3-8B")


def test_the_last_tensor_of_a_segment_has_its_end() -> None:
    """Three of 6.5 MiB leave 0.5 MiB of 20; of four of 4.5 MiB 2 MiB are split off."""

    def tails(mib: float, count: int) -> int:
        one = Replicated("weight", Part.MLP, ((int(mib * MIB) // 2,),))
        return tails_bytes([one] * count, ParallelLayout(), "bfloat16")

    assert MIB // 2 == tails(6.5, 3)
    assert 0 == tails(4.5, 4)
    assert 0 == tails(0.5, 40)
