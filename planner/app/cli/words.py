"""What the words of a planning command mean before the parser reads them.

A command after `--`, or a file in the model's place, is put in; flags of vLLM's server
are split off, and engine arguments spelled as the parser has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planner.app.cli.consent import TRUST_TEXT
from planner.engine.arguments import Argument
from planner.engine.server import flag_named, takes_value, turns_off

_READ_FILES = ("plan", "export")
"""Commands whose own -f takes any form."""
_READ_PLAN_FILES = ("compare", "speed")
"""Commands that take plan files in a model's place, with their load."""
_OF_MODELS = ("config.json", "params.json")


def understood(
    words: Sequence[str], own: Sequence[str]
) -> tuple[list[str], dict[str, Any]]:
    """Return the words for the parser, and what vLLM's server is given.

    A command that starts vLLM also gets what to ask about a text, as `asked`.

    Args:
        words: the command line.
        own: flags that the planner's command has itself.

    Raises:
        PlannerError: for a text that is no start of vLLM, or names no model.
    """
    whole = list(words)
    asked: tuple[str, ...] = ()
    before, path = (whole, None) if "--" in whole else without_file(whole)
    if "--" in whole or path is not None:
        from planner.app.cli.read import expanded  # noqa: PLC0415 - few need it

        whole, asked = expanded(before, path)
    rest, split = without_server_flags(whole, own)
    return rest, split | ({"asked": asked} if TRUST_TEXT in own else {})


def without_file(words: Sequence[str]) -> tuple[list[str], Path | None]:
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
        if path.name not in _OF_MODELS and _is_file(path):
            start = at - 1 if is_file_flag else at
            return [*words[:start], *words[at + 1 :]], path
    return list(words), None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file() or path.is_fifo()
    except (OSError, ValueError):  # longer than a path may be, or not one at all
        return False


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
        from planner.export.texts.flag_values import typed  # noqa: PLC0415 - few need it

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
