"""A draft beside its target, as vLLM's CPU build holds both."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.confirming.installation import PYTHON_VARIABLE
from planner.units import MIB
from tests.vllm.conftest import TINY

KV_BYTES = 64 * MIB


@pytest.mark.parametrize(
    "speculation",
    [
        {"model": str(TINY / "draft"), "num_speculative_tokens": 3},
        {
            "method": "eagle3",
            "model": str(TINY / "eagle3"),
            "num_speculative_tokens": 2,
        },
    ],
    ids=["draft_model", "eagle3"],
)
def test_a_drafts_bytes_and_blocks_are_vllms(
    release: str, speculation: dict[str, Any]
) -> None:
    """To the byte: weights less what is shared, groups, pages and blocks."""
    program = Path(__file__).parent / "drafted.py"
    arguments = [str(TINY / "dense"), json.dumps(speculation), str(KV_BYTES)]
    done = subprocess.run(
        [os.environ[PYTHON_VARIABLE], str(program), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    told = [x for x in done.stdout.splitlines() if x.startswith("@drafted ")]
    assert told, done.stderr[-3000:]
    measured = json.loads(told[0].removeprefix("@drafted "))

    plan = planner.plan(
        TINY / "dense",
        gpu="CPU",
        vllm_version=release,
        entrypoint="llm",
        dtype="float32",
        enforce_eager=True,
        gpu_memory_utilization=0.2,
        max_model_len=1024,
        max_num_seqs=8,
        kv_cache_memory_bytes=KV_BYTES,
        speculative_config=speculation,
    )
    parts = {part.name: part.size_bytes for part in plan.ranks[0].weight_parts}
    assert measured["draft"] == parts["draft model"]
    assert measured["num_blocks"] == plan.num_gpu_blocks
    groups = [
        [g.kind, g.num_layers, g.block_size, g.page_size_bytes] for g in plan.kv_groups
    ]
    assert measured["groups"] == groups
