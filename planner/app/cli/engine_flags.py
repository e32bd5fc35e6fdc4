"""vLLM's engine arguments as flags, and plan files, for every command that plans.

Flags override the values of a plan file given with `-f plan.yaml`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.app.cli.shared import Listed, add_load, listed, load_of
from planner.engine import human_numbers
from planner.engine.arguments import ARGUMENTS, Argument, Group, Kind, Memory
from planner.engine.releases import NEWEST, NEWEST_RELEASE, OLDEST_RELEASE
from planner.errors import PlannerError
from planner.planning.batches import ENTRYPOINTS
from planner.planning.inputs import Inputs
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.user_files import MOST_CONFIG_BYTES, read_file, read_input, user_path

if TYPE_CHECKING:
    from planner.reading import Reading

ENGINE_ARGUMENTS = "vLLM's engine arguments"
_ABOUT = (
    "Every argument of `vllm serve` that configures the engine is taken, spelled as "
    "there, and listed below under vLLM's configuration class. N may be written 8k "
    "(8,000) or 8K (8,192); JSON is a table; a list has commas or spaces."
)
_EFFECTS = {
    Memory.MODELLED: "",
    Memory.NONE: " GPU memory: no effect.",
    Memory.BOUNDED: " GPU memory: plans note by how much at most.",
    Memory.UNKNOWN: " GPU memory: plans say what is not counted.",
}
_DECIMAL = (Kind.NUMBER, Kind.SHARE)
_PLAN_FILE = "plan file"
"""The kind of text that is one; `planner.reading.reading.Kind`."""
_START = ("model", "gpu", "vllm_version", "entrypoint")


def add_file_argument(parser: argparse.ArgumentParser) -> None:
    """Add a model, a GPU, a release and engine arguments, or a file with them."""
    parser.add_argument(
        "-f",
        "--file",
        metavar="FILE",
        help="plan file, manifest, container command, code or log, - for standard "
        "input; flags given as well count instead of it",
    )
    add_load(parser.add_argument_group("the load that it must serve"))
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
        metavar="GPU",
        default=None if may_be_missing else "H100",
        help="catalogue name, attached for this machine's own, CPU, or a description "
        "such as name=MyGPU,memory=48GiB,capability=8.9,bandwidth=900GB/s (default: "
        f"{'attached, else CPU' if is_here else 'H100'})",
    )
    parser.add_argument(
        "--vllm-version",
        metavar="RELEASE",
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


def add_engine_arguments(
    parser: argparse.ArgumentParser, *, without: Collection[str] = ()
) -> None:
    """Add every engine argument with a line of help, by vLLM's groups.

    `without` are arguments that mean something else in this command.
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
        arguments = [
            one
            for one in ARGUMENTS.values()
            if one.group is group and one.name not in without
        ]
        flags = parser.add_argument_group(title_of(group))
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


def inputs_of(options: dict[str, Any]) -> Inputs:
    """Return the inputs that a file and the flags beside it, or flags alone, give.

    No other options may be left in them.

    Raises:
        PlannerError: for a file that cannot be read, or without a model.
    """
    name = options.pop("file")
    start = {key: options.pop(key) for key in _START}
    start = {key: value for key, value in start.items() if value is not None}
    if name is not None:
        found = _read(name)
    elif "model" in start:
        found = Inputs(model=start["model"])
    else:
        raise PlannerError(
            "Name a model, such as Qwen/Qwen3-8B, or a plan file with -f plan.yaml."
        )
    if "env" in options:
        options["env"] = {**found.env, **options["env"]}
    start["load"] = load_of(options, found.load)
    return replace(found, **start).changed(**options)


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
    if not argument.is_list and argument.kind is not Kind.TABLE:
        human_numbers.checked(argument, text, NEWEST_RELEASE)
        return human_numbers.typed(argument, text, OLDEST_RELEASE)
    try:
        return _literal(text)
    except argparse.ArgumentTypeError as error:
        raise PlannerError(f"{name}={text}: {error}.") from None


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
        "help": _help_of(argument),
    }
    if argument.kind is Kind.SWITCH:
        flags.add_argument(*names, action=argparse.BooleanOptionalAction, **common)
        return
    common["metavar"] = argument.metavar
    common["type"] = _type_of(argument)
    flags.add_argument(*names, **common, **_as_list(argument))


def _number_of(argument: Argument) -> Callable[[str], int | str]:
    """Return a reader of numbers; planning refuses what the release does not take."""
    return lambda text: human_numbers.typed(argument, text, OLDEST_RELEASE)


def _as_list(argument: Argument) -> dict[str, Any]:
    return {"nargs": "+", "action": Listed} if argument.is_list else {}


def _type_of(argument: Argument) -> Callable[[str], Any]:
    if argument.is_list:
        return listed(int if argument.kind is Kind.NUMBERS else str)
    if argument.is_text:
        return str
    if argument.kind in _DECIMAL:
        return float
    return _literal if argument.kind is Kind.TABLE else _number_of(argument)


def _add_other(flags: argparse._ArgumentGroup, argument: Argument) -> None:
    """Accept an argument with any value, or without one as a switch."""
    is_hidden = not argument.has_flag or bool(argument.gone)
    flags.add_argument(
        argument.flag,
        dest=argument.name,
        default=argparse.SUPPRESS,
        nargs="+" if argument.is_list else "?",
        const=None if argument.is_list else True,
        type=_number_of(argument) if human_numbers.is_whole(argument) else _literal,
        metavar=argument.metavar,
        help=argparse.SUPPRESS if is_hidden else _help_of(argument),
    )


def _help_of(argument: Argument) -> str:
    return (argument.text + _EFFECTS[argument.memory]).replace("%", "%%")


def _literal(text: str) -> Any:  # noqa: ANN401 - whatever the argument's type is
    try:
        return json.loads(text)
    except RecursionError:
        raise argparse.ArgumentTypeError("its JSON is nested too deeply") from None
    except ValueError:  # not JSON, or of more digits than a number may have
        return text


def _read(name: str) -> Inputs:
    """Return the inputs in a file, or with "-" in standard input."""
    path = user_path(name)
    text = read_input() if name == "-" else _text_of(path)
    try:
        from planner.export.plan_file import read_yaml  # noqa: PLC0415 - few need it

        plan_file = read_yaml(text)
    except PlannerError as error:
        found = _other_form(text)
        if found is None:
            raise type(error)(f"{path}: {error}") from None
        return found.inputs(found.gpu or "H100")
    return plan_file.inputs


def _text_of(path: Path) -> str:
    what = "The plan file "
    try:
        raw = read_file(path, MOST_CONFIG_BYTES, what=what, may_be_piped=True)
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PlannerError(
            f"{what}{path} cannot be read: it is not UTF-8 text."
        ) from None


def _other_form(text: str) -> Reading | None:
    """Return what a file says that is no plan file; None where it is one after all.

    A configuration file of vLLM with a wrong name is as well a plan file with one.
    """
    try:
        from planner.reading.recognising import read  # noqa: PLC0415 - few need it

        found = read(text)
    except PlannerError:
        return None
    is_wrong = str(found.kind) == _PLAN_FILE or bool(found.unknown)
    return None if is_wrong or found.model is None else found
