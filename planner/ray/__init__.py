"""Ray Data LLM: the cluster resources a pipeline reserves, and where its workers run.

Read in this order: `releases` (how Ray's releases differ), `bundles` (resources and
nodes), `stages` and `engine` (what a worker requests), `pipelines` (the result),
`build` (makes it), `scheduler` and `node_counts` (placement on nodes), `live` (on a
running cluster).

>>> from planner import ray as planner_ray
>>> planner_ray.pipeline("Qwen/Qwen3-8B", gpu="H100", concurrency=(2, 8)).gpus_minimum
2
"""

from planner.ray.build import pipeline
from planner.ray.bundles import Bundle, Node, NodeType, PlacementGroup
from planner.ray.live import Cluster, ClusterCheck, cluster
from planner.ray.node_counts import NodesNeeded
from planner.ray.pipelines import Asked, Caution, Pipeline
from planner.ray.placement import BundlePlace, Placement, State, WorkerPlacement
from planner.ray.releases import NEWEST, RayRelease
from planner.ray.stages import Stage

__all__ = [
    "NEWEST",
    "Asked",
    "Bundle",
    "BundlePlace",
    "Caution",
    "Cluster",
    "ClusterCheck",
    "Node",
    "NodeType",
    "NodesNeeded",
    "Pipeline",
    "Placement",
    "PlacementGroup",
    "RayRelease",
    "Stage",
    "State",
    "WorkerPlacement",
    "cluster",
    "pipeline",
]
