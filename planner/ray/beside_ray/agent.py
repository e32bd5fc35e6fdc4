"""Talk to a Ray cluster in a separate process.

usage: agent.py

Ray ends the process of a driver that loses its cluster, and a call may block for a
minute: neither may happen to a notebook. This program reads one request as a line of
JSON, writes answers as lines of JSON, and ends when its standard input does. It needs
nothing but Ray; the task that it sends to the cluster imports the planner there.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import Any, TextIO

STEP_SECONDS = 0.2
_ALIVE_SECONDS = 2.0
_END_SECONDS = 8.0
_EVENTS_SECONDS = 10.0
_INSIDE_SECONDS = 30.0
_CONNECT_SECONDS = 10.0
_CLUSTER_STATE = str(Path(__file__).parent / "cluster_state.py")
_HEAD = "node:__internal_head__"
"""A resource that only the head node has."""
_SLACK = 1e-6


class Answers:
    """The lines that go back to the planner."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def say(self, event: str, **more: object) -> None:
        """Write one line; do nothing if the planner is gone."""
        with contextlib.suppress(OSError, ValueError):
            self._out.write(json.dumps({"event": event, **more}, default=str) + "\n")
            self._out.flush()


def main() -> int:
    """Read the request and answer it."""
    # Ray and its libraries print to standard output too; the answers need it alone.
    answers = Answers(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)
    lines: queue.Queue[str] = queue.Queue()
    ended = threading.Event()
    threading.Thread(target=_watch, args=(lines, ended), daemon=True).start()
    request = json.loads(lines.get() or "{}")
    try:
        import ray  # noqa: F401, PLC0415 - that it is missing is an answer
    except ImportError as error:
        answers.say("error", kind="missing", text=str(error))
        return 1
    try:
        _check_listening(request["address"])
        if request["task"] == "read":
            answers.say("cluster", **_read(request["address"]))
        else:
            _run(request, answers, lines, ended)
    except Exception as error:  # noqa: BLE001 - the planner words it
        answers.say("error", kind=type(error).__name__, text=str(error))
        return 1
    return 0


def _watch(lines: queue.Queue[str], ended: threading.Event) -> None:
    """Queue the planner's lines; when it is gone, end soon, even while Ray blocks."""
    for line in sys.stdin:
        lines.put(line)
    ended.set()
    lines.put("")
    time.sleep(_END_SECONDS)
    os._exit(1)


def _check_listening(address: str) -> None:
    """Fail at once where nothing listens; Ray itself takes a minute."""
    place = address.rpartition("://")[2]
    host, _, port = place.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or len(port) > len("65535"):
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise ConnectionError(f"Nothing listens at {place} ({error}).") from error


def _read(address: str) -> dict[str, Any]:
    """Return a cluster's state; starts nothing, except a driver for Ray Client."""
    import ray  # noqa: PLC0415 - optional: the cluster's Python has it

    if "://" in address:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        return _state_in_cluster(ray)
    if address == "auto":
        from ray._private import services  # noqa: PLC0415 - optional: the cluster's Python has it

        address = services.canonicalize_bootstrap_address(address) or ""
    if not address:
        raise ConnectionError("Could not find any running Ray instance.")
    state: dict[str, Any] = run_path(_CLUSTER_STATE)["state_at"](address)
    return state


def _state_in_cluster(ray: Any) -> dict[str, Any]:  # noqa: ANN401 - the module
    """Read the state on the head node, which knows what its autoscaler may add."""
    inside = run_path(_CLUSTER_STATE)["state_inside"]
    ask = ray.remote(num_cpus=0, max_retries=2, resources={_HEAD: 0.001})(inside)
    state: dict[str, Any] = ray.get(ask.remote(), timeout=_INSIDE_SECONDS)
    return state


@dataclass
class Job:
    """One plan to confirm, and its progress."""

    number: int
    payload: bytes
    resources: dict[str, float]
    attempt: int = 0
    begun: float | None = None
    """When the task reported that it runs; None: not yet."""
    waits_since: float = field(default_factory=time.monotonic)
    is_reported: bool = False
    """Whether it was reported that it waits for a machine."""


