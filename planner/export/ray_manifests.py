"""A Ray pipeline on Kubernetes: RayCluster, RayJob and RayService of KubeRay.

The head runs no part of the pipeline. Engines run on pods with GPUs, the stages on CPUs
on pods without. Ray's autoscaler decides between the numbers of pods that the fewest
and the most workers need.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.errors import PlannerError
from planner.export import needs, ray_arguments
from planner.export.ray_arguments import comments, pipeline_of, release_of_ray
from planner.export.ray_data_code import ray_data
from planner.export.ray_serve_code import applications
from planner.export.yaml_text import LiteralBlock, yaml_text
from planner.given import named_in_errors
from planner.memory.host.nodes import GPUS_IN_A_NODE
from planner.planning.result import Plan
from planner.ray import Node, NodeType, Pipeline
from planner.ray.node_usage import Effort
from planner.ray.scheduler import num_placed, num_workers
from planner.units import GIB
from planner.values import frozen

_CACHE = "/home/ray/.cache/huggingface"
_CODE = "/home/ray/pipeline"
_FILE = "pipeline.py"
_SHARED = "/dev/shm"
_HEAD_CPUS = 4
_HEAD_GIB = 16
"""For the driver, the cluster's tables and the dashboard: assumed."""
_TTL_SECONDS = 60
_TOKENIZER_GIB = 2
SOURCE, TARGET = "s3://YOUR-BUCKET/rows", "s3://YOUR-BUCKET/answers"


@named_in_errors
def ray_cluster(what: Pipeline | Plan, *, node_type: NodeType | None = None) -> str:
    """Return a RayCluster for `kubectl apply` that can run a pipeline.

    Args:
        what: a pipeline of `planner.ray`, or a plan, for one engine of it.
        node_type: the size of every worker pod; by default it fits the pipeline.

    Raises:
        PlannerError: for a model in a folder of this machine, for slices of a GPU
            (MIG), and where a worker does not fit such a pod.
    """
    found, groups = _checked(what, node_type)
    spec = _cluster(found, groups, has_code=False)
    return _written(found, {"RayCluster": spec})


@named_in_errors
def ray_job(
    what: Pipeline | Plan,
    *,
    source: str = SOURCE,
    target: str = TARGET,
    node_type: NodeType | None = None,
) -> str:
    """Return a RayJob with its program: its cluster runs the pipeline, then shuts down.

    Args:
        what: a pipeline of `planner.ray`, or a plan, for one engine of it.
        source: where the rows are, Parquet files that all nodes can read.
        target: where the answers are written.
        node_type: the size of every worker pod; by default it fits the pipeline.

    Raises:
        PlannerError: as `ray_cluster`.
    """
    found, groups = _checked(what, node_type)
    program = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": needs.metadata(found.plan),
        "data": {_FILE: LiteralBlock(ray_data(found))},
    }
    words = ["python", f"{_CODE}/{_FILE}", source, target]
    spec = {
        "entrypoint": shlex.join(words),
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": _TTL_SECONDS,
        "rayClusterSpec": _cluster(found, groups, has_code=True),
    }
    note = "The entrypoint's last two arguments: where to read rows and write answers."
    return _written(found, {"RayJob": spec}, note, program=program)


@named_in_errors
def ray_service(what: Pipeline | Plan, *, node_type: NodeType | None = None) -> str:
    """Return a RayService that serves a pipeline's engine with Ray Serve LLM.

    Args:
        what: a pipeline of `planner.ray`, or a plan, for one engine of it.
        node_type: the size of every worker pod; by default it fits the pipeline.

    Raises:
        PlannerError: as `ray_cluster`.
    """
    found, groups = _checked(what, node_type)
    spec = {
        "serveConfigV2": LiteralBlock(yaml_text(applications(found)) + "\n"),
        "rayClusterConfig": _cluster(found, groups, has_code=False),
    }
    return _written(found, {"RayService": spec})


def _checked(
    what: Pipeline | Plan, node_type: NodeType | None
) -> tuple[Pipeline, tuple[PodGroup, ...]]:
    found = pipeline_of(what)
    needs.check_reachable(found.plan)
    if found.plan.gpu.is_cpu or not found.gpus_maximum:
        raise PlannerError(
            "Ray's images with vLLM are for NVIDIA GPUs: plan one, such as gpu='L4'."
        )
    if found.plan.gpu.mig_profile:
        raise PlannerError(
            f"{found.plan.gpu.name} is a slice of a GPU, which Ray's nodes do not "
            "count as a GPU on Kubernetes. Plan for the whole GPU, and let engines "
            "share it by placement_group_config."
        )
    return found, groups_of(found, node_type)


