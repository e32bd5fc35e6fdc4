"""What names refer to in an eager pass, beside dry starts that held no more."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.memory.lines.forward_pass import forward
from planner.planning.result import Plan
from planner.units import MIB

TOKENS = 12_000


def start(model: str, ranks: int = 1, **changes: Any) -> Plan:
    """Return an eager start with few requests, so that the forward pass is widest."""
    return planner.plan(
        model,
        **{
            "gpu": "L40S",
            "max_model_len": 1024,
            "max_num_seqs": 4,
            "max_num_batched_tokens": TOKENS,
            "tensor_parallel_size": ranks,
            "enforce_eager": True,
            **changes,
        },
    )


def peak_bytes(plan: Plan) -> int:
    """Return the planned peak of the first rank."""
    return plan.ranks[0].line("peak activation").size_bytes


THEIR_CODE = {"trust_remote_code": True}
BY_NAME = {
    # Words and positions, the usual three; four times the width, before and after ReLU.
    "facebook/opt-125m": (1, {}, 4 * 768 + 2 * 3072, 225445888),
    # And attention's output, both.
    "openai-community/gpt2-large": (1, {}, 6 * 1280 + 2 * 5120, 435161088),
    # The usual three.
    "EleutherAI/gpt-j-6b": (1, {}, 3 * 4096 + 2 * 16384, 1083181056),
    # Transformers' words; gate, up and activation.
    "HuggingFaceTB/SmolLM3-3B": (1, {}, 4 * 2048 + 3 * 11008, 999442432),
    # GLM's product with the gate as well; Phi's GELU in four tensors.
    "zai-org/glm-4-9b-chat-hf": (1, {}, 4 * 4096 + 4 * 13696, 1713301504),
    "microsoft/phi-1": (1, {}, 4 * 2048 + 4 * 8192, 990345216),
    # Two norms of the same states; before there is a sum over ranks.
    "tiiuae/falcon-40b": (2, {}, 4 * 8192 + 2 * 32768 // 2, 1576011776),
    "ByteDance-Seed/Seed-OSS-36B-Base": (
        *(2, {}),
        *(4 * 5120 + 3 * 27648 // 2, 1498269696),
    ),
    # Gate and up have a name, so that the output lies beside them.
    "CohereLabs/c4ai-command-r-v01": (
        *(2, {}),
        *(4 * 8192 + 3 * 22528 // 2 + 8192, 1796212736),
    ),
    "internlm/internlm2-7b": (1, THEIR_CODE, 4 * 4096 + 3 * 14336, 1429211136),
    "openbmb/MiniCPM4-8B": (1, THEIR_CODE, 4 * 4096 + 3 * 16384, 1573914624),
    "XiaomiMiMo/MiMo-7B-Base": (1, THEIR_CODE, 4 * 4096 + 3 * 11008, 1185941504),
    # One state less where images are merged with the text.
    "LiquidAI/LFM2.5-VL-1.6B": (
        *(1, {"skip_mm_profiling": True}),
        *(3 * 2048 + 3 * 8192, 741345280),
    ),
    # Both gates and the input of a convolution, two products, its output.
    "LiquidAI/LFM2.5-8B-A1B": (1, {}, (3 + 3 + 2 + 1) * 2048, 449841152),
    # Queries and keys are rotated as a copy; the last layer's residual.
    "microsoft/Phi-3.5-MoE-instruct": (
        *(2, {}),
        *(5 * 4096 + (6144 + 5120 + 4096) // 2, 680527872),
    ),
    # 2 states, queries, keys and values, the norm; 1 + 3 rotated in fp32, tables.
    "allenai/OLMo-7B-hf": (
        *(1, {}),
        *((2 + 3 + 1 + 2 * (1 + 3)) * 4096 + 2 * 2 * 128, 1391167488),
    ),
}
"""Ranks, arguments, values of a token, and what a dry start of 0.33.0 measured."""


@pytest.mark.parametrize("model", BY_NAME)
def test_a_token_has_as_many_values_as_names_refer_to(model: str) -> None:
    """Blocks of PyTorch's allocator are at most 24 MiB larger than the tensors."""
    ranks, changes, width, recorded_bytes = BY_NAME[model]
    rank = start(model, ranks, **changes).ranks[0]
    size_bytes = forward(rank.profile_run).size_bytes
    assert TOKENS * 2 * width == size_bytes
    assert 0 <= recorded_bytes - size_bytes < 24 * MIB


