"""What several commands share: exit statuses, the parser, and flags alike everywhere.

A list is written with commas or spaces, in every flag that takes one: `--gpus L4,L40S`
and `--gpus L4 L40S` mean the same.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NoReturn, TypeAlias

from planner.app.cli.names import as_typed
from planner.errors import PlannerError, close_words
from planner.planning.load import Load
from planner.show.terminal import COLORS, Screen, fold
from planner.values import frozen

FITS, DOES_NOT_FIT, BAD_INPUT = 0, 1, 2

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_WIDEST_HELP, _FLAGS_COLUMN, _LONGEST_COMMAND = 100, 32, 15
_RIGHT_MARGIN, _NARROWEST_TEXT, _LEAST_COLUMN = 2, 20, 4
"""As in argparse itself."""


_OF_FLAG = re.compile(r"argument (?:-\w/)?(--[\w-]+)[^:]*: ")


class Misused(PlannerError):  # noqa: N818 - reads as the sentence it is
    """A command line that argparse refuses."""

    code = "usage"


class Help(argparse.HelpFormatter):
    """Help with a short usage, and with examples that keep their lines.

    A parser makes one for each of its flags; only what is shown needs a terminal.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_FLAGS_COLUMN, width=_WIDEST_HELP)
        self._action_max_length = _LONGEST_COMMAND

    def format_help(self) -> str:
        """Write the help, no wider than the terminal."""
        from shutil import get_terminal_size  # noqa: PLC0415 - slow

        terminal = get_terminal_size()
        width = terminal.columns - _RIGHT_MARGIN
        self._width = min(width, _WIDEST_HELP)
        self._max_help_position = min(
            _FLAGS_COLUMN, max(width - _NARROWEST_TEXT, _LEAST_COLUMN)
        )
        return super().format_help()

    def _format_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        _groups: Iterable[object],
        prefix: str | None,
    ) -> str:
        """Leave out flags that may be left out: there are hundreds."""
        shown = [one for one in actions if one.required or not one.option_strings]
        text = super()._format_usage(usage, shown, [], prefix).rstrip()
        has_commands = any(isinstance(one.choices, dict) for one in shown)
        return f"{text}{'' if has_commands else ' [flags]'}\n\n"

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Keep flags and compound words whole."""
        return fold(as_typed(" ".join(text.split())), width, 0)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled = super()._fill_text
        return "\n".join(
            line if line.startswith(" ") else filled(line, width, indent)
            for line in as_typed(text).splitlines()
        )


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence that names the nearest choice."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - argparse's own
        # With abbreviations, an unknown argument could match another one.
        given: dict[str, Any] = {"formatter_class": Help, "allow_abbrev": False}
        super().__init__(**(given | options))

    def add_subparsers(self, **options: Any) -> Any:  # noqa: ANN401 - argparse's own
        """Add the commands inside this one, named behind its own name alone."""
        return super().add_subparsers(**({"prog": self.prog} | options))

    def error(self, message: str) -> NoReturn:
        """Refuse, in one sentence.

        Raises:
            Misused: always.
        """
        text = message[:1].upper() + message[1:]
        end = "" if text.endswith((".", "?")) else "."
        found = _OF_FLAG.match(message)
        flag = found[1] if found else message.rpartition(": ")[2]
        action = self._option_string_actions.get(flag)
        if action is not None and action.choices and not found:  # it is missing
            text = f"{text}, {_values_of(action)}"
        error = Misused(f"{text}{end} `{self.prog} --help` helps.")
        error.allowed = "" if action is None else _values_of(action)
        raise error

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ANN401
        """Print; let the caller know of an output that takes nothing."""
        if file is not None and file is sys.stdout:
            file.write(message)  # argparse's own hides what goes wrong
        else:
            super()._print_message(message, file)

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401
        choices = action.choices
        if choices is None or value in choices:
            return
        known = [str(choice) for choice in choices]
        hint = did_you_mean(str(value), known)
        message = f"{value!r} is none of {', '.join(known)}.{hint}"
        raise argparse.ArgumentError(action, message)


def _values_of(action: argparse.Action) -> str:
    """Say which values a flag may have."""
    if action.choices is not None:
        return f"one of {', '.join(map(str, action.choices))}"
    from planner.app.problems import allowed  # noqa: PLC0415 - errors are rare

    return allowed(action.option_strings[0]) or str(action.help or action.metavar)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a sentence with the nearest known word; empty where none is near."""
    near = close_words(word, known)
    return f" Did you mean {near[0]}?" if near else ""


