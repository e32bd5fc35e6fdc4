"""`planner models`: the bundled catalogue of models."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from planner.app.cli.shared import DOES_NOT_FIT, FITS
from planner.models import catalogue

EXAMPLES = ("planner models", "planner models qwen3")


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.add_argument("search", nargs="?", default="", help="part of a name")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    entries = catalogue.entries()
    if options["search"]:
        entries = catalogue.search(options["search"], limit=len(entries))
    if options["json"]:
        rows = [catalogue.entry_dict(entry) for entry in entries]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    else:
        sys.stdout.writelines(catalogue.entry_line(entry) + "\n" for entry in entries)
    return FITS if entries else DOES_NOT_FIT
