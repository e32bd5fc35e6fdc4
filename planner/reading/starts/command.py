"""The words of `vllm serve`, of vLLM's other programs and of those that start it.

Source: vLLM 0.33.0 `utils/argparse_utils.py` FlexibleArgumentParser (dotted names,
dashes and underscores), `entrypoints/cli/serve.py`,
`entrypoints/cli/benchmark/`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from planner.engine.arguments import ARGUMENTS, Argument
from planner.engine.flags import flags
from planner.engine.server import (
    SERVER_FLAGS,
    ServerFlag,
    flag_named,
    turns_off,
)
from planner.models.catalogue import find
from planner.reading.flag_values import (
    ALL_NUMBERS,
    SWITCHES,
    is_joined,
    is_switch,
    table_of_pairs,
    typed,
)
from planner.reading.passage import Edit, Span
from planner.reading.scripts.shell import Word
from planner.reading.scripts.variables import Made
from planner.reading.sign_table import signs
from planner.reading.sites import Site, Start, WordList
from planner.values import frozen

_FLAG = re.compile(r"--?[A-Za-z]")
_SENTENCE = re.compile(
    r"(?<=\w)(?:[,;:.!?)]+\Z|[\u3001\u3002\uff01-\uff1f].*\Z)", re.DOTALL
)
"""What ends a number where a command stands in a sentence."""
_WITH_LEVEL = re.compile(r"-O(?P<level>[0-3])\Z")
_PROGRAMS: Mapping[tuple[str, ...], str] = {
    ("serve",): "serve",
    ("bench", "throughput"): "llm",
    ("bench", "latency"): "llm",
    ("bench", "startup"): "llm",
    ("run-batch",): "serve",
}
"""What follows `vllm`, with the entry point that the program uses."""
_READ_BY = {"bench": "the benchmark", "run-batch": "run-batch"}
"""Programs that have flags of their own, and no model without a flag."""
_SCRIPTS = re.compile(r"benchmark_(?:throughput|latency|prefix_caching)\.py\Z")


@frozen
class Program:
    """A program that starts vLLM: where its own words begin, and how."""

    first: int
    """Index of its first argument."""
    entrypoint: str = "serve"
    of: str = ""
    """What has arguments of its own beside vLLM's: a benchmark."""
    own: frozenset[str] | None = None
    """Its own arguments by name; None: all that vLLM lacks."""
    takes_model: bool = True
    """Whether its first word without a flag is the model."""


_MODULE = Program(first=0, takes_model=False)
_MODULES: Mapping[str, Program] = {
    "vllm.entrypoints.openai.api_server": _MODULE,
    "vllm.entrypoints.api_server": _MODULE,
    "trl.scripts.vllm_serve": _MODULE,
    "dynamo.vllm": replace(
        _MODULE, of="Dynamo", own=frozenset(signs("arguments of Dynamo"))
    ),
}


_SAID = re.compile(r"[a-z]{1,12}(?: [a-z]{1,12}){2}")
"""A sentence goes on: "vllm serve keeps dying on my 3090"."""


def program_in(words: Sequence[str]) -> Program | None:
    """Return the program of vLLM that a command runs; None where it runs none.

    Whatever stands before it (`nohup`, `uv run`, `numactl ...`) is passed over.

    >>> program_in(["nohup", "vllm", "serve", "org/m"]).first
    3
    """
    for at, word in enumerate(words):
        name = word.rsplit("/", 1)[-1]
        if name in ("vllm", "vllm.exe"):
            for names, entrypoint in _PROGRAMS.items():
                end = at + 1 + len(names)
                is_said = _SAID.fullmatch(" ".join(words[end : end + 3])) is not None
                if tuple(words[at + 1 : end]) == names and not is_said:
                    of = _READ_BY.get(names[0], "")
                    return Program(
                        first=end, entrypoint=entrypoint, of=of, takes_model=not of
                    )
        if name in _MODULES and at and words[at - 1] == "-m":
            return replace(_MODULES[name], first=at + 1)
        if name == "vllm-serve" and at and words[at - 1] in ("trl", "axolotl"):
            return Program(first=at + 1, takes_model=False)
        if _SCRIPTS.search(name):
            return Program(
                first=at + 1, entrypoint="llm", of="the benchmark", takes_model=False
            )
    return None


