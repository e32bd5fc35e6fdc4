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
    from planner.ray import Node, Pipeline


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
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    from planner import ray  # noqa: PLC0415 - other commands do without

    model, as_json = options.pop("model"), options.pop("json")
    options.pop("entrypoint")  # Ray Data LLM starts vLLM's engine by itself
    count = options.pop("nodes", None)
    size = options.pop("gpus_per_node", 8), options.pop("cpus_per_node", 96)
    pipeline = ray.pipeline(model, load=_load(options), **options)
    kind = _kind(pipeline, *size)
    if count is None:
        needed = pipeline.nodes_needed([kind]).to_dict()
        told: dict[str, Any] = {"nodes_needed": needed}
        text = (
            f"Nodes of {size[0]:g} GPUs and {size[1]:g} CPUs: "
            f"{needed['to_start']['node']} to start, {needed['minimum']['node']} for "
            f"the fewest workers, {needed['maximum']['node']} for the most."
        )
        is_fine = pipeline.plan.fits
    else:
        nodes: list[Node] = [kind.node(f"node-{n + 1}") for n in range(count)]
        placement = pipeline.on(nodes)
        told, text = {"placement": placement.to_dict()}, str(placement)
        is_fine = pipeline.plan.fits and placement.can_start
    whole = json.dumps(pipeline.to_dict() | told, indent=2)
    sys.stdout.write((whole if as_json else f"{pipeline}\n\n{text}") + "\n")
    return FITS if is_fine else DOES_NOT_FIT


def _load(options: dict[str, Any]) -> Any:  # noqa: ANN401 - a Load, imported when asked
    from planner.load import Load  # noqa: PLC0415 - other commands do without

    prompt, output = options.pop("prompt_tokens", None), options.pop("output_tokens", 0)
    if prompt is None and output:
        raise PlannerError("--output-tokens needs --prompt-tokens as well.")
    return None if prompt is None else Load(prompt_tokens=prompt, output_tokens=output)


def _kind(pipeline: Pipeline, gpus: float, cpus: float) -> Any:  # noqa: ANN401 - a NodeType
    from planner.ray import NodeType  # noqa: PLC0415 - other commands do without

    return NodeType(
        name="node",
        gpus=gpus,
        cpus=cpus,
        accelerator_type=pipeline.accelerator_type,
        gpu_memory_bytes=pipeline.plan.gpu.total_memory_bytes,
    )
