"""`planner schema`: the JSON Schemas of what `--json` prints."""

from __future__ import annotations

import argparse
import json
from typing import Any

from planner.app.cli.shared import Output
from planner.show.schemas import names, schema

EXAMPLES = ("planner schema", "planner schema plan", "planner schema error")


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.add_argument(
        "name", nargs="?", help="of a schema; without one, all are listed"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: dict[str, Any], out: Output) -> int:
    """Print a schema or the list, and return the exit status."""
    name = options["name"]
    if name is not None:
        found = schema(name)
        return out.write(lambda: found, lambda: json.dumps(found, indent=2))
    rows = [
        {key: one[key] for key in ("title", "description", "$id")} | {"name": name}
        for name in names()
        for one in (schema(name),)
    ]
    return out.write(
        lambda: rows,
        lambda: "\n".join(
            f"{row['name']:<14} {row['title']}: {row['description']}" for row in rows
        ),
    )
