"""GPUs as people write them, and the memory that a text gives them."""

from __future__ import annotations

import pytest

import planner
from planner.reading.questions.gpu_words import with_memory
from planner.units import GIB

SIZED = {
    "4 * 2080ti 22G, Qwen3-8B": ("RTX2080Ti", 22),
    "8xH20 141GB Qwen3-32B": ("H20", 141),
    "Qwen3-4B on a laptop RTX 4070 8GB": ("RTX4070", 8),
    "Qwen3-4B on an RTX 4070 Laptop (8GB)": ("RTX4070", 8),
    "Qwen3-8B on my 3080 mobile 16GB?": ("RTX3080", 16),
}
AROUND = {
    "我用的是2张24G显存的RTX 3090: vllm serve Qwen/Qwen3-8B -tp 2": "RTX3090",
    "we have 4 A6000s\nvllm serve Qwen/Qwen3-8B": "A6000",
    "[Bug]: 4 * 2080ti fail\nvllm serve Qwen/Qwen3-8B --port 3090": "RTX2080Ti",
}


@pytest.mark.parametrize("text", SIZED)
def test_a_gpu_has_the_memory_that_the_text_names(text) -> None:
    """A rebuilt card, a later edition, a laptop's: 98 % of it are reported."""
    name, gigabytes = SIZED[text]
    gpu = planner.read(text).gpu
    assert name == gpu.name
    assert round(0.98 * gigabytes * GIB) == gpu.total_memory_bytes


def test_memory_of_all_gpus_together_is_no_other_gpu() -> None:
    """Two RTX 3090 have 48 GB; no card has so little or so much as the others here."""
    assert planner.read("2x RTX 3090 48GB, Qwen3-32B-AWQ").gpu.total_basis != "given"
    assert with_memory("H100", "H100", 640) == (None, "")


@pytest.mark.parametrize("text", AROUND)
def test_words_around_a_command_name_its_gpu(text) -> None:
    """In any script, in the plural, and no port is one."""
    gpu = planner.read(text).gpu
    assert AROUND[text] == getattr(gpu, "name", gpu)
