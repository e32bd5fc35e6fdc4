"""Ray Data LLM: what a pipeline takes of a cluster, and where its workers go.

Read in this order: `releases` (what each Ray does otherwise), `bundles` and `nodes`
(what is reserved, and where), `stages` and `engine` (what a worker asks for),
`pipelines` (the answer), `asking` (the whole), `placing` and `needed` (on nodes),
`live` (on a cluster that runs).

>>> from planner import ray as planner_ray
>>> planner_ray.pipeline("Qwen/Qwen3-8B", gpu="H100", concurrency=(2, 8)).gpus_minimum
2
"""

from planner.ray.asking import pipeline
from planner.ray.bundles import Bundle, PlacementGroup
from planner.ray.live import Cluster, ClusterCheck, cluster
from planner.ray.needed import NodesNeeded
from planner.ray.nodes import Node, NodeType
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
