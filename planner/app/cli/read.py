"""`planner read`, and what a command after `--` means to every other command."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planner.app.cli.engine_flags import add_engine_arguments
from planner.app.cli.names import as_typed
from planner.app.cli.shared import BAD_INPUT, DOES_NOT_FIT, FITS, Output, add_output
from planner.engine.arguments import ARGUMENTS
from planner.engine.flags import flags
from planner.engine.foreign import questions
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.reading import Reading, read
from planner.reading.checking import checks_of
from planner.reading.logs.running import is_address
from planner.reading.reading import Kind
from planner.show.plan_text import plan_text
from planner.user_files import read_input, user_path

if TYPE_CHECKING:
    from pathlib import Path

    from planner.planning.result import Plan
    from planner.reading.logs.explaining import Explanation
    from planner.show.terminal import Screen

EXAMPLES = (
    "planner read vllm.log",
    "planner read deployment.yaml --gpu H100",
    "kubectl logs vllm-0 | planner read -",
    "planner read will Qwen3 8B run on an L4 for 10 users",
    "planner read crash.txt --gpu L4 -- vllm serve Qwen/Qwen3-8B --max-model-len 32K",
)
_FILE = re.compile(r"\.(?:log|txt|out|err|ya?ml|json|toml|sh|py|ipynb)\Z")
"""How the name of a file ends, which is none of a program or of a model."""
_NOTHING = (
    "What should be read? Give a file, - for standard input, an address, a question or "
    "a command: planner read 'vllm serve Qwen/Qwen3-8B'."
)
_ABOUT = (
    "What a log or an error leaves out can be said beside it: the model or the command "
    "that ran, the GPU, and vLLM's arguments. Every command that plans takes a command "
    "after `--`: `planner advise --gpu L4 -- vllm serve ...`."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.description = _ABOUT
    parser.add_argument(
        "text",
        nargs="?",
        help="a file, - for standard input, an address, a question or a command",
    )
    parser.add_argument(
        "others",
        nargs="*",
        metavar="model",
        help="the model, if a file does not name it; or -- and the command that ran; "
        "or the other words of a question or a command",
    )
    parser.add_argument(
        "--gpu", metavar="GPU", help="the GPU, where the text does not name it"
    )
    parser.add_argument(
        "--vllm-version", metavar="RELEASE", help="likewise the release"
    )
    parser.add_argument(
        "--start", type=int, default=1, metavar="N", help="which of several starts"
    )
    add_output(parser)
    add_engine_arguments(parser)


def run(options: dict[str, Any], out: Output) -> int:
    """Read and plan, and return the exit status."""
    found = read(_text(options), start=options["start"])
    known = _known(options)
    plan, why = _planned(found, known)
    if out.as_json:
        whole = found.to_dict() | {
            "plan": None if plan is None else plan.to_dict(),
            "not_planned": why,
        }
        explained = _explained(found, known) if found.kind is Kind.QUESTION else None
        if explained is not None:
            whole["answer"] = [explained.headline, *explained.answer]
        sys.stdout.write(json.dumps(whole, indent=2) + "\n")
    else:
        _write(found, known, plan, why, out.screen)
    return _status(found, known, plan)


def _write(
    found: Reading, known: dict[str, Any], plan: Plan | None, why: str, screen: Screen
) -> None:
    """Write what was read and planned; of a question, its answer first."""
    read = f"{found}\n{_starts(found, known.get('gpu'))}".rstrip()
    if found.kind is Kind.QUESTION and (answer := _explained(found, known)) is not None:
        planned = [] if plan is None else [plan_text(plan, screen)]
        parts = [as_typed(screen.shown(str(answer))), read, *planned]
    elif plan is not None:
        parts = [
            read,
            plan_text(plan, screen),
            screen.shown(str(found.explain(**known))),
        ]
    elif found.log is not None:  # the text alone may tell what helps
        parts = [read, screen.shown(str(found.explain(**known)))]
    else:
        parts = [read, f"Not planned: {why}"]
    sys.stdout.write("\n\n".join(parts) + "\n")


def _explained(found: Reading, known: dict[str, Any]) -> Explanation | None:
    """Return the answer to a question; None where it cannot be planned."""
    try:
        explained: Explanation = found.explain(**known)
    except PlannerError:
        return None
    return explained


def _status(found: Reading, known: dict[str, Any], plan: Plan | None) -> int:
    """Return the status of `planner plan`; what is still open is no error."""
    if plan is not None:
        served = plan.serving
        is_enough = plan.fits and (served is None or served.is_served)
        return FITS if is_enough else DOES_NOT_FIT
    is_told = all(known.get(n) or getattr(found, n) for n in ("model", "gpu"))
    is_refused = bool(found.refused_gpu) and "gpu" not in known
    return BAD_INPUT if is_told or is_refused else FITS


def _starts(found: Reading, gpu: str | GPU | None) -> str:
    """Return a line for each start of a text with several, all of them planned."""
    if found.num_starts == 1 or found.log is not None:
        return ""
    rows = checks_of(found.given, gpu).rows
    lines = (f"  {row}: {row.answer}\n" for row in rows)
    return "".join(["\nStarts in the text:\n", *lines])


def _text(options: dict[str, Any]) -> str:
    """Return the text; several words that name no file are one text.

    Raises:
        PlannerError: without any.
    """
    text: str | None = options["text"]
    others: list[str] = options["others"]
    if text is None:
        others, options["ran"] = options.get("ran", []), []
        if not others:
            raise PlannerError(_NOTHING)
        return _joined(others)
    if text == "-":
        return read_input()
    is_whole = len(text.split()) > 1 or is_address(text) or _is_there(text)
    if is_whole or not others:
        return text
    if _FILE.search(text):
        raise PlannerError(f"There is no file {text!r}.")
    options["others"] = []
    return _joined([text, *others])


def _is_there(text: str) -> bool:
    """Whether a word is a path that exists; a very long word is none."""
    try:
        return user_path(text).exists()
    except OSError:
        return False


def _joined(words: Sequence[str]) -> str:
    """Return words that the shell has split as one text: a command, else a sentence."""
    command = shlex.join(words)
    try:
        found = read(command)
    except PlannerError:
        return " ".join(words)
    return command if found.start is not None else " ".join(words)


def _known(options: dict[str, Any]) -> dict[str, Any]:
    """Return what is said beside the text: by a command, or by flags."""
    words = options["others"] + options.get("ran", [])
    told = read(words[0] if len(words) == 1 else shlex.join(words)) if words else None
    known: dict[str, Any] = {}
    if told is not None:
        names = ("model", "gpu", "vllm_version")
        known = {name: getattr(told, name) for name in names} | {**told.engine_args}
    env = {**(told.env if told else {}), **options.get("env", {})}
    changed = {name: options[name] for name in ARGUMENTS if name in options}
    given = {name: options[name] for name in ("gpu", "vllm_version") if options[name]}
    known |= {**changed, **given, "env": env or None}
    return {name: value for name, value in known.items() if value is not None}


def _planned(found: Reading, known: dict[str, Any]) -> tuple[Plan | None, str]:
    """Plan what was read; where something is still open, say what."""
    try:
        return found.plan(**known), ""
    except PlannerError as error:
        return None, str(error)


def expanded(
    words: Sequence[str], path: Path | None = None
) -> tuple[list[str], tuple[str, ...]]:
    """Return a command line with what a text says in its place, and what to ask.

    The text stands after `--`, or in a file. The other words follow those of the text,
    so that they count instead. What the text has that may run code or open a file is
    asked about before anything is started.

    >>> expanded(["plan", "--gpu", "L4", "--", "vllm", "serve", "org/m", "-tp", "2"])
    (['plan', 'org/m', '--tensor-parallel-size', '2', '--gpu', 'L4'], ())

    Raises:
        PlannerError: for a text that is no start of vLLM, or names no model.
    """
    before = list(words)
    if path is None:
        at = before.index("--")
        before, after = before[:at], before[at + 1 :]
        found = read(after[0] if len(after) == 1 else shlex.join(after))
    else:
        found = read(path)
    if found.model is None:
        raise PlannerError("What follows -- does not name the model that is served.")
    if found.unknown:
        raise PlannerError(" ".join(found.notes))
    flags_from = (n for n, word in enumerate(before) if word.startswith("-"))
    first = next(flags_from, len(before))
    asked = questions(found.inputs(found.gpu or "H100").engine_args, found.env)
    return [*before[:first], *words_of(found), *before[first:]], asked


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
