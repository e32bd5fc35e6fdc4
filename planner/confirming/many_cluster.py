"""Several plans confirmed on a Ray cluster.

`ClusterRuns` sends the plans to the cluster's agent and turns its messages into rows;
`Machines` has the resources that a start requests, and the error if none has them.
"""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from planner.confirming import on_node
from planner.confirming.confirmation import question_dict
from planner.confirming.many_file import (
    ResultsFile,
    SweepRow,
    not_started,
    options_dict,
    write_log,
)
from planner.confirming.options import (
    ClusterEvent,
    ClusterOptions,
    Listener,
    RunOptions,
)
from planner.confirming.run import stored
from planner.confirming.stages import StartStage
from planner.errors import PlannerError
from planner.planning.result import Plan
from planner.ray.bundles import ACCELERATOR, ACCELERATOR_SHARE, ray_names, types_in
from planner.ray.remote import Agent

Resources = Mapping[str, float]

PACKAGE = Path(__file__).parent.parent
NOT_SENT = ("app/widgets/vendored/", "__pycache__/")
"""Parts of the planner that no start needs, by their paths in the package."""

_CONNECT_SECONDS = 180.0
_GUARD_SECONDS = 120.0
"""How much longer than its time limit a start may take until its task is ended."""
_LOCAL: Mapping[str, Any] = {
    "include_dashboard": False,
    "object_store_memory": 100 << 20,
}


class Machines:
    """The machines of a cluster, by their logical resources."""

    def __init__(
        self, nodes: Sequence[Resources], types: Sequence[Resources] = ()
    ) -> None:
        self._nodes = tuple(nodes)
        self._all = (*nodes, *types)

    def requested(self, plan: Plan, cpus: float | None) -> dict[str, float]:
        """Return the resources that one start requests.

        GPUs are requested whole, so that no other task changes their memory meanwhile.
        """
        if plan.gpu.is_cpu:
            return {"CPU": self._most("CPU") if cpus is None else cpus}
        resources = {
            "CPU": 1.0 if cpus is None else cpus,
            "GPU": float(plan.gpus_total),
        }
        names, types = ray_names(plan.gpu), types_in(self._all)
        if names and types:
            name = next((name for name in names if name in types), names[0])
            resources[f"{ACCELERATOR}{name}"] = ACCELERATOR_SHARE
        return resources

    def shortage(self, requested: Resources) -> str:
        """Return that no machine has the resources, and what the machines have."""
        have = sorted({_words(node) for node in self._nodes})
        there = "; ".join(have) if have else "no machines"
        return (
            f"No machine of the cluster has {_words(requested)} for one start; it has: "
            f"{there}. Add such a machine, or plan for these."
        )

    def _most(self, name: str) -> float:
        return max((node.get(name, 0.0) for node in self._all), default=1.0) or 1.0


def _words(resources: Resources) -> str:
    """Return resources as text: 8 GPUs (H100) and 16 CPUs."""
    cpus, gpus = resources.get("CPU", 0.0), resources.get("GPU", 0.0)
    kinds = ", ".join(types_in((resources,)))
    words = []
    if gpus:
        words.append(_count(gpus, "GPU") + (f" ({kinds})" if kinds else ""))
    words.append(_count(cpus, "CPU"))
    return " and ".join(words)


def _count(number: float, name: str) -> str:
    return f"{number:g} {name}" + ("" if number == 1 else "s")


class ClusterRuns:
    """One call of `confirm_many` with an address."""

    def __init__(  # noqa: PLR0913 - the arguments of the call
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
        """Confirm the plans that the file does not have, and return all rows in order.

        Raises:
            PlannerError: if the cluster does not answer or disappears, or a row cannot
                be written. What was finished until then is in the file.
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
        """Pack the plans that are left; one that cannot be packed becomes a row now."""
        payloads = {}
        for number, plan in enumerate(self._plans):
            if number in self._rows:
                continue
            try:
                payloads[number] = on_node.job_of(plan, self._options)
            except PlannerError as error:
                self._fail(number, str(error))
        return payloads

    def _request(self) -> dict[str, Any]:
        given = dict(self._cluster.runtime_env)
        modules = [str(PACKAGE), *map(str, given.pop("py_modules", ()))]
        excludes = [*NOT_SENT, *given.pop("excludes", ())]
        return {
            "task": "run",
            "module": on_node.__name__,
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
            "failed": lambda message: self._fail(message["number"], message["why"]),
            "nowhere": self._take_shortage,
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
            resources = self._machines.requested(
                self._plans[number], self._cluster.cpus
            )
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
                options=options_dict(self._options),
                outcome=value["outcome"],
                figures=figures,
            ),
        )
        log = zlib.decompress(bytes.fromhex(value["log"])).decode()
        write_log(self._logs, f"{number:03d}", log)
        self._report(number, StartStage.DONE, fraction=1.0, machine=value["machine"])

    def _take_shortage(self, message: Mapping[str, Any]) -> None:
        plan = self._plans[message["number"]]
        requested = self._machines.requested(plan, self._cluster.cpus)
        why = Machines(message["nodes"]).shortage(requested)
        if message["can_come"]:
            why += (
                f" Its autoscaler may add one, but none came within "
                f"{message['seconds']:.0f} s."
            )
        self._fail(message["number"], why)

    def _take_progress(self, message: Mapping[str, Any]) -> None:
        event = message["told"]
        self._attempts[message["number"]] = message["attempt"]
        self._report(
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
        self._report(message["number"], StartStage.CHECKING, note=note)

    def _take_waiting(self, message: Mapping[str, Any]) -> None:
        note = "It waits for a machine that the cluster's autoscaler may add."
        self._report(message["number"], StartStage.CHECKING, note=note)

    def _report(self, number: int, stage: StartStage, **more: Any) -> None:  # noqa: ANN401
        if self._listener is not None:
            attempt = self._attempts.get(number, 0)
            self._listener(
                ClusterEvent(number=number, stage=stage, attempt=attempt, **more)
            )

    def _fail(self, number: int, problem: str) -> None:
        plan = self._plans[number]
        self._finish(number, not_started(plan, self._options, problem))
        self._report(number, StartStage.DONE, fraction=1.0, note=problem)

    def _finish(self, number: int, row: SweepRow) -> None:
        self._file.write(row)
        self._rows[number] = row

    def _progress(self) -> str:
        done = len(self._rows)
        words = f"{done} of {len(self._plans)} plans are finished"
        if self._file.path is None:
            return f"{words}; give a file for the results to continue from there."
        return f"{words} and in {self._file.path}: the same call continues from there."


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON has them."""
    plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return plain
