"""The agent of `confirm_many` with a stand-in for Ray: whose tasks the test ends.

Time is the test's too: a step of the agent takes a second of it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from planner.ray.beside_ray import agent

BOTH = {"CPU": 1.0, "GPU": 2.0}
REQUEST = {
    "module": "planner.confirming.on_node",
    "retries": 1,
    "wait_seconds": 60,
    "patience_seconds": 5,
    "guard_seconds": 30,
}


class RayError(Exception):
    """As Ray's own are called; the agent goes by their names."""


def error(name: str) -> type[RayError]:
    """Return an error of Ray."""
    return type(name, (RayError,), {})


class Ref:
    """A task that runs until the test ends it."""

    def __init__(self, number: int, attempt: int, asked: dict[str, Any]) -> None:
        self.number, self.attempt, self.asked = number, attempt, asked
        self.ends: Any = None


class StandIn:
    """A Ray of one driver: each second of the test's time, something happens."""

    def __init__(self) -> None:
        self.exceptions = SimpleNamespace(
            RayError=RayError,
            RayTaskError=error("RayTaskError"),
            RuntimeEnvSetupError=error("RuntimeEnvSetupError"),
        )
        self.now = 0.0
        self.tasks: list[Ref] = []
        self.events: list[tuple[int, int, dict[str, Any]]] = []
        self.machines = [{"CPU": 4.0, "GPU": 2.0}]
        self.happens: dict[float, Callable[[], None]] = {}
        self.board_is_lost = False

    def remote(self, **_options: Any) -> Callable[[Any], Any]:
        """Return what starts a task or an actor."""
        return lambda what: (
            SimpleNamespace(remote=self._board)
            if what is agent.Board
            else SimpleNamespace(options=self._options)
        )

    def _board(self) -> Any:
        return SimpleNamespace(take=SimpleNamespace(remote=lambda: "events"))

    def _options(self, **asked: Any) -> Any:
        def remote(_module: str, _payload: bytes, number: int, attempt: int, *_) -> Ref:
            self.tasks.append(Ref(number, attempt, asked))
            return self.tasks[-1]

        return SimpleNamespace(remote=remote)

    def wait(self, refs: list[Ref], **_options: Any) -> tuple[list[Ref], list[Ref]]:
        """Let a second pass; return the tasks that have ended."""
        self.now += 1.0
        self.happens.pop(self.now, lambda: None)()
        assert self.now < 1000, "the agent goes on for ever"
        return [ref for ref in refs if ref.ends is not None], []

    def get(self, ref: Any, timeout: float | None = None) -> Any:
        """Return what a task or the board gives, or raise how it ended."""
        del timeout
        if ref == "events":
            if self.board_is_lost:
                raise RayError
            events, self.events = self.events, []
            return events
        if isinstance(ref.ends, Exception):
            raise ref.ends
        return ref.ends

    def nodes(self) -> list[dict[str, Any]]:
        """Return the machines that are there."""
        return [{"Resources": one, "Alive": True} for one in self.machines]

    def cancel(self, ref: Ref, *, force: bool) -> None:
        """End a task."""
        assert force
        ref.ends = error("WorkerCrashedError")()


class Told:
    """What the agent answers."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    def say(self, event: str, **more: Any) -> None:
        """Keep one answer; that it lives is none."""
        if event != "alive":
            self.all.append({"event": event, **more})


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Return the stand-in, which the agent imports."""
    made = StandIn()
    monkeypatch.setitem(sys.modules, "ray", made)
    monkeypatch.setattr(agent.time, "monotonic", lambda: made.now)
    return made


