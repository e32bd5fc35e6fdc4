"""Many confirmations on a Ray cluster: each runs once, whatever is killed.

What loses workers, machines or the whole cluster takes minutes and runs at night;
`test_cluster_agent.py` asks the same of a stand-in for Ray.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.confirming.many_cluster import NOT_SENT, PACKAGE
from planner.confirming.options import ClusterEvent, Event
from planner.errors import PlannerError
from tests.ray_clusters import RefusingPython, add_node, cluster, worker_of
from tests.starts import STAND_IN, a_plan, is_alive, wait_until

SHARES = (0.3, 0.4)
LONG = 1200.0
"""Seconds that a busy machine may take to start a worker; no test waits for them."""


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    """Two machines of two CPUs, and a head that runs nothing."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(STAND_IN)
    try:
        with cluster() as made:
            add_node(made, num_cpus=2)
            add_node(made, num_cpus=2)
            yield made
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


@pytest.fixture
def refusing(tmp_path: Path) -> RefusingPython:
    """A vLLM that refuses to start, at once."""
    folder = tmp_path / "refusing"
    folder.mkdir()
    return RefusingPython(folder)


def lines_of(file: Path) -> list[dict[str, Any]]:
    """Return the rows that a file holds."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def share_of(row: Any) -> float:
    """Return what tells one row from the others."""
    return float(row["asked"]["arguments"]["gpu_memory_utilization"])


class Told:
    """A listener that keeps what it is told, and calls at a plan's start."""

    def __init__(self) -> None:
        self.events: list[ClusterEvent] = []

    def __call__(self, event: Event) -> None:
        assert isinstance(event, ClusterEvent)
        self.events.append(event)

    @property
    def notes(self) -> list[str]:
        return [event.note for event in self.events if event.note]


