"""`planner compare`: models, plan files, or GPUs for one model, side by side."""

from __future__ import annotations

import json
import sys
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.app.cli.engine_flags import add_plan_arguments, file_with_flags
from planner.app.cli.shared import DOES_NOT_FIT, FITS, Commands, add_load, load_of
from planner.errors import PlannerError
from planner.planning.load import Load
from planner.solve.comparing.comparison import compare
from planner.solve.comparing.gpus import compare_gpus

if TYPE_CHECKING:
    from planner.export.plan_file import PlanFile
    from planner.solve.comparing.comparison import Comparison
    from planner.solve.comparing.gpus import GPUComparison


_PLAN_FILES = (".yaml", ".yml", ".json")


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "compare",
        help="models, plan files, or GPUs for one model, side by side",
        description="One model or plan file: on each GPU of --gpus, or of the "
        "catalogue. Several: side by side; flags hold for all.",
        allow_abbrev=False,
    )
    add_plan_arguments(parser, is_in_file=True)
    parser.add_argument("others", nargs="*", help="more models or plan files")
    parser.add_argument("--gpus", metavar="A,B,...", help="GPUs to compare")
    parser.add_argument(
        "--price",
        nargs="+",
        action="extend",
        default=[],
        metavar="GPU=PRICE",
        help="of one GPU for an hour",
    )
    parser.add_argument("--currency", default="", help="a word behind prices")
    add_load(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    as_json, others = options.pop("json"), options.pop("others")
    load = load_of(options)
    own = {name: options.pop(name) for name in ("gpus", "price", "currency")}
    found: Comparison | GPUComparison
    if others:
        if load is not None or own["gpus"] or own["price"]:
            raise PlannerError(
                "--gpus, --price and a load compare GPUs for one model: give one model."
            )
        found = _side_by_side([options.pop("model"), *others], options)
        serves = all(plan.fits for plan in found.plans)
    else:
        found = _on_gpus(options, own, load)
        serves = found.best is not None
    text = json.dumps(found.to_dict(), indent=2) if as_json else str(found)
    sys.stdout.write(text + "\n")
    return FITS if serves else DOES_NOT_FIT


def _side_by_side(names: list[str], options: dict[str, Any]) -> Comparison:
    return compare(*(plan_file_of(name, options).inputs.plan() for name in names))


def plan_file_of(name: str | None, options: dict[str, Any]) -> PlanFile:
    """Return the plan file of a name, or of a model, with the flags applied.

    Raises:
        PlannerError: for a file that cannot be read, or without a name.
    """
    is_file = (
        name is not None
        and name.endswith(_PLAN_FILES)
        and Path(name).name != "config.json"
    )
    model, file = (None, name) if is_file else (name, None)
    return file_with_flags({**options, "model": model, "file": file})


def _on_gpus(
    options: dict[str, Any], own: dict[str, Any], load: Load | None
) -> GPUComparison:
    gpus = own["gpus"].split(",") if own["gpus"] else None
    prices = dict(map(_price, own["price"]))
    found = plan_file_of(options.pop("model"), options)
    return compare_gpus(
        found.inputs.plan(),
        gpus=[name.strip() for name in gpus] if gpus else None,
        price_per_hour=prices,
        load=load or found.load,
        currency=own["currency"],
    )


def _price(text: str) -> tuple[str, float]:
    name, equals, price = text.partition("=")
    try:
        number = float(price)
    except ValueError:
        number = float("nan")
    if not equals or not isfinite(number):
        raise PlannerError(
            f"--price {text!r}: write GPU=PRICE, such as H100=2.5; "
            "a model goes before --price."
        )
    return name, number