def unread(names: Iterable[str]) -> str:
    """Return a sentence on those of some files that need PyYAML; "": all are read."""
    files = [name for name in names if name.endswith((".yaml", ".yml"))]
    if not files or find_spec("yaml") is not None:
        return ""
    return (
        f"{', '.join(files)}: YAML is read with PyYAML: `pip install pyyaml`, or "
        "`uvx --with pyyaml vllm-memory-planner`."
    )


def add_flag(
    group: argparse._ActionsContainer,
    name: str,
    kind: Any,  # noqa: ANN401 - what argparse calls
    metavar: str,
    text: str | None = None,
) -> None:
    """Add a flag that is absent from the options where it is not given."""
    flag = "--" + name.replace("_", "-")
    default = argparse.SUPPRESS
    group.add_argument(flag, type=kind, metavar=metavar, default=default, help=text)


def add_list(
    group: argparse._ActionsContainer,
    flag: str,
    metavar: str,
    text: str,
    kind: Callable[[str], Any] = str,
    **options: Any,  # noqa: ANN401 - argparse's own
) -> None:
    """Add a flag that takes a list, with commas or spaces, once or several times."""
    group.add_argument(
        flag,
        nargs="+",
        action=Listed,
        type=listed(kind),
        metavar=metavar,
        help=text,
        **options,
    )


class Listed(argparse.Action):
    """Joins the lists that the words of a flag are; given again, it adds to them."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's own
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Add the values to those that are there."""
        before = getattr(namespace, self.dest, None) or []
        words = [one for word in values or () for one in word]
        setattr(namespace, self.dest, [*before, *words])


def listed(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Return what reads one word of a list, in which commas separate as well.

    >>> listed(int)("1,2"), listed(str)("L4")
    ([1, 2], ['L4'])
    """

    def read(text: str) -> list[Any]:
        return [kind(part.strip()) for part in text.split(",") if part.strip()]

    read.__name__ = getattr(kind, "__name__", "list")
    return read


def add_output(
    parser: argparse.ArgumentParser,
    form: argparse._ActionsContainer | None = None,
) -> None:
    """Add --json, to `form` where other forms exclude it, and --color."""
    (form or parser).add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--color",
        choices=COLORS,
        default=argparse.SUPPRESS,
        help="auto (default): on a terminal, unless NO_COLOR is set; FORCE_COLOR asks "
        "for colours elsewhere too",
    )


@frozen
class Output:
    """Where a command's answer goes: as JSON, or as text for a screen."""

    screen: Screen
    as_json: bool = False

    def say(self, found: Any, is_fine: object = True) -> int:  # noqa: ANN401 - any result
        """Write a result, and return the exit status."""
        return self.write(found.to_dict, lambda: self.screen.shown(str(found)), is_fine)

    def write(
        self,
        values: Callable[[], object],
        text: Callable[[], str],
        is_fine: object = True,
    ) -> int:
        """Write what one of them returns; return the status of what is fine, or not."""
        if self.as_json:
            written = json.dumps(values(), indent=2, default=str)
        else:
            written = as_typed(text())
        sys.stdout.write(f"{written}\n" if written else "")
        return FITS if is_fine else DOES_NOT_FIT


def add_load(group: argparse._ActionsContainer) -> None:
    """Add the flags that `load_of` reads."""
    for name, (metavar, kind, text) in _LOAD.items():
        add_flag(group, name, kind, metavar, text)


_LOAD: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "prompt_tokens": ("N", int, "of the longest prompt"),
    "output_tokens": ("N", int, "of the longest answer (default: 0)"),
    "requests": ("N", int, "at once (default: 1)"),
    "shared_prefix_tokens": (
        "N",
        int,
        "that all prompts begin with; prefix caching stores them once",
    ),
    "mean_prompt_tokens": ("N", int, "of a prompt on average (default: the longest)"),
    "mean_output_tokens": ("N", int, "of an answer on average (default: the longest)"),
    "turns": (
        "N",
        int,
        "of a conversation, each of which repeats what came before (default: 1)",
    ),
    "requests_per_second": (
        "RATE",
        float,
        "that arrive, instead of --requests, each for --seconds-per-request",
    ),
    "seconds_per_request": (
        "SECONDS",
        float,
        "from a request's arrival to the end of its answer",
    ),
}


