"""What each argument and each term on the page is, and what it does to memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from planner.engine_args import SWITCHED_OFF, WITHOUT_EFFECT

_DATA = Path(__file__).parent.parent / "data" / "glossary.json"
_OF_THE_PLANNER = (
    *("model", "gpu", "entrypoint", "vllm_version"),
    *("load probe", "time limit", "Python of vLLM", "start weights"),
    *("ray replicas_min", "ray replicas_max", "ray batch_size", "ray nodes"),
    *("ray max_concurrent_batches", "ray ray_version", "ray gpus_per_node"),
    *("ray preprocess_workers", "ray preprocess_gpus"),
    *("ray postprocess_workers", "ray postprocess_gpus"),
)
"""What is asked on the page and is no engine argument."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A term or an argument in plain words."""

    name: str
    text: str
    """What it is, and what it does to memory."""
    is_argument: bool


@cache
def entries() -> Mapping[str, Entry]:
    """Return every entry by its name, in the order of the glossary."""
    return {entry.name: entry for entry in _entries()}


def explained(name: str) -> str:
    """Return the text on an argument or term; empty where there is none.

    >>> explained("seed")
    'Where random numbers begin, so that sampling can be repeated. It does not change \
GPU memory.'
    """
    entry = entries().get(name)
    return "" if entry is None else entry.text


def glossary_markdown() -> str:
    """Return all entries as a page: terms, what the page asks, engine arguments."""
    terms = [one for one in entries().values() if not one.is_argument]
    asked = [one for one in terms if one.name in _OF_THE_PLANNER]
    arguments = [one for one in entries().values() if one.is_argument]
    parts = {
        "Terms": [one for one in terms if one not in asked],
        "What the page asks": asked,
        "Engine arguments": sorted(arguments, key=lambda one: one.name),
    }
    sections = [
        f"## {title}\n\n" + "\n".join(_line(one) for one in found)
        for title, found in parts.items()
    ]
    return "\n\n".join([_HEAD, *sections]) + "\n"


_HEAD = """# Glossary

What each word on the planner's page means and what it does to GPU memory. The page has
the same texts behind the **?** beside each control. Arguments are those of vLLM 0.33.0.

This page is written by `python tools/glossary_page.py`."""


def _line(entry: Entry) -> str:
    name = f"`{entry.name}`" if entry.is_argument else f"**{entry.name}**"
    return f"- {name}: {entry.text}"


def _entries() -> Iterator[Entry]:
    found: dict[str, str] = json.loads(_DATA.read_text(encoding="utf-8"))
    is_argument = False
    for name, text in found.items():
        # Terms come first, then what the page asks; the rest are engine arguments.
        is_argument = is_argument or name == "dtype"
        yield Entry(name, f"{text}{_effect(name)}", is_argument)


def _effect(name: str) -> str:
    """Say what an argument does to memory, where its own text does not."""
    if name in WITHOUT_EFFECT:
        return " It does not change GPU memory."
    if name not in SWITCHED_OFF:
        return ""
    values = [_written(value) for value in SWITCHED_OFF[name]]
    words = f"only {' or '.join(values)} can be planned" if values else "leave it out"
    return f" What it does to memory is not modelled yet: {words}."


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