def start_of(found: WordList, program: Program, env: Mapping[str, Site]) -> Start:
    """Return the start that a command's words describe."""
    reader = _Reader(found, program)
    sites, own = _own(tuple(reader.sites()), program)
    return Start(
        sites=sites,
        add=partial(_add, found, len(found.words) - 1),
        entrypoint=program.entrypoint,
        env=env,
        notes=(*reader.notes, *own),
        open=tuple(
            f"What {word.value[:80]} adds is not told by the text."
            for word in reader.open
        ),
        open_at=_at(reader.open),
    )


def _own(
    sites: tuple[Site, ...], program: Program
) -> tuple[tuple[Site, ...], list[str]]:
    """Split off the arguments that another program reads, each as a note."""
    if not program.of:
        return sites, []
    names = {*ARGUMENTS, *SERVER_FLAGS, "model"}

    def is_its_own(site: Site) -> bool:
        own = program.own
        name = site.name.removeprefix("no_")
        return site.name not in names if own is None else name in own

    others = [site.written for site in sites if is_its_own(site)]
    known = tuple(site for site in sites if not is_its_own(site))
    return known, [f"{written} is read by {program.of} itself." for written in others]


def env_sites(assigned: Mapping[str, Word]) -> Mapping[str, Site]:
    """Return variables that are set before a command."""
    return Made(assigned, env_site)


def env_site(name: str, word: Word) -> Site:
    """Return a variable where its value is written."""
    return Site(
        name=name,
        value=None if word.variables else word.value,
        replace=lambda value: [word.replaced(str(value))],
        remove=list,
        variables=word.variables,
        written=name,
        at=word.at,
    )


def _add(found: WordList, after: int, name: str, value: object) -> list[Edit]:
    words = [str(value)] if name == "model" else flag_words(name, value)
    return found.insert(after, words)


def flag_words(name: str, value: object) -> list[str]:
    """Return a flag of the engine or the server with its value, as words."""
    return flags({name: value})


class _Reader:
    """Reads a program's words from its first argument to its last."""

    def __init__(self, found: WordList, program: Program) -> None:
        self.found = found
        self.words = list(found.words)
        self.at = program.first
        self.takes_model = program.takes_model
        self.is_named = any(re.match(r"--model(?:=|$)", w.value) for w in self.words)
        self.notes: list[str] = []
        self.open: list[Word] = []
        self.strays: list[str] = []

    def sites(self) -> Iterator[Site]:
        """Yield the arguments in order."""
        while self.at < len(self.words):
            word = self.words[self.at]
            if word.value == "--":
                self.at += 1
            elif _FLAG.match(word.value):
                self._leave_strays()
                yield self._flag(word)
            else:
                yield from self._without_flag(word)
        self._leave_strays()
        self.found = replace(self.found, words=tuple(self.words))

    def _without_flag(self, word: Word) -> Iterator[Site]:
        at = self.at
        self.at += 1
        if not word.value:  # a variable that is empty is no word
            return
        if self.takes_model and not (word.variables and self.is_named):
            self.takes_model = False
            own = self._words(at, "model", written="the model", is_bare=True)
            yield own.site(word.value, (word,))
        elif word.variables:
            self.open.append(word)
        else:
            self.strays.append(word.value)

    def _leave_strays(self) -> None:
        """Note the words before here that belong to no flag."""
        words, self.strays = " ".join(self.strays)[:80], []
        if words:
            self.notes.append(f"{words!r} belongs to no flag: vLLM would refuse it.")

    def _flag(self, word: Word) -> Site:
        at = self.at
        written, equals, _joined = word.value.partition("=")
        self.at += 1
        level = _WITH_LEVEL.match(word.value)
        if level is not None:
            own = self._words(at, "optimization_level")
            return own.site(int(level["level"]), (word,))
        name, path, known, is_off = _named(written)
        if equals:
            values: tuple[Word, ...] = (word.part(len(written) + 1),)
        else:
            values = self._values(known, has_path=bool(path))
        self.at = at + 1 + (0 if equals else len(values))
        places = (None,) if equals else range(at + 1, self.at)
        values = tuple(
            self._plain(known, word, at)
            for at, word in zip(places, values, strict=True)
        )
        texts = [one.value for one in values]
        value = typed(known, texts, path=path, is_off=is_off)
        pairs = table_of_pairs(known, texts)
        if pairs is not None:
            value = pairs
            self.notes.append(
                f"{texts[0]!r} is a form that vLLM refuses since 0.10: write "
                f"{json.dumps(pairs)!r}."
            )
        return self._words(at, name, path=path, written=written).site(value, values)

    def _words(self, first: int, name: str, **more: Any) -> _Words:  # noqa: ANN401
        """Return the words of an argument, up to the next one's."""
        return _Words(reader=self, first=first, last=self.at, name=name, **more)

    def _values(
        self, known: Argument | ServerFlag | None, *, has_path: bool
    ) -> tuple[Word, ...]:
        """Return the words after a flag that are its value."""
        most = _most_values(known, has_path=has_path)
        taken: list[Word] = []
        for at in range(self.at, len(self.words)):
            word = self.words[at]
            is_value = not _FLAG.match(word.value) and len(taken) < most
            is_rest = bool(taken) and word.value in word.variables
            is_switched = is_switch(known) and word.value.lower() not in SWITCHES
            if not is_value or is_rest or is_switched:
                break
            taken.append(word)
        return tuple(taken)

    def _plain(
        self, known: Argument | ServerFlag | None, word: Word, at: int | None
    ) -> Word:
        """Return a number without what ends its sentence, and put it in its place."""
        end = _SENTENCE.search(word.value)
        is_number = isinstance(known, Argument) and known.kind in ALL_NUMBERS
        if end is None or not is_number or word.variables:
            return word
        found = word.part(0, end.start())
        self.notes.append(f"{word.value!r} is read as {found.value}.")
        if at is not None:
            self.words[at] = found
        return found