class Runs:
    """All jobs of a request on a cluster."""

    def __init__(
        self,
        request: Mapping[str, Any],
        jobs: list[dict[str, Any]],
        types: list[dict[str, float]],
        answers: Answers,
    ) -> None:
        import ray  # noqa: PLC0415 - optional: the cluster's Python has it

        self._ray = ray
        self._answers = answers
        self._request = request
        self._running: dict[Any, Job] = {}
        self._cancelled: dict[Any, str] = {}
        self._begin = ray.remote(max_retries=0)(_confirm)
        self._types = types
        self._last_alive = 0.0
        board = ray.remote(num_cpus=0, max_restarts=-1)(Board)
        self._board = board.remote()
        for one in jobs:
            self._submit(
                Job(
                    number=one["number"],
                    payload=base64.b64decode(one["payload"]),
                    resources=one["resources"],
                )
            )

    def go(self, ended: threading.Event) -> None:
        """Report each result as it comes, until every job has one."""
        while self._running and not ended.is_set():
            refs = list(self._running)
            ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=STEP_SECONDS)
            for ref in ready:
                self._finish(ref, self._running.pop(ref))
            self._report_events()
            self._check_cluster()

    def _submit(self, job: Job) -> None:
        job.begun, job.waits_since, job.is_reported = None, time.monotonic(), False
        rest = dict(job.resources)
        cpus, gpus = rest.pop("CPU", 0.0), rest.pop("GPU", 0.0)
        begin = self._begin.options(
            num_cpus=cpus, num_gpus=gpus, resources=rest, name=f"confirm {job.number}"
        )
        board, module = self._board, self._request["module"]
        ref = begin.remote(module, job.payload, job.number, job.attempt, board)
        self._running[ref] = job

    def _finish(self, ref: Any, job: Job) -> None:  # noqa: ANN401 - a reference
        errors = self._ray.exceptions
        try:
            value = self._ray.get(ref)
        except (errors.RayTaskError, errors.RuntimeEnvSetupError) as error:
            self._give_up(job, _first_line(error))
        except errors.RayError as error:
            self._retry(job, self._cancelled.pop(ref, _cause(error)))
        else:
            self._answers.say("result", number=job.number, value=value)

    def _retry(self, job: Job, why: str) -> None:
        """Restart a job whose worker or machine is gone."""
        if job.attempt >= self._request["retries"]:
            tries = job.attempt + 1
            times = "once" if tries == 1 else f"{tries} times"
            self._give_up(job, f"It was started {times} and lost each time: {why}.")
            return
        job.attempt += 1
        self._answers.say("retry", number=job.number, attempt=job.attempt, why=why)
        self._submit(job)

    def _give_up(self, job: Job, why: str) -> None:
        self._answers.say("failed", number=job.number, why=why)

    def _report_events(self) -> None:
        """Report the tasks' events; a board that is lost comes back empty."""
        try:
            events = self._ray.get(self._board.take.remote(), timeout=_EVENTS_SECONDS)
        except (self._ray.exceptions.RayError, TimeoutError):
            return
        jobs = {job.number: job for job in self._running.values()}
        for number, attempt, event in events:
            job = jobs.get(number)
            if job is None or job.attempt != attempt:
                continue
            job.begun = job.begun or time.monotonic()
            self._answers.say("progress", number=number, attempt=attempt, told=event)

    def _check_cluster(self) -> None:
        """Every two seconds, check the cluster, and whether waiting jobs can start."""
        now = time.monotonic()
        if now - self._last_alive < _ALIVE_SECONDS:
            return
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        self._last_alive = now
        self._answers.say("alive")
        for ref, job in list(self._running.items()):
            if job.begun is not None:
                self._end_late(ref, job)
            elif not any(_holds(node, job.resources) for node in nodes):
                self._wait(ref, job, nodes)
            else:
                job.waits_since, job.is_reported = now, False

    def _end_late(self, ref: Any, job: Job) -> None:  # noqa: ANN401 - a reference
        """End a task whose machine did not end vLLM in time."""
        limit = self._request["guard_seconds"]
        if time.monotonic() - (job.begun or 0.0) > limit and ref not in self._cancelled:
            self._cancelled[ref] = f"its machine did not end it within {limit:.0f} s"
            self._ray.cancel(ref, force=True)

    def _wait(self, ref: Any, job: Job, nodes: list[dict[str, float]]) -> None:  # noqa: ANN401
        """Give up where no machine can ever hold the job, or none came in time."""
        can_come = any(_holds(one, job.resources) for one in self._types)
        limit = (
            self._request["wait_seconds"]
            if can_come
            else self._request["patience_seconds"]
        )
        waited = time.monotonic() - job.waits_since
        if waited >= limit:
            self._ray.cancel(ref, force=True)
            del self._running[ref]
            self._answers.say(
                "nowhere",
                number=job.number,
                nodes=nodes,
                can_come=can_come,
                seconds=waited,
            )
        elif can_come and not job.is_reported:
            job.is_reported = True
            self._answers.say("waiting", number=job.number)


