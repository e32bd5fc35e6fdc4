"""The glossary: each argument and term of the page, and its effect on memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache

from planner.data import DATA
from planner.engine.arguments import ARGUMENTS, Memory
from planner.engine.releases import NEWEST
from planner.values import frozen

_DATA = DATA / "glossary.json"
_OF_THE_PLANNER = (
    *("model", "gpu", "entrypoint", "vllm_version"),
    *("prompt_tokens", "output_tokens", "requests"),
    *("load probe", "time limit", "Python of vLLM", "start weights"),
    "compile cache",
    *("ray replicas_min", "ray replicas_max", "ray batch_size", "ray nodes"),
    *("ray max_concurrent_batches", "ray ray_version", "ray gpus_per_node"),
    *("ray preprocess_workers", "ray preprocess_gpus"),
    *("ray postprocess_workers", "ray postprocess_gpus"),
)
"""Inputs of the page that are not engine arguments."""


@frozen(kw_only=False)
class Entry:
    """An explained term or argument."""

    name: str
    text: str
    """What it is, and its effect on memory."""
    is_argument: bool


@cache
def entries() -> Mapping[str, Entry]:
    """Return every entry by name, in the order of the glossary."""
    return {entry.name: entry for entry in _entries()}


def explained(name: str) -> str:
    """Return the explanation of an argument or term; empty where there is none.

    >>> explained("seed")
    'Where random numbers begin, so that sampling can be repeated. It does not change \
GPU memory.'
    """
    entry = entries().get(name)
    return "" if entry is None else entry.text


def glossary_markdown() -> str:
    """Return all entries as a page: terms, the planner's inputs, engine arguments."""
    terms = [one for one in entries().values() if not one.is_argument]
    inputs = [one for one in terms if one.name in _OF_THE_PLANNER]
    arguments = [one for one in entries().values() if one.is_argument]
    harmless = [one for one in arguments if ARGUMENTS[one.name].memory is Memory.NONE]
    parts = {
        "Terms": [one for one in terms if one not in inputs],
        "Fields of the page": inputs,
        "Engine arguments": sorted(
            (one for one in arguments if one not in harmless), key=lambda one: one.name
        ),
    }
    sections = [
        f"## {title}\n\n" + "\n".join(_line(one) for one in found)
        for title, found in parts.items()
    ]
    names = ", ".join(f"`{one.name}`" for one in sorted(harmless, key=_name))
    return "\n\n".join([_HEAD, *sections, f"{_HARMLESS}\n\n- {names}"]) + "\n"


_HEAD = f"""# Glossary

What each word on the planner's page means and what it does to GPU memory. The page has
the same texts behind the name of each control. Arguments are those of vLLM
{NEWEST}.

This page is written by `python tools/glossary_page.py`."""


_HARMLESS = """## Arguments that do not change GPU memory

What each of them does is in the app, where "All engine arguments" explains every name,
in [the reference of engine arguments](reference/arguments.md), and in `planner plan
--help`."""


def _name(entry: Entry) -> str:
    return entry.name


def _line(entry: Entry) -> str:
    name = f"`{entry.name}`" if entry.is_argument else f"**{entry.name}**"
    return f"- {name}: {entry.text}"


def _entries() -> Iterator[Entry]:
    found: dict[str, str] = json.loads(_DATA.read_text(encoding="utf-8"))
    for name, text in found.items():
        yield Entry(name, text, is_argument=False)
    for argument in ARGUMENTS.values():
        yield Entry(argument.name, argument.explained, is_argument=True)
