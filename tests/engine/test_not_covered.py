"""Accelerators that the planner does not cover."""

from __future__ import annotations

import pytest

import planner
from planner.engine.gpu import GPU, catalogue, names_of
from planner.engine.not_covered import NOT_COVERED, why_not_covered
from planner.errors import PlannerError


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("MI300X", "an AMD GPU"),
        ("mi325x", "an AMD GPU"),
        ("AMD Instinct MI355X", "an AMD GPU"),
        ("RX 7900 XTX", "an AMD GPU"),
        ("TPU v5e", "a TPU"),
        ("v6e", "a TPU"),
        ("Gaudi3", "an Intel Gaudi"),
        ("Ascend 910B", "a Huawei Ascend"),
        ("Apple M3 Max", "an Apple chip"),
        ("Arc B580", "an Intel GPU"),
        ("Trainium2", "an AWS accelerator"),
        ("Tenstorrent Wormhole", "an accelerator of another kind"),
    ],
)
def test_another_accelerator_is_refused_by_what_it_is(name: str, what: str):
    """What it is, what is covered, and why a described GPU does not help."""
    with pytest.raises(PlannerError) as refused:
        planner.plan("Qwen/Qwen3-8B", gpu=name)
    message = str(refused.value)
    assert message.startswith(f"{name!r} is {what}, and is not covered")
    assert "vLLM's CUDA and CPU platforms" in message
    assert "would not hold for it either" in message
    assert "Nearest" not in message


def test_no_known_gpu_is_taken_for_another_accelerator():
    """Under none of its names."""
    names = [name for gpu in catalogue() for name in names_of(gpu)]
    assert [name for name in names if why_not_covered(name)] == []


@pytest.mark.parametrize("name", ["H10", "RTX 5099", "A10000", "L5", "NVIDIA M4"])
def test_a_typo_gets_the_nearest_names(name: str):
    """An unknown NVIDIA GPU may be one of the catalogue's, or be described."""
    with pytest.raises(PlannerError, match=r"Nearest: .*name=MyGPU,memory=48GiB"):
        GPU.named(name)


@pytest.mark.parametrize("listed", NOT_COVERED)
def test_what_a_list_names_is_what_is_refused(listed: str) -> None:
    """The page lists these; each of them is one of the kinds that plans refuse."""
    assert "is not covered" in why_not_covered(listed)
