"""HunyuanOCR's family, which vLLM leaves to Transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import planner

CONFIG: dict[str, Any] = {
    "architectures": ["HunYuanVLForConditionalGeneration"],
    "model_type": "hunyuan_vl",
    "dtype": "bfloat16",
    "text_config": {"model_type": "hunyuan_vl_text", "head_dim": 128},
    "vision_config": {"model_type": "hunyuan_vl_vision"},
}
"""The defaults of Transformers' classes; their text model has no head_dim."""


def _plan(folder: Path, config: dict[str, Any], **arguments: object) -> planner.Plan:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return planner.plan(folder, gpu="H200", max_model_len=1024, **arguments)


@pytest.mark.parametrize(("ranks", "weights"), [(1, 16278712288), (2, 8611000288)])
def test_a_dry_run_holds_as_many_bytes(
    ranks: int, weights: int, tmp_path: Path
) -> None:
    """Dry runs of vLLM 0.33.0: the tower is whole on each rank."""
    plan = _plan(tmp_path, CONFIG, tensor_parallel_size=ranks)
    assert weights == plan.ranks[0].weights_bytes


def test_the_tower_by_hand(tmp_path: Path) -> None:
    """27 blocks of 4 x 1,152 x 1,152 and 2 x 1,152 x 4,304, with biases and two norms.

    Before them 16 x 16 x 3 x 1,152 and (128 x 128 + 1) positions; after them two
    convolutions, a layer of 4,608 x 4,096, a newline, three marks and two norms.
    """
    size, mlp, text = 1152, 4304, 4096
    block = 4 * (size * size + size) + 2 * size * mlp + mlp + size + 4 * size
    first = 16 * 16 * 3 * size + size + (128 * 128 + 1) * size
    merger = 4 * size * 2 * size + 2 * size + 2 * size * 4 * size + 4 * size
    merger += 4 * size * text + text + 4 * size + 3 * text + size + text
    parts = _plan(tmp_path, CONFIG).ranks[0].weight_parts
    found = sum(part.size_bytes for part in parts if part.name == "encoder weights")
    assert 2 * (27 * block + first + merger) == found


def test_a_flat_config_describes_the_text(tmp_path: Path) -> None:
    """As Tencent publishes them; a model of 2 layers."""
    flat = {
        **{name: CONFIG[name] for name in CONFIG if name != "text_config"},
        "num_hidden_layers": 2,
        "head_dim": 128,
    }
    plan = _plan(tmp_path, flat)
    assert [2] == [group.num_layers for group in plan.kv_groups]