class Call(threading.Thread):
    """A call of confirm_many beside the test."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(daemon=True)
        self.told = Told()
        self.sweep: Any = None
        self.error: PlannerError | None = None
        self._given = given
        self._options = {"is_stored": False, "cpus": 1, **options}
        self.start()

    def run(self) -> None:
        try:
            self.sweep = planner.confirm_many(
                *self._given, listener=self.told, **self._options
            )
        except PlannerError as error:
            self.error = error

    def over(self) -> Any:
        self.join(LONG)
        assert not self.is_alive()
        assert self.error is None, str(self.error)
        return self.sweep


@pytest.mark.server
@pytest.mark.usefixtures("vllm_stand_in")
def test_figures_and_files_are_those_of_this_machine(
    machines, tiny_folder, tmp_path
) -> None:
    """The same row, but for what one start measures otherwise than the next.

    The model's folder lies here only: it is sent along. What is done is not done again,
    and then no cluster is asked.
    """
    plans = [a_plan(tiny_folder, share=share) for share in SHARES]
    here = planner.confirm_many(plans[:1], is_stored=False)
    file, told = tmp_path / "results.jsonl", Told()

    there = planner.confirm_many(
        plans,
        file,
        address=machines.address,
        listener=told,
        logs=tmp_path / "logs",
        cpus=1,
    )

    assert [(row.outcome, row.problem) for row in there] == [("confirmed", "")] * 2
    available = [row["measured available_kv_cache_bytes"] for row in there.table()]
    assert available == [int(s * (16 << 30)) - (700 << 20) for s in SHARES]
    one, other = json.loads(json.dumps(here[0].to_dict())), there[0].to_dict()
    assert one.keys() == other.keys()
    assert one["asked"] == other["asked"]
    assert one["figures"].keys() == other["figures"].keys()
    assert one["figures"]["plan"] == other["figures"]["plan"]
    assert any("Stored as record" in note for note in other["figures"]["notes"])
    assert "Starting to load" in (tmp_path / "logs" / "001.log").read_text()
    assert {event.number for event in told.events} == {0, 1}
    assert {"STARTING", "READY", "DONE"} <= {e.stage.name for e in told.events}
    again = planner.confirm_many(plans, file, address="nobody.invalid:1")
    assert [row.to_dict() for row in again] == [row.to_dict() for row in there]
    assert len(lines_of(file)) == 2


@pytest.mark.server
@pytest.mark.parametrize("many", [8, pytest.param(200, marks=pytest.mark.nightly)])
def test_starts_run_once_each_and_together(
    many, machines, tiny_folder, tmp_path, refusing
) -> None:
    """More than one at a time, as there are four CPUs and each takes one.

    A vLLM that refuses is a result: it is not started again.
    """
    shares = [(200 + number) / 1000 for number in range(many)]
    plans = [a_plan(tiny_folder, share=share) for share in shares]
    file = tmp_path / "results.jsonl"
    refusing.hold()

    call = Call(plans, file, address=machines.address, python=str(refusing.path))
    wait_until(lambda: len(refusing.begun()) >= 2, LONG)
    refusing.go_on()
    sweep = call.over()

    assert len(sweep) == many
    assert {row.outcome for row in sweep} == {"contradicted"}
    begun = [share for what, _, share in refusing.events() if what == "begin"]
    assert sorted(begun) == shares
    assert [share_of(row.to_dict()) for row in sweep] == shares
    assert sorted(share_of(row) for row in lines_of(file)) == shares
    assert 2 <= refusing.most_at_once() <= 4


@pytest.mark.server
@pytest.mark.nightly
def test_a_worker_that_is_killed_is_made_up_for(
    machines, tiny_folder, tmp_path, refusing
) -> None:
    """The start that it held ends and is made again, as often as was allowed.

    One of two plans loses its worker once, the other twice: that one is not a result.
    """
    plans = [a_plan(tiny_folder, share=share) for share in SHARES]
    file = tmp_path / "results.jsonl"
    refusing.hold()
    call = Call(
        plans, file, address=machines.address, python=str(refusing.path), retries=1
    )
    wait_until(lambda: len(refusing.begun()) == 2, LONG)
    for pid in refusing.begun():
        os.kill(worker_of(pid), signal.SIGKILL)
        wait_until(lambda pid=pid: not is_alive(pid), LONG)
    wait_until(lambda: len(refusing.begun()) == 4, LONG)
    (second,) = (pid for _, pid, share in refusing.events()[2:] if share == SHARES[1])

    os.kill(worker_of(second), signal.SIGKILL)
    wait_until(lambda: not is_alive(second), LONG)
    refusing.go_on()
    kept, lost = call.over()

    assert kept.outcome == "contradicted"
    assert lost.outcome == "not started"
    assert lost.problem == (
        "It was started 2 times and lost each time: its worker process died."
    )
    assert len(lines_of(file)) == 2
    again = "It is started again: its worker process died."
    assert call.told.notes == [again, again, lost.problem]
    assert {event.attempt for event in call.told.events} == {0, 1}
    assert len(refusing.begun()) == 4


@pytest.mark.server
@pytest.mark.nightly
def test_a_machine_that_goes_away_is_made_up_for(
    machines, tiny_folder, refusing
) -> None:
    """The start waits for another that has what it needs."""
    refusing.hold()
    lost = add_node(machines, num_cpus=3)
    call = Call(
        [a_plan(tiny_folder)],
        address=machines.address,
        python=str(refusing.path),
        cpus=3,
        patience_seconds=LONG,
    )
    wait_until(lambda: len(refusing.begun()) == 1, LONG)

    machines.remove_node(lost, allow_graceful=False)
    wait_until(lambda: not is_alive(refusing.begun()[0]), LONG)
    wait_until(lambda: bool(call.told.notes), LONG)
    refusing.go_on()
    other = add_node(machines, num_cpus=3)

    assert [row.outcome for row in call.over()] == ["contradicted"]
    assert len(refusing.begun()) == 2
    assert call.told.notes[0].startswith("It is started again: ")
    machines.remove_node(other)


DRIVER = """
import sys
from pathlib import Path
import planner
from tests.starts import a_plan
address, folder, file, python = sys.argv[1:]
plans = [a_plan(Path(folder), share=0.2 + n / 50) for n in range(6)]
planner.confirm_many(plans, file, address=address, python=python, cpus=2,
                     is_stored=False)
