"""What the driver tells of this machine, asked of a stand-in for NVML."""

from types import ModuleType
from typing import Any

import pytest

from planner.engine.devices import attached as device
from planner.engine.devices import gpu_named
from planner.engine.devices.attached import (
    Process,
    Survey,
    attached_gpus,
    attached_line,
    survey,
)
from planner.engine.devices.planned_gpu import PlannedMemory
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.units import GIB, MIB
from tests.fake_nvml import Board, FakeDriver, NVMLError, NVMLError_LibraryNotFound


def found_on(*boards: Board, setting: str | None = None, **driver: Any) -> Survey:
    """Survey a machine with these boards."""
    environment = {} if setting is None else {"CUDA_VISIBLE_DEVICES": setting}
    fake = FakeDriver(boards=list(boards), **driver)
    return survey(nvml=fake.module(), environment=environment)


def on_machine(monkeypatch: pytest.MonkeyPatch, memory: PlannedMemory | None) -> None:
    """Give the machine this much memory."""
    monkeypatch.setattr(device, "system_memory", lambda: memory)


# --- One GPU -----------------------------------------------------------------------


def test_a_known_gpu_has_the_catalogues_total() -> None:
    """The CUDA runtime's total is not NVML's 81,559 MiB, and is known for an H100."""
    (attached,) = found_on(Board()).gpus

    assert attached.gpu is not None
    assert GPU.named("H100").total_memory_bytes == attached.gpu.total_memory_bytes
    assert 81559 * MIB == attached.nvml_memory_bytes == attached.gpu.nvml_memory_bytes
    assert "Total of the catalogue's H100, measured." == attached.total_note


def test_what_others_hold_is_told_and_is_not_free() -> None:
    """81,559 - 470 kept by the driver - 20,000 used = 61,089 MiB are free."""
    board = Board(used_mib=20000, compute=((7, 19000 * MIB),), graphics=((8, MIB),))
    (attached,) = found_on(board, names={7: "python", 8: "Xorg"}).gpus

    assert 61089 * MIB == attached.free_memory_bytes
    assert attached.gpu is not None
    assert 61089 * MIB == attached.gpu.free_memory_bytes
    assert (
        Process(pid=7, name="python", used_memory_bytes=19000 * MIB),
        Process(pid=8, name="Xorg", used_memory_bytes=MIB),
    ) == attached.processes


def test_a_process_that_computes_and_draws_is_told_once() -> None:
    """NVML lists it twice, with the same memory."""
    (attached,) = found_on(Board(compute=((7, MIB),), graphics=((7, MIB),))).gpus

    assert [7] == [process.pid for process in attached.processes]


def test_a_process_of_which_the_driver_tells_nothing_is_still_told() -> None:
    """A container hides the name, WSL the memory."""
    (attached,) = found_on(Board(compute=((7, None),))).gpus

    assert (Process(pid=7, name="", used_memory_bytes=None),) == attached.processes


def test_an_unknown_gpu_has_nvmls_total_less_what_the_driver_keeps() -> None:
    """24,564 - 433 = 24,131 MiB, and nobody measured it: assumed."""
    board = Board(name="NVIDIA RTX 9000", total_mib=24564, reserved_mib=433)
    gpu = found_on(board).planning_gpu()

    assert (24131 * MIB, "assumed") == (gpu.total_memory_bytes, gpu.total_basis)
    assert ("NVIDIA RTX 9000", (9, 0)) == (gpu.device_name, gpu.compute_capability)
    assert "23.99 GiB, less 0.42 GiB" in gpu.source


def test_a_known_name_with_other_memory_is_not_the_catalogues_gpu() -> None:
    """An RTX 3080 of 12 GB calls itself as that of 10 GB does."""
    board = Board(
        name="NVIDIA GeForce RTX 3080",
        capability=(8, 6),
        total_mib=12288,
        reserved_mib=300,
    )

    assert 11988 * MIB == found_on(board).planning_gpu().total_memory_bytes


def test_an_old_driver_does_not_tell_what_it_keeps() -> None:
    """Before driver 510 the reserved part counts as used: the total says so."""
    (attached,) = found_on(Board(name="NVIDIA RTX 9000", reserved_mib=None)).gpus

    assert attached.gpu is not None
    assert 81559 * MIB == attached.gpu.total_memory_bytes
    assert "a little less" in attached.total_note


