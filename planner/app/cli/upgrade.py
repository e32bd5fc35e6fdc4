"""`planner upgrade`: what another release of vLLM does to the same start, and why."""

from __future__ import annotations

import argparse
from typing import Any

from planner.app.cli.engine_flags import add_file_argument, inputs_of
from planner.app.cli.shared import Output, add_output
from planner.engine.releases import NEWEST
from planner.solve.upgrading import upgrade

EXAMPLES = (
    "planner upgrade Qwen/Qwen3-8B --gpu L4 --from 0.19.0",
    f"planner upgrade --from 0.26.0 --to {NEWEST} -- vllm serve Qwen/Qwen3-8B",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.description = (
        "The same start under each release from one to another: what changes line by "
        "line, by which rule of vLLM, and what to set to get the old behaviour."
    )
    add_file_argument(parser)
    parser.add_argument(
        "--from",
        dest="first",
        metavar="RELEASE",
        help="the release that runs now; --vllm-version is the same",
    )
    parser.add_argument(
        "--to",
        default=NEWEST,
        metavar="RELEASE",
        help=f"the release to upgrade to (default: {NEWEST})",
    )
    add_output(parser)


def run(options: dict[str, Any], out: Output) -> int:
    """Compare the releases, and return the exit status."""
    first, last = options.pop("first"), options.pop("to")
    inputs = inputs_of(options)
    if first is not None:
        inputs = inputs.changed(vllm_version=first)
    found = upgrade(inputs, to=last)
    return out.say(found, found.after is not None and found.after.fits)
