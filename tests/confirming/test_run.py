"""One start from arguments to figures, with a stand-in for vLLM (tests/fake_vllm)."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import threading
from dataclasses import replace

import pytest

import planner
from planner.confirming import devices
from planner.confirming.confirmation import Confirmation, Confirmed
from planner.confirming.film import Use
from planner.confirming.options import Event, RunOptions
from planner.confirming.run import Run
from planner.confirming.stages import StartStage
from planner.engine.devices.attached import survey
from planner.errors import PlannerError
from planner.units import GIB, MIB
from tests.fake_nvml import Board, FakeDriver
from tests.starts import STAND_IN, a_plan, confirm, descendants, is_alive, wait_until

both_entry_points = pytest.mark.parametrize("entrypoint", ["serve", "llm"])
pytestmark = [pytest.mark.server, pytest.mark.usefixtures("vllm_stand_in")]


@both_entry_points
def test_the_workers_own_figures_are_read(tiny_folder, entrypoint) -> None:
    """The stand-in takes 700 MiB of 8 GiB, and keeps 1 KiB a token.

    (8,192 - 700) MiB = 7,855,931,392 bytes = 59,936 blocks of 128 KiB.
    """
    measured = confirm(a_plan(tiny_folder, entrypoint)).measurement

    assert measured.is_started is True
    assert measured.limiting_worker is not None
    assert measured.limiting_worker.requested_memory_bytes == 8 * GIB
    assert measured.limiting_worker.consumed_bytes == 700 * MIB
    assert measured.available_kv_cache_bytes == 8 * GIB - 700 * MIB
    assert measured.num_gpu_blocks == 59_936
    assert measured.kv_cache_size_tokens == 59_936 * 128
    assert measured.engine.max_num_batched_tokens == 2048
    assert measured.vllm_version == "0.33.0"


@both_entry_points
def test_a_prompt_is_answered_to_prove_that_it_serves(tiny_folder, entrypoint) -> None:
    """Prompt 1, 5, 7: the stand-in counts on from 13."""
    measured = confirm(a_plan(tiny_folder, entrypoint)).measurement

    assert measured.generated_tokens == tuple(range(13, 21))


@both_entry_points
def test_a_load_is_sent_on_request(tiny_folder, entrypoint) -> None:
    """Four requests of 2,048 tokens: 2,032 asked and 16 answered, all at once."""
    load = confirm(a_plan(tiny_folder, entrypoint), load_requests=4).measurement.load

    assert load is not None
    assert (load.prompt_tokens, load.output_tokens) == (2032, 16)
    assert load.num_finished == load.num_requests == 4
    assert load.peak_running == 4
    assert load.peak_kv_cache_usage == 4 / 8


def test_without_asking_no_load_is_sent(tiny_folder) -> None:
    """It costs minutes."""
    assert confirm(a_plan(tiny_folder)).measurement.load is None


def test_stages_come_in_order_and_lines_with_them(tiny_folder) -> None:
    """For a progress bar and a log box."""
    events: list[Event] = []
    Run(a_plan(tiny_folder), RunOptions(is_stored=False), events.append).execute()

    stages = list(dict.fromkeys(event.stage for event in events))
    assert stages == sorted(stages, key=list(StartStage).index)
    assert stages[0] is StartStage.CHECKING
    assert stages[-1] is StartStage.DONE
    assert {StartStage.LOADING, StartStage.READY, StartStage.GENERATING} <= set(stages)
    assert any("Starting to load model" in line for e in events for line in e.lines)
    assert [e.fraction for e in events] == sorted(e.fraction for e in events)


@both_entry_points
@pytest.mark.parametrize(
    "hang", ["Initializing", "Starting to load", "Warming up model", "KV cache size"]
)
def test_stop_at_any_stage_leaves_no_process(
    tiny_folder, entrypoint, hang, monkeypatch
) -> None:
    """Strays of other sessions included."""
    monkeypatch.setenv("FAKE_VLLM", json.dumps({"hang": hang, "strays": 2}))
    log: list[str] = []
    run = Run(
        a_plan(tiny_folder, entrypoint),
        RunOptions(is_stored=False),
        lambda event: log.extend(event.lines),
    )
    answers: list[Confirmation] = []
    thread = threading.Thread(target=lambda: answers.append(run.execute()))
    thread.start()
    wait_until(lambda: any(hang in line for line in log))
    before = descendants(os.getpid())

    run.stop()
    thread.join(20)

    assert before
    assert not [pid for pid in before if is_alive(pid)]
    assert answers[0].outcome is Confirmed.OPEN
    assert any("Stopped after" in note for note in answers[0].notes)


@both_entry_points
def test_a_start_that_fails_gives_vllms_words(
    tiny_folder, entrypoint, monkeypatch
) -> None:
    """And the memory that had been found until then."""
    monkeypatch.setenv("FAKE_VLLM", json.dumps({"error": "No room for the KV cache."}))

    confirmation = confirm(a_plan(tiny_folder, entrypoint))

    assert confirmation.outcome is Confirmed.CONTRADICTED
    assert confirmation.measurement.error == "ValueError: No room for the KV cache."
    assert confirmation.measurement.available_kv_cache_bytes == 8 * GIB - 700 * MIB
    assert any("No room for the KV cache." in why for why in confirmation.reasons)


def test_the_time_limit_is_told(tiny_folder, monkeypatch) -> None:
    """With what to do."""
    monkeypatch.setenv("FAKE_VLLM", json.dumps({"hang": "Starting to load"}))

    confirmation = confirm(a_plan(tiny_folder), time_limit_seconds=2)

    assert confirmation.outcome is Confirmed.OPEN
    assert any("time limit of 2 s" in note for note in confirmation.notes)


def test_another_release_is_refused_before_anything_starts(tiny_folder) -> None:
    """Its figures would explain nothing."""
    plan = replace(a_plan(tiny_folder), vllm_version="0.32.0")

    with pytest.raises(PlannerError, match=r"for vLLM 0\.32\.0.*has 0\.33\.0"):
        confirm(plan)


def test_a_python_without_vllm_is_told_how_to_get_it(tiny_folder, monkeypatch) -> None:
    """For this machine."""
    monkeypatch.delenv("PYTHONPATH")

    with pytest.raises(PlannerError, match=r"vLLM is not installed in .*pip install"):
        confirm(a_plan(tiny_folder))


def test_a_python_that_is_none_is_named(tiny_folder) -> None:
    """A tiny_folder, or a program that is something else."""
    with pytest.raises(PlannerError, match=r"/bin/false does not behave like a Python"):
        confirm(a_plan(tiny_folder), python="/bin/false")


def test_a_plan_for_a_gpu_is_not_started_on_the_cpu_build(tiny_folder) -> None:
    """It would measure another machine."""
    plan = planner.plan(tiny_folder, gpu="H100", max_model_len=1024)

    with pytest.raises(PlannerError, match=r'CPU build.*Plan with gpu="CPU"'):
        confirm(plan)


def test_a_taken_port_is_named(tiny_folder) -> None:
    """Rather than vLLM's traceback a minute later."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(PlannerError, match=f"Port {port} cannot be used"):
            confirm(a_plan(tiny_folder), port=port)


