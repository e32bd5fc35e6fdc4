"""Ask a real Ray where it puts placement groups: a program of its own.

Reads nodes and cases as JSON, starts a cluster of such nodes on this machine, and
writes placed, waits or never for each group of each case. What is expected of a group
says only what to wait for. Ray's GPUs and accelerator types are resources by name only,
so no GPU is needed.
"""

import contextlib
import inspect
import json
import os
import socket
import sys
import time
from collections import Counter
from pathlib import Path

FINAL = ("FINISHED", "INFEASIBLE")
TRIES = 3
"""How often Ray tries a group, knowing what is free, until it counts as refused."""
PATIENCE_SECONDS = 300.0
"""Only what is not as expected, or a Ray that has ended, is waited for so long."""
SLACK = 1e-5
ALONE = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_autoscaler_v2": "0",
    "RAY_SCHEDULER_EVENTS": "0",
    # It tries a group that was not placed again soon.
    "RAY_gcs_create_placement_group_retry_min_interval_ms": "10",
    "RAY_gcs_create_placement_group_retry_max_interval_ms": "40",
    # A busy machine starts a node and its agents slowly, and hears late of both.
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_health_check_timeout_ms": "120000",
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
        extra = dict(ALONE) if number == 0 else {}
        if cluster.head_node is not None:
            extra["node_ip_address"] = cluster.head_node.node_ip_address
        small = {"object_store_memory": 80 * 2**20}
        cluster.add_node(**node, **small, **extra, **ports(), wait=False)
    cluster.wait_for_nodes(timeout=PATIENCE_SECONDS)
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


def ask(case: list[dict]) -> list[str]:
    """Return what becomes of the groups of one case, asked for one after the other.

    None follows while the one before could still be placed: Ray sees late what a node
    has free, and serves other groups before it tries one again that found nothing.
    """
    made, placed, answers = [], [], []
    for group in case:
        made.append(create(group))
        is_placed = decide(made[-1], placed, waits_for="placed", told=group)
        if is_placed:
            placed.append(group)
        answers.append("placed" if is_placed else "")
    release(made)
    return [found or alone(group) for found, group in zip(answers, case, strict=True)]


def alone(group: dict) -> str:
    """Return whether a group that was not placed would be, were it alone."""
    made = create(group)
    is_placed = decide(made, [], waits_for="waits", told=group)
    release([made])
    return "waits" if is_placed else "never"


def create(group: dict) -> object:
    """Ask for a group."""
    from ray.util import placement_group

    return placement_group(group["bundles"], strategy=group["strategy"])


def decide(group: object, placed: list[dict], *, waits_for: str, told: dict) -> bool:
    """Return whether Ray places a group beside those that it has placed.

    A group that should be placed is waited for, however late Ray is. One that should
    not be is refused when Ray has tried it often enough, knowing all that is free.
    """
    known_at: int | None = None
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        state, attempts = tried(group)
        if state in FINAL:
            return state == "FINISHED"
        if told["expected"] != waits_for:
            if known_at is None and knows_what_is_free(placed):
                known_at = attempts
            if known_at is not None and attempts >= known_at + TRIES:
                return False
            hurry()
        time.sleep(0.01)
    return False


def hurry() -> None:
    """Let Ray look at its groups now: by itself it does once a second."""
    from ray.util import remove_placement_group

    remove_placement_group(create({"bundles": [{"memory": 1}], "strategy": "PACK"}))


def tried(group: object) -> tuple[str, int]:
    """Return how far Ray has come with a group, and how often it was tried."""
    from ray._private.state import state
    from ray.core.generated.gcs_pb2 import PlacementGroupTableData

    row = state._connect_and_get_accessor().get_placement_group_info(group.id)
    stats = PlacementGroupTableData.FromString(row).stats
    return stats.SchedulingState.Name(stats.scheduling_state), stats.scheduling_attempt


def release(groups: list) -> None:
    """Give everything back, and wait until Ray knows that it is free."""
    from ray.util import remove_placement_group

    for group in groups:
        remove_placement_group(group)
    end = time.monotonic() + PATIENCE_SECONDS
    while not knows_what_is_free([]) and time.monotonic() < end:
        time.sleep(0.01)


def knows_what_is_free(placed: list[dict]) -> bool:
    """Return whether Ray counts as free all but what the placed groups hold."""
    import ray

    left = Counter(ray.cluster_resources())
    for group in placed:
        for bundle in group["bundles"]:
            left.subtract(bundle)
    free = ray.available_resources()
    return all(
        abs(free.get(name, 0.0) - amount) < SLACK
        for name, amount in left.items()
        if name in ("GPU", "CPU") or name.startswith("accelerator_type:")
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
