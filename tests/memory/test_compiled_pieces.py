"""What there is while a compiled piece of the model runs: traced dry runs of 0.33.0."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.units import MIB

FEW = {"max_model_len": 4096, "max_num_seqs": 8, "max_num_batched_tokens": 8192}


def peak_mib(model: str, gpu: str, **engine: Any) -> float:
    """Return the peak activation of a later start."""
    made = planner.plan(
        model, gpu=gpu, vllm_version="0.33.0", compile_cache="warm", **FEW | engine
    )
    return made.ranks[0].line("peak activation").size_bytes / MIB


def values(width: int, tokens: int = 8192) -> float:
    """Return MiB of so many values of two bytes for each token."""
    return tokens * 2 * width / MIB


@pytest.mark.parametrize(
    ("model", "tokens", "projected", "states", "hidden", "traced_mib"),
    [
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", 691, 22_656, 10_240, 4480, 104.4),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 8192, 10_304, 4096, 2688, 576.0),
    ],
)
def test_a_piece_begins_and_ends_with_a_mixer_of_mamba_2(
    model: str, tokens: int, projected: int, states: int, hidden: int, traced_mib: float
) -> None:
    """Its caller holds what the mixer before projected: the gate is a view of it.

    Blocks are of 2 MiB.
    """
    width = 2 * (projected + states) + 3 * hidden
    assert abs(values(width, tokens) - traced_mib) < 0.1
    found = peak_mib(model, "H200", max_num_batched_tokens=tokens)
    assert 0 <= found - traced_mib < 7 * 2


def test_a_delta_net_with_groups_joins_what_it_projected() -> None:
    """Five layers of Qwen3-Next: 642 MiB, of which 2 are not counted.

    Of 4,096: what attention or a net left with its gate (2), 12,288 projected (3),
    queries, keys and values again (2), z again and room for states. Two residuals.
    """
    few = {"hf_overrides": {"num_hidden_layers": 5}}
    found = peak_mib("Qwen/Qwen3-Next-80B-A3B-Instruct", "H100", **few)
    assert found == values(9 * 4096 + 2 * 2048) == 640


def test_experts_that_route_by_themselves_take_their_input_three_times() -> None:
    """Five layers on four ranks: 285 MiB measured, of 32 MiB each 8.5 and the routing.

    Sum and residual, three inputs, what attention left with its gate, half of one to
    clear the next states; the outputs of routed and of shared experts.
    """
    few = {"hf_overrides": {"num_hidden_layers": 5}, "tensor_parallel_size": 4}
    found = peak_mib("Qwen/Qwen3-Next-80B-A3B-Instruct", "H100", **few)
    assert abs(found - 8.5 * values(2048)) < 20
    assert abs(found - 285) < 5


def test_shared_experts_of_a_piece_run_as_written() -> None:
    """Inside of one operator: with their input and output, beside three states."""
    few = {"hf_overrides": {"num_hidden_layers": 3}}
    found = peak_mib("Qwen/Qwen1.5-MoE-A2.7B-Chat", "H100", **few)
    assert values(3 * 2048 + 3 * 5632 + 2 * 2048) == 424
    assert 424 <= found < 424 + 10 * 2


@pytest.mark.parametrize(
    ("release", "guesses", "leaves_z"),
    [("0.31.0", False, False), ("0.33.0", False, True), ("0.33.0", True, False)],
)
def test_a_kernel_of_delta_nets_needs_no_z_after_it(
    release: str, guesses: bool, leaves_z: bool
) -> None:
    """Of Qwen3.6-35B-A3B: 4,096 of output, beside 12,288 projected, of which z is."""
    asked: dict[str, Any] = {"language_model_only": True, "vllm_version": release}
    if guesses:
        asked["speculative_config"] = {"method": "mtp", "num_speculative_tokens": 1}
    made = planner.plan("Qwen/Qwen3.6-35B-A3B", gpu="H200", **FEW | asked)
    why = made.ranks[0].line("peak activation").why
    assert leaves_z is ("16,384 output" in why)
    assert leaves_z is not ("8,192 output" in why)  # of attention, with its gate
