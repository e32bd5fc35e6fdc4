"""The glossary: each argument and term of the page, and its effect on memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from planner.data import DATA
from planner.engine.arguments import ARGUMENTS, Memory
from planner.engine.releases import NEWEST
from planner.values import frozen

_DATA = DATA / "glossary.json"
_OF_THE_PLANNER = (
    *("model", "gpu", "entrypoint", "vllm_version"),
    *("prompt_tokens", "output_tokens", "requests", "shared_prefix_tokens"),
    *("mean_prompt_tokens", "mean_output_tokens"),
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
    """Return terms, the planner's inputs and arguments that it does not count."""
    terms = [one for one in entries().values() if not one.is_argument]
    inputs = [one for one in terms if one.name in _OF_THE_PLANNER]
    parts = {
        "## Terms": _texts(one for one in terms if one not in inputs),
        "## Fields of the page": _texts(inputs),
        _ARGUMENTS: "",
        "### Not counted, as plans that use them say": _names(Memory.UNKNOWN),
    }
    sections = [f"{title}\n\n{found}".strip() for title, found in parts.items()]
    return "\n\n".join([_HEAD, *sections]) + "\n"


_HEAD = """# Glossary

What each word on the planner's page means and what it does to GPU memory; the page has
the same texts behind each control. `python tools/glossary_page.py` writes this page."""


_ARGUMENTS = f"""## Engine arguments

What each argument of vLLM {NEWEST} does, and whether plans count it, is in
[the reference of engine arguments](reference/arguments.md), in the app at its control,
and in `planner plan --help`."""


def _texts(found: Iterable[Entry]) -> str:
    return "\n".join(f"- **{one.name}**: {one.text}" for one in found)


def _names(effect: Memory) -> str:
    names = sorted(one.name for one in ARGUMENTS.values() if one.memory is effect)
    return f"- {', '.join(f'`{name}`' for name in names)}"


def _entries() -> Iterator[Entry]:
    found: dict[str, str] = json.loads(_DATA.read_text(encoding="utf-8"))
    for name, text in found.items():
        yield Entry(name, text, is_argument=False)
    for argument in ARGUMENTS.values():
        yield Entry(argument.name, argument.explained, is_argument=True)
