"""Profile runs for tests of the memory lines."""

from dataclasses import replace
from typing import Any

from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.engine.releases import NEWEST, Release, number_of
from planner.memory.profile_run import ProfileRun
from tests.configs import LLAMA_8B, architecture, gpu


def run(
    config: dict[str, Any] = LLAMA_8B, *, version: str = NEWEST, **changes: Any
) -> ProfileRun:
    """Return an H100 server's profile run, of one rank unless a layout is given."""
    device: GPU = changes.pop("gpu", gpu())
    layout: ParallelLayout = changes.pop("layout", ParallelLayout())
    facts: dict[str, Any] = {
        "model": architecture(config),
        "gpu": device,
        "layout": replace(
            layout,
            release=Release(number_of(version)),
            compute_capability=device.compute_capability,
        ),
        "dtype": "bfloat16",
        "max_num_batched_tokens": 8192,
        "max_num_seqs": 1024,
        "max_model_len": 8192,
        "num_layers": 32,
        "is_first_stage": True,
        "is_last_stage": True,
        **changes,
    }
    return ProfileRun(**facts)
