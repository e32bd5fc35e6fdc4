"""`planner read`, and what a command after `--` means to every other command."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.app.cli.shared import DOES_NOT_FIT, FITS, Commands
from planner.engine.arguments import Argument
from planner.engine.flags import flags
from planner.engine.gpu import GPU
from planner.engine.server import flag_named, takes_value, turns_off
from planner.errors import PlannerError
from planner.export.texts import Reading, read
from planner.export.texts.command import typed
from planner.export.texts.reading import Kind

if TYPE_CHECKING:
    from planner.planning.result import Plan

_READ_FILES = ("plan", "export")
"""Commands whose own -f takes any form."""
_READ_PLAN_FILES = ("compare", "speed")
"""Commands that take plan files in a model's place, with their load."""
_OF_MODELS = ("config.json", "params.json")
_EPILOG = (
    "Every command that plans takes the same after `--`: `planner advise --gpu L4 -- "
    "vllm serve ...`."
)


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "read",
        help="what a command, manifest, code, log or error says, and its plan",
        epilog=_EPILOG,
    )
    parser.add_argument("text", help="a file, - for standard input, or an address")
    parser.add_argument("--gpu", help="the GPU, where the text does not name it")
    parser.add_argument("--vllm-version", help="likewise the release")
    parser.add_argument(
        "--start", type=int, default=1, metavar="N", help="which of several starts"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    text = options["text"]
    given = sys.stdin.read() if text == "-" else text
    found = read(given, start=options["start"])
    plan, open_ = _planned(found, options)
    if options["json"]:
        whole = found.to_dict() | {"plan": None if plan is None else plan.to_dict()}
        sys.stdout.write(json.dumps(whole, indent=2) + "\n")
    else:
        sys.stdout.write(f"{found}\n")
        if plan is not None:
            explained = found.explain(**_known(options))
            sys.stdout.write(f"\n{plan}\n\n{explained}\n")
        elif open_:
            sys.stdout.write(f"\nNot planned: {open_}\n")
    return FITS if plan is None or plan.fits else DOES_NOT_FIT


def _known(options: dict[str, Any]) -> dict[str, Any]:
    given = {name: options[name] for name in ("gpu", "vllm_version")}
    return {name: value for name, value in given.items() if value is not None}


def _planned(found: Reading, options: dict[str, Any]) -> tuple[Plan | None, str]:
    """Plan what was read; where something is still open, say what."""
    try:
        return found.plan(**_known(options)), ""
    except PlannerError as error:
        return None, str(error)


def expanded(words: Sequence[str]) -> list[str]:
    """Return a command line with what a text says in its place.

    The text stands after `--`, or is the file that `-f` or the model's place names. The
    other words follow those of the text, so that they count instead.

    >>> expanded(["plan", "--gpu", "L4", "--", "vllm", "serve", "org/m", "-tp", "2"])
    ['plan', 'org/m', '--tensor-parallel-size', '2', '--gpu', 'L4']

    Raises:
        PlannerError: for a text that is no start of vLLM, or names no model.
    """
    if "--" in words:
        at = list(words).index("--")
        before, after = list(words[:at]), list(words[at + 1 :])
        found = read(after[0] if len(after) == 1 else shlex.join(after))
    else:
        before, path = _without_file(words)
        if path is None:
            return list(words)
        found = read(path)
    if found.model is None:
        raise PlannerError("What follows -- does not name the model that is served.")
    if found.unknown:
        raise PlannerError(" ".join(found.notes))
    flags_from = (n for n, word in enumerate(before) if word.startswith("-"))
    first = next(flags_from, len(before))
    return [*before[:first], *words_of(found), *before[first:]]


def _without_file(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """Split off a file with a text, of `-f FILE` or in the model's place.

    A plan file is left where the command reads it itself, and a model's own files.
    """
    for at, word in enumerate(words[1:], 1):
        before = words[at - 1]
        is_file_flag = before in ("-f", "--file") and words[0] not in _READ_FILES
        is_alone = not before.startswith("-") and words[0] not in _READ_PLAN_FILES
        if word.startswith("-") or not (is_file_flag or is_alone):
            continue
        path = Path(word)
        if path.name not in _OF_MODELS and path.is_file():
            start = at - 1 if is_file_flag else at
            return [*words[:start], *words[at + 1 :]], path
    return list(words), None


def words_of(found: Reading) -> list[str]:
    """Return the words of the planner's command line that say what a text says."""
    inputs = found.inputs(found.gpu or "H100")
    start = []
    if found.gpu is not None:
        name = found.gpu.name if isinstance(found.gpu, GPU) else found.gpu
        start += ["--gpu", name]
    if found.vllm_version is not None:
        start += ["--vllm-version", found.vllm_version]
    if found.kind is not Kind.MODEL and found.entrypoint != "serve":
        start += ["--entrypoint", found.entrypoint]
    for name, value in found.env.items():
        start += ["--env", f"{name}={value}"]
    return [str(inputs.model), *flags(inputs.engine_args), *start]


def without_server_flags(
    words: Sequence[str], own: Sequence[str]
) -> tuple[list[str], dict[str, Any]]:
    """Spell engine arguments as the parser does, and split off what it does not have.

    Split off are flags of vLLM's server and the parts of tables: what
    `--speculative-config.method mtp` says.

    Args:
        words: the command line.
        own: flags that the planner's command has itself.
    """
    rest: list[str] = []
    split: dict[str, Any] = {}
    at = 0
    while at < len(words):
        word = words[at]
        flag, equals, value = word.partition("=")
        found = flag_named(flag) if word.startswith("-") and flag not in own else None
        at += 1
        if found is None:
            rest.append(word)
            continue
        name, entry = found
        path = flag.split(".")[1:]
        if isinstance(entry, Argument) and not path:
            rest += _spelled(entry, word)
            continue
        values = [value] if equals else []
        if not values and (path or takes_value(entry)):
            end = _end_of_values(words, at, is_list=entry.is_list and not path)
            values, at = list(words[at:end]), end
        given = typed(entry, values, path=tuple(path))
        split[name] = _put(split.get(name), path, given)
    return rest, split


def _spelled(argument: Argument, word: str) -> list[str]:
    """Return an engine argument's flag in its own spelling: -tp, -O3, underscores."""
    flag, equals, value = word.partition("=")
    level = flag.removeprefix("-O") if flag.startswith("-O") else ""
    if turns_off(flag):
        return ["--no-" + argument.flag.removeprefix("--")]
    return [argument.flag + equals + value, *([level] if level else [])]


def _put(table: object, path: Sequence[str], value: object) -> object:
    """Return a table with a value put in at a path; the value itself without one."""
    if not path:
        return value
    name = path[0].replace("-", "_")
    old = dict(table) if isinstance(table, dict) else {}
    return {**old, name: _put(old.get(name), path[1:], value)}


def _end_of_values(words: Sequence[str], at: int, *, is_list: bool) -> int:
    end = at
    while end < len(words) and not words[end].startswith("-"):
        end += 1
        if not is_list:
            break
    return end
