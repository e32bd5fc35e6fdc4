"""`planner solve`: the largest load or the smallest machine that serves it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from planner import solve
from planner.app.cli.engine_flags import add_plan_arguments
from planner.app.cli.shared import DOES_NOT_FIT, FITS, Commands, add_flag

if TYPE_CHECKING:
    from planner.solve import Solution

_QUESTIONS = {
    "context": "the longest max_model_len for --requests at once",
    "requests": "the most requests of --prompt-tokens and --output-tokens at once",
    "gpus": "the fewest GPUs, of the catalogue or of --gpus, and the layout on them",
    "utilization": "the smallest --gpu-memory-utilization",
    "kv-cache-memory": "the smallest --kv-cache-memory-bytes, to the byte",
    "instances": "the most vLLM on one GPU, started one after the other",
}


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "solve", help="the largest load or the smallest machine that serves it"
    )
    questions = parser.add_subparsers(required=True, metavar="|".join(_QUESTIONS))
    for question, text in _QUESTIONS.items():
        # With abbreviations, an unknown argument could match another one.
        one = questions.add_parser(question, help=text, allow_abbrev=False)
        add_plan_arguments(one)
        _add_load(one, question)
        one.add_argument("--json", action="store_true", help="print JSON")
        one.set_defaults(run=_run, question=question)


def _add_load(parser: argparse.ArgumentParser, question: str) -> None:
    load = parser.add_argument_group("the load, and what may be used")
    for name in ("prompt_tokens", "output_tokens", "requests"):
        add_flag(load, name, int, "N")
    if question == "gpus":
        parser.set_defaults(gpu=None)
        load.add_argument(
            "--gpus",
            nargs="+",
            metavar="NAME",
            default=None,
            help="to choose from (default: the catalogue)",
        )
        add_flag(load, "gpus_per_node", int, "N", "default: 8")
        add_flag(load, "nodes", int, "N", "default: 1")
    if question == "instances":
        add_flag(load, "instances", int, "N", "default: as many as there can be")
    if question in ("utilization", "instances"):
        text = "of the shares that are tried (default: 0.01)"
        add_flag(load, "step", float, "SHARE", text)


def _run(options: dict[str, Any]) -> int:
    question, as_json = options.pop("question"), options.pop("json")
    model = options.pop("model")
    if question == "gpus":
        gpu = options.pop("gpu")
        options["gpus"] = options["gpus"] or gpu
    solvers: dict[str, Callable[..., Solution]] = {
        "context": solve.longest_context,
        "requests": solve.most_requests,
        "gpus": solve.fewest_gpus,
        "utilization": solve.smallest_utilization,
        "kv-cache-memory": solve.smallest_kv_cache_memory,
        "instances": solve.instances_on_one_gpu,
    }
    solution = solvers[question](model, **options)
    text = json.dumps(solution.to_dict(), indent=2) if as_json else str(solution)
    sys.stdout.write(text + "\n")
    return FITS if solution.is_found else DOES_NOT_FIT
