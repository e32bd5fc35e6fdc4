"""What the lists of the explorer offer."""

from __future__ import annotations

import pytest

import planner
from planner.app.widgets import choices
from planner.app.widgets.explorer import Explorer
from planner.engine import gpu as gpus
from planner.engine.devices import attached, gpu_named
from planner.units import MIB
from tests.fake_nvml import Board, FakeDriver


@pytest.fixture
def attach(monkeypatch: pytest.MonkeyPatch):
    """Give this machine some GPUs."""

    def attach_boards(*boards: Board) -> None:
        driver = FakeDriver(boards=list(boards)).module()
        found = attached.survey(nvml=driver, environment={})
        monkeypatch.setattr(attached, "survey", lambda: found)

    return attach_boards


def test_every_gpu_of_the_catalogue_is_offered_with_its_memory(attach) -> None:
    """In the catalogue's order, where no GPU is attached."""
    attach()
    options, chosen = choices.gpus("H100")

    own = ("CPU", choices.OTHER_GPU)
    offered = [value for _, value in options if value not in own]
    whole = [gpu.name for gpu in gpus.catalogue() if not choices.is_slice(gpu)]
    assert whole == offered
    assert ("H100, 79.19 GiB", "H100") in options
    assert chosen == "H100"


def test_gpus_stand_below_their_generation() -> None:
    """By compute capability; slices of a GPU, and one's own, stand apart."""
    found = {choices.generation(gpu.name) for gpu in gpus.catalogue()}

    assert "Ampere" == choices.generation("A100-80GB")
    assert "Yours" == choices.generation(choices.OTHER_GPU)
    named = {"Blackwell", "Hopper", "Ada", "Ampere", "Turing", "Volta"}
    assert named | {"Slices of a GPU (MIG)"} == found


def test_popular_models_come_first() -> None:
    """Each model once, and all of them."""
    names = [name for name, _, _ in choices.models()]
    popular = [name for name in choices.POPULAR if name in names]

    assert popular == names[: len(popular)]
    assert len(set(names)) == len(names) > 200


def test_this_machines_processor_comes_last(attach) -> None:
    """It is read anew whenever it is chosen, as what is free of it changes."""
    attach()
    options, chosen = choices.gpus("CPU")

    assert options[-2][1] == chosen == "CPU"
    assert options[-2][0].endswith("(this machine's processor)")
    assert options[-1][1] == choices.OTHER_GPU
    assert choices.gpus(gpu_named("CPU"))[1] == "CPU"


def test_a_processor_of_another_machine_is_offered_as_given(attach) -> None:
    """Such as one with 1,000 MiB, described by hand."""
    attach()
    other = gpus.GPU(name="CPU", total_memory_bytes=1000 * MIB)
    options, chosen = choices.gpus(other)

    assert options[0] == ("CPU, 0.98 GiB (given)", other)
    assert chosen is other


def test_a_gpu_of_ones_own_comes_first(attach) -> None:
    """It is chosen, and says that it was given."""
    attach()
    mine = gpus.GPU(
        name="mine",
        total_memory_bytes=1000 * MIB,
        compute_capability=(9, 0),
    )
    options, chosen = choices.gpus(mine)

    assert options[0] == ("mine, 0.98 GiB (given)", mine)
    assert chosen is mine


def test_this_machines_gpus_come_first_and_equal_ones_once(attach) -> None:
    """Of two idle H100 and one that others fill, two are to be chosen from."""
    attach(Board(), Board(uuid="GPU-2"), Board(uuid="GPU-3", used_mib=20000))
    options, chosen = choices.gpus("attached")

    assert [text for text, _ in options if "attached" in text] == [
        "H100, 79.19 GiB (attached, 0)",
        "H100, 79.19 GiB (attached, 2)",
    ]
    assert chosen == options[0][1]


def test_what_others_hold_of_the_attached_gpu_is_in_the_plan(attach) -> None:
    """20,000 MiB are taken: vLLM refuses to take 0.92 of the whole."""
    attach(Board(used_mib=20000))
    explorer = Explorer("Qwen/Qwen3-8B", gpu="attached")

    assert explorer.plan.error is not None
    assert explorer.plan.error.kind == "free_memory"
    explorer.form.fields["gpu"].value = "H100"
    assert explorer.plan.error is None


def test_the_plan_is_for_the_attached_gpu_by_name(attach) -> None:
    """The same answer as for the catalogue's, while nobody holds any of it."""
    attach(Board())
    here = planner.plan("Qwen/Qwen3-8B", gpu="attached")
    catalogued = planner.plan("Qwen/Qwen3-8B", gpu="H100")

    assert here.num_gpu_blocks == catalogued.num_gpu_blocks
