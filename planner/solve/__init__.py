"""The largest load or the smallest machine: exact answers by planning again."""

from planner.serving import Serving, serving
from planner.solve.context import longest_context
from planner.solve.gpus import fewest_gpus
from planner.solve.instances import instances_on_one_gpu
from planner.solve.kv_cache import smallest_kv_cache_memory
from planner.solve.layouts import Layout, layouts
from planner.solve.requests import most_requests
from planner.solve.solution import Solution
from planner.solve.utilization import smallest_utilization

__all__ = [
    "Layout",
    "Serving",
    "Solution",
    "fewest_gpus",
    "instances_on_one_gpu",
    "layouts",
    "longest_context",
    "most_requests",
    "serving",
    "smallest_kv_cache_memory",
    "smallest_utilization",
]