def go(*numbers: int, types: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
    """Run jobs until each has an answer; return what was said."""
    told = Told()
    jobs = [{"number": one, "payload": "", "resources": BOTH} for one in numbers]
    runs = agent.Runs(REQUEST, jobs, list(types), told)
    runs.go(threading.Event())
    return told.all


def test_a_result_is_passed_on_and_what_a_task_reports(ray) -> None:
    """GPUs and CPUs are asked for as such; what an older attempt says is left out."""

    def report() -> None:
        ray.events = [(7, 0, {"stage": "x"}), (7, 3, {"stage": "old"})]

    ray.happens = {2.0: report, 4.0: lambda: setattr(ray.tasks[0], "ends", {"a": 1})}
    told = go(7)

    asked = ray.tasks[0].asked
    assert (asked["num_cpus"], asked["num_gpus"], asked["resources"]) == (1.0, 2.0, {})
    assert told == [
        {"event": "progress", "number": 7, "attempt": 0, "told": {"stage": "x"}},
        {"event": "result", "number": 7, "value": {"a": 1}},
    ]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("WorkerCrashedError", "its worker process died"),
        ("NodeDiedError", "its machine went away"),
        ("OwnerDiedError", "its machine went away with the result"),
        ("Other", "Other: what Ray says"),
    ],
)
def test_what_is_lost_is_started_again_as_often_as_allowed(ray, name, why) -> None:
    """Another that is lost once is finished by its second start."""

    def lose() -> None:
        for ref in ray.tasks:
            ref.ends = ref.ends or error(name)("what Ray says")

    def lose_the_first_again() -> None:
        ray.tasks[2].ends, ray.tasks[3].ends = error(name)("what Ray says"), {"b": 2}

    ray.happens = {2.0: lose, 5.0: lose_the_first_again}
    told = go(0, 1)

    again = [{"event": "retry", "number": n, "attempt": 1, "why": why} for n in (0, 1)]
    lost = f"It was started 2 times and lost each time: {why}."
    assert told == [
        *again,
        {"event": "failed", "number": 0, "why": lost},
        {"event": "result", "number": 1, "value": {"b": 2}},
    ]
    assert [(ref.number, ref.attempt) for ref in ray.tasks] == [
        *((0, 0), (1, 0)),
        *((0, 1), (1, 1)),
    ]


def test_what_the_task_itself_raises_is_not_started_again(ray) -> None:
    """Its last line names the cause."""
    raised = ray.exceptions.RayTaskError("Traceback\n  ...\nImportError: no planner\n")
    ray.happens = {2.0: lambda: setattr(ray.tasks[0], "ends", raised)}

    assert go(0) == [{"event": "failed", "number": 0, "why": "ImportError: no planner"}]


def test_what_no_machine_can_hold_is_given_up(ray) -> None:
    """After the patience for it: 5 s, seen at the next look, one each 2 s."""
    ray.machines = [{"CPU": 4.0}]
    (told,) = go(0)

    assert (told["event"], told["nodes"]) == ("nowhere", [{"CPU": 4.0}])
    assert not told["can_come"]
    assert 5 <= told["seconds"] <= 7
    assert ray.tasks[0].ends is not None


def test_what_an_autoscaler_may_add_is_waited_for_longer(ray) -> None:
    """Said once; 60 s for the machine, and none of it while there is one."""
    ray.machines = []
    waited, told = go(0, types=(BOTH,))

    assert waited == {"event": "waiting", "number": 0}
    assert (told["event"], told["can_come"]) == ("nowhere", True)
    assert 60 <= told["seconds"] <= 62


def test_a_machine_that_comes_ends_the_waiting(ray) -> None:
    """One that goes later is waited for anew."""
    machine, ray.machines = ray.machines[0], []
    ray.happens = {
        4.0: lambda: ray.machines.append(machine),
        9.0: ray.machines.clear,
        13.0: lambda: ray.machines.append(machine),
        20.0: lambda: setattr(ray.tasks[0], "ends", {}),
    }

    assert [told["event"] for told in go(0)] == ["result"]


def test_what_its_machine_does_not_end_in_time_is_cancelled(ray) -> None:
    """30 s from what it first reported; the second time that is the end."""

    def begin() -> None:
        ray.events = [(0, ray.tasks[-1].attempt, {"stage": "x"})]

    ray.happens = {2.0: begin, 40.0: begin}
    told = go(0)

    late = "its machine did not end it within 30 s"
    assert [(one["event"], one.get("why")) for one in told] == [
        ("progress", None),
        ("retry", late),
        ("progress", None),
        ("failed", f"It was started 2 times and lost each time: {late}."),
    ]


def test_a_board_that_is_lost_costs_no_result(ray) -> None:
    """Its machine went away: events are missing, not answers."""
    ray.board_is_lost = True
    ray.happens = {3.0: lambda: setattr(ray.tasks[0], "ends", {})}

    assert [told["event"] for told in go(0)] == ["result"]


def test_the_end_of_the_planner_ends_the_agent(ray) -> None:
    """Nothing is waited for any more."""
    ended = threading.Event()
    jobs = [{"number": 0, "payload": "", "resources": BOTH}]
    runs = agent.Runs(REQUEST, jobs, [], Told())
    ray.happens = {3.0: ended.set}
    runs.go(ended)

    assert ray.now == 3.0
