"""A plan as Kubernetes manifests: a Deployment, or a LeaderWorkerSet, and a Service.

A plan for one machine is a Deployment. One for several is a LeaderWorkerSet, whose pods
vLLM joins without Ray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.engine.settings import serve_words
from planner.errors import PlannerError
from planner.export import needs
from planner.export.yaml_text import yaml_text
from planner.given import named_in_errors
from planner.planning.entrypoints import release_of, serve_arguments
from planner.planning.machines import JOINS_NODES, Nodes, nodes_of

if TYPE_CHECKING:
    from planner.planning.result import Plan

_LEFT_TO_THE_GROUP = ("nnodes", "node_rank", "master_addr", "master_port")
_PROBE_SECONDS = 10


@named_in_errors
def kubernetes(plan: Plan) -> str:
    """Return manifests for `kubectl apply` that serve this plan.

    Raises:
        PlannerError: for a model in a folder of this machine, and for layouts of
            several machines that the release cannot join.

    Source: Kubernetes apps/v1 and v1; LeaderWorkerSet v1 (leaderworkerset.sigs.k8s.io);
    vLLM 0.33.0 `entrypoints/cli/serve.py` (--headless, --nnodes).
    """
    needs.check_reachable(plan)
    found = nodes_of(plan)
    documents = _single(plan, found) if found.count == 1 else _group(plan, found)
    texts = [yaml_text(document) for document in documents]
    return _comments(plan, found) + "\n---\n".join(texts) + "\n"


def _comments(plan: Plan, found: Nodes) -> str:
    lines = [needs.headline(plan), needs.TOKEN_NOTE]
    if found.count > 1:
        lines.append(
            f"{found.count} machines with {found.gpus} GPUs each; needs "
            "LeaderWorkerSet in the cluster (leaderworkerset.sigs.k8s.io)."
        )
    return "".join(f"# {line}\n" for line in lines)


def _single(plan: Plan, found: Nodes) -> list[dict[str, Any]]:
    metadata = needs.metadata(plan)
    labels = metadata["labels"]
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{needs.cache_gib(plan)}Gi"}},
        },
    }
    pod = _pod(plan, found, _words(plan))
    pod["volumes"][0]["persistentVolumeClaim"] = {"claimName": metadata["name"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            # A new pod finds no free GPU while the old pod still has it.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    return [claim, deployment, _service(metadata)]


def _service(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "selector": metadata["labels"],
            "ports": [{"name": "http", "port": needs.PORT, "targetPort": "http"}],
        },
    }


def _group(plan: Plan, found: Nodes) -> list[dict[str, Any]]:
    """Return a leader, which serves, and workers, which contribute their GPUs."""
    _check_joins(plan)
    metadata = needs.metadata(plan)
    labels = metadata["labels"]
    leader = {**labels, "role": "leader"}
    joining = [
        *("--nnodes", str(found.count), "--node-rank", "$(LWS_WORKER_INDEX)"),
        *("--master-addr", "$(LWS_LEADER_ADDRESS)"),
    ]
    words = _words(plan)
    first = _pod(plan, found, words)
    others = _pod(plan, found, words)
    first["containers"][0]["args"] += joining
    worker = others["containers"][0]
    worker["args"] += [*joining, "--headless"]
    # Workers accept no requests: the leader's probes show whether the group serves.
    for key in ("ports", "startupProbe", "readinessProbe", "livenessProbe"):
        del worker[key]
    for pod in (first, others):
        pod["volumes"][0]["emptyDir"] = {}
    group = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": found.count,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": {"metadata": {"labels": leader}, "spec": first},
                "workerTemplate": {"metadata": {"labels": labels}, "spec": others},
            },
        },
    }
    return [group, _service(metadata | {"labels": leader})]


def _check_joins(plan: Plan) -> None:
    if not release_of(plan).has(JOINS_NODES):
        raise PlannerError(
            f"vLLM {plan.vllm_version} joins several machines through Ray alone, which "
            "this manifest does not set up. Plan vllm_version='0.11.1' or later."
        )
    engines = plan.settings.data_parallel_size or 1
    if engines > 1:
        raise PlannerError(
            f"data_parallel_size={engines} over several machines needs addresses of "
            "each engine, which this manifest does not hold. Plan one engine, and "
            "raise `replicas` of its manifest instead."
        )


def _words(plan: Plan) -> list[str]:
    """Return the model and its flags, without those that the group sets."""
    given = {
        name: value
        for name, value in serve_arguments(plan).items()
        if name not in _LEFT_TO_THE_GROUP
    }
    words = serve_words(plan.name, given, release_of(plan))[2:]
    # Kubernetes substitutes variables for $(...).
    return [word.replace("$", "$$") for word in words]


def _pod(plan: Plan, found: Nodes, words: list[str]) -> dict[str, Any]:
    shared = f"{needs.shared_gib(found.gpus)}Gi"
    container = {
        "name": "vllm",
        "image": needs.image(plan),
        "command": ["vllm", "serve"],
        "args": list(words),
        "env": _environment(plan),
        "ports": [{"name": "http", "containerPort": needs.port(plan)}],
        "resources": _resources(plan, found.gpus),
        "volumeMounts": [
            {"name": "huggingface", "mountPath": needs.CACHE},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
        ],
        **_probes(plan),
    }
    return {
        # A Service called vllm would set VLLM_PORT, which vLLM reads as its own.
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [
            {"name": "huggingface"},
            {
                "name": "shared-memory",
                "emptyDir": {"medium": "Memory", "sizeLimit": shared},
            },
        ],
    }


def _environment(plan: Plan) -> list[dict[str, Any]]:
    plain = [
        {"name": name, "value": value.replace("$", "$$")}
        for name, value in needs.environment(plan).items()
    ]
    return [*needs.secret_variables(plan), *plain]


def _resources(plan: Plan, gpus: int) -> dict[str, Any]:
    if plan.gpu.is_cpu:
        needed_gib = -(-plan.gpu.total_memory_bytes // 2**30)
        return {"requests": {"memory": f"{needed_gib}Gi"}}
    profile = plan.gpu.mig_profile
    resource = f"nvidia.com/mig-{profile}" if profile else "nvidia.com/gpu"
    amount = {resource: str(gpus)}
    return {"limits": amount, "requests": amount}


def _probes(plan: Plan) -> dict[str, Any]:
    """Return the probes of /health; the start-up probe allows the time to load."""
    probe = {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": _PROBE_SECONDS,
        "timeoutSeconds": 5,
    }
    tries = needs.start_minutes(plan) * 60 // _PROBE_SECONDS
    return {
        "startupProbe": {**probe, "failureThreshold": tries},
        "readinessProbe": {**probe, "failureThreshold": 3},
        "livenessProbe": {**probe, "failureThreshold": 6},
    }
