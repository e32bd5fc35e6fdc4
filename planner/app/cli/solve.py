"""`planner solve`: the largest load or the smallest machine that serves it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from planner import solve
from planner.app.cli.compare import price_of
from planner.app.cli.engine_flags import add_engine_arguments, add_plan_arguments
from planner.app.cli.shared import (
    Output,
    add_flag,
    add_list,
    add_load,
    add_output,
    load_parts,
)
from planner.engine.releases import NEWEST
from planner.solve.formats import QUALITIES
from planner.solve.set_ups import ORDERS
from planner.solve.which_models import KINDS
from planner.solve.which_models import ORDERS as MODEL_ORDERS

if TYPE_CHECKING:
    from planner.solve import SetUps, Solution

_QUESTIONS = {
    "context": "the longest max_model_len for --requests at once",
    "requests": "the most requests of --prompt-tokens and --output-tokens at once",
    "gpus": "the fewest GPUs, of the catalogue or of --gpus, and the layout on them",
    "set-ups": "GPUs, layouts and formats that serve the load, with prices and speed",
    "models": "the models of the catalogue that --gpu serves",
    "utilization": "the smallest --gpu-memory-utilization",
    "kv-cache-memory": "the smallest --kv-cache-memory-bytes, to the byte",
    "instances": "the most vLLM on one GPU, started one after the other",
}


_OTHER = {"set-ups": ["setups"]}
"""Other spellings."""
EXAMPLES = (
    "planner solve context Qwen/Qwen3-8B --gpu L4 --requests 4",
    "planner solve requests Qwen/Qwen3-8B --gpu L4 --prompt-tokens 3000",
    "planner solve gpus Qwen/Qwen3-32B --gpus H100,L40S --prompt-tokens 30000 "
    "--requests 20",
    "planner solve models --gpu RTX5090 --prompt-tokens 15000 --requests 5",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its questions."""
    questions = parser.add_subparsers(required=True, metavar="|".join(_QUESTIONS))
    for question, text in _QUESTIONS.items():
        one = questions.add_parser(
            question, help=text, aliases=_OTHER.get(question, [])
        )
        if question == "models":
            _add_models(one)
        else:
            add_plan_arguments(one)
        _add_load(one, question)
        add_output(one)
        one.set_defaults(question=question)


def _add_models(parser: argparse.ArgumentParser) -> None:
    """Add what limits the list of models, and what each is planned with."""
    group = parser.add_argument_group("the GPUs, and which models")
    text = "as in `planner plan`, attached for this machine's own"
    add_flag(group, "gpu", str, "GPU", f"{text} (default: H100)")
    add_flag(group, "gpus", int, "N", "how many of them, in one machine (default: 1)")
    add_flag(group, "search", str, "WORDS", "that a name must have")
    add_flag(group, "at_least_parameters", parameters, "N", "such as 7B")
    add_flag(group, "at_most_parameters", parameters, "N", "such as 34B")
    group.add_argument("--kind", choices=KINDS, default=None, help="(default: all)")
    group.add_argument(
        "--order", choices=MODEL_ORDERS, default="downloads", help="most first"
    )
    add_flag(group, "vllm_version", str, "RELEASE", f"default: {NEWEST}")
    add_engine_arguments(parser)


def parameters(text: str) -> float:
    """Read a number of parameters.

    >>> parameters("7B"), parameters("350M")
    (7000000000.0, 350000000.0)
    """
    times = {"B": 1e9, "M": 1e6}.get(text[-1:].upper())
    return float(text) if times is None else float(text[:-1]) * times


def _add_load(parser: argparse.ArgumentParser, question: str) -> None:
    load = parser.add_argument_group("the load, and what may be used")
    add_load(load)
    if question in ("gpus", "set-ups"):
        parser.set_defaults(gpu=None)
        text = "to choose from (default: the catalogue)"
        add_list(load, "--gpus", "GPU", text, default=None)
        add_flag(load, "gpus_per_node", int, "N", "default: 8")
        add_flag(load, "nodes", int, "N", "default: 1")
    if question == "set-ups":
        _add_prices(load)
    if question == "instances":
        add_flag(load, "instances", int, "N", "default: as many as there can be")
    if question in ("utilization", "instances"):
        text = "of the shares that are tried (default: 0.01)"
        add_flag(load, "step", float, "SHARE", text)


def _add_prices(group: argparse._ArgumentGroup) -> None:
    text = "of one GPU for an hour, in place of the list prices and those saved"
    add_list(group, "--price", "GPU=PRICE", text, default=[])
    add_flag(group, "currency", str, "WORD", "behind prices that are given")
    group.add_argument(
        "--order", choices=ORDERS, default="fewest", help="(default: fewest)"
    )
    group.add_argument(
        "--quality",
        choices=tuple(map(str, QUALITIES)),
        default=str(QUALITIES[0]),
        help="what other formats of weights and KV cache may cost (default: no loss)",
    )
    add_flag(group, "seconds", float, "S", "after which the search ends")
    text = "that each request has to get by the forecast"
    add_flag(group, "tokens_per_second_each", float, "N", text)
    text = "within which the first token has to come by the forecast"
    add_flag(group, "first_token_seconds", float, "S", text)


def run(options: dict[str, Any], out: Output) -> int:
    """Solve the question, and return the exit status."""
    question = options.pop("question")
    options |= load_parts(options)
    if question == "models":
        found = solve.models(options.pop("gpu", "H100"), **options)
        return out.say(found, found.is_found)
    model = options.pop("model")
    if question in ("gpus", "set-ups"):
        gpu = options.pop("gpu")
        options["gpus"] = options["gpus"] or gpu
    if question == "set-ups":
        options["prices"] = dict(map(price_of, options.pop("price"))) or None
    solvers: dict[str, Callable[..., Solution | SetUps]] = {
        "context": solve.longest_context,
        "requests": solve.most_requests,
        "gpus": solve.fewest_gpus,
        "set-ups": solve.set_ups,
        "utilization": solve.smallest_utilization,
        "kv-cache-memory": solve.smallest_kv_cache_memory,
        "instances": solve.instances_on_one_gpu,
    }
    solution = solvers[question](model, **options)
    return out.say(solution, solution.is_found)
