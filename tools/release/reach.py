"""What of a release's code the start of a worker can reach.

By names, without resolving them, so that nothing is missed: a function is reached once
code that is reached mentions its name, what a class does when it is made once the class
is mentioned (by code, or in a string, as registries do), and what a module does when it
is imported always.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

Mentions = Mapping[str, frozenset[str]]
"""For each "file::name" of a function, class or module, the words in it."""

SEEDS = (
    *(
        f"v1/worker/{file}.py::{worker}.{method}"
        for file, worker in (("gpu_worker", "Worker"), ("cpu_worker", "CPUWorker"))
        for method in (
            *("__init__", "init_device", "load_model", "determine_available_memory"),
            *("get_kv_cache_spec", "initialize_from_config"),
            *("compile_or_warm_up_model", "update_max_model_len"),
        )
    ),
    "v1/engine/core.py::EngineCore.__init__",
    "engine/arg_utils.py::EngineArgs.create_engine_config",
)
"""Where a start begins: in the worker, and in the engine around it."""
NOT_OF_A_START = (
    *("entrypoints/", "tool_parsers/", "reasoning/", "benchmarks/", "third_party/"),
    *("parser/", "renderers/"),
)
"""Folders of the server: a worker calls nothing in them."""
_ONLY_REQUESTS = frozenset(
    {"execute_model", "sample_tokens", "schedule", "update_from_output", "take_events"}
)
"""Methods that only requests call."""
_UNUSED = re.compile(
    r'"""(?:.|\n)*?"""|^\s*#.*$'
    r"|^ *from [\w.]+ import (?:\([^)]*\)|.*)|^ *import .*",
    re.MULTILINE,
)
"""Docstrings, comments on lines of their own, and imports: a name that they bring is
mentioned again where it is used."""
_HEAD = re.compile(r"( *)(?:async def|def|class) (\w+)")
_WORD = re.compile(
    r"(?<=\.)[a-z]\w*|[a-z]\w*(?=\()|_*[a-z0-9]+_\w*|_\w+|[A-Z]\w*|(?<=[\"'])\w+"
)
"""A name alone, such as `key`, is nearly always a local: of one word only what is
called, looked up or quoted counts."""


def mentions(package: Path) -> dict[str, frozenset[str]]:
    """Return the words of each function, class and module of a package."""
    found = {}
    for path in package.rglob("*.py"):
        file = path.relative_to(package).as_posix()
        if not file.startswith(NOT_OF_A_START):
            text = _UNUSED.sub("", path.read_text(encoding="utf-8"))
            for name, lines in _parts(text).items():
                words = frozenset(_WORD.findall("\n".join(lines)))
                found[f"{file}::{name}"] = words
    return found


def _parts(text: str) -> dict[str, list[str]]:
    """Return the lines of each function and class, without those inside it."""
    found: dict[str, list[str]] = {"": []}
    around: list[tuple[int, str]] = [(-1, "")]
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        if line.strip() and not line.lstrip().startswith(")"):
            while depth <= around[-1][0]:
                around.pop()
        head = _HEAD.match(line)
        if head:
            name = f"{around[-1][1]}.{head[2]}".lstrip(".")
            around.append((depth, name))
        found.setdefault(around[-1][1], []).append(line)
    return found


def reached(known: Mentions, seeds: Iterable[str] = SEEDS) -> frozenset[str]:
    """Return the functions and classes that a start can reach."""
    waiting: dict[str, list[str]] = {}
    needs = {key: tuple(_needed(key)) for key in known}
    for key, every in needs.items():
        for name in every:
            waiting.setdefault(name, []).append(key)
    todo = [key for key in known if key in seeds or key.endswith("::")]
    names: set[str] = set()
    live: set[str] = set()
    while todo:
        key = todo.pop()
        if key not in live:
            live.add(key)
            new = known[key] - names
            names |= new
            for one in (one for name in new for one in waiting.get(name, ())):
                if names.issuperset(needs[one]):
                    todo.append(one)
    return frozenset(live)


def _needed(key: str) -> Iterator[str]:
    """Yield the names that have to be mentioned before a function can be called."""
    owner, _, last = key.rpartition("::")[2].rpartition(".")
    around = owner.rpartition(".")[2]
    if not around or not last.startswith("__"):
        # No code has a name with a zero byte.
        yield "\0" if last in _ONLY_REQUESTS else last
    if around[:1].isupper() or around[:2].strip("_")[:1].isupper():
        yield around
