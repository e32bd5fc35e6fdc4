"""What a row of an encoder has at once, beside the allocations of vLLM's own starts.

A row's values are those that PyTorch's allocator had at the encoder's peak in a dry run
of vLLM 0.33.0, by the line of code that allocated them.
"""

from __future__ import annotations

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.memory.media.towers import widths
from planner.models.families.facts import Facts
from planner.models.families.towers.clip import encoder_pass

CASES = {
    # Queries, keys and values, two of them joined and rotated, the output, input, norm
    # and projection: 11 of 1,280, and tables of 80.
    "Qwen/Qwen2-VL-7B-Instruct": (1, 11 * 1280 + 80),
    # Gate, up and product of 3,420 and three of 1,280, tables of 80.
    "Qwen/Qwen2.5-VL-7B-Instruct": (1, 3 * 3420 + 3 * 1280 + 80),
    # 12 of 1,152, three features of 4,096 for four rows, tables of 72.
    "Qwen/Qwen3-VL-8B-Instruct": (1, 12 * 1152 + 3 * 1024 + 72),
    "Qwen/Qwen3.5-9B": (1, 12 * 1152 + 72),
    # The MLP's input and output of 4,304 and four of 1,152.
    "google/gemma-3-4b-it": (1, 2 * 4304 + 4 * 1152),
    "google/gemma-4-E4B-it": (1, 3 * 3072 + 4 * 768 + 2 * 64),
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": (
        1,
        3 * 4096 + 6 * 1024 + 2 * 64,
    ),
    # In four parts of keys: three of 1,408, and of 14 the half.
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": (2, (3 + (6 + 2 * 4) // 2) * 1408),
    "meta-models/Muse-Glimmer-30B": (1, 18 * 1536 + 4 * 96),
    "moonshotai/Kimi-K2.6": (1, 23 * 1152 + 2 * 72),
    "MiniMaxAI/MiniMax-M3": (8, 1280 + 6144 // 8 + 2 * 6144),
    "LiquidAI/LFM2.5-VL-1.6B": (1, (3 + 4 + 2 * 4) * 1152),
    "Qwen/Qwen2-Audio-7B-Instruct": (1, 2 * 5120 + 4 * 1280),
    "openai/whisper-large-v3": (1, 2 * 5120 + 3 * 1280),
}


@pytest.mark.parametrize("model", CASES)
def test_a_row_has_what_vllm_allocated(model: str) -> None:
    """The widest of the first tower's moments, on one rank of so many."""
    ranks, values = CASES[model]
    found = planner.plan(model, gpu="H200", max_model_len=448).model
    assert found is not None
    layout = ParallelLayout(tensor_parallel_size=ranks)
    assert (values,) * 3 == widths(found.towers[0], layout)


def test_an_mlp_in_full_peaks_where_many_ranks_cut_attention() -> None:
    """Muse Glimmer's: 8,960 before and after GELU, four of 1,536, tables of 96."""
    found = planner.plan("meta-models/Muse-Glimmer-30B", gpu="H200").model
    assert found is not None
    layout = ParallelLayout(tensor_parallel_size=4)
    mlp = 2 * 8960 + 4 * 1536 + 4 * 96
    assert (mlp,) * 3 == widths(found.towers[1], layout)


def test_gathering_peaks_where_many_ranks_cut_the_rest() -> None:
    """Of eight: the gathered columns twice, beside two of 1,280 and a rank's part."""
    found = planner.plan("Qwen/Qwen2-VL-7B-Instruct", gpu="H200").model
    assert found is not None
    layout = ParallelLayout(tensor_parallel_size=8)
    assert (8 * 1280 + 80 + 3 * 1280 // 8,) * 3 == widths(found.towers[0], layout)


def test_a_class_token_is_one_more_row_of_attention() -> None:
    """CLIP at 336 with patches of 14: 24 x 24 rows, and 1 for the class."""
    config = {
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "image_size": 336,
        "patch_size": 14,
    }
    facts = Facts(config, "clip_vision_model")
    for has_class_token in (False, True):
        attention = encoder_pass(facts, has_class_token=has_class_token).attention
        assert attention is not None
        assert attention.length == 24 * 24 + has_class_token


def test_beside_a_compiled_model_norms_are_pytorchs() -> None:
    """Encoders are not compiled; their activations are, by themselves."""
    made = planner.plan(
        "Qwen/Qwen2.5-VL-7B-Instruct",
        gpu="L40S",
        vllm_version="0.33.0",
        max_model_len=32768,
        max_num_seqs=32,
        compile_cache="warm",
    )
    assert made.model is not None
    tower, layout = made.model.towers[0], ParallelLayout()
    eager, native, unfused = (
        widths(tower, layout)[1],
        widths(tower, layout, is_native=True)[1],
        widths(tower, layout, is_native=True, is_unfused=True)[1],
    )
    # Norms that add up return both sums; up to 0.14 the activation copied a half.
    assert (eager + 2 * 1280, eager + 1280 + 3420) == (native, unfused)
    # vLLM's own start without a GPU.
    peak = made.ranks[0].line("peak activation").size_bytes
    assert abs(peak - 4_544_013_312) < 0.001 * peak


def test_before_0_15_activations_are_pytorchs_too() -> None:
    """Four more values of 3,420 channels a row."""

    def peak_bytes(release: str) -> int:
        made = planner.plan(
            "Qwen/Qwen2.5-VL-7B-Instruct",
            gpu="L40S",
            vllm_version=release,
            max_model_len=32768,
            max_num_batched_tokens=32768,
            compile_cache="warm",
        )
        return made.ranks[0].line("peak activation").size_bytes

    assert peak_bytes("0.14.0") > peak_bytes("0.15.0")
