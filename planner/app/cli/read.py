"""`planner read`, and what a command after `--` means to every other command."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planner.app.cli.shared import DOES_NOT_FIT, FITS, Commands
from planner.engine.flags import flags
from planner.engine.gpu import GPU
from planner.engine.server import SERVER_FLAGS, flag_named, takes_value
from planner.errors import PlannerError
from planner.export.texts import Reading, read
from planner.export.texts.command import typed
from planner.export.texts.reading import Kind

if TYPE_CHECKING:
    from planner.planning.result import Plan

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
    """Return a command line with what a command after `--` says in its place.

    The words before `--` follow those of the text, so that they count instead.

    >>> expanded(["plan", "--gpu", "L4", "--", "vllm", "serve", "org/m", "-tp", "2"])
    ['plan', 'org/m', '--tensor-parallel-size', '2', '--gpu', 'L4']

    Raises:
        PlannerError: for a text that is no start of vLLM, or names no model.
    """
    if "--" not in words:
        return list(words)
    at = list(words).index("--")
    before, after = list(words[:at]), list(words[at + 1 :])
    found = read(after[0] if len(after) == 1 else shlex.join(after))
    if found.model is None:
        raise PlannerError("What follows -- does not name the model that is served.")
    if found.unknown:
        raise PlannerError(" ".join(found.notes))
    first = next((n for n, word in enumerate(before) if word.startswith("-")), at)
    return [*before[:first], *words_of(found), *before[first:]]


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
    """Split the flags of vLLM's server off a command line.

    Args:
        words: the command line.
        own: flags that the planner's command has itself.
    """
    rest: list[str] = []
    kept: dict[str, Any] = {}
    at = 0
    while at < len(words):
        word = words[at]
        named = None if word.partition("=")[0] in own else _server_flag(word)
        at += 1
        if named is None:
            rest.append(word)
            continue
        flag = SERVER_FLAGS[named]
        values = [word.partition("=")[2]] if "=" in word else []
        if not values and takes_value(flag):
            end = _end_of_values(words, at, is_list=flag.is_list)
            values, at = list(words[at:end]), end
        kept[named] = typed(flag, values)
    return rest, kept


def _server_flag(word: str) -> str | None:
    named = flag_named(word) if word.startswith("--") else None
    return None if named is None or named[0] not in SERVER_FLAGS else named[0]


def _end_of_values(words: Sequence[str], at: int, *, is_list: bool) -> int:
    end = at
    while end < len(words) and not words[end].startswith("-"):
        end += 1
        if not is_list:
            break
    return end
