"""`planner compare`: models, plan files, or GPUs for one model, side by side."""

from __future__ import annotations

import argparse
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.app.cli.engine_flags import add_plan_arguments, inputs_of
from planner.app.cli.shared import Output, add_list, add_load, add_output, load_of
from planner.errors import PlannerError
from planner.planning.load import Load
from planner.solve.comparing.comparison import compare
from planner.solve.comparing.gpus import compare_gpus
from planner.solve.price_list import checked_prices, gpu_prices

if TYPE_CHECKING:
    from planner.planning.inputs import Inputs
    from planner.solve.comparing.gpus import GPUComparison


_PLAN_FILES = (".yaml", ".yml", ".json")

EXAMPLES = (
    "planner compare Qwen/Qwen3-8B --gpus L4,L40S,H100 --price L4=0.8,H100=2.5",
    "planner compare Qwen/Qwen3-8B Qwen/Qwen3-4B --gpu L4 --max-model-len 8k",
    "planner compare today.yaml tomorrow.yaml",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.description = (
        "One model or plan file: on each GPU of --gpus, or of the catalogue. Several: "
        "side by side; flags hold for all. Models go before the lists."
    )
    add_plan_arguments(parser, is_in_file=True)
    parser.add_argument("others", nargs="*", help="more models or plan files")
    add_list(parser, "--gpus", "GPU", "GPUs to compare (default: the catalogue)")
    add_list(parser, "--price", "GPU=PRICE", "of one GPU for an hour", default=[])
    parser.add_argument(
        "--currency", metavar="TEXT", default="", help="a word behind prices"
    )
    parser.add_argument(
        "--prices",
        action="store_true",
        help="dated list prices and those saved, where --price gives none",
    )
    add_load(parser.add_argument_group("the load that each must serve"))
    add_output(parser)


def run(options: dict[str, Any], out: Output) -> int:
    """Compare, and return the exit status."""
    others = options.pop("others")
    load = load_of(options)
    own = {name: options.pop(name) for name in ("gpus", "price", "prices", "currency")}
    if others:
        if load is not None or own["gpus"] or own["price"] or own["prices"]:
            raise PlannerError(
                "--gpus, --price and a load compare GPUs for one model: give one model."
            )
        names = [options.pop("model"), *others]
        plans = [inputs_named(name, options).plan() for name in names]
        return out.say(compare(*plans), all(plan.fits for plan in plans))
    found = _on_gpus(options, own, load)
    return out.say(found, found.best)


def inputs_named(name: str | None, options: dict[str, Any]) -> Inputs:
    """Return the inputs of a plan file's name, or of a model, with the flags applied.

    Raises:
        PlannerError: for a file that cannot be read, or without a name.
    """
    is_file = (
        name is not None
        and name.endswith(_PLAN_FILES)
        and Path(name).name != "config.json"
    )
    model, file = (None, name) if is_file else (name, None)
    return inputs_of({**options, "model": model, "file": file})


def _on_gpus(
    options: dict[str, Any], own: dict[str, Any], load: Load | None
) -> GPUComparison:
    prices, currency = dict(map(price_of, own["price"])), own["currency"]
    if own["prices"]:
        known = gpu_prices()
        listed = {name: one.per_hour for name, one in known.prices.items()}
        prices = listed | checked_prices(prices, "price_per_hour")
        currency = currency or known.currency
    found = inputs_named(options.pop("model"), options)
    return compare_gpus(
        found.plan(),
        gpus=own["gpus"],
        price_per_hour=prices,
        load=load or found.load,
        currency=currency,
    )


def price_of(text: str) -> tuple[str, float]:
    """Read a price of one GPU for an hour, such as H100=2.5.

    Raises:
        PlannerError: for anything else.
    """
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
