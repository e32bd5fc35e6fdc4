"""The film of a start on a GPU, from what the driver says while vLLM starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType

import pytest

from planner.confirming.film import RECORDED, Film, FilmStage, Use
from planner.confirming.options import Event
from planner.confirming.sampling import Camera
from planner.confirming.stages import StartStage
from planner.errors import PlannerError
from planner.units import MIB
from tests.fake_nvml import Board, FakeDriver, NVMLError
from tests.starts import wait_until

NEVER = 1000.0
"""Seconds between samples of the camera's own: those below are taken by hand."""


@dataclass
class Start:
    """A start on a board, which says what it does."""

    board: Board = field(default_factory=lambda: Board(reserved_mib=0))

    def camera(self, uuid: str | None = None) -> Camera:
        """Return a camera for it."""
        return Camera(uuid or self.board.uuid, self.nvml(), NEVER)

    def nvml(self) -> ModuleType:
        """Return the driver."""
        return FakeDriver([self.board]).module()

    def goes(
        self, camera: Camera, stage: StartStage, *mib: int, line: str = ""
    ) -> None:
        """Reach a stage with a line, and use so much memory, one after the other."""
        camera.hear(Event(stage=stage, lines=(line,) if line else ()))
        for used in mib:
            self.board.used_mib = used
            camera.take()


def film_of(camera: Camera) -> Film:
    """Return what it filmed, as a film of some model."""
    return camera.film(
        model="m", gpu="H100", vllm_version="0.33.0", engine_args={}, measured={}
    )


def a_start() -> Film:
    """500 MiB of before; 8,000 of weights; a profile run; 6,000 of KV cache; graphs."""
    start = Start()
    start.board.used_mib = 100
    with start.camera() as camera:
        start.goes(camera, StartStage.STARTING, 500)
        start.goes(
            camera, StartStage.LOADING, 4500, 8500, line="Starting to load model m"
        )
        line = "Model loading took 7.81 GiB memory"
        start.goes(camera, StartStage.COMPILING, 8600, line=line)
        start.goes(camera, StartStage.PROFILING, 9900, 8700)
        start.goes(camera, StartStage.KV_CACHE, 14700)
        start.goes(camera, StartStage.CAPTURING, 15000)
        start.goes(camera, StartStage.READY, 15000)
        start.goes(camera, StartStage.GENERATING)
    return film_of(camera)


def test_memory_is_used_for_what_the_stage_allocates_it_for() -> None:
    """What the profile run leaves is buffers from its begin on; the rest is freed."""
    film = a_start()
    end, peak = film.frames[-1], film.peak

    assert film.source == RECORDED
    assert {use: end.bytes_of(use) // MIB for use in Use if end.bytes_of(use)} == {
        Use.OUTSIDE: 500,
        Use.WEIGHTS: 8000,
        Use.BUFFERS: 200,
        Use.KV_CACHE: 6000,
        Use.GRAPHS: 300,
    }
    assert peak is not None
    assert peak[0].bytes_of(Use.TEMPORARY) == 1200 * MIB
    assert peak[0].device_bytes == 9900 * MIB


def test_each_sample_is_kept_as_the_driver_said_it() -> None:
    """The sum of all uses is nvidia-smi's figure; stages begin with the log."""
    film = a_start()
    sizes = [one.device_bytes // MIB for one in film.frames]

    expected = [100, 500, 4500, 8500, 8600, 9900, 8700, 14700, 15000]
    assert list(dict.fromkeys(sizes)) == expected
    assert [text for _frame, text in film.lines] == [
        "Starting to load model m",
        "Model loading took 7.81 GiB memory",
    ]
    stages = list(dict.fromkeys(one.stage for one in film.frames))
    assert FilmStage.REPACKING not in stages
    assert stages == sorted(stages, key=lambda stage: stage.position)


def test_the_camera_samples_by_itself() -> None:
    """In a thread, until it is over."""
    start = Start()
    start.board.used_mib = 10
    with Camera(start.board.uuid, start.nvml(), 0.001) as camera:
        wait_until(lambda: len(camera.samples) > 3)

    assert camera.total_bytes == start.board.total_mib * MIB
    assert {size for _seconds, _stage, size in camera.samples} == {10 * MIB}


def test_a_driver_that_goes_away_ends_the_film() -> None:
    """The start goes on, and what was sampled is kept."""
    start = Start()
    with start.camera() as camera:
        start.goes(camera, StartStage.LOADING, 700)
        start.board.total_mib = None  # NVML: not supported
        camera.take()

    assert film_of(camera).frames[-1].device_bytes == 700 * MIB


@pytest.mark.parametrize("is_there", [True, False])
def test_a_gpu_that_does_not_answer_is_said_before_anything_starts(
    is_there: bool,
) -> None:
    """By its UUID, or by NVML itself."""
    error = None if is_there else NVMLError("no driver")
    nvml = FakeDriver([Board()], init_error=error).module()

    with pytest.raises(PlannerError, match="NVML does not answer"):
        Camera("GPU-of-another-machine", nvml).__enter__()
