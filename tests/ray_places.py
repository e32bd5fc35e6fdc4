"""Ask a real Ray where it puts placement groups: a program of its own.

Reads nodes and cases as JSON, starts a cluster of such nodes on this machine, and
writes placed, waits or never for each group of each case. Ray's GPUs and accelerator
types are resources by name only, so no GPU is needed.
"""

import contextlib
import inspect
import json
import os
import socket
import sys
import time
from pathlib import Path

FINAL = ("FINISHED", "INFEASIBLE")
RETRIED_SECONDS = 1.5
"""Longer than the longest pause after which Ray tries a group again (1 s)."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_autoscaler_v2": "0",
    "RAY_SCHEDULER_EVENTS": "0",
    # A busy machine starts a node slowly.
    "RAY_raylet_start_wait_time_s": "180",
}


def main(asked: str, answer: str) -> None:
    """Answer the cases in one file in another."""
    os.environ.update(QUIET)
    import ray
    from ray.cluster_utils import Cluster

    told = json.loads(Path(asked).read_text())
    wait_for_no_agent()
    cluster = Cluster()
    for number, node in enumerate(told["nodes"]):
        extra = {"include_dashboard": False} if number == 0 else {}
        if cluster.head_node is not None:
            extra["node_ip_address"] = cluster.head_node.node_ip_address
        small = {"object_store_memory": 80 * 2**20}
        cluster.add_node(**node, **small, **extra, **ports(), wait=False)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    answers = [ask(groups) for groups in told["cases"]]
    Path(answer).write_text(json.dumps(answers))
    ray.shutdown()
    cluster.shutdown()


def wait_for_no_agent() -> None:
    """Name the last port that Ray waits for itself; its agent may then be slow."""
    from ray._private import services
    from ray._raylet import persist_port

    start = services.start_raylet

    def start_at_once(*given: object, **named: object) -> object:
        told = inspect.signature(start).bind(*given, **named).arguments
        name = "dashboard_agent_listen_port"
        persist_port(told["session_dir"], told["node_id"], name, ports()[name])
        return start(*given, **named)

    services.start_raylet = start_at_once


def ports() -> dict[str, int]:
    """Return free ports for a node's agents: waiting for their own may take too long.

    Ray gives up a node whose agents have not named a port after 15 seconds.
    """
    names = (
        "metrics_agent_port",
        "metrics_export_port",
        "dashboard_agent_listen_port",
        "runtime_env_agent_port",
    )
    with contextlib.ExitStack() as held:
        made = [held.enter_context(socket.socket()) for _ in names]
        for each in made:
            each.bind(("", 0))
        return {
            name: each.getsockname()[1] for name, each in zip(names, made, strict=True)
        }


def ask(groups: list[dict]) -> list[str]:
    """Return what becomes of the groups of one case, asked for in their order."""
    made = []
    for group in groups:
        made.append(create(group))
        decide(made)
    states = [state(group) for group in made]
    release(made)
    return [
        "placed" if state == "FINISHED" else alone(group)
        for state, group in zip(states, groups, strict=True)
    ]


def alone(group: dict) -> str:
    """Return whether a group that was not placed would be, were it alone."""
    made = [create(group)]
    decide(made)
    found = state(made[0])
    release(made)
    return "waits" if found == "FINISHED" else "never"


def create(group: dict) -> object:
    """Ask for a group."""
    from ray.util import placement_group

    return placement_group(group["bundles"], strategy=group["strategy"])


def state(group: object) -> str:
    """Return how far Ray has come with a group."""
    from ray.util import placement_group_table

    return placement_group_table(group)["stats"]["scheduling_state"]


def decide(groups: list) -> None:
    """Wait until Ray has tried the last group, with what is free by then.

    Ray sees late what a node has free: a group that finds nothing is tried again, but a
    later one may come first. So no other follows while it could still be placed.
    """
    begin = time.monotonic()
    while time.monotonic() < begin + 20:
        found = state(groups[-1])
        has_waited = time.monotonic() > begin + RETRIED_SECONDS
        if found in FINAL or (found == "NO_RESOURCES" and has_waited):
            return
        time.sleep(0.01)


def release(groups: list) -> None:
    """Give everything back, and wait until Ray knows that it is free."""
    import ray
    from ray.util import remove_placement_group

    for group in groups:
        remove_placement_group(group)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        free, total = ray.available_resources(), ray.cluster_resources()
        if all(free.get(name) == total[name] for name in ("GPU", "CPU")):
            return
        time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
