"""A parser rebuilt from what `tools/record_parser.py` recorded of a release.

Rebuilt: every flag with all its spellings, its destination, how many words it takes,
its choices, its constant, whether it switches on and off, and how its text is read:
int, float, str, JSON, vLLM's short numbers (4k, 4K), `auto`, "" and None for nothing,
JSON or text. Before that, what vLLM does to a line: underscores of flags become dashes,
and a word that begins with a dash and holds a dot is read as part of a table.

Not rebuilt: whether JSON fits the fields of a configuration class (it must be a table),
and what vLLM checks once all arguments are together.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data" / "parsers"
RELEASES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))

_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_FACTORS = {
    short: base ** (power + 1)
    for letters, base in (("kmgt", 10**3), ("KMGT", 2**10))
    for power, short in enumerate(letters)
}


class NotParsed(Exception):  # noqa: N818 - reads as the sentence it is
    """The line is none of this release's."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise NotParsed(message)


@cache
def recorded(release: str) -> dict[str, Any]:
    """Return what was recorded of a release; every caller has the same table."""
    text = (FOLDER / f"{release}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def engine_arguments(release: str, words: list[str]) -> dict[str, Any]:
    """Return what `vllm serve` would hand to the engine: what differs from nothing.

    Raises:
        NotParsed: for a line that this release's parser refuses.
    """
    assert words[:2] == ["vllm", "serve"]
    prepared = [_prepared(word) for word in words[2:]]
    parsed = vars(_parser(release).parse_args(prepared))
    names = {"model_tag", *recorded(release)["engine_arguments"]}
    return {name: value for name, value in parsed.items() if name in names}


def _prepared(word: str) -> str:
    """Do to a word what vLLM's parser does before argparse sees it."""
    if not word.startswith("-"):
        return word
    flag, equals, value = word.partition("=")
    if "." in flag:
        raise NotParsed(f"{word} is read as part of a table")
    if word.startswith("--"):
        flag = flag.replace("_", "-")
    elif word.startswith("-O"):
        raise NotParsed(f"{word} is read as an optimization level")
    return f"{flag}{equals}{value}"


@cache
def _parser(release: str) -> argparse.ArgumentParser:
    parser = _Parser(prog="vllm serve", add_help=False)
    for flag in recorded(release)["flags"]:
        if flag["action"] != "help":
            _add(parser, flag)
    return parser


def _add(parser: argparse.ArgumentParser, flag: dict[str, Any]) -> None:
    spellings, kind = flag.get("flags", []), flag["action"]
    common = {"default": argparse.SUPPRESS}
    if not spellings:
        parser.add_argument(flag["dest"], nargs=flag.get("nargs"), **common)
    elif kind == "boolean":
        on, off = spellings, flag["off"]
        parser.add_argument(*on, dest=flag["dest"], action="store_true", **common)
        parser.add_argument(*off, dest=flag["dest"], action="store_false", **common)
    elif kind.startswith("store_"):
        parser.add_argument(*spellings, dest=flag["dest"], action=kind, **common)
    else:
        parser.add_argument(
            *spellings,
            dest=flag["dest"],
            action=kind,
            nargs=flag.get("nargs"),
            const=flag.get("const"),
            choices=flag.get("choices"),
            type=reader(flag.get("type", "str")),
            **common,
        )


def reader(kind: str) -> Callable[[str], Any]:
    """Return what reads a text as the recorded type does."""
    if kind.startswith("optional:"):
        inner = reader(kind.removeprefix("optional:"))
        return lambda text: None if text in ("", "None") else inner(text)
    if kind.startswith("json:"):
        return _table
    return _READERS[kind]


def _table(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text} is no table")
    return value


def _human(text: str) -> int:
    match = _HUMAN.fullmatch(text.strip())
    if match is None:
        return int(text)
    if match[2].isupper() and "." in match[1]:
        raise argparse.ArgumentTypeError(
            "Decimals are not allowed with binary suffixes like "
            f"{match[2]}. Did you mean to use {match[1]}{match[2].lower()} instead?"
        )
    return int(float(match[1]) * _FACTORS[match[2]])


def _human_or_auto(text: str) -> int:
    return -1 if text.lower() in ("-1", "auto") else _human(text)


def _table_or_text(text: str) -> Any:
    return json.loads(text) if re.match(r"(?s)^\s*{.*}\s*$", text) else text


_READERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "json": json.loads,
    "human_readable_int": _human,
    "human_readable_int_or_auto": _human_or_auto,
    "union_dict_and_str": _table_or_text,
    # "none" in any case is the default.
    "parse_reasoning_parser": lambda text: "" if text.lower() == "none" else text,
    # device_ids: numbers or names with commas; backends: dashes for underscores.
    "<lambda>": str,
}
