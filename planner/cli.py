"""The command line: plan, models, gpus.

Exit status: 0 fits, 1 does not fit, too close to call or refused, 2 bad input.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_type_hints

from planner.engine import EngineSettings, settings_from
from planner.engine_args import SWITCHED_OFF, WITHOUT_EFFECT
from planner.errors import PlannerError
from planner.planning import plan
from planner.releases import NEWEST
from planner.units import SUFFIX_FACTORS

FITS, DOES_NOT_FIT, BAD_INPUT = 0, 1, 2

_SUFFIXED = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([kmgKMG]?)\Z")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = build_parser()
    known, unknown = parser.parse_known_args(arguments)
    options = vars(known)
    run: Callable[[dict[str, Any]], int] = options.pop("run")
    try:
        _refuse_unknown(unknown)
        return run(options)
    except BrokenPipeError:  # `planner gpus | head`: the reader has seen enough
        sys.stdout = None
        return FITS
    except PlannerError as error:
        sys.stderr.write(f"planner: {error}\n")
        return BAD_INPUT


def _refuse_unknown(words: list[str]) -> None:
    """Name the first word that is no argument, and the nearest that is."""
    if not words:
        return
    if words[0].startswith("--"):
        name = words[0].removeprefix("--").partition("=")[0].replace("-", "_")
        settings_from({name: None})
    raise PlannerError(f"{words[0]!r} was not expected here. `planner --help` helps.")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; engine arguments are flags as `vllm serve` has them."""
    parser = argparse.ArgumentParser(
        prog="planner", description="Plan vLLM's GPU memory before it starts."
    )
    commands = parser.add_subparsers(required=True, metavar="plan|models|gpus")
    # An abbreviated flag would hide that the argument is not known.
    _add_plan(
        commands.add_parser(
            "plan", help="what vLLM would do with a model", allow_abbrev=False
        )
    )
    models = commands.add_parser("models", help="the bundled catalogue of models")
    models.add_argument("search", nargs="?", default="", help="part of a name")
    models.add_argument("--json", action="store_true", help="print JSON")
    models.set_defaults(run=_run_models)
    gpus = commands.add_parser("gpus", help="the bundled catalogue of GPUs")
    gpus.add_argument("search", nargs="?", default="", help="part of a name")
    gpus.add_argument("--json", action="store_true", help="print JSON")
    gpus.add_argument(
        "--attached",
        action="store_true",
        help="those of this machine, and who uses them",
    )
    gpus.set_defaults(run=_run_gpus)
    return parser


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="Hub id, catalogue id, folder or config.json")
    parser.add_argument(
        "--gpu",
        default="H100",
        help="catalogue name, or attached for this machine's own (default: H100)",
    )
    parser.add_argument("--vllm-version", default=NEWEST, help=f"default: {NEWEST}")
    parser.add_argument("--entrypoint", default="serve", choices=("serve", "llm"))
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    engine = parser.add_argument_group("vLLM's engine arguments")
    for name, hint in get_type_hints(EngineSettings).items():
        if name != "others":
            _add_engine_flag(engine, name, get_args(hint))
    for name in sorted((*WITHOUT_EFFECT, *SWITCHED_OFF)):
        engine.add_argument(
            _flag(name),
            dest=name,
            default=argparse.SUPPRESS,
            nargs="?",
            const=True,
            type=_literal,
            help=argparse.SUPPRESS,
        )
    parser.set_defaults(run=_run_plan)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _add_engine_flag(
    group: argparse._ArgumentGroup, name: str, types: tuple[Any, ...]
) -> None:
    common: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS}
    if bool in types:
        group.add_argument(_flag(name), action=argparse.BooleanOptionalAction, **common)
    elif float in types:
        group.add_argument(_flag(name), type=float, metavar="SHARE", **common)
    elif int in types:
        group.add_argument(_flag(name), type=_number_or_text, metavar="N", **common)
    elif str in types:
        group.add_argument(_flag(name), metavar="NAME", **common)
    else:
        group.add_argument(_flag(name), type=int, nargs="+", metavar="N", **common)


def _number_or_text(text: str) -> int | str:
    """Read a number with vLLM's suffixes: k, m, g count in 1000s, K, M, G in 1024s.

    Source: vLLM 0.33.0 `engine/arg_utils.py` human_readable_int.
    """
    match = _SUFFIXED.match(text)
    if match is None:
        return text
    return int(float(match[1]) * SUFFIX_FACTORS[match[2]])


def _literal(text: str) -> Any:  # noqa: ANN401 - whatever the argument's type is
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _run_plan(options: dict[str, Any]) -> int:
    as_json = options.pop("json")
    result = plan(
        options.pop("model"),
        gpu=options.pop("gpu"),
        vllm_version=options.pop("vllm_version"),
        entrypoint=options.pop("entrypoint"),
        **options,
    )
    text = json.dumps(result.to_dict(), indent=2) if as_json else str(result)
    sys.stdout.write(text + "\n")
    return FITS if result.fits else DOES_NOT_FIT


def _run_models(options: dict[str, Any]) -> int:
    from planner import catalogue  # noqa: PLC0415 - reads the data file

    entries = catalogue.entries()
    if options["search"]:
        entries = catalogue.search(options["search"], limit=len(entries))
    if options["json"]:
        rows = [catalogue.entry_dict(entry) for entry in entries]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    else:
        sys.stdout.writelines(catalogue.entry_line(entry) + "\n" for entry in entries)
    return FITS if entries else DOES_NOT_FIT


def _run_gpus(options: dict[str, Any]) -> int:
    from planner import gpu  # noqa: PLC0415 - reads the data file

    if options["attached"]:
        return _run_attached()
    found = gpu.search(options["search"]) if options["search"] else gpu.catalogue()
    if options["json"]:
        sys.stdout.write(json.dumps([gpu.gpu_dict(g) for g in found], indent=2) + "\n")
    else:
        sys.stdout.writelines(gpu.gpu_line(g) + "\n" for g in found)
    return FITS if found else DOES_NOT_FIT


def _run_attached() -> int:
    from planner.sources import device  # noqa: PLC0415 - asks the driver

    found = device.survey()
    lines = [device.attached_line(attached) for attached in found.gpus]
    sys.stdout.writelines(line + "\n" for line in (*lines, *found.notes))
    if not lines:
        sys.stdout.write(found.reason + "\n")
    return FITS if lines else DOES_NOT_FIT
