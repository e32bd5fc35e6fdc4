"""`planner sweep`: a model over one engine argument or two."""

from __future__ import annotations

import csv
import json
import sys
from typing import Any

from planner.app.cli.engine_flags import add_plan_arguments, value_of
from planner.app.cli.shared import DOES_NOT_FIT, FITS, Commands
from planner.errors import PlannerError
from planner.show.grid import grid_text
from planner.solve.comparing.cells import VALUES
from planner.solve.comparing.sweep import sweep


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "sweep", help="a model over one engine argument or two", allow_abbrev=False
    )
    add_plan_arguments(parser)
    parser.add_argument(
        "--over",
        action="append",
        required=True,
        metavar="NAME=A,B,...",
        help="an engine argument (or gpu, model, vllm_version) and its values; twice "
        "for a grid",
    )
    parser.add_argument(
        "--value",
        default="max_concurrency",
        choices=list(VALUES),
        metavar="FIGURE",
        help=f"what the table shows: {', '.join(VALUES)}",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print every figure as CSV")
    form.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    as_csv, as_json = options.pop("csv"), options.pop("json")
    value = options.pop("value")
    over = dict(map(_axis, options.pop("over")))
    grid = sweep(options.pop("model"), over=over, **options)
    if as_csv:
        _write_csv(grid.rows())
    elif as_json:
        sys.stdout.write(json.dumps(grid.to_dict(), indent=2) + "\n")
    else:
        sys.stdout.write(grid_text(grid, value) + "\n")
    return FITS if any(cell.fits for cell in grid.cells) else DOES_NOT_FIT


def _axis(text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise PlannerError(
            f"--over {text!r}: write NAME=A,B,..., such as max_model_len=4096,8k."
        )
    words = [word.strip() for word in values.split(",")]
    key = name.strip().lstrip("-").replace("-", "_")
    return key, [value_of(key, word) for word in words]


def _write_csv(rows: list[dict[str, Any]]) -> None:
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
