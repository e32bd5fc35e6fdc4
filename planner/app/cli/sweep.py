"""`planner sweep`: a model over one engine argument or two."""

from __future__ import annotations

import argparse
import csv
import sys
from typing import Any

from planner.app.cli.engine_flags import add_plan_arguments, value_of
from planner.app.cli.shared import DOES_NOT_FIT, FITS, Output, add_output
from planner.errors import PlannerError
from planner.show.grid import sheet
from planner.solve.comparing.cells import VALUES
from planner.solve.comparing.sweep import sweep

EXAMPLES = (
    "planner sweep Qwen/Qwen3-8B --gpu L4 --over max_model_len=4k,16k,32k",
    "planner sweep Qwen/Qwen3-8B --over gpu=L4,A10,L40S --csv",
    "planner sweep Qwen/Qwen3-8B --gpu L4 --over vllm_version=all",
    "planner sweep Qwen/Qwen3-8B --gpu L4 --over max_model_len=4k,16k "
    "kv_cache_dtype=auto,fp8",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    add_plan_arguments(parser)
    parser.add_argument(
        "--over",
        nargs="+",
        action="extend",
        required=True,
        metavar="NAME=A,B",
        help="an engine argument (or gpu, model, vllm_version) and its values; two for "
        "a grid",
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
    add_output(parser, form)


def run(options: dict[str, Any], out: Output) -> int:
    """Sweep, and return the exit status."""
    as_csv, value = options.pop("csv"), options.pop("value")
    over = dict(map(_axis, _axes(options.pop("over"))))
    grid = sweep(options.pop("model"), over=over, **options)
    fits = any(cell.fits for cell in grid.cells)
    if as_csv:
        _write_csv(grid.rows())
        return FITS if fits else DOES_NOT_FIT
    return out.write(
        grid.to_dict, lambda: out.screen.shown(sheet(grid, value).to_text()), fits
    )


def _axes(words: list[str]) -> list[str]:
    """Join values that follow their axis after a space to it.

    >>> _axes(["gpu=L4", "L40S", "max_num_seqs=8,16"])
    ['gpu=L4,L40S', 'max_num_seqs=8,16']
    """
    axes: list[str] = []
    for word in words:
        if "=" in word or not axes:
            axes.append(word)
        else:
            axes[-1] += f",{word}"
    return axes


def _axis(text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise PlannerError(
            f"--over {text!r}: write NAME=A,B,..., such as max_model_len=4096,8k."
        )
    words = [word.strip() for word in values.split(",") if word.strip()]
    key = name.strip().lstrip("-").replace("-", "_")
    return key, [value_of(key, word) for word in words]


def _write_csv(rows: list[dict[str, Any]]) -> None:
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