"""


@pytest.mark.server
@pytest.mark.nightly
def test_a_driver_that_is_killed_goes_on_where_it_was(
    machines, tiny_folder, tmp_path, refusing, root
) -> None:
    """Two starts at a time; after the first two it is killed amid the next two."""
    (refusing.folder / "seconds").write_text("1")
    file = tmp_path / "results.jsonl"
    words = [machines.address, str(tiny_folder), str(file), str(refusing.path)]
    paths = {**os.environ, "PYTHONPATH": str(root)}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, *words], env=paths)
    wait_until(lambda: file.exists() and len(file.read_text().splitlines()) >= 2, LONG)
    refusing.hold()
    wait_until(lambda: refusing.events()[-1][0] == "begin", LONG)

    driver.kill()
    driver.wait()

    wait_until(lambda: not any(map(is_alive, refusing.begun())), LONG)
    refusing.go_on()
    done = {share_of(row) for row in lines_of(file)}
    before = len(refusing.begun())
    assert 2 <= len(done) <= 5
    plans = [a_plan(tiny_folder, share=0.2 + n / 50) for n in range(6)]
    call = Call(
        plans, file, address=machines.address, python=str(refusing.path), cpus=2
    )
    sweep = call.over()
    assert [row.outcome for row in sweep] == ["contradicted"] * 6
    rows = [share_of(row) for row in lines_of(file)]
    assert sorted(rows) == sorted(0.2 + n / 50 for n in range(6))
    again = {
        round(share, 6)
        for what, _, share in refusing.events()[-2 * (6 - len(done)) :]
        if what == "begin"
    }
    assert not again & {round(share, 6) for share in done}
    # The killed driver had requested two at a time: the second may begin only now,
    # before Ray has noticed that nobody waits for it.
    assert len(refusing.begun()) - before - (6 - len(done)) in (0, 1)


@pytest.mark.server
def test_a_plan_that_no_machine_has_room_for_says_so(machines, tiny_folder) -> None:
    """Instead of waiting for ever; the others are not held up.

    What goes wrong on a machine names it, such as a Python that is not there.
    """
    two = planner.plan("Qwen/Qwen3-8B", gpu="H100", tensor_parallel_size=2)

    waits, started = Call(
        [two, a_plan(tiny_folder)],
        address=machines.address,
        python="/no/python",
        patience_seconds=0.5,
    ).over()

    assert [waits.outcome, started.outcome] == ["not started"] * 2
    assert waits.problem == (
        "No machine of the cluster has 2 GPUs and 1 CPU for one start; it has: "
        "0 CPUs; 2 CPUs. Add such a machine, or plan for these."
    )
    assert started.problem.startswith(f"{os.uname().nodename}: /no/python does not")


@pytest.mark.server
@pytest.mark.nightly
def test_a_cluster_that_vanishes_is_an_error_that_says_what_is_done(
    tiny_folder, tmp_path, refusing
) -> None:
    """The driver lives on, and what was finished is in the file."""
    (refusing.folder / "seconds").write_text("4")
    file = tmp_path / "results.jsonl"
    plans = [a_plan(tiny_folder, share=share) for share in SHARES]
    with cluster(num_cpus=1) as made:
        address = made.address
        call = Call(
            plans, file, address=address, python=str(refusing.path), silence_seconds=20
        )
        wait_until(lambda: file.exists() and bool(file.read_text()), LONG)
        refusing.hold()
        made.head_node.kill_all_processes(
            check_alive=False, allow_graceful=False, wait=True
        )
        call.join(LONG)

    assert call.error is not None
    assert address in str(call.error)
    done = len(lines_of(file))
    assert f"{done} of 2 plans are finished and in {file}" in str(call.error)
    wait_until(lambda: not any(map(is_alive, refusing.begun())), LONG)


def test_what_is_not_sent_is_where_it_is_left_out() -> None:
    """A folder that has moved would be sent to every machine again."""
    vendored, _cache = NOT_SENT
    assert (PACKAGE / vendored).is_dir()


def test_two_calls_do_not_write_one_file(tiny_folder, tmp_path) -> None:
    """Their results would be doubled."""
    from planner.confirming.many_file import ResultsFile

    file = tmp_path / "results.jsonl"
    with ResultsFile(file), pytest.raises(PlannerError, match="Another call writes"):
        planner.confirm_many([a_plan(tiny_folder)], file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": 1}, "retries: for starts on a Ray cluster"),
        ({"address": ""}, "address=''"),
        ({"address": "auto", "retries": -1}, "retries=-1"),
        ({"address": "auto", "cpus": -1}, "cpus=-1"),
        ({"address": "auto", "wait_seconds": -1}, "wait_seconds=-1"),
    ],
)
def test_wrong_options_are_named(tiny_folder, options, message) -> None:
    """Before anything is started."""
    with pytest.raises(PlannerError, match=message):
        planner.confirm_many([a_plan(tiny_folder)], **options)