def load_of(options: dict[str, Any], given: Load | None = None) -> Load | None:
    """Remove the load from parsed options and return it; None: there is none.

    >>> load_of({"prompt_tokens": 3000, "model": "m"})
    Load(prompt_tokens=3000, output_tokens=0, requests=1)

    Args:
        options: parsed flags.
        given: a plan file's load, of which the flags replace parts.

    Raises:
        PlannerError: for a load without the tokens of its prompts.
    """
    parts = load_parts(options, given)
    if not parts:
        return given
    if "prompt_tokens" not in parts:
        raise PlannerError("A load needs --prompt-tokens, the longest prompt's tokens.")
    return Load(**({"output_tokens": 0} | parts))


def load_parts(options: dict[str, Any], given: Load | None = None) -> dict[str, Any]:
    """Remove the load from parsed options and return its parts by their names in it.

    Args:
        options: parsed flags.
        given: a load of which they replace parts; without any, nothing is returned.

    Raises:
        PlannerError: for a rate without a time, and for turns without a prompt.
    """
    flags = {name: options.pop(name) for name in _LOAD if name in options}
    if not flags:
        return {}
    turns = flags.pop("turns", 1)
    rate, seconds = (flags.pop(name, None) for name in _RATE)
    if rate is not None or seconds is not None:
        flags["requests"] = _at_once(rate, seconds, flags)
    parts = {**({} if given is None else given.to_dict()), **flags}
    if turns == 1:
        return parts
    try:
        whole = Load.conversation(turns=turns, **({"output_tokens": 0} | parts))
    except TypeError:
        raise PlannerError(
            "--turns needs --prompt-tokens, and says how long requests are on average: "
            "leave out --mean-prompt-tokens and --mean-output-tokens."
        ) from None
    found = whole.to_dict()
    return {name: found[name] for name in found if name in parts or name != "requests"}


_RATE = ("requests_per_second", "seconds_per_request")


def _at_once(
    per_second: float | None, seconds: float | None, flags: Mapping[str, Any]
) -> int:
    if per_second is None or seconds is None:
        raise PlannerError(
            "--requests-per-second and --seconds-per-request belong together: how many "
            "requests run at once depends on both."
        )
    if "requests" in flags:
        raise PlannerError("Give --requests or --requests-per-second, not both.")
    return Load.at_once(per_second, seconds)


def add_python(parser: argparse._ActionsContainer) -> None:
    """Give a command that runs vLLM the flag that names its Python."""
    parser.add_argument(
        "--python",
        dest="vllm_python",
        metavar="PYTHON",
        help="Python of the environment that holds vLLM (default: "
        "PLANNER_VLLM_PYTHON, else this one)",
    )


def add_time_limit(parser: argparse._ActionsContainer) -> None:
    """Give a command that starts vLLM the flag that ends it."""
    parser.add_argument(
        "--time-limit",
        dest="time_limit_seconds",
        type=float,
        default=1800.0,
        metavar="SECONDS",
        help="end vLLM after so long (default: 1800)",
    )