def test_shared_experts_have_names_for_gate_and_up_as_well() -> None:
    """DeepSeek-OCR: 3 states of 1,280 and 3 x 1,792; images are merged in a buffer.

    Two ranks do not add up the output of shared experts before that of the routed.
    """
    sizes = {"gpu": "H100", "max_num_seqs": 8, "max_num_batched_tokens": 8192}
    made = start("deepseek-ai/DeepSeek-OCR", **sizes, max_model_len=8192)
    run = made.ranks[0].profile_run
    each = 8192 * 2
    assert each * (3 * 1280 + 3 * 1792) == forward(run).size_bytes
    halves = start("deepseek-ai/DeepSeek-OCR", 2, **sizes).ranks[0].profile_run
    assert each * (3 * 1280 + 3 * 1792 // 2) == forward(halves).size_bytes
    recorded_bytes = 177448960
    assert abs(peak_bytes(made) - recorded_bytes) < 6 * MIB


def test_attention_with_a_gate_has_it_five_times() -> None:
    """Qwen3.5-122B on two ranks: 16 heads of 256, their gates, one key and value.

    As projected 8,704; five times 4,096 (copies of queries and gate, output, sigmoid,
    product); keys; four states. Images: 96 MiB of outputs are kept.
    """
    model = "nvidia/Qwen3.5-122B-A10B-NVFP4"
    made = start(model, 2, max_model_len=2048)
    width = 8704 + 5 * 4096 + 256 + 4 * 3072
    assert TOKENS * 2 * width + 96 * MIB == peak_bytes(made)
    assert abs(peak_bytes(made) - 1110296576) < 10 * MIB  # a dry start


@pytest.mark.parametrize(
    ("model", "hidden", "changes", "recorded_bytes"),
    [
        ("google/gemma-2-9b-it", 3584, {}, 961608704),
        ("Qwen/Qwen3.5-35B-A3B", 2048, {"skip_mm_profiling": True}, 546366464),
    ],
)
def test_gemmas_norm_is_in_fp32(
    model: str, hidden: int, changes: dict[str, Any], recorded_bytes: int
) -> None:
    """5 states, and three of the norm in fp32; before 0.31 one kernel computed it."""
    made = start(model, 4, **changes)
    assert TOKENS * 2 * (5 + 2 * 3) * hidden == peak_bytes(made)
    assert 0 <= recorded_bytes - peak_bytes(made) < 16 * MIB
    earlier = start(model, 4, **changes, vllm_version="0.30.0")
    assert peak_bytes(earlier) < peak_bytes(made)


def test_an_fp8_copy_is_given_up_before_ranks_are_added_up() -> None:
    """Gemma 3 1B on two ranks: an MLP of 3,456 has a copy of 1,728, a sum 1,152 values.

    Five states (one is the sum with the residual), and the output.
    """
    tokens = 26_618
    made = start(
        "unsloth/gemma-3-1b-it",
        2,
        gpu="RTXPRO6000",
        quantization="fp8_per_tensor",
        max_num_seqs=2,
        max_num_batched_tokens=tokens,
    )
    width = (5 + 1) * 1152 + 3 * 3456 + (3456 // 2 - 1152)
    assert tokens * 2 * width == peak_bytes(made)
    assert abs(peak_bytes(made) - 959555584) < 10 * MIB  # a dry start, with adapters


@pytest.mark.parametrize(
    ("model", "ranks", "changes", "width", "recorded_bytes"),
    [
        # The residual of the layer before has a name as well, and so has the sum.
        (
            "meta-models/Muse-Glimmer-30B",
            2,
            {"skip_mm_profiling": True},
            (5 + 1) * 6656 + 3 * 19968 // 2,
            1689257984,
        ),
        # Projected, queries and gate, three times the queries in fp32, four states.
        (
            "openbmb/MiniCPM-V-4.6",
            1,
            {"skip_mm_profiling": True, **THEIR_CODE},
            5120 + 2 * 2048 + 3 * 2 * 2048 + 4 * 1024,
            620095488,
        ),
        ("Qwen/Qwen1.5-MoE-A2.7B", 1, {}, 4 * 2048 + 3 * 5632, 621342720),
    ],
)
def test_dry_starts_of_other_classes_hold_what_their_code_names(
    model: str, ranks: int, changes: dict[str, Any], width: int, recorded_bytes: int
) -> None:
    """Two of them were read before they were started: they held no more than that."""
    made = start(model, ranks, max_model_len=2048, **changes)
    assert TOKENS * 2 * width == forward(made.ranks[0].profile_run).size_bytes
    assert 0 <= recorded_bytes - peak_bytes(made) < 20 * MIB


@pytest.mark.parametrize(
    ("model", "ranks", "width", "recorded_bytes"),
    [
        # Two residuals and attention's output; three more states around a norm.
        (
            "mistralai/Mixtral-8x22B-Instruct-v0.1",
            4,
            5 * 6144 + 6144 // 4,
            781189120,
        ),
        # Two more states, queries, keys and values, and those after their norms.
        (
            "Alibaba-NLP/Tongyi-DeepResearch-30B-A3B",
            1,
            4 * 2048 + 4096 + (4096 + 2 * 512) + (4096 + 512),
            533727232,
        ),
    ],
)
def test_compiled_layers_are_wide_where_ranks_divide_their_experts(
    model: str, ranks: int, width: int, recorded_bytes: int
) -> None:
    """Norms and attention's projection are then wider than what is divided."""
    made = start(model, ranks, max_model_len=2048, enforce_eager=False)
    assert TOKENS * 2 * width == forward(made.ranks[0].profile_run).size_bytes
    assert abs(recorded_bytes - peak_bytes(made)) < 8 * MIB