def _cluster(
    found: Pipeline, groups: Sequence[PodGroup], *, has_code: bool
) -> dict[str, Any]:
    """Return the specification of a RayCluster.

    Source: KubeRay 1.4 `apis/ray/v1/raycluster_types.go` RayClusterSpec; Ray 2.60.0
    `autoscaler/_private/kuberay/autoscaling_config.py`.
    """
    is_scaling = any(group.minimum < group.maximum for group in groups)
    return {
        "rayVersion": release_of_ray(found).version,
        **({"enableInTreeAutoscaling": True} if is_scaling else {}),
        "headGroupSpec": {
            # The head only manages the cluster: no worker is placed on it.
            "rayStartParams": {"num-cpus": "0", "num-gpus": "0"},
            "template": {"spec": _head(found, has_code=has_code)},
        },
        "workerGroupSpecs": [
            {
                "groupName": group.node.name,
                "replicas": group.minimum,
                "minReplicas": group.minimum,
                "maxReplicas": group.maximum,
                "rayStartParams": _start_params(group.node),
                "template": {"spec": _worker(found, group.node)},
            }
            for group in groups
        ],
    }


def _start_params(node: NodeType) -> dict[str, str]:
    """Return parameters of `ray start` that the autoscaler cannot read off a pod."""
    named = {name: int(amount) for name, amount in node.resources.items()}
    if node.accelerator_type:
        named[f"accelerator_type:{node.accelerator_type}"] = 1
    params = {}
    if named:
        escaped = json.dumps(named).replace('"', '\\"')
        params["resources"] = f'"{escaped}"'
    if node.object_store_memory_bytes:
        params["object-store-memory"] = str(node.object_store_memory_bytes)
    return params


def _head(found: Pipeline, *, has_code: bool) -> dict[str, Any]:
    container = _container(found, "ray-head", _HEAD_CPUS, _HEAD_GIB, gpus=0)
    if not has_code:
        return {"containers": [container]}
    container["volumeMounts"] = [{"name": "pipeline", "mountPath": _CODE}]
    name = needs.short_name(found.plan)
    volume = {"name": "pipeline", "configMap": {"name": name}}
    return {"containers": [container], "volumes": [volume]}


def _worker(found: Pipeline, node: NodeType) -> dict[str, Any]:
    gpus = int(node.gpus)
    total = math.ceil(node.memory_bytes / GIB)
    store = math.ceil(node.object_store_memory_bytes / GIB) or math.ceil(
        total * OBJECT_STORE_SHARE
    )
    shared = store + needs.shared_gib(gpus)
    container = _container(
        found, "ray-worker", node.cpus, total + needs.shared_gib(gpus), gpus=gpus
    )
    container["volumeMounts"] = [
        {"name": "huggingface", "mountPath": _CACHE},
        {"name": "shared-memory", "mountPath": _SHARED},
    ]
    # Only tokenizers where there is no engine.
    cache_gib = needs.cache_gib(found.plan) if gpus else _TOKENIZER_GIB
    cache = {"sizeLimit": f"{cache_gib}Gi"}
    memory = {"medium": "Memory", "sizeLimit": f"{shared}Gi"}
    return {
        **(_selector(found) if gpus else {}),
        "containers": [container],
        "volumes": [
            {"name": "huggingface", "emptyDir": cache},
            {"name": "shared-memory", "emptyDir": memory},
        ],
    }


def _selector(found: Pipeline) -> dict[str, Any]:
    """Select nodes by the label of NVIDIA's GPU feature discovery, where requested."""
    if found.accelerator_type is None or not found.plan.gpu.device_name:
        return {}
    product = found.plan.gpu.device_name.replace(" ", "-")
    return {"nodeSelector": {"nvidia.com/gpu.product": product}}


def _container(
    found: Pipeline, name: str, cpus: float, memory_gib: int, *, gpus: int
) -> dict[str, Any]:
    amounts = {"cpu": f"{cpus:g}"} | (
        {"memory": f"{memory_gib}Gi"} if memory_gib else {}
    )
    if gpus:
        amounts["nvidia.com/gpu"] = str(gpus)
    return {
        "name": name,
        "image": ray_arguments.image(release_of_ray(found)),
        # The program sets the others.
        "env": needs.secret_variables(found.plan),
        "resources": {"limits": amounts, "requests": dict(amounts)},
    }


