"""Colours of the lines, as all eyes see them, and what is drawn apart."""

from itertools import combinations
from math import dist

import pytest

import planner
from planner.show.charts.memory_bars import figure_spec
from planner.show.kv_cache import drawn_lines
from planner.show.palette import MISSING, SWATCHES
from planner.show.tables import lines_table
from tests import plans

SEEN = {
    "as it is": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "without red": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "without green": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "without blue": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""What eyes make of linear red, green and blue (Machado and others, 2009)."""
ON_A_GPU = (
    *("weights", "encoder weights", "LoRA adapters", "draft model"),
    "persistent buffers",
    *("peak activation", "non-torch", "frontend video decoding", "CUDA graphs"),
    *("KV cache", "not planned"),
)
IN_CPU_MEMORY = (
    *("offloaded weights", "weights while asleep", "LoRA adapters"),
    *("offloaded KV blocks", "KV transfer buffers", "LMCache", "token ids"),
    *("rope positions", "processed images", "worker processes", "engine processes"),
    "API server",
)
APART = 12
"""Steps of CIELAB: two colours side by side are told apart from 2 or 3 on."""


def lab(colour: str, eyes: str) -> tuple[float, float, float]:
    """A colour in CIELAB, as some eyes see it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in parts
    ]
    rgb = [
        min(max(sum(a * b for a, b in zip(row, linear, strict=True)), 0), 1)
        for row in SEEN[eyes]
    ]
    white = (0.95047, 1.0, 1.08883)
    rows = (
        (0.4124, 0.3576, 0.1805),
        (0.2126, 0.7152, 0.0722),
        (0.0193, 0.1192, 0.9505),
    )
    x, y, z = (
        cubic(sum(a * b for a, b in zip(row, rgb, strict=True)) / part)
        for row, part in zip(rows, white, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def cubic(part: float) -> float:
    """CIELAB's response to light."""
    return part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116


@pytest.mark.parametrize("eyes", SEEN)
@pytest.mark.parametrize("names", [ON_A_GPU, IN_CPU_MEMORY], ids=["GPU", "machine"])
def test_lines_of_one_bar_are_told_apart_by_all_eyes(names, eyes) -> None:
    """All that can share a bar, and what is missing beside them."""
    fills = [*(SWATCHES[name].fill for name in names), MISSING]
    seen = [lab(fill, eyes) for fill in fills]

    assert len(set(fills)) == len(fills)
    assert min(dist(one, other) for one, other in combinations(seen, 2)) >= APART


def test_adapters_drafts_and_encoders_are_drawn_apart_of_the_weights() -> None:
    """Their sum is the line of the account, which the table keeps whole."""
    plan = planner.plan(
        "Qwen/Qwen2.5-VL-7B-Instruct", gpu="H100", enable_lora=True, max_loras=4
    )
    rank = plan.limiting_rank
    line = next(line for line in rank.lines if line.name == "weights")
    names = ("model weights", "encoder weights", "LoRA adapters")
    drawn = {one.name: one.size_bytes for one in drawn_lines(rank)}
    traces = {trace["name"] for trace in figure_spec(plan)["data"]}

    assert sum(drawn[name] for name in names) == line.size_bytes
    assert min(drawn[name] for name in names) > 0
    assert sum(drawn.values()) == rank.requested_memory_bytes
    assert set(names) <= traces
    table = lines_table(plan, rank)
    assert table.count("of which") == len(names)
    assert [name for name in names if f">{name}<" in table] == list(names)
    assert "encoder weights" in line.why
    assert drawn_lines(plans.fitting().limiting_rank) == (
        plans.fitting().limiting_rank.lines
    )
