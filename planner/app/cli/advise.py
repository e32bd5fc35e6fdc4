"""`planner advise`: what to change so that vLLM starts, or serves more."""

from __future__ import annotations

import argparse
from typing import Any

from planner.app.cli.engine_flags import add_plan_arguments, planned
from planner.app.cli.shared import Output, add_load, add_output, load_of
from planner.solve.advice import advise

EXAMPLES = (
    "planner advise Qwen/Qwen3-8B --gpu L4",
    "planner advise Qwen/Qwen3-32B --gpu H100 --prompt-tokens 30000 --requests 20",
    "planner advise --gpu L4 -- vllm serve Qwen/Qwen3-8B --max-model-len 32768",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    add_plan_arguments(parser)
    add_load(parser.add_argument_group("the load that it must serve"))
    add_output(parser)


def run(options: dict[str, Any], out: Output) -> int:
    """Advise, and return the exit status."""
    advice = advise(planned(options | {"load": load_of(options)}))
    return out.say(advice, advice.helps_to_start)
