"""The command line: one module per command, `engine_flags` for vLLM's arguments.

`shared` is what several commands need. A command's module is imported when the command
is run, so that `planner plan` does not wait for the others.
Exit status: 0 starts, and serves the load given; 1 does not, is too close to call or is
refused; 2 bad input.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from planner.app.cli.names import COMMANDS, as_typed, program
from planner.app.cli.shared import (
    BAD_INPUT,
    DOES_NOT_FIT,
    FITS,
    Output,
    Parser,
    did_you_mean,
    unread,
)
from planner.app.other_planner import other_planner, sentence
from planner.errors import PlannerError
from planner.show.terminal import prepare_output, screen_of
from planner.version import __version__

__all__ = [
    "BAD_INPUT",
    "COMMANDS",
    "DOES_NOT_FIT",
    "FITS",
    "build_parser",
    "main",
    "refuse_unknown",
]

PLANNING = (
    *("plan", "solve", "advise", "compare", "sweep", "upgrade", "speed", "ray"),
    "export",
    *("confirm", "dry-run", "record"),
)
"""Commands that take vLLM's arguments, those of its server included."""

_HINTS = {
    "read": "Put a command into quotes, or behind `--`: planner read -- vllm serve ... "
}
"""What to do about a word that is not known, by command."""
INTERRUPTED = 130
"""By Ctrl-C, as shells have it."""
_COLLECTED_AFTER = 500_000
"""New objects; Python's own 700 make a tenth of a cold start of it."""
_ABOUT = "Plan vLLM's GPU memory before it starts."
_EXAMPLES = """Examples:
  planner plan Qwen/Qwen3-8B --gpu H100
  planner plan Qwen/Qwen3-32B --gpu H100 --prompt-tokens 30000 --output-tokens 2000 \
--requests 20
  planner solve gpus Qwen/Qwen3-32B --prompt-tokens 30000 --requests 20
  planner advise --gpu L4 -- vllm serve Qwen/Qwen3-8B --max-model-len 32768

Commands that plan take vLLM's engine arguments, spelled as `vllm serve` has them: \
`planner plan --help` has a line on each. A list is written with commas or spaces: \
--gpus L4,L40S or --gpus L4 L40S. Exit status: 0 it starts and serves the load given, \
1 it does not, 2 bad input."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is not None:
        return _answered(words)
    # A process of its own.
    # A server lives long: its garbage would pile up.
    if words[:1] not in (["app"], ["mcp"]):
        gc.set_threshold(_COLLECTED_AFTER)
    prepare_output()
    if other := other_planner():
        sys.stderr.write(f"{sentence(other)}\n")
    try:
        return _answered(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        gc.freeze()  # or Python looks through all there is before it ends


def _answered(words: list[str]) -> int:
    try:
        try:
            status = _run(words)
        finally:  # help ends the program
            sys.stdout.flush()  # here, where a sentence can say that it failed
    except BrokenPipeError:  # `planner gpus | head`: the reader has ended
        sys.stdout = None
        return FITS
    except PlannerError as error:
        _refuse(error, words)
        return BAD_INPUT
    except OSError as error:
        if error.filename is not None:
            raise
        sys.stdout = None  # or Python tries again when it ends
        why = error.strerror or error
        _complain(f"The output cannot be written: {why}.")
        return BAD_INPUT
    return status


def _refuse(error: PlannerError, words: Sequence[str]) -> None:
    """Write what is wrong: on standard error, or in JSON as the answer."""
    own = words[: words.index("--")] if "--" in words else words
    if "PyYAML" not in str(error) and (lacking := unread(own)):
        error.args = (f"{lacking} {error}",)
    if "--json" not in own:
        _complain(as_typed(str(error)))
        return
    from planner.app.problems import problem  # noqa: PLC0415 - few need it

    parser = build_parser(words[0])
    if words[0] in COMMANDS:
        parser = _parser_of(parser, words[0])
    usage = " ".join(parser.format_usage().partition(":")[2].split())
    found = problem(error, _typed(own), usage, f"`{parser.prog} --help` helps.")
    found |= {name: as_typed(found[name]) for name in ("error", "allowed", "do")}
    with suppress(OSError):
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        sys.stdout.flush()


def _typed(words: Sequence[str]) -> dict[str, Any]:
    """Return what was typed: the values of each flag, and the words before them.

    >>> _typed(["plan", "m", "--gpu", "L4", "--json", "--seed=1"])
    {'words': ['m'], '--gpu': 'L4', '--seed': '1'}
    """
    typed: dict[str, Any] = {"words": []}
    name = "words"
    for word in words[1:] if words[0] in COMMANDS else words:
        if word.startswith("-") and len(word) > 1:
            name, equals, value = word.partition("=")
            typed[name] = value if equals else True
        elif name == "words":
            typed[name].append(word)
        else:
            before = typed[name]
            typed[name] = word if before is True else f"{before} {word}"
    del typed["--json"]
    return typed


def _complain(sentence: str) -> None:
    with suppress(OSError):  # a full disk: the exit status still tells it
        sys.stderr.write(f"planner: {sentence}\n")
        sys.stderr.flush()


def _run(words: list[str]) -> int:
    command = words[0] if words else ""
    if command and not command.startswith("-") and command not in COMMANDS:
        raise PlannerError(
            f"There is no command {command!r}.{did_you_mean(command, COMMANDS)} "
            "`planner --help` lists them."
        )
    parser = build_parser(command)
    words, server = _split(parser, words)
    known, unknown = parser.parse_known_args(words)
    options = vars(known) | server
    if "env" in options:
        options["env"] = dict(options["env"])
    run: Callable[[dict[str, Any], Output], int] = options.pop("run")
    if "others" in options:  # argparse leaves names behind flags: `A --gpu L4 B`
        options["others"] += [word for word in unknown if not word.startswith("-")]
        unknown = [word for word in unknown if word.startswith("-")]
    flags = _own_flags(_parser_of(parser, command)) if unknown else ()
    hint = f"{_HINTS.get(command, '')}`planner {command} --help` helps."
    refuse_unknown(unknown, hint, flags)
    screen = screen_of(sys.stdout, options.pop("color", "auto"))
    return run(options, Output(screen=screen, as_json=options.pop("json", False)))


def _split(
    parser: argparse.ArgumentParser, words: list[str]
) -> tuple[list[str], dict[str, Any]]:
    """Put in what a command after `--` says, and split off the server's flags.

    `planner read` gets that command as it is, beside its text.
    """
    if words[:1] == ["read"] and "--" in words:
        at = words.index("--")
        return words[:at], {"ran": words[at + 1 :]}
    if not words or words[0] not in PLANNING:
        return words, {}
    own = _own_flags(_parser_of(parser, words[0]))

    from planner.app.cli.words import understood  # noqa: PLC0415 - few need it

    return understood(words, own)


def _parser_of(
    parser: argparse.ArgumentParser, command: str
) -> argparse.ArgumentParser:
    (commands,) = subcommands(parser)
    return commands.choices[command]


def subcommands(
    parser: argparse.ArgumentParser,
) -> list[argparse._SubParsersAction[argparse.ArgumentParser]]:
    """Return the action with a parser's commands, if it has any."""
    # argparse has no other way to ask a parser what it knows.
    actions = parser._actions
    return [one for one in actions if isinstance(one, argparse._SubParsersAction)]


