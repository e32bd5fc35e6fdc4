"""Flags of `vllm serve` that are no engine arguments, and all flags by spelling.

The server's own flags (`planner/data/server_flags.json`, written by
`tools/server_flags.py`) have no effect on GPU memory. Among them are flags of releases
0.9 to today that were removed since, engine arguments of old releases included: such a
flag says what took its place (`instead`).

Source: vLLM 0.33.0 `entrypoints/common/cli_args.py` FrontendArgs,
`engine/arg_utils.py` EngineArgs.add_cli_args, `utils/argparse_utils.py`
FlexibleArgumentParser; of older releases likewise.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any

from planner.data import DATA
from planner.engine.arguments import ARGUMENTS, Argument, Kind
from planner.errors import PlannerError
from planner.values import frozen

_DATA = DATA / "server_flags.json"
_OFF = (("--no-", "--"), ("--disable-", "--enable-"), ("--enable-", "--disable-"))
"""What begins a flag that switches another off, and how that one begins."""


class Takes(StrEnum):
    """What follows a flag of the server."""

    SWITCH = "switch"
    """Nothing: the flag itself is the value."""
    ONE = "one"
    """One word."""
    MANY = "many"
    """One word or more."""
    JSON = "json"
    """One word, which is JSON."""


@frozen
class ServerFlag:
    """One flag of `vllm serve` that is not an engine argument of today."""

    name: str
    """Its name with underscores, without dashes before it."""
    kind: Takes
    choices: tuple[str, ...] = ()
    """The words that its newest release takes; empty: all, or not recorded."""
    text: str = ""
    """Its meaning, in a sentence."""
    short: str = ""
    """Its short flag."""
    since: str = ""
    """The first release that has it; empty: 0.9.0 or before."""
    gone: str = ""
    """The first release without it; empty: the newest has it."""
    instead: str = ""
    """What took the place of a flag that is gone; empty: nothing."""
    is_mistaken: bool = False
    """Whether no release has it, although people's commands do: vLLM refuses it."""
    kept_out: str = ""
    """What of a start it may set that a stranger must not: files, code, addresses."""
    of_engine: bool = False
    """Whether it was an engine argument, which may have mattered for memory."""

    @property
    def flag(self) -> str:
        """Its flag for `vllm serve`."""
        return "--" + self.name.replace("_", "-")

    @property
    def has_value(self) -> bool:
        """Whether words follow it."""
        return self.kind is not Takes.SWITCH

    @property
    def is_list(self) -> bool:
        """Whether several words may follow it."""
        return self.kind is Takes.MANY

    def check(self, value: object) -> None:
        """Refuse a word that the parser of `vllm serve` does not take.

        Raises:
            PlannerError: with the words that it takes.
        """
        if self.choices and value is not None and value not in self.choices:
            words = ", ".join(self.choices)
            raise PlannerError(f"{self.name}={value!r}: use one of {words}.")


def _read(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, ServerFlag]:
    return {
        name: ServerFlag(
            name=name,
            **{
                **row,
                "kind": Takes(row["kind"]),
                "choices": tuple(row.get("choices", ())),
            },
        )
        for name, row in rows.items()
    }


_TABLE = json.loads(_DATA.read_text(encoding="utf-8"))

_MISTAKEN = {"tool_call_parser_plugin": "tool_parser_plugin"}
"""Flags in published commands that no release has, with the one that is meant."""

SERVER_FLAGS: Mapping[str, ServerFlag] = {
    **_read(_TABLE["flags"]),
    **{
        name: ServerFlag(
            name=name,
            kind=Takes.ONE,
            text=f"A mistake for {meant}.",
            gone="0.0.0",
            instead=meant,
            is_mistaken=True,
        )
        for name, meant in _MISTAKEN.items()
    },
}
"""Every flag of the server, and every removed engine argument, by its name."""

_OTHER_SPELLINGS: Mapping[str, str] = _TABLE["spellings"]
"""Flags whose name is not that of the argument: "-asc" is api_server_count."""


def flag_named(flag: str) -> tuple[str, Argument | ServerFlag] | None:
    """Return name and entry of a flag in any spelling; None for no flag of vLLM.

    Short flags, underscores for dashes, `--no-` and other off forms (`turns_off`), the
    beginning of a name that only one flag has, and `--flag=value` or `--flag.key`, of
    which the part before is read.

    >>> flag_named("-tp")[0], flag_named("--no_enable_prefix_caching")[0]
    ('tensor_parallel_size', 'enable_prefix_caching')
    """
    name = _name_of(flag)
    return None if name is None else (name, _entry(name))


def turns_off(flag: str) -> bool:
    """Return whether a flag that `flag_named` knows switches its argument off.

    >>> turns_off("--no-enable-prefix-caching"), turns_off("--disable-log-stats")
    (True, False)
    """
    spelled = _spelled(flag)
    return _exact(spelled) is None and _switched_off(spelled) is not None


def spellings_of(argument: Argument) -> tuple[str, ...]:
    """Return the flag of an engine argument and its other forms, as vLLM has them."""
    others = [flag for flag, name in _OTHER_SPELLINGS.items() if name == argument.name]
    return (argument.flag, *others)


def takes_value(entry: Argument | ServerFlag) -> bool:
    """Return whether words follow a flag on a command line."""
    if isinstance(entry, ServerFlag):
        return entry.has_value
    return entry.kind is not Kind.SWITCH


def _entry(name: str) -> Argument | ServerFlag:
    return ARGUMENTS[name] if name in ARGUMENTS else SERVER_FLAGS[name]


def _name_of(flag: str) -> str | None:
    spelled = _spelled(flag)
    return _exact(spelled) or _switched_off(spelled) or _begun(spelled)


def _spelled(flag: str) -> str:
    """Return a flag with dashes, without what is joined to it."""
    word = flag.partition("=")[0].partition(".")[0]
    return word.replace("_", "-") if word.startswith("--") else word


def _exact(flag: str) -> str | None:
    if flag in _OTHER_SPELLINGS:
        return _OTHER_SPELLINGS[flag]
    if not flag.startswith("--"):
        # -O3 is -O 3.
        return _OTHER_SPELLINGS.get(flag.rstrip("0123456789"))
    name = flag[2:].replace("-", "_")
    known = name in SERVER_FLAGS or (name in ARGUMENTS and ARGUMENTS[name].has_flag)
    return name if known else None


def _switched_off(flag: str) -> str | None:
    """Return the switch that a flag turns off: --no-x, --disable-x for --enable-x."""
    for off, on in _OFF:
        if flag.startswith(off):
            name = _exact(on + flag.removeprefix(off))
            if name is not None and not takes_value(_entry(name)):
                return name
    return None


def _begun(flag: str) -> str | None:
    """Return the only argument that begins so, as Python's argparse reads it."""
    if not flag.startswith("--") or flag == "--":
        return None
    name = flag[2:].replace("-", "_")
    first = bisect_left(_current(), name)
    found = [known for known in _current()[first : first + 2] if known.startswith(name)]
    return found[0] if len(found) == 1 else None


@cache
def _current() -> tuple[str, ...]:
    """Return the names of the flags that the newest release has, in order."""
    own = (one.name for one in ARGUMENTS.values() if one.has_flag and not one.gone)
    others = (one.name for one in SERVER_FLAGS.values() if not one.gone)
    return tuple(sorted((*own, *others)))
