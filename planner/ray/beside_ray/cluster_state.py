"""Reads the state of a Ray cluster; also sent to one of its machines, by value.

Source: Ray 2.60.0 `_private/state.py` GlobalState, `autoscaler/v2/sdk.py`
get_cluster_status, `_private/services.py` start_monitor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

_CONFIG = "--autoscaling-config="


def state_inside() -> dict[str, Any]:
    """Read the state of the cluster in which this task runs."""
    context = import_module("ray").get_runtime_context()
    return state_at(context.gcs_address)


def state_at(gcs_address: str) -> dict[str, Any]:
    """Read the state from the control store at an address."""
    ray, raylet = import_module("ray"), import_module("ray._raylet")
    state = import_module("ray._private.state").GlobalState()
    state._initialize_global_state(
        raylet.GcsClientOptions.create(
            gcs_address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False
        )
    )
    store = raylet.GcsClient(address=gcs_address)
    free = state.available_resources_per_node()
    kinds = _or_none(lambda: _kinds(gcs_address)) or {}
    groups = _or_none(lambda: _groups(state.get_cluster_config()))
    if not groups:
        groups = _or_none(lambda: _groups_of_monitor(gcs_address))
    return {
        "address": gcs_address,
        "ray_version": (_or_none(lambda: _metadata(store)) or {}).get(
            "ray_version", ""
        ),
        "own_version": ray.__version__,
        "nodes": [
            {
                "name": node.get("NodeName") or node["NodeID"][:8],
                "id": node["NodeID"],
                "host": node.get("NodeManagerHostname", ""),
                "total": node["Resources"],
                "free": free.get(node["NodeID"], {}),
                "kind": kinds.get(node["NodeID"], ""),
            }
            for node in state.node_table()
            if node["Alive"]
        ],
        "groups": groups,
        # Without an autoscaler Ray names no node's type.
        "is_autoscaled": bool(groups or kinds),
    }


def _or_none(read: Callable[[], Any]) -> Any:  # noqa: ANN401 - Ray's answers
    """Return what `read` returns; None where this release or cluster lacks it."""
    try:
        return read()
    except Exception:  # noqa: BLE001 - then it is unknown
        return None


def _metadata(store: Any) -> Any:  # noqa: ANN401 - Ray's client
    """Return the cluster's versions; Ray's module moved between releases."""
    try:
        usage = import_module("ray._common.usage.usage_lib")
    except ImportError:
        usage = import_module("ray._private.usage.usage_lib")
    return usage.get_cluster_metadata(store)


def _kinds(gcs_address: str) -> dict[str, str]:
    """Return each node's type, where an autoscaler named it."""
    status = import_module("ray.autoscaler.v2.sdk").get_cluster_status(gcs_address)
    return {
        node.node_id: node.ray_node_type_name
        for node in (*status.active_nodes, *status.idle_nodes)
        if node.ray_node_type_name != f"node_{node.node_id}"
    }


def _groups(config: Any) -> list[dict[str, Any]] | None:  # noqa: ANN401 - protobuf
    """Return the node types that an autoscaler reported to the control store."""
    if config is None:
        return None
    return [
        {
            "name": group.name,
            "resources": dict(group.resources),
            "min": group.min_count,
            "max": None if group.max_count < 0 else group.max_count,
        }
        for group in config.node_group_configs
    ]


def _groups_of_monitor(gcs_address: str) -> list[dict[str, Any]] | None:
    """Return the node types in the configuration file of this machine's autoscaler."""
    for words in _commands():
        files = [word for word in words if word.startswith(_CONFIG)]
        if files and any(gcs_address in word for word in words):
            path = Path(files[0].removeprefix(_CONFIG)).expanduser()
            config = import_module("yaml").safe_load(path.read_text(encoding="utf-8"))
            return groups_of_file(config)
    return None


def _commands() -> Iterator[list[str]]:
    """Yield each process's command line, split into words; nothing without /proc."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield place.read_text(encoding="utf-8", errors="replace").split("\0")
        except OSError:
            continue


def groups_of_file(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the node types of a cluster's configuration file.

    The file's own `max_workers` bounds each type that has none.
    """
    most = config.get("max_workers")
    head = config.get("head_node_type")
    return [
        {
            "name": name,
            "resources": kind.get("resources") or {},
            "min": kind.get("min_workers", 0),
            "max": kind.get("max_workers", 0 if name == head else most),
        }
        for name, kind in config.get("available_node_types", {}).items()
    ]
