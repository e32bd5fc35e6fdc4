"""Completion of a line of flags: for `%plan` in notebooks, and for shells.

Names that begin with the typed text; where there are none, names that contain it.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence

from planner.engine.arguments import ARGUMENTS
from planner.engine.gpu import CPU
from planner.engine.gpu import catalogue as gpu_catalogue
from planner.engine.releases import MODELLED
from planner.models import catalogue
from planner.values import frozen

_GPUS = ("gpu", "gpus", "price")
_MODELS = ("model", "others")
_SWEPT = ("gpu", "model", "vllm_version")
"""What `--over` takes beside engine arguments."""


@frozen
class Completions:
    """The completions of the word that is being typed."""

    typed: str
    """The part of the line that they replace."""
    offered: tuple[str, ...] = ()


def next_words(parser: argparse.ArgumentParser, line: str) -> Completions:
    """Return the completions of `line`, which ends at the cursor.

    Of a list with commas, the part after the last one is completed.
    """
    typed = last_word(line)
    try:
        before = shlex.split(line[: len(line) - len(typed)])
    except ValueError:  # inside quotes
        return Completions(typed=typed)
    flag, joined, value = typed.partition("=")
    if joined and flag.startswith("--"):
        action = parser._option_string_actions.get(flag)
        return _of_values(value, action)
    if typed.startswith("-"):
        return Completions(typed=typed, offered=_flags(parser, typed))
    action, is_complete = _awaiting(parser, before)
    found = _of_values(typed, action)
    if is_complete and not typed:
        return Completions(typed=typed, offered=found.offered + _flags(parser, "--"))
    return found


def last_word(line: str) -> str:
    """Return the word at the end of a line; empty after a space."""
    return line.split(" ")[-1].split("\t")[-1]


def matching(typed: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that begin with the typed text, else those that contain it."""
    wanted = typed.lower()
    begin = tuple(name for name in names if name.lower().startswith(wanted))
    return begin or tuple(name for name in names if wanted in name.lower())


def _of_values(typed: str, action: argparse.Action | None) -> Completions:
    if action is None:
        return Completions(typed=typed)
    if action.nargs == "+":
        typed = typed.rpartition(",")[2]
    return Completions(typed=typed, offered=matching(typed, _values(action)))


def _awaiting(
    parser: argparse.ArgumentParser, before: Sequence[str]
) -> tuple[argparse.Action | None, bool]:
    """Return the argument of the next word, and whether a flag may come instead."""
    places = [one for one in parser._actions if not one.option_strings]
    flag: argparse.Action | None = None
    given = taken = 0
    for word in before:
        if word.startswith("-"):
            name, joined, _ = word.partition("=")
            flag = None if joined else parser._option_string_actions.get(name)
            taken = 0
        elif flag is not None and _takes(flag, taken):
            taken += 1
        else:
            flag, given = None, given + 1
    if flag is not None and _takes(flag, taken):
        return flag, bool(taken) or flag.nargs == "?"
    if places and places[-1].nargs == "*":
        given = min(given, len(places) - 1)
    return (places[given] if given < len(places) else None), True


def _takes(flag: argparse.Action, taken: int) -> bool:
    """Whether a flag with `taken` values accepts one more."""
    if flag.nargs == 0:
        return False
    return flag.nargs == "+" or taken == 0


def _values(action: argparse.Action) -> tuple[str, ...]:
    """Return the values of an argument, where they can be listed."""
    if action.choices:
        return tuple(str(choice) for choice in action.choices)
    if action.dest in _MODELS:
        return tuple(entry.name for entry in catalogue.entries())
    if action.dest in _GPUS:
        return (*(gpu.name for gpu in gpu_catalogue()), "attached", CPU)
    if action.dest == "vllm_version":
        return MODELLED
    if action.dest == "over":
        modelled = (one.name for one in ARGUMENTS.values() if one.is_modelled)
        return tuple(f"{name}=" for name in (*_SWEPT, *modelled))
    return _typed_words(action.dest)


def _typed_words(name: str) -> tuple[str, ...]:
    """Return the values of an engine argument, where they can be listed."""
    if name == "max_model_len":
        return ("auto",)
    argument = ARGUMENTS.get(name)
    if argument is None:
        return ()
    return tuple(map(str, argument.offered or argument.taken))


def _flags(parser: argparse.ArgumentParser, typed: str) -> tuple[str, ...]:
    """Return flags that begin with the typed text.

    Engine arguments without an effect that is modelled come where no other does.
    """
    for is_beside in (False, True):
        names = _names(parser, is_beside=is_beside)
        found = tuple(name for name in names if name.startswith(typed))
        if found:
            return found
    return ()


def _names(parser: argparse.ArgumentParser, *, is_beside: bool) -> Iterator[str]:
    for action in parser._actions:
        argument = ARGUMENTS.get(action.dest)
        is_other = argument is not None and not argument.is_modelled
        if is_other == is_beside:
            yield from action.option_strings
