"""What loading reads from disk, and how long it takes."""

import pytest

import planner
from planner.errors import PlannerError
from planner.memory.account import Basis
from planner.memory.host.loading import FileAccess, Loading, checkpoint_size
from planner.units import GIB
from tests import plans
from tests.configs import LLAMA_8B, architecture

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def loading(reading: FileAccess = FileAccess.EVERY_WORKER, **more: object) -> Loading:
    """40 GiB of files for 4 workers with 10 GiB each."""
    facts = {
        "load_format": "auto",
        "checkpoint_bytes": 40 * GIB,
        "checkpoint_basis": Basis.EXACT,
        "checkpoint_why": "",
        "workers": 4,
        "weights_bytes": 10 * GIB,
        "room_bytes": None,
    }
    return Loading(reading=reading, **(facts | more))


def test_every_worker_opens_every_file_and_the_disk_reads_each_once() -> None:
    """4 x 40 GiB are asked for; with room in the page cache 40 GiB come from disk."""
    roomy, tight = loading(room_bytes=41 * GIB), loading(room_bytes=39 * GIB)

    assert roomy.read_bytes == tight.read_bytes == 160 * GIB
    assert (roomy.disk_bytes, tight.disk_bytes) == (40 * GIB, 160 * GIB)
    assert (roomy.page_cache_bytes, tight.page_cache_bytes) == (40 * GIB, 39 * GIB)
    assert "room for only 39.00 GiB" in tight.reading_why


@pytest.mark.parametrize(
    ("reading", "expected"),
    [(FileAccess.DIVIDED, 40), (FileAccess.OWN_PART, 40), (FileAccess.NOTHING, 0)],
)
def test_other_formats_divide_the_work(reading, expected) -> None:
    """Files between the workers, 4 x 10 GiB of their own, or nothing."""
    assert loading(reading).disk_bytes == expected * GIB


def test_the_time_is_the_disk_s_and_the_bus_s() -> None:
    """40 GiB at 4 GB/s + 10 GiB at 20 GB/s = 10.74 + 0.54 s."""
    given = loading().at(disk_gb_per_second=4, pcie_gb_per_second=20)

    assert given.seconds == 40 * GIB / 4e9 + 10 * GIB / 20e9
    assert given.basis is Basis.FORMULA
    assert "(given) = 12 s" in given.seconds_why
    assert loading().basis is Basis.ASSUMED
    assert "assumed" in loading().seconds_why


def test_a_plan_takes_the_speeds_of_its_machines() -> None:
    """Told to the planner alone: the time follows, no command names them."""
    plan = planner.plan(plans.LLAMA_8B, disk_gb_per_second=5, pcie_gb_per_second=50)
    assumed = planner.plan(plans.LLAMA_8B)

    assert (
        plan.loading.seconds
        == assumed.loading.at(disk_gb_per_second=5, pcie_gb_per_second=50).seconds
    )
    assert plan.loading.seconds < assumed.loading.seconds
    assert plan.loading.basis is Basis.FORMULA
    assert plan.ranks == assumed.ranks
    assert "gb_per_second" not in plan.command()
    with pytest.raises(PlannerError, match="pcie_gb_per_second='fast'"):
        planner.plan(plans.LLAMA_8B, pcie_gb_per_second="fast")


@pytest.mark.parametrize("speed", [0, -1, True, 1e9])
def test_a_speed_is_above_nothing(speed) -> None:
    """GB/s."""
    with pytest.raises(PlannerError, match="disk_gb_per_second"):
        loading().at(disk_gb_per_second=speed)


def test_a_checkpoint_is_as_large_as_its_publisher_says() -> None:
    """Without counts, as large as what the GPUs hold together."""
    size, basis, _ = checkpoint_size(architecture(LLAMA_8B), 123)
    assert (size, basis) == (123, Basis.FORMULA)

    plan = planner.plan(MODEL)
    assert plan.loading is not None
    assert plan.to_dict()["loading"]["disk_bytes"] == plan.loading.disk_bytes
    assert plan.loading.checkpoint_bytes == 2 * 8_030_261_248


def test_a_sharded_checkpoint_is_read_in_parts() -> None:
    """Two workers of half the weights, against two that read the whole."""
    plan = planner.plan(MODEL, tensor_parallel_size=2)
    parts = plan.changed(load_format="sharded_state")

    assert plan.loading is not None
    assert parts.loading is not None
    assert plan.loading.read_bytes == 2 * plan.loading.checkpoint_bytes
    held = sum(
        part.size_bytes for part in plan.ranks[0].weight_parts if part.name != "buffers"
    )
    assert parts.loading.read_bytes == 2 * held
    assert plan.changed(load_format="dummy").loading.seconds == 0


def test_an_unknown_format_is_refused_as_vllm_does() -> None:
    """When it looks for a loader."""
    plan = planner.plan(MODEL, load_format="zip")

    assert plan.error is not None
    assert plan.error.message == "Load format `zip` is not supported"
    with pytest.raises(PlannerError, match="load_format="):
        planner.plan(MODEL, load_format=3)


def test_a_sleeping_engine_keeps_its_weights_on_the_host() -> None:
    """Level 1: as many bytes as the GPU holds of them."""
    plan = planner.plan(MODEL, enable_sleep_mode=True)
    lines = {line.name: line.size_bytes for line in plan.host[0].lines}

    assert lines["weights while asleep"] == plan.ranks[0].allocated_weights_bytes
    assert plan.ranks == planner.plan(MODEL).ranks
