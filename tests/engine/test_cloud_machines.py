"""Machines of clouds by their types, and GPUs named with a count."""

from __future__ import annotations

import json

import pytest

from planner.data import DATA
from planner.engine.cloud_machines import counted, machine_named
from planner.engine.gpu import GPU
from planner.errors import PlannerError

CLOUDS = json.loads((DATA / "machines.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "gpu", "gpus"),
    [
        ("g5.12xlarge", "A10G", 4),
        ("ml.g6e.2xlarge", "L40S", 1),
        ("p5en.48xlarge", "H200", 8),
        ("A2-HighGPU-8g", "A100-40GB", 8),
        ("Standard_NC80adis_H100_v5", "H100-NVL", 2),
        ("NC24ads_A100_v4", "A100-80GB-PCIe", 1),
        ("BM.GPU.H100.8", "H100", 8),
    ],
)
def test_a_type_of_machine_has_gpus(name: str, gpu: str, gpus: int) -> None:
    """As its cloud lists it; SageMaker's and Azure's words before it do not matter."""
    machine = machine_named(name)

    assert machine is not None
    assert (gpu, gpus) == (machine.gpu, machine.gpus)
    assert gpu == GPU.named(name).name


def test_every_machine_has_a_gpu_of_the_catalogue_and_a_source() -> None:
    """A slip in the table would plan for another card."""
    for cloud in CLOUDS.values():
        assert cloud["source"]
        assert cloud["date"]
        for gpu, gpus in cloud["machines"].values():
            assert gpu == GPU.named(gpu).name
            assert 1 <= gpus <= 16


def test_other_names_are_no_machines() -> None:
    """A machine without GPUs, or a GPU."""
    assert machine_named("m5.large") is None
    assert machine_named("H100") is None


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("2xH100", ("H100", 2)),
        ("8 x H200", ("H200", 8)),
        ("H100:8", ("H100", 8)),
        ("RTX 4090 x2", ("RTX 4090", 2)),
        ("4x A100-80GB", ("A100-80GB", 4)),
        ("RTX4090", ("", 0)),
        ("A100-80GB", ("", 0)),
    ],
)
def test_a_count_is_split_off(name: str, parts: tuple[str, int]) -> None:
    """Before the name or after it."""
    assert parts == counted(name)


def test_several_gpus_are_no_gpu_but_say_where_the_count_goes() -> None:
    """One GPU is named; how many a model is spread over is vLLM's own argument."""
    with pytest.raises(PlannerError, match=r"gpu='H100'.*tensor_parallel_size=2"):
        GPU.named("2xH100")