def test_a_folder_that_lost_its_config_is_named(tiny_folder) -> None:
    """Between planning and starting."""
    plan = a_plan(tiny_folder)
    (tiny_folder / "config.json").unlink()

    with pytest.raises(PlannerError, match=r"holds no config\.json"):
        confirm(plan)


def test_variables_of_the_shell_that_are_not_planned_are_left_out(
    tiny_folder, monkeypatch
) -> None:
    """They would change the memory behind the plan's back; the reader is told."""
    monkeypatch.setenv("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0")

    notes = confirm(a_plan(tiny_folder)).notes

    assert any("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS" in note for note in notes)


@pytest.mark.parametrize(
    "wrong", [{"weights": "none"}, {"load_requests": 0}, {"time_limit_seconds": 0}]
)
def test_wrong_options_are_named(wrong) -> None:
    """With what is allowed."""
    with pytest.raises(PlannerError, match=next(iter(wrong))):
        RunOptions(**wrong)


def test_this_python_is_asked_when_none_is_named(tiny_folder) -> None:
    """The one that runs the planner, unless PLANNER_VLLM_PYTHON names another."""
    assert confirm(a_plan(tiny_folder), python=sys.executable).measurement.is_started
    assert confirm(a_plan(tiny_folder)).measurement.is_started


