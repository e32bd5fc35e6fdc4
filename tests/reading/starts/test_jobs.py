"""Tasks of SkyPilot and configurations of dstack."""

from __future__ import annotations

import pytest

from planner.engine.gpu import GPU
from planner.reading.reading import Kind, Reading
from planner.reading.recognising import read

TASK = """name: qwen
resources:
  accelerators: {accelerators}
num_nodes: 1
envs:
  MODEL: Qwen/Qwen3-32B
setup: |
  pip install vllm==0.30.0
run: |
  vllm serve $MODEL \\
    --tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE \\
    --max-model-len 32768
"""
SERVICE = """type: service
name: llama
image: vllm/vllm-openai:v0.30.0
env:
  - MODEL=meta-llama/Llama-3.1-8B-Instruct
commands:
  - vllm serve $MODEL --max-model-len 8192 --tensor-parallel-size $DSTACK_GPUS_NUM
resources:
  gpu: {gpu}
"""


def gpu_of(found: Reading) -> str | None:
    """Return the name of the GPU that a text names."""
    return found.gpu.name if isinstance(found.gpu, GPU) else found.gpu


@pytest.mark.parametrize(
    ("accelerators", "gpu", "gpus"),
    [
        ("H100:8", "H100", 8),
        ("L40S", "L40S", 1),
        ("{H200: 4}", "H200", 4),
        ("{L4:8}", "L4", 8),
        ("A100:4", "A100-40GB", 4),
        ("A100-80GB:4", "A100-80GB", 4),
    ],
)
def test_a_task_of_skypilot(accelerators: str, gpu: str, gpus: int) -> None:
    """Its variables count the GPUs; A100 alone is the card of 40 GB there."""
    found = read(TASK.replace("{accelerators}", accelerators))

    assert Kind.SKYPILOT == found.kind
    assert (gpu, gpus) == (gpu_of(found), found.gpus)
    assert ("Qwen/Qwen3-32B", "0.30.0") == (found.model, found.vllm_version)
    assert gpus == found.engine_args["tensor_parallel_size"]
    assert gpus == found.plan().gpus_total


def test_a_task_on_any_of_several_gpus_is_open() -> None:
    """SkyPilot takes what there is: the user says which to plan for."""
    found = read(TASK.replace("{accelerators}", "{L4: 8, A10G: 8}"))

    assert gpu_of(found) is None
    assert "The text allows several GPUs: L4, A10G." in found.open
    assert 8 == found.engine_args["tensor_parallel_size"]
    assert "L4" == found.plan(gpu="L4").gpu.name


def test_a_task_on_a_type_of_machine() -> None:
    """The machine tells GPU and number."""
    task = TASK.replace("accelerators: {accelerators}", "instance_type: g5.12xlarge")

    assert ("A10G", 4) == (gpu_of(read(task)), read(task).gpus)


def test_a_task_is_given_back_with_one_change() -> None:
    """All else stays as it is written."""
    task = TASK.replace("{accelerators}", "H100:8")

    changed = read(task).text(max_model_len=16384)

    assert task.replace("32768", "16384") == changed


@pytest.mark.parametrize(
    ("gpu", "name", "gpus"),
    [
        ("H100:2", "H100", 2),
        ("A100:80GB:4", "A100-80GB", 4),
        ("L40S", "L40S", 1),
        ("{name: H200, count: 8}", "H200", 8),
    ],
)
def test_a_service_of_dstack(gpu: str, name: str, gpus: int) -> None:
    """GPU, memory and count in any of its forms."""
    found = read(SERVICE.replace("{gpu}", gpu))

    assert Kind.DSTACK == found.kind
    assert (name, gpus) == (gpu_of(found), found.gpus)
    assert "meta-llama/Llama-3.1-8B-Instruct" == found.model
    assert "0.30.0" == found.vllm_version
    assert gpus == found.engine_args["tensor_parallel_size"]


def test_memory_alone_names_no_gpu() -> None:
    """Any GPU with so much will do: which one is asked."""
    found = read(SERVICE.replace("{gpu}", "24GB"))

    assert gpu_of(found) is None
    assert "The text asks for any GPU with 24GB." in found.open