def _own_flags(parser: argparse.ArgumentParser) -> list[str]:
    """Return the flags of a command and of the commands in it."""
    inner = [one for found in subcommands(parser) for one in found.choices.values()]
    return [
        *(flag for action in parser._actions for flag in action.option_strings),
        *(flag for one in inner for flag in _own_flags(one)),
    ]


def refuse_unknown(words: list[str], help_hint: str, flags: Sequence[str] = ()) -> None:
    """Refuse the first unknown word, and suggest the nearest argument.

    Args:
        words: what the parser did not know.
        help_hint: a sentence on where help is.
        flags: those of the command, for the suggestion.

    Raises:
        PlannerError: where there is an unknown word.
    """
    if not words:
        return
    word = words[0].partition("=")[0]
    if word.startswith("--"):
        is_ours = bool(flags) and "--max-model-len" not in flags
        from planner.engine.server import flag_named  # noqa: PLC0415 - few need it

        short = None if is_ours else flag_named(word[1:])  # --tp for -tp
        if short is not None:
            flags = [f"{word[1:]}, --{short[0].replace('_', '-')}"]
            raise PlannerError(f"There is no flag {word}: vLLM has {flags[0]}.")
        own = did_you_mean(word, [one for one in flags if one.startswith("--")])
        if own or is_ours:
            raise PlannerError(f"There is no flag {word}.{own} {help_hint}")
        from planner.engine.settings import settings_from  # noqa: PLC0415 - few need it

        settings_from({word.removeprefix("--").replace("-", "_"): None})
    raise PlannerError(f"{words[0]!r} was not expected here. {help_hint}")


class _Version(argparse.Action):
    """Prints the planner's version and the releases that it models."""

    def __call__(self, parser: argparse.ArgumentParser, *_given: object) -> None:
        """Print, and end."""
        releases = import_module("...engine.releases", __package__)
        says = f"planner {__version__}, models vLLM to {releases.NEWEST}"
        sys.stdout.write(f"{says}\n{releases.known()}\n")
        parser.exit(FITS)


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser; engine arguments are the flags of `vllm serve`.

    Args:
        command: the only command whose flags are needed; None: those of all.
    """
    parser = Parser(prog=program(), description=_ABOUT, epilog=_EXAMPLES)
    parser.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        default=argparse.SUPPRESS,
        help="print the planner's version and the newest release of vLLM it models",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        if command in COMMANDS and command != name:
            continue
        one = commands.add_parser(name, help=text)
        if command in (None, name):
            module = import_module(f".{name.replace('-', '_')}", __package__)
            module.add(one)
            one.set_defaults(run=module.run)
            one.epilog = "\n".join(["Examples:", *(f"  {e}" for e in module.EXAMPLES)])
    return parser