def test_a_gpu_without_compute_capability_cannot_be_planned_for() -> None:
    """Guessing it would choose other kernels; the message names the GPU."""
    found = found_on(Board(name="NVIDIA RTX 9000", capability=None))

    assert found.gpus[0].gpu is None
    with pytest.raises(PlannerError, match=r"RTX 9000: .*compute capability"):
        found.planning_gpu()


def test_names_come_as_bytes_from_older_bindings() -> None:
    """Bytes become text."""
    fake = FakeDriver(boards=[Board()]).module()
    vars(fake)["nvmlDeviceGetName"] = lambda board: board.name.encode()
    (attached,) = survey(nvml=fake, environment={}).gpus

    assert "NVIDIA H100 80GB HBM3" == attached.device_name


def test_a_gpu_is_told_in_one_line_with_who_holds_it() -> None:
    """81,559 MiB are 79.65 GiB; 61,089 MiB, or 59.66 GiB, are free."""
    board = Board(used_mib=20000, compute=((7, 19000 * MIB), (9, MIB)))
    (attached,) = found_on(board, names={7: "python"}).gpus

    assert (
        "0  NVIDIA H100 80GB HBM3  79.65 GiB, 59.66 GiB free; "
        "held by python 7, process 9"
    ) == attached_line(attached)


def test_attached_is_a_name_for_the_first_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other name is the catalogue's."""
    found = found_on(Board(used_mib=20000), Board(name="NVIDIA L4"))
    monkeypatch.setattr(device, "survey", lambda: found)

    assert 61089 * MIB == gpu_named(" Attached ").free_memory_bytes
    assert GPU.named("L4") == gpu_named("L4")


def test_attached_without_a_gpu_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is the driver's; then what to write instead."""
    monkeypatch.setattr(device, "survey", lambda: Survey(gpus=(), reason="No driver."))

    with pytest.raises(
        PlannerError, match=r'No attached GPU to plan for\. No driver\. .*gpu="H100"'
    ):
        gpu_named("attached")


# --- Unified memory ----------------------------------------------------------------


def test_unified_memory_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML does not support the question; free is what the system can give."""
    on_machine(
        monkeypatch,
        PlannedMemory(total_bytes=121 * GIB, free_bytes=90 * GIB, reserved_bytes=None),
    )
    board = Board(name="NVIDIA GB10", capability=(12, 1), total_mib=None)
    (attached,) = found_on(board).gpus

    assert attached.nvml_memory_bytes is None
    assert attached.gpu is not None
    assert GPU.named("GB10").total_memory_bytes == attached.gpu.total_memory_bytes
    assert 90 * GIB == attached.gpu.free_memory_bytes
    assert attached.gpu.is_integrated


def test_an_unknown_unified_gpu_has_the_machines_total(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Better assumed and said than nothing."""
    on_machine(
        monkeypatch,
        PlannedMemory(total_bytes=60 * GIB, free_bytes=50 * GIB, reserved_bytes=None),
    )
    gpu = found_on(Board(name="NVIDIA N1X", total_mib=None)).planning_gpu()

    assert (60 * GIB, 50 * GIB, True) == (
        gpu.total_memory_bytes,
        gpu.free_memory_bytes,
        gpu.is_integrated,
    )


def test_a_gpu_of_which_no_memory_is_known_cannot_be_planned_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither NVML nor the system nor the catalogue tells."""
    on_machine(monkeypatch, None)
    (attached,) = found_on(Board(name="NVIDIA N1X", total_mib=None)).gpus

    assert attached.gpu is None
    assert "does not report the memory" in attached.total_note


# --- MIG ---------------------------------------------------------------------------


def cut_gpu() -> Board:
    """An H100 with a 1g.10gb and a 3g.40gb slice, and a free place between."""
    small = Board(
        name="NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        uuid="MIG-aaaa",
        capability=None,
        total_mib=9984,
        reserved_mib=0,
    )
    large = Board(
        name="NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        uuid="MIG-bbbb",
        capability=None,
        total_mib=40448,
        reserved_mib=0,
        used_mib=448,
    )
    return Board(slices=(small, None, large))


def test_a_cut_gpu_is_its_slices() -> None:
    """A CUDA program never sees the whole; the capability is the whole's."""
    found = found_on(cut_gpu())

    assert [("MIG-aaaa", True), ("MIG-bbbb", True)] == [
        (one.uuid, one.is_mig_slice) for one in found.gpus
    ]
    assert ["H100-MIG-1g.10gb", "H100-MIG-3g.40gb"] == [
        found.planning_gpu(position).name for position in (0, 1)
    ]
    assert (9, 0) == found.gpus[0].compute_capability
    assert 40000 * MIB == found.gpus[1].free_memory_bytes


