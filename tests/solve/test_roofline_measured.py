"""Published measurements against the bound: none is faster than it says."""

from dataclasses import dataclass
from typing import Any

import pytest

import planner
from planner import Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A measurement that somebody published."""

    model: str
    gpu: str
    arguments: dict[str, Any]
    load: Load
    token_seconds: float
    """From one token of a request to its next, the mean."""
    factor: float
    """Measured over the bound, as docs/speed.md says."""
    source: str


PUBLISHED = (
    Measured(
        model="meta-llama/Llama-3.1-8B-Instruct",
        gpu="A100-40GB",
        arguments={"vllm_version": "0.23.0", "max_model_len": 8192},
        load=Load(prompt_tokens=1024, output_tokens=128),
        token_seconds=1 / 75,
        factor=1.4,
        source="https://johnmusgrave.com/p/vllm-throughput-latency-sweep-on",
    ),
    Measured(
        model="meta-llama/Llama-3.1-8B-Instruct",
        gpu="A100-40GB",
        arguments={"vllm_version": "0.23.0", "max_model_len": 8192},
        load=Load(prompt_tokens=1024, output_tokens=128, requests=8),
        token_seconds=8 / (6.6 * 75),
        factor=1.6,
        source="https://johnmusgrave.com/p/vllm-throughput-latency-sweep-on",
    ),
    Measured(
        model="Qwen/Qwen3-VL-32B-Instruct",
        gpu="GB10",
        arguments={
            "tensor_parallel_size": 4,
            "max_model_len": 8192,
            "quantization": "fp8_per_tensor",
        },
        load=Load(prompt_tokens=1024, output_tokens=128),
        token_seconds=0.05195,
        factor=1.7,
        source="https://forums.developer.nvidia.com/t/6x-spark-setup/354399/18",
    ),
    Measured(
        model="Qwen/Qwen3-0.6B",
        gpu="H100",
        arguments={
            "vllm_version": "0.19.0",
            "max_model_len": 2048,
            "gpu_memory_utilization": 0.5,
        },
        load=Load(prompt_tokens=512, output_tokens=128, requests=5),
        token_seconds=0.00239,
        factor=5.3,
        source="https://github.com/ovg-project/kvcached/pull/331",
    ),
)


@pytest.mark.parametrize("measured", PUBLISHED, ids=lambda one: one.model)
def test_no_published_measurement_is_faster_than_its_bound(measured) -> None:
    """And by how much it is slower is what the page says."""
    plan = planner.plan(measured.model, gpu=measured.gpu, **measured.arguments)
    bound = planner.speed_bound(plan, measured.load)

    assert bound.decode_at_least_seconds <= measured.token_seconds
    factor = measured.token_seconds / bound.decode_at_least_seconds
    assert measured.factor == round(factor, 1)


def test_the_page_shows_these_measurements(root) -> None:
    """Each with its source."""
    page = (root / "docs/speed.md").read_text(encoding="utf-8")

    for measured in PUBLISHED:
        assert measured.source in page
        assert f"| {measured.token_seconds * 1000:.1f} ms |" in page
        assert f"| {measured.factor} |" in page
