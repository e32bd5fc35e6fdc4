"""People's notes of a start: quoted figures, flags and names, in no form of their own.

Only what a note names exactly is taken: a model of the catalogue, an argument by vLLM's
name with a value of its kind, a GPU. A suggestion ("try ...", "increase ...") is not an
argument that was given.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from planner.engine.arguments import ARGUMENTS, Memory
from planner.engine.arguments import Kind as Value
from planner.engine.gpu import GPU
from planner.models.catalogue import find
from planner.reading.flag_values import ALL_NUMBERS, literal, typed
from planner.reading.questions.gpu_words import gpus_written_in, with_memory
from planner.reading.questions.named import models_in
from planner.reading.sign_table import any_of, signs

RECORD = re.compile(
    r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?\s+"
    r"\[?[\w./-]+\.py:\d+\]"
)
"""The head of a record of vLLM, of every release."""
_ARGUMENT = re.compile(r"(?<![\w-])(?:--)?[a-z]+(?:[-_][a-z0-9]+)+", re.ASCII)
_MOST_MEANINGS = 3
_LONGEST_NOTE = 6_000
_SUGGESTION = re.compile(any_of("suggestions"), re.IGNORECASE)
"""Words around an argument that was not given."""
_PIECE = re.compile(r"\s\|\s|[;\n]|\.\s(?=[A-Z])")
_GIVEN = re.compile(
    r"(?<![\w.-])(?P<dashes>--)?(?P<name>[a-z]+(?:[-_][a-z0-9]+)*)"
    r"(?:(?P<by>['\"]?\s*[=:]\s*| (?:(?:to|of|is|at) (?=\d))?)"
    r"(?!--)(?P<value>'[^']*'|\"[^\"]*\"|\{[^{}]*\}|[^\s,;|(){}'`\uff0c\u3002\uff1b]+))?",
    re.ASCII,
)
_IN_WORDS = {
    name: re.compile(pattern, re.IGNORECASE | re.ASCII)
    for name, pattern in signs("arguments in words").items()
}
"""Arguments as people call them."""
_MODEL_WORD = re.compile(r"(?<![\w./-])(?:[\w.-]+/)?[A-Za-z][\w.]*-[\w.-]*\w")
_FILE = re.compile(r"\.(?:log|txt|md|sh|py|json|ya?ml|csv)\Z")
_SIZED = re.compile(r"[A-Z].*-\d+(?:\.\d+)?B(?:-|\Z)")
"""A model's name with its number of parameters."""
_CACHED = re.compile(
    r"(?:\A|[/\\])models--(?P<owner>[\w.-]+?)--(?P<name>[\w.-]+)", re.ASCII
)
"""A model's folder in the Hub's cache."""
_OTHER = re.compile(
    r"\A\s*(?:sudo\s+)?(?:docker|podman|nerdctl|kubectl|helm)\s|^(?:apiVersion|kind|services):",
    re.MULTILINE,
)
"""What begins a command or a manifest of something else."""


def is_note(text: str) -> bool:
    """Return whether a text is short, and people's words rather than a log."""
    return len(text) < _LONGEST_NOTE and not RECORD.search(text)


def noted_arguments(text: str) -> dict[str, Any]:
    """Return the arguments that a note names, each by its first value."""
    rest = re.sub(r"non-default args: \{.*?\}(?=[\s;|]|$)", "", text)
    values: dict[str, Any] = {}
    for piece in _PIECE.split(rest):
        if _SUGGESTION.search(piece):
            continue
        for name, value, _ in given_in(piece):
            values.setdefault(name, value)
    return values


def changed_in(text: str) -> Iterator[tuple[str, Any, tuple[int, int]]]:
    """Yield both values of an argument that is to change, with their places.

    >>> [value for _, value, _ in changed_in("max-num-seqs from 256 to 64")]
    [256, 64]
    """
    for match in _changes().finditer(text):
        name = re.sub("[- ]", "_", match["name"].lower())
        for group in ("first", "second"):
            value = typed(ARGUMENTS[name], [match[group].replace(",", ".")])
            if isinstance(value, int | float):
                yield name, value, match.span(group)


