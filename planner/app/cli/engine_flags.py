"""vLLM's engine arguments as flags, and plan files, for every command that plans.

Flags override the values of a plan file given with `-f plan.yaml`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.engine.arguments import ARGUMENTS, Argument, Group, Kind, Memory
from planner.engine.releases import NEWEST
from planner.errors import PlannerError
from planner.export.plan_file import PlanFile, read_yaml
from planner.export.texts import Reading, read
from planner.export.texts.reading import Kind as Form
from planner.planning.batches import ENTRYPOINTS
from planner.planning.inputs import Inputs
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.units import SUFFIX_FACTORS

ENGINE_ARGUMENTS = "vLLM's engine arguments"
_ABOUT = (
    "Every argument of `vllm serve` that configures the engine is taken, spelled as "
    "there, and listed below under vLLM's configuration class."
)
_BESIDE = {
    Memory.NONE: "Taken as well, without effect on GPU memory",
    Memory.BOUNDED: "Taken as well, with a note on what they change at most",
    Memory.UNKNOWN: "Taken as well; plans say what of their effect is not counted",
}
_DECIMAL = (Kind.NUMBER, Kind.SHARE)
_SUFFIXED = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([kmgKMG]?)\Z")
_START = ("model", "gpu", "vllm_version", "entrypoint")


def add_file_argument(parser: argparse.ArgumentParser) -> None:
    """Add a model, a GPU, a release and engine arguments, or a file with them."""
    parser.add_argument(
        "-f",
        "--file",
        metavar="FILE",
        help="plan file, manifest, container command, code or log; flags given as "
        "well count instead of it",
    )
    add_plan_arguments(parser, is_in_file=True)


def add_plan_arguments(
    parser: argparse.ArgumentParser, *, is_here: bool = False, is_in_file: bool = False
) -> None:
    """Add what `planned` reads: model, GPU, release and engine arguments.

    What is left out is None with `is_here`, where the command detects it, and with
    `is_in_file`, where a plan file may have it.
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
    add_engine_arguments(parser)


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add every engine argument, by vLLM's groups.

    The help explains the modelled ones and lists the others below their group's title.
    """
    parser.add_argument(
        "--env",
        type=_variable,
        action="extend",
        nargs=1,
        default=argparse.SUPPRESS,
        metavar="NAME=VALUE",
        help="an environment variable of vLLM; may be given again",
    )
    parser.add_argument_group(ENGINE_ARGUMENTS, _ABOUT)
    for group in sorted(Group, key=lambda group: group is Group.MACHINE):
        arguments = [one for one in ARGUMENTS.values() if one.group is group]
        flags = parser.add_argument_group(title_of(group), _beside(arguments))
        for argument in arguments:
            if argument.is_modelled:
                _add_modelled(flags, argument)
            else:
                _add_other(flags, argument)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=VALUE")
    return name, value


def title_of(group: Group) -> str:
    """Return the heading of a group's flags in the help."""
    return f"{group} ({group.classes})"


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


def planned_with_file(options: dict[str, Any]) -> Plan:
    """Return the plan of parsed options; no other options may be left in them.

    Raises:
        PlannerError: for input that cannot be planned.
    """
    return file_with_flags(options).inputs.plan()


def file_with_flags(options: dict[str, Any]) -> PlanFile:
    """Return a plan file with the flags beside it applied.

    Raises:
        PlannerError: for a file that cannot be read, or without a model.
    """
    name = options.pop("file")
    start = {key: options.pop(key) for key in _START}
    start = {key: value for key, value in start.items() if value is not None}
    if name is not None:
        found = _read(Path(name))
    elif "model" in start:
        found = PlanFile(inputs=Inputs(model=start["model"]))
    else:
        raise PlannerError(
            "Name a model, such as Qwen/Qwen3-8B, or a plan file with -f plan.yaml."
        )
    if "env" in options:
        options["env"] = {**found.inputs.env, **options["env"]}
    inputs = replace(found.inputs, **start).changed(**options)
    return replace(found, inputs=inputs)


def value_of(name: str, text: str) -> Any:  # noqa: ANN401 - of any argument's type
    """Read one value of an argument as its flag would; `default` resets it.

    >>> value_of("max_model_len", "8k"), value_of("enforce_eager", "true")
    (8000, True)

    Raises:
        PlannerError: for text that is not a value of the argument.
    """
    argument = ARGUMENTS.get(name)
    if text == "default":
        return None
    if argument is None or not argument.is_modelled or argument.is_text:
        return text
    if argument.kind is Kind.SWITCH:
        return _switch(name, text)
    if argument.kind in _DECIMAL:
        return _share(name, text)
    if argument.is_list or argument.kind is Kind.TABLE:
        return _literal(text)
    return _number_or_text(text)


def _beside(arguments: Iterable[Argument]) -> str:
    """List the arguments of a group that the help does not explain."""
    names: dict[Memory, list[str]] = {}
    for argument in arguments:
        if argument.has_flag and not argument.gone:
            names.setdefault(argument.memory, []).append(argument.name)
    return " ".join(
        f"{words}: {', '.join(names[memory])}."
        for memory, words in _BESIDE.items()
        if memory in names
    )


def _switch(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise PlannerError(f"{name}={text}: write true or false.")
    return text.lower() == "true"


def _share(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PlannerError(f"{name}={text}: a number is needed.") from None


def _add_modelled(flags: argparse._ArgumentGroup, argument: Argument) -> None:
    names = (argument.flag, *([argument.short] if argument.short else []))
    common: dict[str, Any] = {
        "dest": argument.name,
        "default": argparse.SUPPRESS,
        "help": argument.text.replace("%", "%%"),
    }
    if argument.kind is Kind.SWITCH:
        flags.add_argument(*names, action=argparse.BooleanOptionalAction, **common)
        return
    if argument.is_list:
        common["nargs"] = "+"
    common["metavar"] = argument.metavar
    flags.add_argument(*names, type=_type_of(argument), **common)


def _type_of(argument: Argument) -> Callable[[str], Any]:
    if argument.is_text or argument.kind is Kind.NAMES:
        return str
    if argument.kind is Kind.NUMBERS:
        return int
    if argument.kind in _DECIMAL:
        return float
    return _literal if argument.kind is Kind.TABLE else _number_or_text


def _add_other(flags: argparse._ArgumentGroup, argument: Argument) -> None:
    """Accept an argument with any value, or without one as a switch."""
    flags.add_argument(
        argument.flag,
        dest=argument.name,
        default=argparse.SUPPRESS,
        nargs="+" if argument.is_list else "?",
        const=None if argument.is_list else True,
        type=_literal,
        help=argparse.SUPPRESS,
    )


def _number_or_text(text: str) -> int | str:
    """Read a number with vLLM's suffixes: powers of 1000 for k, m, g, 1024 for K, M, G.

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


def _read(path: Path) -> PlanFile:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise PlannerError(f"The plan file {path} cannot be read: {reason}.") from None
    try:
        return read_yaml(text)
    except PlannerError as error:
        found = _other_form(text)
        if found is None:
            raise type(error)(f"{path}: {error}") from None
    return PlanFile(inputs=found.inputs(found.gpu or "H100"))


def _other_form(text: str) -> Reading | None:
    """Return what a file says that is no plan file; None where it is one after all.

    A configuration file of vLLM with a wrong name is as well a plan file with one.
    """
    try:
        found = read(text)
    except PlannerError:
        return None
    is_wrong = found.kind is Form.PLAN_FILE or bool(found.unknown)
    return None if is_wrong or found.model is None else found