def test_on_a_gpu_vllm_sees_the_chosen_one_and_tells_its_account(
    tiny_folder, monkeypatch
) -> None:
    """8 GiB = 2 weights + 1 others + 1 peak + 0.25 graphs + 3.75 for the KV cache."""
    monkeypatch.setenv("PYTHONPATH", f"{STAND_IN}_gpu{os.pathsep}{STAND_IN}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    boards = [
        Board(name="NVIDIA A4000", capability=(8, 6), total_mib=16376, used_mib=9000),
        Board(name="NVIDIA A4000", capability=(8, 6), total_mib=16376, uuid="GPU-2"),
    ]
    attached = survey(nvml=FakeDriver(boards).module(), environment={})
    monkeypatch.setattr(devices, "survey", lambda: attached)
    plan = planner.plan(
        tiny_folder, gpu=attached.planning_gpu(), gpu_memory_utilization=0.5
    )

    confirmation = confirm(plan)

    assert "Devices: 1" in confirmation.log_text
    measured = confirmation.measurement
    assert {line.name: line.size_bytes / GIB for line in measured.lines} == {
        "weights": 2.0,
        "persistent buffers + non-torch": 1.0,
        "peak activation": 1.0,
        "CUDA graphs": 0.25,
        "KV cache": 3.75,
    }
    assert measured.device_name == "NVIDIA A4000"
    assert measured.driver_version == "580.95.05"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_on_a_gpu_a_start_is_filmed(tiny_folder, monkeypatch) -> None:
    """What the driver says of the chosen GPU, stage by stage; here it is made up."""
    monkeypatch.setenv("PYTHONPATH", f"{STAND_IN}_gpu{os.pathsep}{STAND_IN}")
    board = Board(
        name="NVIDIA A4000", capability=(8, 6), total_mib=16376, reserved_mib=0
    )
    nvml = FakeDriver([board]).module()
    attached = survey(nvml=nvml, environment={})
    monkeypatch.setattr(devices, "survey", lambda: attached)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    # One thread tells of its stages: those of a server come from two.
    plan = planner.plan(
        tiny_folder,
        gpu=attached.planning_gpu(),
        gpu_memory_utilization=0.5,
        entrypoint="llm",
    )
    used = {StartStage.LOADING: 2500, StartStage.KV_CACHE: 7000, StartStage.READY: 7100}

    def listen(event: Event) -> None:
        board.used_mib = used.get(event.stage, board.used_mib)

    options = RunOptions(is_stored=False, is_filmed=True)
    film = Run(plan, options, listen).execute().film

    assert film is not None
    assert (film.model, film.gpu) == (plan.name, plan.gpu.name)
    end = film.frames[-1]
    sizes = {use: end.bytes_of(use) // MIB for use in (Use.WEIGHTS, Use.KV_CACHE)}
    assert sizes == {Use.WEIGHTS: 2500, Use.KV_CACHE: 4500}
    assert film.measured["kv_cache"] > 0
    assert "Starting to load model fake..." in [text for _frame, text in film.lines]


def test_without_a_gpu_there_is_nothing_to_film(tiny_folder) -> None:
    """Said before anything is started."""
    with pytest.raises(PlannerError, match="film is of an NVIDIA GPU"):
        confirm(a_plan(tiny_folder), is_filmed=True)


def test_a_full_disk_costs_a_note_and_nothing_else(tiny_folder, monkeypatch) -> None:
    """The figures are in the answer all the same."""

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    confirmation = confirm(a_plan(tiny_folder), is_stored=True)

    assert confirmation.measurement.is_started
    assert any("no space left on device" in note for note in confirmation.notes)


def test_what_was_measured_serves_later_plans(tiny_folder) -> None:
    """700 MiB of 8 GiB are measured; with 4 GiB the rest is exact."""
    note = confirm(a_plan(tiny_folder), is_stored=True).notes[-1]
    later = a_plan(tiny_folder, share=0.25)

    assert note.startswith("Stored as record")
    assert later.ranks[0].available_kv_cache_bytes == 4 * GIB - 700 * MIB
    assert any("planner calibration forget" in note for note in later.notes)
