"""Starts of vLLM in Python code, read as syntax and never run.

Source: vLLM 0.33.0 `entrypoints/llm.py` LLM, `engine/arg_utils.py` EngineArgs; Ray 2.56
`ray.serve.llm` LLMConfig, `ray.data.llm` vLLMEngineProcessorConfig.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

from planner.reading.code_parts import (
    by_hand,
    joined,
    later_flags,
    terms_of,
    why_by_hand,
)
from planner.reading.container import (
    FoundStart,
    gpu_named_in,
    starts_in,
    starts_in_words,
)
from planner.reading.passage import Edit, Passage, columns, line_starts
from planner.reading.reading import Kind
from planner.reading.shell import Word, commands_of
from planner.reading.sites import Site, Start, WordList

_CALLED = re.compile(
    r"\b(?:LLM|AsyncLLM|EngineArgs|AsyncEngineArgs|LLMConfig|vLLMEngineProcessorConfig"
    r"|VLLMEngineProcessorConfig|vLLMEngineConfig)\s*\(|[\"']vllm(?:[\"']| serve)"
)
_ENTRYPOINTS: Mapping[str, str] = {
    "LLM": "llm",
    "EngineArgs": "engine",
    "AsyncEngineArgs": "engine",
    "LLMConfig": "serve",
    "vLLMEngineProcessorConfig": "engine",
    "VLLMEngineProcessorConfig": "engine",
    "vLLMEngineConfig": "engine",
}
_OF_RAY = ("LLMConfig", "vLLMEngineProcessorConfig", "VLLMEngineProcessorConfig")
_FIRST = ("model", "runner", "convert")
"""Arguments of `LLM` and `EngineArgs` that may come without a name."""
_MAGIC = re.compile(r"^[ \t]*[%!].*$", re.MULTILINE)
_SERVES = re.compile(r"\bvllm\s+serve\s")
_READ = (ast.Call, ast.List, ast.Constant, ast.BinOp)
"""What a start can be written as."""
_Place: TypeAlias = "tuple[int, int]"


def starts_in_code(page: Passage, text: str) -> Iterator[FoundStart]:
    """Yield the starts of vLLM in Python code, in order.

    Args:
        page: the code.
        text: the whole text that it stands in.
    """
    if not _CALLED.search(page.text):
        return
    # Lines of a notebook that are no Python stay in their places as blanks.
    plain = _MAGIC.sub(lambda match: " " * len(match[0]), page.text)
    try:
        tree = ast.parse(plain)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from _Code(page, text, tree).starts()


class _Code:
    """One piece of code: its tree, its constants and the places in it."""

    def __init__(self, page: Passage, whole: str, tree: ast.Module) -> None:
        self.page = page
        self.text = page.text
        self.whole = whole
        self.lines = line_starts(page.text)
        self.columns: dict[int, list[int]] = {}
        nodes = list(ast.walk(tree))
        self.names = _assigned(nodes)
        self.nodes = [node for node in nodes if isinstance(node, _READ)]
        self.later = dict(later_flags(nodes))
        self.parts: dict[ast.expr, bool] = {}
        """Parts of sums, and whether the sum is read in their place."""
        self.env = dict(self._environment(nodes))

    def starts(self) -> Iterator[FoundStart]:
        """Yield the starts in the order of the text."""
        for node in sorted(self.nodes, key=lambda one: (one.lineno, one.col_offset)):
            if isinstance(node, ast.Call):
                yield from self._call(node)
            elif isinstance(node, ast.List):
                yield from self._words(node)
            elif isinstance(node, ast.BinOp):
                yield from self._sum(node)
            elif not self.parts.get(node):
                yield from self._shell(node, self._literal(node))

    def _call(self, node: ast.Call) -> Iterator[FoundStart]:
        name = _name_of(node.func)
        if name not in _ENTRYPOINTS:
            return
        is_ray = name in _OF_RAY
        sites, gpu = self._of_ray(node) if is_ray else (self._arguments(node), None)
        inner = self._inner(node) if is_ray else node
        yield FoundStart(
            kind=Kind.RAY if is_ray else Kind.PYTHON,
            start=Start(
                sites=tuple(sites),
                add=partial(self._add, inner),
                entrypoint=_ENTRYPOINTS[name],
                env=self.env,
                gpu=gpu,
            ),
        )

    def _environment(self, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, Site]]:
        """Yield variables that the code sets: `os.environ["VLLM_X"] = "1"`."""
        for node in (one for one in nodes if isinstance(one, ast.Assign)):
            target = node.targets[0]
            is_set = isinstance(target, ast.Subscript) and "environ" in ast.dump(
                target.value
            )
            name = target.slice if isinstance(target, ast.Subscript) else None
            if is_set and isinstance(name, ast.Constant):
                site = self._site(str(name.value), node.value, self._span(node.value))
                yield str(name.value), site

    def _arguments(self, node: ast.Call) -> Iterator[Site]:
        for name, value in zip(_FIRST, node.args, strict=False):
            if not isinstance(value, ast.Starred):
                yield self._site(name, value, self._span(value))
        yield from self._entries(node)

    def _entries(self, node: ast.expr) -> Iterator[Site]:
        """Yield the named entries of a call or of a table, of `**tables` too."""
        for name, value, place in self._pairs(node):
            if name is not None:
                yield self._site(name, value, place)
            else:
                table = self._resolved(value)
                if table is not value or isinstance(value, ast.Dict | ast.Call):
                    yield from self._entries(table)

    def _pairs(self, node: ast.expr) -> Iterator[tuple[str | None, ast.expr, _Place]]:
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                start = self._at(keyword.lineno, keyword.col_offset)
                yield keyword.arg, keyword.value, (start, self._span(keyword.value)[1])
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    yield None, value, self._span(value)
                elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value, (self._span(key)[0], self._span(value)[1])

    def _of_ray(self, node: ast.Call) -> tuple[list[Site], Any]:
        """Return the arguments of a configuration of Ray, and its GPU."""
        given = {name: value for name, value, _ in self._pairs(node) if name}
        sites = []
        if "model_loading_config" in given:
            loading = self._resolved(given["model_loading_config"])
            named = {name: value for name, value, _ in self._pairs(loading) if name}
            model = named.get("model_source", named.get("model_id"))
            if model is not None:
                sites.append(self._site("model", model, self._span(model)))
        for key in ("model_source", "model"):
            if key in given:
                sites.append(self._site("model", given[key], self._span(given[key])))
        if "engine_kwargs" in given:
            sites += self._entries(self._resolved(given["engine_kwargs"]))
        label = given.get("accelerator_type")
        named_gpu = None if label is None else self._value(label)[0]
        gpu = gpu_named_in(named_gpu) if isinstance(named_gpu, str) else None
        return sites, gpu

    def _inner(self, node: ast.Call) -> ast.expr:
        given = {name: value for name, value, _ in self._pairs(node) if name}
        return self._resolved(given.get("engine_kwargs", node))

    def _site(self, name: str, node: ast.expr, place: _Place) -> Site:
        value, variables = self._value(node)
        return Site(
            name=name,
            value=None if variables else value,
            replace=partial(self._replaced, self._span(node)),
            remove=partial(self._removed, place),
            variables=variables,
            written=name,
        )

    def _resolved(self, node: ast.expr) -> ast.expr:
        found = self.names.get(node.id) if isinstance(node, ast.Name) else None
        if found is None:
            return node
        start, end = self._span(found)
        self.page.expansion.add(end - start)
        return found

    def _value(self, node: ast.expr) -> tuple[Any, tuple[str, ...]]:
        """Return a value, and the source of what is not a constant."""
        found = self._resolved(node)
        try:
            constant = ast.literal_eval(found)
            json.dumps(constant)  # no argument is a set, bytes or complex
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            pass
        else:
            return constant, ()
        if isinstance(found, ast.Call) and _name_of(found.func) == "dict":
            pairs = [(name, *self._value(v)) for name, v, _ in self._pairs(found)]
            if all(name and not variables for name, _, variables in pairs):
                return {name: value for name, value, _ in pairs}, ()
        start, end = self._span(node)
        return None, (self.text[start:end][:80],)

    def _words(self, node: ast.List) -> Iterator[FoundStart]:
        """Yield the start of a command in a list of words."""
        first = [self._word(item) for item in node.elts[:2]]
        if "vllm" not in [word.value.rsplit("/", 1)[-1] for word in first if word]:
            return
        texts = [self._word(item) for item in node.elts]
        words = [word for word in texts if word is not None]
        if len(words) != len(texts):
            return
        for found in _in_list(words, self.whole):
            yield replace(found, start=by_hand(found.start, self._why_later))

    def _why_later(self, name: str) -> str:
        """Say why an argument of a list is changed by hand: the list grows by it."""
        later = self.later.get(name)
        return "" if later is None else self._why(later)

    def _why(self, node: ast.expr) -> str:
        return why_by_hand(self.whole, self.page.places[self._span(node)[0]])

    def _word(self, node: ast.expr) -> Word | None:
        value, variables = self._value(node)
        start, end = self._span(node)
        if isinstance(node, ast.Starred):
            return None
        text = self.text[start:end] if variables else str(value)
        inner = self._literal(node)
        whole = self.page.part(start, end)
        return Word(
            passage=inner or whole.inside(text, [0] * (len(text) + 1), str),
            start=whole.places[0],
            end=whole.places[-1],
            write=lambda value: self.page.encode(repr(value)),
            variables=variables,
        )

    def _sum(self, node: ast.BinOp) -> Iterator[FoundStart]:
        """Yield the starts in a command that is put together with `+`."""
        if node in self.parts:
            return
        sums, terms = terms_of(node)
        strings = [self._literal(term) for term in terms]
        parts = [
            self.text[slice(*self._span(term))] if string is None else string
            for term, string in zip(terms, strings, strict=True)
        ]
        passage = joined(parts) if isinstance(node.op, ast.Add) else None
        self.parts |= dict.fromkeys((*sums, *terms), passage is not None)
        yield from self._shell(node, passage)

    def _shell(self, node: ast.expr, passage: Passage | None) -> Iterator[FoundStart]:
        """Yield the starts in a command that is a string."""
        if passage is None or not _SERVES.search(passage.text):
            return
        is_part = self.parts.get(node) is False
        for found in starts_in(commands_of(passage), self.whole):
            start = found.start
            if is_part:
                start = by_hand(start, lambda _name: self._why(node))
            yield FoundStart(kind=Kind.PYTHON, start=start)

    def _literal(self, node: ast.expr) -> Passage | None:
        """Return what a string without escapes contains; None for all else."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return None
        start, end = self._span(node)
        match = re.fullmatch(
            r"(?P<open>[rR]?(?P<quote>\"\"\"|'''|\"|'))(?P<text>.*)(?P=quote)",
            self.text[start:end],
            re.DOTALL,
        )
        if match is None or match["text"] != node.value:
            return None
        inner = self.page.part(start + match.start("text"), start + match.end("text"))
        quote = match["quote"]
        encode = self.page.encode
        return replace(
            inner, encode=lambda new: encode(new.replace(quote, "\\" + quote))
        )

    def _replaced(self, place: _Place, value: object) -> list[Edit]:
        return [self.page.edit(*place, _written(value))]

    def _removed(self, place: _Place) -> list[Edit]:
        """Return the edit that takes an entry out, with its comma and its line."""
        start, end = place
        after = re.compile(r"[ \t]*,").match(self.text, end)
        if after is None:
            before = re.search(r",\s*\Z", self.text[:start])
            return [
                self.page.edit(start if before is None else before.start(), end, "")
            ]
        blank = re.search(r"\n[ \t]*\Z", self.text[:start])
        line = re.compile(r"[ \t]*(?:#[^\n]*)?(?=\n)").match(self.text, after.end())
        if blank is not None and line is not None:
            return [self.page.edit(blank.start(), line.end(), "")]
        space = re.compile(r"[ \t]*").match(self.text, after.end())
        return [
            self.page.edit(start, after.end() if space is None else space.end(), "")
        ]

    def _add(self, node: ast.expr, name: str, value: object) -> list[Edit]:
        """Return the edit that adds an entry after the last one."""
        places = [place for _, _, place in self._pairs(node)]
        if isinstance(node, ast.Call):
            places += [self._span(value) for value in node.args]
        is_table = isinstance(node, ast.Dict)
        entry = (
            f"{name!r}: {_written(value)}" if is_table else f"{name}={_written(value)}"
        )
        if not places:
            end = self._span(node)[1] - 1
            return [self.page.edit(end, end, entry)]
        start, end = max(places, key=lambda place: place[1])
        indent = re.search(r"\n[ \t]*\Z", self.text[:start])
        gap = " " if indent is None else indent[0]
        return [self.page.edit(end, end, f",{gap}{entry}")]

    def _span(self, node: ast.expr) -> _Place:
        end_line = node.end_lineno or node.lineno
        end_column = node.end_col_offset or node.col_offset
        return self._at(node.lineno, node.col_offset), self._at(end_line, end_column)

    def _at(self, line: int, column: int) -> int:
        """Return the place of a column, which Python counts in bytes of UTF-8."""
        start = self.lines[line - 1]
        if self.text.isascii():
            return start + column
        if line not in self.columns:
            end = self.lines[line] if line < len(self.lines) else len(self.text)
            self.columns[line] = list(columns(self.text[start:end]))
        places = self.columns[line]
        return start + places[min(column, len(places) - 1)]


def _in_list(words: Sequence[Word], text: str) -> Iterator[FoundStart]:
    ends = [words[0].start, *(word.end for word in words)]
    spans = [(words[0].start, words[1].start), *pairwise(ends[1:])]
    gaps = [text[before.end : word.start] for before, word in pairwise(words)]
    found = WordList(
        words=tuple(words),
        spans=tuple(spans),
        before_flag=next((gap for gap in reversed(gaps) if "\n" in gap), ", "),
        before_value=", ",
    )
    for one in starts_in_words(found, text, {}):
        yield replace(one, kind=Kind.PYTHON)


def _assigned(nodes: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """Return names that are assigned once, with what they stand for."""
    found: dict[str, ast.expr] = {}
    twice: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target, value = node.target, node.value
        else:
            continue
        if isinstance(target, ast.Name):
            if target.id in found:
                twice.add(target.id)
            found[target.id] = value
    return {name: value for name, value in found.items() if name not in twice}


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _written(value: object) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)
