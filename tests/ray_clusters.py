"""A Ray of several machines on this one, for tests; and Pythons that start no vLLM."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.starts import PATIENCE

STORE_BYTES = 80 << 20
TRIES = 4
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_prestart_worker_first_driver": "0",
    # A busy machine starts all of it slowly, and hears of it late; what is killed
    # refuses connections, which Ray notices all the same.
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_health_check_timeout_ms": "120000",
}
SMALL = {
    "num_cpus": 0,
    "include_dashboard": False,
    "include_log_monitor": False,
    "no_monitor": True,
}
"""A head that runs nothing, without the processes that no test looks at."""
AGENTS = (
    "metrics_agent_port",
    "metrics_export_port",
    "dashboard_agent_listen_port",
    "runtime_env_agent_port",
)


@contextmanager
def cluster(**head: Any) -> Iterator[Any]:
    """Start a head; `add_node` adds machines; all of it ends with the block."""
    if " " in sys.executable:
        pytest.skip("Ray's shell cuts the path of its workers' Python at the space")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        _name_ports(patch)
        made = _started({**SMALL, **head})
        try:
            yield made
        finally:
            made.shutdown()


def _started(head: dict[str, Any]) -> Any:
    """Start a head, more than once: it gives up when its agents are slow to start."""
    from ray.cluster_utils import Cluster

    for _ in range(TRIES - 1):
        made = Cluster()
        try:
            add_node(made, **head)
        except Exception:  # noqa: BLE001 - Ray raises no other
            made.shutdown()
        else:
            return made
    made = Cluster()
    add_node(made, **head)
    return made


def add_node(made: Any, **node: Any) -> Any:
    """Add a machine of this one's address."""
    if made.head_node is not None:
        # Otherwise Ray asks the network for it, which no test may.
        node["node_ip_address"] = made.head_node.node_ip_address
    heeded = signal.getsignal(signal.SIGTERM)
    try:
        small = {"object_store_memory": STORE_BYTES, **_ports()}
        added = made.add_node(wait=False, **small, **node)
        made.wait_for_nodes(timeout=PATIENCE)  # Ray's own wait gives up after 30 s
        return added
    finally:
        # Ray takes this process's signal for a node's.
        signal.signal(signal.SIGTERM, heeded)


def _name_ports(patch: pytest.MonkeyPatch) -> None:
    """Write down the ports of a node's agents before they do.

    A node waits 15 seconds for the files in which its agents name their ports, and
    gives up; on a busy machine they are slower than that.
    """
    from ray._private.node import Node

    start = Node.start_raylet

    def start_with_ports(self: Any, *given: Any, **options: Any) -> None:
        for name in AGENTS:
            file = Path(self.get_session_dir_path(), f"{name}_{self._node_id}")
            file.write_text(str(getattr(self._ray_params, name)))
        start(self, *given, **options)

    patch.setattr(Node, "start_raylet", start_with_ports)


def _ports() -> dict[str, int]:
    """Return free ports for a node's agents."""
    with ExitStack() as held:
        made = [held.enter_context(socket.socket()) for _ in AGENTS]
        for each in made:
            each.bind(("", 0))
        return {
            name: each.getsockname()[1] for name, each in zip(AGENTS, made, strict=True)
        }


REFUSING = """#!/bin/sh
# Stands in for the Python of an environment: it has a vLLM, which refuses to start.
if [ "$1" = -c ]; then
    echo '{"has_vllm": true, "packages": {"vllm": "0.33.0+cpu"}}'
    exit 0
fi
folder=$(dirname "$0")
echo "begin $$ $*" >> "$folder/starts"
sleep "$(cat "$folder/seconds")"
while [ -e "$folder/hold" ]; do sleep 0.1; done
echo "ValueError: this one refuses on purpose"
echo "end $$ $*" >> "$folder/starts"
exit 1
"""


class RefusingPython:
    """A program that answers as a Python with vLLM, and notes what it is asked for."""

    def __init__(self, folder: Path, seconds: float = 0.0) -> None:
        self.folder = folder
        self.path = folder / "python"
        self.path.write_text(REFUSING, encoding="utf-8")
        self.path.chmod(0o755)
        (folder / "seconds").write_text(str(seconds))

    def hold(self) -> None:
        """Let what starts from now on wait."""
        (self.folder / "hold").touch()

    def go_on(self) -> None:
        """Let all of it go on."""
        (self.folder / "hold").unlink()

    def events(self) -> list[tuple[str, int, float]]:
        """Return begin or end, process, and share of the memory, in their order."""
        file = self.folder / "starts"
        lines = file.read_text().splitlines() if file.exists() else []
        found = []
        for line in lines:
            what, pid, *words = line.split()
            share = words[words.index("--gpu-memory-utilization") + 1]
            found.append((what, int(pid), round(float(share), 6)))
        return found

    def begun(self) -> list[int]:
        """Return the processes that have begun."""
        return [pid for what, pid, _ in self.events() if what == "begin"]

    def most_at_once(self) -> int:
        """Return how many ran at the same time at most."""
        running = most = 0
        for what, _, _ in self.events():
            running += 1 if what == "begin" else -1
            most = max(most, running)
        return most


def worker_of(pid: int) -> int:
    """Return the worker of Ray that a process runs under."""
    while pid > 1:
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
        if b"ray::" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError("no worker of Ray is above it")
