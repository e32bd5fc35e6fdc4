"""vLLM's engine arguments as flags, for every command that makes a plan."""

from __future__ import annotations

import argparse
import json
import re
from typing import Any, get_args, get_origin, get_type_hints

from planner.defaults import ENTRYPOINTS
from planner.engine import EngineSettings
from planner.engine_args import GONE, SWITCHED_OFF, WITHOUT_EFFECT
from planner.errors import PlannerError
from planner.flags import SEVERAL_WORDS
from planner.planning import plan
from planner.releases import NEWEST
from planner.result import Plan
from planner.units import SUFFIX_FACTORS

_SHORT = {
    "optimization_level": ("-O",),
    "compilation_config": ("-cc",),
    "speculative_config": ("-sc",),
}
"""Source: vLLM 0.33.0 `engine/arg_utils.py` add_cli_args, `utils/argparse_utils.py`."""
_SUFFIXED = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([kmgKMG]?)\Z")


def add_plan_arguments(
    parser: argparse.ArgumentParser, *, is_here: bool = False, is_in_file: bool = False
) -> None:
    """Add what `planned` reads: model, GPU, release and engine arguments.

    With `is_here` the command may find out itself what is left out, with `is_in_file`
    a plan file may say it: both leave None there.
    """
    may_be_missing = is_here or is_in_file
    parser.add_argument(
        "model",
        nargs="?" if may_be_missing else None,
        help="Hub id, catalogue id, folder or config.json",
    )
    parser.add_argument(
        "--gpu",
        default=None if may_be_missing else "H100",
        help="catalogue name, attached for this machine's own, or CPU (default: "
        f"{'attached, else CPU' if is_here else 'H100'})",
    )
    parser.add_argument(
        "--vllm-version",
        default=None if may_be_missing else NEWEST,
        help=f"default: {'the installed one' if is_here else NEWEST}",
    )
    parser.add_argument(
        "--entrypoint",
        default=None if is_in_file else "serve",
        choices=ENTRYPOINTS,
        help="default: serve",
    )
    engine = parser.add_argument_group("vLLM's engine arguments")
    for name, hint in get_type_hints(EngineSettings).items():
        if name != "others":
            _add_engine_flag(engine, name, get_args(hint))
    for name in sorted((*WITHOUT_EFFECT, *SWITCHED_OFF, *GONE)):
        engine.add_argument(
            _flag(name),
            dest=name,
            default=argparse.SUPPRESS,
            nargs="+" if name in SEVERAL_WORDS else "?",
            const=None if name in SEVERAL_WORDS else True,
            type=_literal,
            help=argparse.SUPPRESS,
        )


def planned(options: dict[str, Any]) -> Plan:
    """Return the plan of parsed options; no other options may be left in them.

    Raises:
        PlannerError: for input that cannot be planned.
    """
    return plan(
        options.pop("model"),
        gpu=options.pop("gpu"),
        vllm_version=options.pop("vllm_version"),
        entrypoint=options.pop("entrypoint"),
        **options,
    )


def value_of(name: str, text: str) -> Any:  # noqa: ANN401 - of any argument's type
    """Read one value of an argument as its flag would; default takes it back.

    >>> value_of("max_model_len", "8k"), value_of("enforce_eager", "true")
    (8000, True)

    Raises:
        PlannerError: for text that no value of the argument is written as.
    """
    types = get_args(get_type_hints(EngineSettings).get(name, str | None))
    if text == "default":
        return None
    if bool in types:
        return _switch(name, text)
    if float in types:
        return _share(name, text)
    if int in types:
        return _number_or_text(text)
    return text if str in types else _literal(text)


def _switch(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise PlannerError(f"{name}={text}: write true or false.")
    return text.lower() == "true"


def _share(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PlannerError(f"{name}={text}: a number is needed.") from None


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
        names = (_flag(name), *_SHORT.get(name, ()))
        group.add_argument(*names, type=_number_or_text, metavar="N", **common)
    elif str in types:
        group.add_argument(_flag(name), metavar="NAME", **common)
    elif get_origin(types[0]) is tuple:
        element = get_args(types[0])[0]
        group.add_argument(_flag(name), type=element, nargs="+", metavar="N", **common)
    else:
        names = (_flag(name), *_SHORT.get(name, ()))
        group.add_argument(*names, type=_literal, metavar="JSON", **common)


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
