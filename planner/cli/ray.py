"""`planner ray`: what a Ray Data LLM pipeline takes of a cluster, and what fits."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from planner.cli.engine_flags import add_plan_arguments
from planner.cli.ray_flags import add_flag, add_ray_arguments
from planner.cli.status import DOES_NOT_FIT, FITS, Commands
from planner.errors import PlannerError

if TYPE_CHECKING:
    from planner.ray import Node, NodeType, Pipeline


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "ray",
        help="what a Ray Data LLM pipeline takes of a cluster",
        allow_abbrev=False,
    )
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
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    from planner import ray  # noqa: PLC0415 - other commands do without

    model, as_json = options.pop("model"), options.pop("json")
    options.pop("entrypoint")  # Ray Data LLM starts vLLM's engine by itself
    count = options.pop("nodes", None)
    address = options.pop("address", None)
    size = options.pop("gpus_per_node", 8), options.pop("cpus_per_node", 96)
    pipeline = ray.pipeline(model, load=_load(options), **options)
    if address is not None:
        told, text, can_start = _on_cluster(pipeline, address)
    else:
        told, text, can_start = _on_nodes(pipeline, count, _kind(pipeline, *size))
    is_fine = pipeline.plan.fits and can_start
    whole = json.dumps(pipeline.to_dict() | told, indent=2)
    sys.stdout.write((whole if as_json else f"{pipeline}\n\n{text}") + "\n")
    return FITS if is_fine else DOES_NOT_FIT


def _on_cluster(pipeline: Pipeline, address: str) -> tuple[dict[str, Any], str, bool]:
    """Return what a live cluster has room for: as values, as text, and whether any."""
    from planner.ray import cluster  # noqa: PLC0415 - other commands do without

    there = cluster(address)
    check = there.check(pipeline)
    return check.to_dict(), f"{there}\n\n{check}", check.can_start


def _on_nodes(
    pipeline: Pipeline, count: int | None, kind: NodeType
) -> tuple[dict[str, Any], str, bool]:
    """Return the same for nodes that are thought of; None: how many are needed."""
    if count is not None:
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


def _load(options: dict[str, Any]) -> Any:  # noqa: ANN401 - a Load, imported when asked
    from planner.load import Load  # noqa: PLC0415 - other commands do without

    prompt, output = options.pop("prompt_tokens", None), options.pop("output_tokens", 0)
    if prompt is None and output:
        raise PlannerError("--output-tokens needs --prompt-tokens as well.")
    return None if prompt is None else Load(prompt_tokens=prompt, output_tokens=output)


def _kind(pipeline: Pipeline, gpus: float, cpus: float) -> NodeType:
    from planner.ray import NodeType  # noqa: PLC0415 - other commands do without

    return NodeType(
        name="node",
        gpus=gpus,
        cpus=cpus,
        accelerator_type=pipeline.accelerator_type,
        gpu_memory_bytes=pipeline.plan.gpu.total_memory_bytes,
    )
