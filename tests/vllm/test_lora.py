"""The room for adapters that vLLM's CPU build makes is the room that was planned."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.confirming.installation import PYTHON_VARIABLE
from tests.vllm.conftest import TINY

STARTING = Path(__file__).parent / "adapted.py"
ASKED: dict[str, Any] = {
    "dtype": "float32",
    "enforce_eager": True,
    "gpu_memory_utilization": 0.2,
    "max_model_len": 512,
    "enable_lora": True,
}


def measured(model: str, arguments: dict[str, Any]) -> dict[str, int]:
    """Bytes by layer, as the worker of a real start holds them."""
    given = {
        "model": str(TINY / model),
        "skip_tokenizer_init": True,
        "load_format": "dummy",
        **arguments,
    }
    done = subprocess.run(
        [os.environ[PYTHON_VARIABLE], str(STARTING), json.dumps(given)],
        env={
            **os.environ,
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_CI_ENV": "1",
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = [x for x in done.stdout.splitlines() if x.startswith("ADAPTERS ")]
    assert lines, done.stderr[-3000:]
    found: dict[str, int] = json.loads(lines[-1].removeprefix("ADAPTERS "))
    return found


@pytest.mark.parametrize(
    ("model", "rank", "loras"), [("dense", 8, 1), ("experts", 64, 2)]
)
def test_every_byte_of_the_adapters_is_planned(release, model, rank, loras) -> None:
    """Factors of every layer, of routed experts, of embeddings and head; indices."""
    arguments = {**ASKED, "max_lora_rank": rank, "max_loras": loras}
    plan = planner.plan(
        TINY / model, gpu="CPU", vllm_version=release, entrypoint="llm", **arguments
    )
    parts = {part.name: part.size_bytes for part in plan.ranks[0].weight_parts}
    assert parts["LoRA adapters"] == sum(measured(model, arguments).values())
