"""`planner mcp`: the planner for agents, over standard input and output."""

from __future__ import annotations

import argparse
import os
from typing import Any

from planner.app.cli.shared import FITS, Output
from planner.app.mcp.server import serve
from planner.errors import PlannerError
from planner.surroundings import FILES
from planner.user_files import user_path

EXAMPLES = (
    "planner mcp",
    "planner mcp --files models --offline",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.description = (
        "A server of the Model Context Protocol with the tools plan, read, explain, "
        "advise, set_ups, speed and upgrade. An agent starts it; it only reads, and "
        "reads no file of this machine unless --files allows it."
    )
    parser.add_argument(
        "--files",
        metavar="FOLDER",
        help="a folder whose models, texts and logs the agent may name",
    )
    parser.add_argument(
        "--offline", action="store_true", help="do not ask the Hugging Face Hub"
    )


def run(options: dict[str, Any], _out: Output) -> int:
    """Answer an agent until it ends, and return the exit status."""
    folder = options["files"]
    if folder is not None and not user_path(folder).is_dir():
        raise PlannerError(f"--files {folder}: there is no such folder.")
    os.environ[FILES] = "" if folder is None else str(user_path(folder).resolve())
    if folder is not None:
        os.chdir(user_path(folder))
    if options["offline"]:
        os.environ["HF_HUB_OFFLINE"] = "1"
    serve()
    return FITS