@cache
def _changes() -> re.Pattern[str]:
    """Return the pattern of a number of vLLM's and the one that takes its place."""
    kinds = (*ALL_NUMBERS, Value.SHARE)
    names = [name for name, one in ARGUMENTS.items() if one.kind in kinds]
    named = "|".join(
        name.replace("_", "[-_ ]") for name in sorted(names, key=len, reverse=True)
    )
    number = r"\d{1,9}(?:[.,]\d{1,4})?[kKmM]?"
    before = any_of("before a first value")
    return re.compile(
        rf"(?<![\w-])(?:--)?(?P<name>{named})\W{{0,3}}(?:{before})?"
        rf"\s*(?P<first>{number})\s*(?:{any_of('between two values')})\s*"
        rf"(?P<second>{number})(?![\w%])",
        re.IGNORECASE,
    )


def given_in(piece: str) -> Iterator[tuple[str, Any, tuple[int, int]]]:
    """Yield the arguments that a sentence names, with values and places."""
    yield from _flags(piece)
    yield from _in_words(piece)


def _flags(piece: str) -> Iterator[tuple[str, Any, tuple[int, int]]]:
    at = 0
    while (match := _GIVEN.search(piece, at)) is not None:
        name = match["name"].replace("-", "_")
        known = ARGUMENTS.get(name)
        is_named = bool(match["dashes"]) or bool(re.search("[=:]", match["by"] or ""))
        at = match.end("name")
        if known is None or not (is_named or "_" in name or name == "dtype"):
            continue
        text = (match["value"] or "").strip("'\"").rstrip(".:?!")
        value = _table(text) or typed(known, [text] if text else [])
        if (
            match["dashes"]
            and known.kind is Value.SWITCH
            and not isinstance(value, bool)
        ):
            value = True
        if _is_of(known.kind, value, text, is_named=is_named):
            yield name, value, match.span()
            at = match.end()


def _table(text: str) -> Any:  # noqa: ANN401 - any literal
    """Return a table as Python or JSON writes it; None for other text."""
    if not text.startswith(("{", "[")):
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return literal(text)


def _is_of(kind: Value, value: object, text: str, *, is_named: bool) -> bool:
    """Return whether a value is one that an argument can have."""
    if kind is Value.SWITCH:
        return isinstance(value, bool) and (is_named or bool(text))
    if kind in (Value.WHOLE, Value.COUNT, Value.LENGTH, Value.SHARE, Value.NUMBER):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind in (Value.TEXT, Value.CHOICE, Value.SIZE):
        return bool(text) and (is_named or bool(re.fullmatch(r"\w*\d\w*", text)))
    return isinstance(value, dict | list)


def _in_words(piece: str) -> Iterator[tuple[str, Any, tuple[int, int]]]:
    for name, pattern in _IN_WORDS.items():
        for match in pattern.finditer(piece):
            value = literal(match[1] if match[1][0] != "." else "0" + match[1])
            yield name, value, match.span()


def noted_model(text: str) -> str | None:
    """Return the one model that a note names, best of the catalogue; else None."""
    words = {match[0] for match in _MODEL_WORD.finditer(text)}
    found = {known.name for word in words if (known := find(word)) is not None}
    sized = {word for word in words if _SIZED.search(word)}
    if not found and not any("/" in word for word in sized):
        known_by_words = _named_in_words(text)  # "Mistral-Small-3.2-24B"
        found = {known_by_words} if known_by_words else set()
    found = found or sized
    named = next(iter(found)) if found else _named_in_words(text)
    return None if len(found) > 1 or _FILE.search(named or "") else named


def _named_in_words(text: str) -> str | None:
    """Return the one model that a note names by words, as "Llama 3.1 8B"."""
    models = models_in(text)
    return models[0].name or None if len(models) == 1 else None


