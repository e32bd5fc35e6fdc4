"""Many plans on a Ray cluster: what is asked of it, and what comes back."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from planner.confirming.as_dict import question_dict
from planner.confirming.asked_of_ray import Machines
from planner.confirming.events import ClusterEvent, Listener
from planner.confirming.many_file import (
    ResultsFile,
    SweepRow,
    not_started,
    told,
    write_log,
)
from planner.confirming.on_node import job_of
from planner.confirming.options import ClusterOptions, RunOptions
from planner.confirming.run import stored
from planner.confirming.stages import StartStage
from planner.errors import PlannerError
from planner.ray.remote import Agent
from planner.result import Plan

_PACKAGE = Path(__file__).parent.parent
_NOT_SENT = ("widgets/vendored/", "__pycache__/")
"""Parts of the planner that no start needs; the first is as large as all the rest."""

_CONNECT_SECONDS = 180.0
_GUARD_SECONDS = 120.0
"""How much longer than its time limit a start may take before its task is ended."""
_LOCAL: Mapping[str, Any] = {
    "include_dashboard": False,
    "object_store_memory": 100 << 20,
}


class ClusterRuns:
    """One call of `confirm_many` with an address."""

    def __init__(  # noqa: PLR0913 - what the call was given
        self,
        plans: Sequence[Plan],
        options: RunOptions,
        cluster: ClusterOptions,
        file: ResultsFile,
        listener: Listener | None,
        logs: str | PathLike[str] | None,
    ) -> None:
        self._plans = plans
        self._options = options
        self._cluster = cluster
        self._file = file
        self._listener = listener
        self._logs = logs
        self._rows: dict[int, SweepRow] = {}
        self._machines = Machines(())
        self._attempts: dict[int, int] = {}

    def execute(self) -> tuple[SweepRow, ...]:
        """Confirm what the file does not hold, and return all rows in order.

        Raises:
            PlannerError: where the cluster does not answer or goes away, or a row
                cannot be written. What was finished until then is in the file.
        """
        for number, plan in enumerate(self._plans):
            row = self._file.find(plan, self._options)
            if row is not None:
                self._rows[number] = row
        payloads = self._payloads()
        if payloads:
            with Agent(self._cluster.address, self._request()) as agent:
                try:
                    self._listen(agent, payloads)
                except PlannerError as error:
                    raise PlannerError(f"{error} {self._progress()}") from error
        return tuple(self._rows[number] for number in range(len(self._plans)))

    def _payloads(self) -> dict[int, bytes]:
        """Pack what is left to do; what cannot be packed is a row at once."""
        payloads = {}
        for number, plan in enumerate(self._plans):
            if number in self._rows:
                continue
            try:
                payloads[number] = job_of(plan, self._options)
            except PlannerError as error:
                self._fail(number, str(error))
        return payloads

    def _request(self) -> dict[str, Any]:
        given = dict(self._cluster.runtime_env)
        modules = [str(_PACKAGE), *map(str, given.pop("py_modules", ()))]
        excludes = [*_NOT_SENT, *given.pop("excludes", ())]
        return {
            "task": "run",
            "init": dict(_LOCAL) if self._cluster.address == "local" else {},
            "runtime_env": {"py_modules": modules, "excludes": excludes, **given},
            "retries": self._cluster.retries,
            "wait_seconds": self._cluster.wait_seconds,
            "patience_seconds": self._cluster.patience_seconds,
            "guard_seconds": self._options.time_limit_seconds + _GUARD_SECONDS,
            "node_types": [
                kind.node(kind.name).total.to_dict()
                for kind in self._cluster.node_types
            ],
        }

    def _listen(self, agent: Agent, payloads: Mapping[int, bytes]) -> None:
        handle: dict[str, Callable[[dict[str, Any]], None]] = {
            "result": self._take_result,
            "failed": lambda told: self._fail(told["number"], told["why"]),
            "nowhere": self._take_nowhere,
            "progress": self._take_progress,
            "retry": self._take_retry,
            "waiting": self._take_waiting,
        }
        silence = self._cluster.silence_seconds
        for message in agent.messages(_CONNECT_SECONDS, silence):
            if message["event"] == "connected":
                self._machines = Machines(message["nodes"], message["types"])
                agent.say(jobs=self._jobs(payloads))
            elif message["event"] in handle:
                handle[message["event"]](message)
        left = len(self._plans) - len(self._rows)
        if left:
            raise PlannerError(f"The cluster ended with {left} plans open.")

    def _jobs(self, payloads: Mapping[int, bytes]) -> list[dict[str, Any]]:
        jobs = []
        for number, payload in payloads.items():
            resources = self._machines.asked(self._plans[number], self._cluster.cpus)
            jobs.append(
                {
                    "number": number,
                    "payload": base64.b64encode(payload).decode(),
                    "resources": resources,
                }
            )
        return jobs

    def _take_result(self, message: Mapping[str, Any]) -> None:
        number, value = message["number"], message["value"]
        plan = self._plans[number]
        if "problem" in value:
            self._fail(number, value["problem"])
            return
        figures = json.loads(value["figures"]) | {"plan": _plain(plan.to_dict())}
        if value["kept"] is not None:
            measurement, moved_bytes = pickle.loads(bytes.fromhex(value["kept"]))
            figures["notes"].append(stored(plan, measurement, moved_bytes))
        self._finish(
            number,
            SweepRow(
                asked=question_dict(plan),
                options=told(self._options),
                outcome=value["outcome"],
                figures=figures,
            ),
        )
        log = zlib.decompress(bytes.fromhex(value["log"])).decode()
        write_log(self._logs, f"{number:03d}", log)
        self._tell(number, StartStage.DONE, fraction=1.0, machine=value["machine"])

    def _take_nowhere(self, message: Mapping[str, Any]) -> None:
        plan = self._plans[message["number"]]
        asked = self._machines.asked(plan, self._cluster.cpus)
        why = Machines(message["nodes"]).nowhere(asked)
        if message["can_come"]:
            why += (
                f" Its autoscaler may add one, but none came within "
                f"{message['seconds']:.0f} s."
            )
        self._fail(message["number"], why)

    def _take_progress(self, message: Mapping[str, Any]) -> None:
        event = message["told"]
        self._attempts[message["number"]] = message["attempt"]
        self._tell(
            message["number"],
            StartStage(event["stage"]),
            fraction=event.get("fraction", 0.0),
            lines=tuple(event.get("lines", ())),
            seconds=event.get("seconds", 0.0),
            reached=tuple(map(StartStage, event.get("reached", ()))),
            machine=event["machine"],
        )

    def _take_retry(self, message: Mapping[str, Any]) -> None:
        self._attempts[message["number"]] = message["attempt"]
        note = f"It is started again: {message['why']}."
        self._tell(message["number"], StartStage.CHECKING, note=note)

    def _take_waiting(self, message: Mapping[str, Any]) -> None:
        note = "It waits for a machine that the cluster's autoscaler may add."
        self._tell(message["number"], StartStage.CHECKING, note=note)

    def _tell(self, number: int, stage: StartStage, **more: Any) -> None:  # noqa: ANN401
        if self._listener is not None:
            attempt = self._attempts.get(number, 0)
            self._listener(
                ClusterEvent(number=number, stage=stage, attempt=attempt, **more)
            )

    def _fail(self, number: int, problem: str) -> None:
        plan = self._plans[number]
        self._finish(number, not_started(plan, self._options, problem))
        self._tell(number, StartStage.DONE, fraction=1.0, note=problem)

    def _finish(self, number: int, row: SweepRow) -> None:
        self._file.write(row)
        self._rows[number] = row

    def _progress(self) -> str:
        done = len(self._rows)
        words = f"{done} of {len(self._plans)} plans are finished"
        if self._file.path is None:
            return f"{words}; give a file for the results to go on from there."
        return f"{words} and in {self._file.path}: the same call goes on from there."


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as a line of JSON holds them."""
    plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return plain
