"""Which words may come next on a line of planner arguments, for completion."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner import catalogue
from planner.engine import CHOICES
from planner.gpu import CPU
from planner.gpu import catalogue as gpu_catalogue
from planner.releases import MODELLED
from planner.widgets.choices import DTYPES, KV_CACHE_DTYPES, QUANTIZATIONS

_VALUES = {
    **CHOICES,
    "dtype": tuple(text for text, _ in DTYPES),
    "kv_cache_dtype": tuple(text for text, value in KV_CACHE_DTYPES if value),
    "max_model_len": ("auto",),
    "mm_encoder_tp_mode": ("weights", "data"),
    "performance_mode": ("balanced", "interactivity", "throughput"),
    "quantization": tuple(text for text, value in QUANTIZATIONS if value),
    "vllm_version": MODELLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What may stand in the place of the word that is being typed."""

    typed: str
    """The part of the line that they replace."""
    offered: tuple[str, ...] = ()


def next_words(parser: argparse.ArgumentParser, line: str) -> Words:
    """Return what may continue `line`, which ends at the cursor.

    Names that begin as typed come first; where there are none, those that hold it.
    """
    typed = _last_word(line)
    try:
        before = shlex.split(line[: len(line) - len(typed)])
    except ValueError:  # inside quotes
        return Words(typed=typed)
    flag, joined, value = typed.partition("=")
    if joined and flag.startswith("--"):
        return Words(typed=value, offered=_matching(value, _of_flag(parser, flag)))
    if typed.startswith("-"):
        return Words(typed=typed, offered=_flags(parser, typed))
    action, is_complete = _awaiting(parser, before)
    offered = () if action is None else _matching(typed, _values(action))
    if is_complete and not typed:
        offered += _flags(parser, "--")
    return Words(typed=typed, offered=offered)


def _last_word(line: str) -> str:
    words = line.split(" ")
    return words[-1].split("\t")[-1]


def _awaiting(
    parser: argparse.ArgumentParser, before: Sequence[str]
) -> tuple[argparse.Action | None, bool]:
    """Return what the next word is a value of, and whether a flag may come as well."""
    model = next(one for one in parser._actions if not one.option_strings)
    flag: argparse.Action | None = None
    has_model = False
    taken = 0
    for word in before:
        if word.startswith("-"):
            name, joined, _ = word.partition("=")
            flag = None if joined else parser._option_string_actions.get(name)
            taken = 0
        elif flag is not None and _takes(flag, taken):
            taken += 1
        else:
            flag, has_model = None, True
    if flag is not None and _takes(flag, taken):
        return flag, bool(taken) or flag.nargs == "?"
    return (None if has_model else model), True


def _takes(flag: argparse.Action, taken: int) -> bool:
    """Whether a flag that has taken some values takes one more."""
    if flag.nargs == 0:
        return False
    return flag.nargs == "+" or taken == 0


def _of_flag(parser: argparse.ArgumentParser, flag: str) -> tuple[str, ...]:
    action = parser._option_string_actions.get(flag)
    return () if action is None else _values(action)


def _values(action: argparse.Action) -> tuple[str, ...]:
    """Return what an argument may be, where that is a list."""
    if action.choices:
        return tuple(str(choice) for choice in action.choices)
    if action.dest == "model":
        return tuple(entry.name for entry in catalogue.entries())
    if action.dest == "gpu":
        return (*(gpu.name for gpu in gpu_catalogue()), "attached", CPU)
    return _VALUES.get(action.dest, ())


def _flags(parser: argparse.ArgumentParser, typed: str) -> tuple[str, ...]:
    """Return flags that begin as typed; those without effect where no other does."""
    shown, hidden = (
        tuple(_names(parser, is_hidden=is_hidden)) for is_hidden in (False, True)
    )
    for names in (shown, hidden):
        found = tuple(name for name in names if name.startswith(typed))
        if found:
            return found
    return ()


def _names(parser: argparse.ArgumentParser, *, is_hidden: bool) -> Iterator[str]:
    for action in parser._actions:
        if (action.help == argparse.SUPPRESS) == is_hidden:
            yield from action.option_strings


def _matching(typed: str, names: Sequence[str]) -> tuple[str, ...]:
    wanted = typed.lower()
    begin = tuple(name for name in names if name.lower().startswith(wanted))
    return begin or tuple(name for name in names if wanted in name.lower())