class Board:
    """An actor to which tasks write events, and from which the agent takes them."""

    def __init__(self) -> None:
        self._events: list[tuple[int, int, dict[str, Any]]] = []

    def put(self, number: int, attempt: int, event: dict[str, Any]) -> None:
        """Add an event of a task."""
        self._events.append((number, attempt, event))

    def take(self) -> list[tuple[int, int, dict[str, Any]]]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events


def _confirm(module: str, payload: bytes, number: int, attempt: int, board: Any) -> Any:  # noqa: ANN401 - what the module answers
    """Confirm a plan; runs on a node, to which Ray has copied the planner's module."""

    def tell(event: dict[str, Any]) -> None:
        board.put.remote(number, attempt, event)

    return import_module(module).confirm_here(payload, tell)


def _holds(total: Mapping[str, float], requested: Mapping[str, float]) -> bool:
    return all(
        total.get(name, 0.0) + _SLACK >= amount for name, amount in requested.items()
    )


def _run(
    request: Mapping[str, Any],
    answers: Answers,
    lines: queue.Queue[str],
    ended: threading.Event,
) -> None:
    """Connect, report the machines, and confirm the jobs that are sent in return."""
    import ray  # noqa: PLC0415 - optional: the cluster's Python has it

    _connect(ray, request)
    try:
        types = [*request["node_types"], *_node_types(ray, request["address"])]
        answers.say("connected", nodes=_totals(ray), types=types)
        jobs = json.loads(lines.get() or "{}").get("jobs")
        if jobs:
            Runs(request, jobs, types, answers).go(ended)
        if not ended.is_set():
            answers.say("done")
    finally:
        ray.shutdown()


def _connect(ray: Any, request: Mapping[str, Any]) -> None:  # noqa: ANN401 - the module
    """Join the cluster, or start one as requested; try a slow start twice."""
    for is_last in (False, True):
        try:
            ray.init(
                address=request["address"],
                log_to_driver=False,
                logging_level="ERROR",
                runtime_env=request["runtime_env"],
                **request["init"],
            )
        except Exception as error:
            # On a busy machine a node starts slowly, and Ray gives up.
            if is_last or "timed out during startup" not in str(error):
                raise
            ray.shutdown()
        else:
            return


def _node_types(ray: Any, address: str) -> list[dict[str, float]]:  # noqa: ANN401
    """Return the resources of machines that an autoscaler may add, where reported."""
    try:
        state = _state_from_here(ray.get_runtime_context().gcs_address, address)
        if state is None or (state["is_autoscaled"] and not state["groups"]):
            state = _state_in_cluster(ray)
    except Exception:  # noqa: BLE001 - a release that does not report it
        return []
    return [one["resources"] for one in state["groups"] or () if one["max"] != 0]


def _state_from_here(gcs_address: str, address: str) -> dict[str, Any] | None:
    """Read the control store from here; None where only the cluster reaches it."""
    if "://" in address:
        return None
    state: dict[str, Any] = run_path(_CLUSTER_STATE)["state_at"](gcs_address)
    return state


def _totals(ray: Any) -> list[dict[str, float]]:  # noqa: ANN401 - the module
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _first_line(error: Exception) -> str:
    """Return the last line of a task's error, which names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _cause(error: Exception) -> str:
    """Return the cause of an error of Ray in a few words."""
    words = {
        "WorkerCrashedError": "its worker process died",
        "NodeDiedError": "its machine went away",
        "LocalRayletDiedError": "its machine went away",
        "OutOfMemoryError": "Ray ended its worker because the machine ran out of "
        "memory",
        "ObjectLostError": "its machine went away with the result",
        "OwnerDiedError": "its machine went away with the result",
    }
    name = type(error).__name__
    return words.get(name) or f"{name}: {str(error).strip().splitlines()[0]}"


if __name__ == "__main__":
    sys.exit(main())