def test_mig_mode_without_slices_offers_nothing_and_says_so() -> None:
    """CUDA finds no device there either."""
    found = found_on(Board(slices=(None, None)))

    assert () == found.gpus
    assert ("GPU 0 is in MIG mode but has no slices.",) == found.notes


# --- No GPU ------------------------------------------------------------------------


def test_a_machine_without_a_driver_is_told_not_raised() -> None:
    """Most machines that plan have no GPU."""
    found = found_on(
        init_error=NVMLError_LibraryNotFound("NVML Shared Library Not Found")
    )

    assert () == found.gpus
    assert found.reason.startswith("No NVIDIA driver is installed on this machine")
    with pytest.raises(PlannerError, match="No NVIDIA driver is installed"):
        found.planning_gpu()


def test_any_other_failure_is_told_in_nvmls_words() -> None:
    """Codes are many; the driver's own text is the best."""
    found = found_on(init_error=NVMLError("Unknown Error"))

    assert "The NVIDIA driver does not answer (NVML: Unknown Error)." == found.reason


def test_a_driver_that_fails_after_the_start_is_told_and_closed() -> None:
    """`nvmlShutdown` follows every `nvmlInit` that succeeded."""
    fake = FakeDriver(boards=[])
    module = fake.module()

    def fail() -> int:
        raise NVMLError("Driver Not Loaded")

    vars(module)["nvmlDeviceGetCount"] = fail

    assert "Driver Not Loaded" in survey(nvml=module, environment={}).reason
    assert 1 == fake.shutdowns


def test_without_the_binding_the_answer_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """nvidia-ml-py is not needed for planning."""

    def missing(name: str) -> ModuleType:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(device, "import_module", missing)

    assert () == attached_gpus()
    assert "pip install nvidia-ml-py" in survey().reason


def test_a_driver_without_gpus_says_so() -> None:
    """As in a virtual machine whose GPU was taken away."""
    assert "reports no GPU" in found_on().reason


def test_a_lost_gpu_does_not_hide_the_others() -> None:
    """A GPU that fell off the bus is a note."""
    found = found_on(Board(is_lost=True), Board(uuid="GPU-2"))

    assert [1] == [one.index for one in found.gpus]
    assert ("GPU 0 does not answer (NVML: GPU is lost).",) == found.notes


def test_a_number_beyond_the_last_gpu_is_named() -> None:
    """The message says which there are."""
    with pytest.raises(PlannerError, match="no GPU 2: 0 to 1 are visible"):
        found_on(Board(), Board(uuid="GPU-2")).planning_gpu(2)


def test_the_installed_binding_never_raises_here() -> None:
    """With or without a driver: GPUs, or the reason why there are none."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    found = survey(environment={})

    assert bool(found.gpus) != bool(found.reason)


@pytest.mark.parametrize(
    "question", ["nvmlDeviceGetMigMode", "nvmlSystemGetProcessName"]
)
def test_a_binding_that_lacks_a_question_still_finds_the_gpu(question: str) -> None:
    """Bindings and drivers are of many years."""
    module = FakeDriver(boards=[Board(compute=((7, MIB),))]).module()
    delattr(module, question)
    found = survey(nvml=module, environment={})

    assert "H100" == found.planning_gpu().name


def test_a_number_means_the_first_slice_of_a_cut_gpu() -> None:
    """As in CUDA; a slice is named by its own UUID."""
    assert ["MIG-aaaa"] == [one.uuid for one in found_on(cut_gpu(), setting="0").gpus]
    chosen = found_on(cut_gpu(), setting="MIG-bbbb").gpus
    assert ["MIG-bbbb"] == [one.uuid for one in chosen]


def test_hidden_gpus_are_the_reason_why_there_are_none() -> None:
    """A forgotten variable is easily mistaken for a missing GPU."""
    found = found_on(Board(), Board(uuid="GPU-2"), setting="")

    assert "CUDA_VISIBLE_DEVICES='' hides all 2 of them." == found.reason