def noted_gpu(text: str) -> str | GPU | None:
    """Return the one GPU that a note names; None for several."""
    found = [
        (one.gigabytes and with_memory(one.name, one.gpu, one.gigabytes)[0]) or one.gpu
        for one in gpus_written_in(text)
        if one.gpu is not None and (one.is_counted or not one.is_bare)
    ]
    unlike = {gpu.name if isinstance(gpu, GPU) else gpu for gpu in found}
    return found[0] if len(unlike) == 1 else None


def other_engine(text: str) -> str:
    """Return the engine other than vLLM that a text starts; empty for none.

    >>> other_engine("ollama run llama3.1:70b")
    'Ollama'
    """
    engines = signs("other engines").items()
    return next((name for name, sign in engines if re.search(sign, text)), "")


def planned_model(written: str, text: str = "") -> tuple[str, tuple[str, ...]]:
    """Return the name to plan with, and what was taken for it.

    A folder of another machine is taken for the catalogue's model of its name, one of
    the Hub's cache (`models--owner--name`) for that model. So is a container's folder
    whose place on the host the text tells.
    """
    if not re.match(r"\.|/|~|[A-Za-z]:\\|[$%]", written):
        return written, ()
    shown, written = written, _on_host(written, text)
    cached = _CACHED.search(written)
    name = re.split(r"[/\\]", written.rstrip("/\\"))[-1]
    name = name if cached is None else f"{cached['owner']}/{cached['name']}"
    entry = find(name) or find(name.removeprefix("Meta-"))
    if entry is None and cached is None:
        return shown, ()
    name = name if entry is None else entry.name
    return name, (
        f"{written} is a folder of the machine that ran it: taken for {name}, which "
        "has its name.",
    )


def _on_host(path: str, text: str) -> str:
    """Return the folder of the host that is mounted at a path: `-v HOST:PATH`."""
    at = re.escape(path.rstrip("/"))
    mounted = re.search(
        rf"(?P<host>(?:\b[A-Za-z]:)?[\w./\\~${{}}-]*[\w}}]):{at}/?(?=[:\s\"',]|\Z)"
        rf"|\b(?:source|src)=(?P<source>[^,\s]+),(?:target|destination|dst)={at}/?(?!\w)",
        text,
    )
    return path if mounted is None else mounted["host"] or mounted["source"]


def is_other(text: str) -> bool:
    """Return whether a text is a command or a manifest of something else."""
    return _OTHER.search(text) is not None


@cache
def _spoken() -> Mapping[str, str]:
    """Return the arguments by what people call them, such as "tensor parallel"."""
    short = {
        name.removeprefix("enable_").removesuffix("_size"): name for name in ARGUMENTS
    }
    words = {one.replace("_", " "): name for one, name in short.items() if "_" in one}
    return {word.lower(): name for word, name in words.items()}


@cache
def _spoken_words() -> re.Pattern[str]:
    longest_first = sorted(_spoken(), key=len, reverse=True)
    return re.compile(
        rf"\b(?:{'|'.join(map(re.escape, longest_first))})", re.IGNORECASE
    )


def meanings_in(text: str) -> Iterator[str]:
    """Yield what each argument of vLLM that a text names means.

    >>> [said.partition(":")[0] for said in meanings_in("What is --max-num-seqs?")]
    ['max_num_seqs']
    """
    names = [
        match[0].removeprefix("--").replace("-", "_")
        for match in _ARGUMENT.finditer(text)
    ]
    names += [_spoken()[match[0].lower()] for match in _spoken_words().finditer(text)]
    known = [name for name in dict.fromkeys(names) if name in ARGUMENTS]
    for name in known[:_MOST_MEANINGS]:
        argument = ARGUMENTS[name]
        effect = (
            "" if argument.memory is not Memory.NONE else " It takes no GPU memory."
        )
        yield f"{name}: {argument.text}{effect}"
