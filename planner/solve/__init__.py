"""Solvers: the largest load or the smallest machine, found by planning again."""

from planner.planning.serving import Serving, serving
from planner.solve.gpus import fewest_gpus
from planner.solve.instances import instances_on_one_gpu
from planner.solve.layouts import Layout, layouts
from planner.solve.requests import longest_context, most_requests
from planner.solve.smallest import smallest_kv_cache_memory, smallest_utilization
from planner.solve.solution import Solution

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