@frozen
class _Words:
    """The words of one argument among those that a reader reads."""

    reader: _Reader
    first: int
    last: int
    name: str
    path: tuple[str, ...] = ()
    written: str = ""
    is_bare: bool = False

    def site(self, value: object, values: Sequence[Word]) -> Site:
        """Return the argument where it is written."""
        own = self.reader.words[self.first : self.last]
        variables = tuple(name for word in values for name in word.variables)
        if self.name == "model" and _is_below_variable(str(value)):
            variables = ()
        return Site(
            name=self.name,
            value=None if variables else value,
            replace=self._replace,
            remove=self._remove,
            path=self.path,
            variables=variables,
            written=self.written or own[0].value,
            is_appended=self.written.endswith("+"),
            at=_at((*own, *values)),
        )

    def _remove(self) -> list[Edit]:
        return self.reader.found.remove(self.first, self.last)

    def _written(self, texts: Sequence[str]) -> list[Edit]:
        return self.reader.found.replace(self.first, self.last, texts)

    def _replace(self, value: object) -> list[Edit]:
        if self.is_bare:
            return self._written([str(value)])
        if self.name == "model":
            texts = [str(value)]
        elif self.path:
            texts = [value if isinstance(value, str) else json.dumps(value)]
        else:
            new_flag, *texts = flag_words(self.name, value) or [""]
            is_off = any(one.startswith("--no-") for one in (new_flag, self.written))
            if not new_flag:
                return self._remove()
            if "=" in new_flag and not texts:
                new_flag, _, joined = new_flag.partition("=")
                texts = [joined]
            if is_off and not texts:
                return self._written([new_flag])
        head = self.reader.words[self.first]
        if "=" in head.value and len(texts) == 1:
            return [head.part(len(self.written) + 1).replaced(texts[0])]
        return self._written([self.written, *texts])


def _named(
    written: str,
) -> tuple[str, tuple[str, ...], Argument | ServerFlag | None, bool]:
    """Return a flag's name, its path inside a table, its entry, and whether off."""
    flag, *path = written.removesuffix("+").split(".")
    found = flag_named(flag)
    if found is None:
        return flag.lstrip("-").replace("-", "_"), tuple(path), None, False
    name, entry = found
    if path and name == "optimization_level":  # -O.mode is an older form of -cc.mode
        name, entry = "compilation_config", ARGUMENTS["compilation_config"]
    return name, tuple(part.replace("-", "_") for part in path), entry, turns_off(flag)


def _is_below_variable(written: str) -> bool:
    """Return whether only the folder above a known model's is in a variable.

    >>> _is_below_variable("$HOME/models/Qwen3-8B"), _is_below_variable("$HOME/models")
    (True, False)
    """
    above, _, name = written.rpartition("/")
    return above[:1] in ("$", "/") and "$" not in name and find(name) is not None


def _at(words: Iterable[Word]) -> tuple[Span, ...]:
    """Return the characters that words come from, in order."""
    return tuple(sorted({span for word in words for span in word.at}))


def _most_values(known: Argument | ServerFlag | None, *, has_path: bool) -> int:
    if known is None or has_path or not known.is_list or is_joined(known):
        return 1
    return 1_000_000
