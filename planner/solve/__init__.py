"""Solvers: the largest load or the smallest machine, found by planning again."""

from planner.planning.serving import Serving, serving
from planner.solve.gpus import fewest_gpus
from planner.solve.instances import instances_on_one_gpu
from planner.solve.layouts import Layout, layouts
from planner.solve.load_map import LoadCell, LoadMap, load_map
from planner.solve.model_fits import ModelFit, ModelFits
from planner.solve.price_list import (
    Price,
    PriceList,
    gpu_prices,
    save_currency,
    save_price,
)
from planner.solve.requests import longest_context, most_requests
from planner.solve.set_up_search import set_ups
from planner.solve.set_ups import Miss, SetUp, SetUps
from planner.solve.smallest import smallest_kv_cache_memory, smallest_utilization
from planner.solve.solution import Solution
from planner.solve.speed.keeping import keep_speed
from planner.solve.which_models import models

__all__ = [
    "Layout",
    "LoadCell",
    "LoadMap",
    "Miss",
    "ModelFit",
    "ModelFits",
    "Price",
    "PriceList",
    "Serving",
    "SetUp",
    "SetUps",
    "Solution",
    "fewest_gpus",
    "gpu_prices",
    "instances_on_one_gpu",
    "keep_speed",
    "layouts",
    "load_map",
    "longest_context",
    "models",
    "most_requests",
    "save_currency",
    "save_price",
    "serving",
    "set_ups",
    "smallest_kv_cache_memory",
    "smallest_utilization",
]
