"""`moe_wna16` on GPTQ and AWQ checkpoints, worked by hand on small experts."""

from __future__ import annotations

from typing import Any

import planner
from planner.models.families import read
from planner.models.files import ModelFiles
from tests.configs import QWEN3_MOE, gpu

SMALL: dict[str, Any] = {
    **QWEN3_MOE,
    "hidden_size": 256,
    "intermediate_size": 128,
    "moe_intermediate_size": 64,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 1,
    "vocab_size": 1024,
}
GPTQ: dict[str, Any] = {
    "quant_method": "gptq",
    "bits": 4,
    "group_size": 64,
    "sym": True,
    "desc_act": False,
}
AWQ: dict[str, Any] = {
    "quant_method": "awq",
    "bits": 4,
    "group_size": 64,
    "zero_point": True,
}
WEIGHTS = 4 * (128 * 256 + 256 * 64)


def test_gptq_experts_are_bytes_with_a_scale_a_group() -> None:
    """Half a byte a weight, a 16 bit scale for 64 of them."""
    made = _plan(GPTQ)
    assert made.resolved is not None
    assert made.resolved.quantization == "moe_wna16"
    assert _part(made, "experts") == WEIGHTS // 2 + WEIGHTS // 64 * 2


def test_awq_experts_have_zero_points_besides() -> None:
    """Half a byte more for each group."""
    expected = WEIGHTS // 2 + WEIGHTS // 64 * 2 + WEIGHTS // 64 // 2
    assert _part(_plan(AWQ), "experts") == expected


def test_linear_layers_are_as_without_it() -> None:
    """Attention is what GPTQ makes of it."""
    own, other = _plan(GPTQ, asked=None), _plan(GPTQ)
    assert _part(own, "attention") == _part(other, "attention")


def test_names_that_are_not_converted_stay_in_16_bits() -> None:
    """`mlp.experts` in modules_to_not_convert: two bytes a weight."""
    skipping = {**AWQ, "modules_to_not_convert": ["mlp.experts"]}
    assert _part(_plan(skipping), "experts") == 2 * WEIGHTS


def _plan(settings: dict[str, Any], asked: str | None = "moe_wna16") -> planner.Plan:
    config = {**SMALL, "quantization_config": settings}
    model = read(ModelFiles(name="org/model", config=config), asked)
    return planner.plan(
        model, gpu(compute_capability=(8, 9)), kv_cache_memory_bytes=1 << 30
    )


def _part(made: planner.Plan, name: str) -> int:
    parts = {part.name: part.size_bytes for part in made.ranks[0].weight_parts}
    return parts[name]