def _written(
    found: Pipeline,
    named: Mapping[str, dict[str, Any]],
    *notes: str,
    program: dict[str, Any] | None = None,
) -> str:
    """Write KubeRay's documents, given by their kinds, after the program's."""
    metadata = needs.metadata(found.plan)
    documents = [
        {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
        for kind, spec in named.items()
    ]
    if program is not None:
        documents.insert(0, program)
    lines = [*comments(found, brings_vllm=True), needs.TOKEN_NOTE, *notes]
    head = "".join(f"# {line}\n" for line in lines)
    return head + "\n---\n".join(map(yaml_text, documents)) + "\n"


# The pods that a pipeline needs: their sizes and numbers.


_ACTOR_GIB = 1
"""CPU memory of a worker of a stage on CPUs, mostly a tokenizer: assumed."""
_TASK_GIB = 2
"""CPU memory of Ray's own processes and of tasks that share a GPU: assumed."""
_READING_CPUS = 1
"""CPUs of a task that reads rows."""
_CPUS_OF_A_POD = 16
_MOST_MORE = 5
OBJECT_STORE_SHARE = 0.3
"""The share of a node's memory that Ray takes for its object store.

Source: Ray 2.60.0 `_private/ray_constants.py` DEFAULT_OBJECT_STORE_MEMORY_PROPORTION.
"""


@frozen
class PodGroup:
    """Identical pods, between a minimum and a maximum number."""

    node: NodeType
    minimum: int
    maximum: int

    def nodes(self) -> list[Node]:
        """Return as many nodes as there may be."""
        name = self.node.name
        return [self.node.node(f"{name}-{number}") for number in range(self.maximum)]


def groups_of(found: Pipeline, node_type: NodeType | None) -> tuple[PodGroup, ...]:
    """Return the groups of pods: of the given size, else of sizes that fit the workers.

    Raises:
        PlannerError: where a worker does not fit such a pod.
    """
    nodes = [node_type] if node_type else [_gpu_node(found), _cpu_node(found)]
    needed = found.nodes_needed(nodes)
    groups = tuple(
        PodGroup(node=node, minimum=least, maximum=most)
        for node, least, most in zip(nodes, needed.minimum, needed.maximum, strict=True)
    )
    return _with_room(found, groups)


def _with_room(found: Pipeline, groups: tuple[PodGroup, ...]) -> tuple[PodGroup, ...]:
    """Return the groups with as many more pods as Ray's order of placement needs.

    Ray places workers one by one, not so that all fit on the fewest nodes.
    """
    *others, last = groups
    effort = Effort()  # of all tries together
    for more in range(_MOST_MORE):
        wider = (*others, replace(last, maximum=last.maximum + more))
        nodes = [
            g.node.node(f"{g.node.name}-{n}") for g in wider for n in range(g.maximum)
        ]
        if num_placed(found, nodes, effort) == num_workers(found):
            return wider
    return groups


def _gpu_node(found: Pipeline) -> NodeType:
    """Return a node for one replica, or for its part on one machine.

    It has enough CPUs for any mix of workers on its GPUs.
    """
    bundles = [
        bundle
        for stage in found.stages
        for bundle in stage.worker.bundles
        if bundle.gpus
    ]
    largest = max(stage.worker.gpus for stage in found.stages)
    whole = max(math.ceil(bundle.gpus) for bundle in bundles)
    gpus = max(min(math.ceil(largest), GPUS_IN_A_NODE), whole)
    cpus = max(math.ceil(gpus * bundle.cpus / bundle.gpus) for bundle in bundles)
    account = max((node.needed_bytes for node in found.plan.host), default=0)
    engines = max(1, math.floor(gpus / (found.gpus_per_replica or 1)))
    return NodeType(
        name="gpu-workers",
        cpus=max(1, cpus),
        gpus=gpus,
        accelerator_type=found.accelerator_type,
        memory_bytes=_with_store(account * engines / GIB + _TASK_GIB) * GIB,
    )


def _cpu_node(found: Pipeline) -> NodeType:
    """Return a node for the stages on CPUs, and for reading rows."""
    stages = [stage for stage in found.stages if not stage.worker.gpus]
    largest = max((stage.worker.cpus for stage in stages), default=1)
    all_cpus = sum(stage.cpus_maximum for stage in stages) + _READING_CPUS
    cpus = max(math.ceil(largest), min(math.ceil(all_cpus), _CPUS_OF_A_POD))
    return NodeType(
        name="cpu-workers",
        cpus=cpus,
        memory_bytes=_with_store(_ACTOR_GIB * cpus) * GIB,
        min_nodes=1,
    )


def _with_store(used_gib: float) -> int:
    """Return the GiB of memory that leave `used_gib` beside Ray's object store."""
    return math.ceil(used_gib / (1 - OBJECT_STORE_SHARE))
