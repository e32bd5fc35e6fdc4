"""What a Ray pipeline is asked for, as flags: Ray's own names."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.ray import Pipeline
    from planner.result import Plan

_TEXTS = {"accelerator_type": "Ray's name, such as H100", "ray_version": "such as 2.60"}
_NUMBERS = {
    "batch_size": "rows of a batch",
    "max_concurrent_batches": "batches an engine works on at once",
    "max_tasks_in_flight_per_actor": "batches that are sent to an engine at once",
    "max_pending_requests": "rows within an engine at once; 0: no limit",
}
_TABLES = {
    "preprocess_map_kwargs": 'such as \'{"num_gpus": 0.5, "concurrency": 2}\'',
    "postprocess_map_kwargs": "the same after the engine",
    "placement_group_config": "what an engine reserves, by hand",
}
_NAMES = ("concurrency", *_TEXTS, *_NUMBERS, *_TABLES)


def add_ray_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a pipeline."""
    group = parser.add_argument_group("the pipeline, by Ray's names")
    add_flag(group, "concurrency", _concurrency, "N|MIN,MAX", "engines; default: 1")
    for name, text in _TEXTS.items():
        add_flag(group, name, str, "NAME", text)
    for name, text in _NUMBERS.items():
        add_flag(group, name, int, "N", text)
    for name, text in _TABLES.items():
        add_flag(group, name, _table, "JSON", text)


def popped(options: dict[str, Any]) -> dict[str, Any]:
    """Take the pipeline's flags out of parsed options; those that were given."""
    return {name: options.pop(name) for name in _NAMES if name in options}


def pipeline_of(plan: Plan, asked: dict[str, Any]) -> Pipeline:
    """Return the pipeline of a plan.

    Raises:
        PlannerError: for what Ray does not take.
    """
    from planner.ray import pipeline  # noqa: PLC0415 - most commands do without

    return pipeline(plan, **asked)


def add_flag(
    group: argparse._ArgumentGroup,
    name: str,
    kind: Any,  # noqa: ANN401 - what argparse calls
    metavar: str,
    text: str,
) -> None:
    """Add a flag that is left out of the options where it is not given."""
    flag = "--" + name.replace("_", "-")
    default = argparse.SUPPRESS
    group.add_argument(flag, type=kind, metavar=metavar, default=default, help=text)


def _concurrency(text: str) -> int | tuple[int, ...]:
    """Read a number of engines, or the fewest and the most."""
    parts = tuple(int(part) for part in text.split(","))
    return parts[0] if len(parts) == 1 else parts


def _table(text: str) -> dict[str, Any]:
    """Read a table in JSON."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no table in JSON")
    return found
