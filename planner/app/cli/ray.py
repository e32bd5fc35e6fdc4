"""`planner ray`: what a Ray Data LLM pipeline needs of a cluster, and what fits.

The flags of a pipeline have Ray's own names; `planner export` has them too.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from planner import ray
from planner.app.cli.engine_flags import add_plan_arguments
from planner.app.cli.shared import Output, add_flag, add_list, add_output, load_of
from planner.errors import PlannerError

if TYPE_CHECKING:
    from planner.ray import Node, NodeType, Pipeline

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
_MOST_NODES = 10_000
_NAMES = ("concurrency", *_TEXTS, *_NUMBERS, *_TABLES)


EXAMPLES = (
    "planner ray Qwen/Qwen3-8B --gpu L4 --concurrency 4 --nodes 1",
    "planner ray Qwen/Qwen3-8B --gpu L4 --concurrency 2,8 --num-rows 100000 "
    "--prompt-tokens 1000 --output-tokens 200",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    add_plan_arguments(parser)
    add_ray_arguments(parser)
    rows = parser.add_argument_group("the rows, for bounds on speed and time")
    add_flag(rows, "num_rows", int, "N", "of the dataset")
    add_flag(rows, "prompt_tokens", int, "N", "of a row")
    add_flag(rows, "output_tokens", int, "N", "of a row's answer")
    nodes = parser.add_argument_group("the nodes to place it on (default: none)")
    add_flag(nodes, "nodes", int, "N", "how many; without it, how many are needed")
    add_flag(nodes, "gpus_per_node", float, "N", "default: 8")
    add_flag(nodes, "cpus_per_node", float, "N", "default: 96")
    live = parser.add_argument_group("the Ray cluster to place it on (default: none)")
    add_flag(live, "address", str, "ADDRESS", "auto, host:port or ray://host:port")
    add_output(parser)


def add_ray_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a pipeline."""
    group = parser.add_argument_group("the pipeline, by Ray's names")
    add_list(
        group,
        "--concurrency",
        "N",
        "engines, or the fewest and the most (default: 1)",
        int,
        default=argparse.SUPPRESS,
    )
    for name, text in _TEXTS.items():
        add_flag(group, name, str, "NAME", text)
    for name, text in _NUMBERS.items():
        add_flag(group, name, int, "N", text)
    for name, text in _TABLES.items():
        add_flag(group, name, _table, "JSON", text)


def given_ray_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the given flags of a pipeline from parsed options and return them."""
    given = {name: options.pop(name) for name in _NAMES if name in options}
    if len(given.get("concurrency", ())) == 1:
        (given["concurrency"],) = given["concurrency"]
    elif "concurrency" in given:
        given["concurrency"] = tuple(given["concurrency"])
    return given


def _table(text: str) -> dict[str, Any]:
    """Read a table in JSON."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise argparse.ArgumentTypeError("its JSON is nested too deeply") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return found


def run(options: dict[str, Any], out: Output) -> int:
    """Plan the pipeline, place it, and return the exit status."""
    model = options.pop("model")
    options.pop("entrypoint")  # Ray Data LLM starts vLLM's engine by itself
    count = options.pop("nodes", None)
    address = options.pop("address", None)
    size = options.pop("gpus_per_node", 8), options.pop("cpus_per_node", 96)
    options |= given_ray_arguments(options)
    pipeline = ray.pipeline(model, load=load_of(options), **options)
    if address is not None:
        values, text, can_start = _on_cluster(pipeline, address)
    else:
        values, text, can_start = _on_nodes(pipeline, count, _kind(pipeline, *size))
    return out.write(
        lambda: pipeline.to_dict() | values,
        lambda: out.screen.shown(f"{pipeline}\n\n{text}"),
        pipeline.plan.fits and can_start,
    )


def _on_cluster(pipeline: Pipeline, address: str) -> tuple[dict[str, Any], str, bool]:
    """Place on a live cluster; return values, text, and whether the pipeline starts."""
    there = ray.cluster(address)
    check = there.check(pipeline)
    return check.to_dict(), f"{there}\n\n{check}", check.can_start


def _on_nodes(
    pipeline: Pipeline, count: int | None, kind: NodeType
) -> tuple[dict[str, Any], str, bool]:
    """The same on `count` assumed nodes; without a count: how many are needed.

    Raises:
        PlannerError: for more nodes than workers are placed on.
    """
    if count is not None:
        if count > _MOST_NODES:
            raise PlannerError(
                f"--nodes {count:,}: workers are placed on at most {_MOST_NODES:,}. "
                "Give fewer; without --nodes, it says how many are needed."
            )
        nodes: list[Node] = [kind.node(f"node-{n + 1}") for n in range(count)]
        placement = pipeline.on(nodes)
        return {"placement": placement.to_dict()}, str(placement), placement.can_start
    needed = pipeline.nodes_needed([kind]).to_dict()
    text = (
        f"Nodes of {kind.gpus:g} GPUs and {kind.cpus:g} CPUs: "
        f"{needed['to_start']['node']} to start, {needed['minimum']['node']} for the "
        f"fewest workers, {needed['maximum']['node']} for the most."
    )
    return {"nodes_needed": needed}, text, True


def _kind(pipeline: Pipeline, gpus: float, cpus: float) -> NodeType:
    return ray.NodeType(
        name="node",
        gpus=gpus,
        cpus=cpus,
        accelerator_type=pipeline.accelerator_type,
        gpu_memory_bytes=pipeline.plan.gpu.total_memory_bytes,
    )
