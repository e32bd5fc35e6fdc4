"""The difference of two releases, as Markdown: what came, went and changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from tools.release import answers
from tools.release.record import Record
from tools.release.sources import NAMES, VALUES
from tools.release.symbols import Citation, Sources

_WIDEST = 160
_BY_HAND = (
    "For each architecture that came: a reader or a style "
    "([Adding a model](adding-a-model.md)), or a recording.",
    "For each argument that came: its group, text, hint and effect on memory in "
    "`planner/data/arguments.json`.",
    "For each KV cache dtype and quantisation method that came: its bytes, or a "
    "refusal by name.",
    "For each default that changed: the rule, with a `Change` and its source.",
    "For each symbol that is gone or has another body: read it; where the rule "
    "changed, give it a `Change`.",
    "For each sentence that is gone: the new words, beside the old ones.",
    "For each case that changed, or that the planner answers otherwise: the rule "
    "behind it.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was compared, and with which sources."""

    before: Record
    after: Record
    cited: list[Citation]
    old: Sources | None = None
    new: Sources
    files: list[str] = field(default_factory=list)
    """The planner's files that the release changed."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each step took."""


def report(found: Findings) -> str:
    """Write the whole report."""
    parts = [
        f"# vLLM {found.after.release}, compared with {found.before.release}",
        "What is listed here was found by `make release`; "
        "docs/adding-a-release.md says what to do with it.",
        *_names(found),
        *_values(found),
        *_symbols(found),
        *_sentences(found),
        *_answers(found),
        _section("Data files that were written", found.files),
        _section("By hand", _BY_HAND),
        _times(found.seconds),
    ]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _section(title: str, lines: Iterable[str]) -> str:
    listed = list(lines)
    count = f" ({len(listed)})" if listed else ""
    body = "\n".join(f"- {line}" for line in listed) or "None."
    return f"## {title}{count}\n\n{body}"


def _names(found: Findings) -> Iterator[str]:
    for kind, title in NAMES.items():
        old, new = found.before.names[kind], found.after.names[kind]
        came = [f"came: {_code(name)}" for name in new if name not in old]
        went = [f"went: {_code(name)}" for name in old if name not in new]
        yield _section(title, [*came, *went])


def _values(found: Findings) -> Iterator[str]:
    for kind, title in VALUES.items():
        old, new = found.before.values[kind], found.after.values[kind]
        came = [f"came: {_code(n)} = {_code(new[n])}" for n in new if n not in old]
        went = [f"went: {_code(n)}, was {_code(old[n])}" for n in old if n not in new]
        changed = [
            f"changed: {_code(name)} {_code(old[name])} becomes {_code(new[name])}"
            for name in new
            if name in old and old[name] != new[name]
        ]
        yield _section(title, [*changed, *came, *went])


def symbol_changes(found: Findings) -> Iterator[tuple[str, str]]:
    """Yield cited symbols that are gone, have moved, or have another body."""
    old, new = found.before.symbols, found.after.symbols
    for name, digest in old.items():
        if name not in new:
            yield name, _where(found.new, name, digest)
        elif new[name] != digest:
            yield name, "another body"


def _where(new: Sources, name: str, digest: str) -> str:
    """Say where a symbol is that is not in its file any more."""
    file, _, symbol = name.partition("::")
    places = list(new.moved(file, symbol)) if symbol else _files_called(new, file)
    for place in places:
        if new.digest(*place) == digest:
            return f"now in `{place[0]}`, with the same body"
    if places:
        return f"gone; `{places[0][0]}` has one of that name"
    return "gone"


def _files_called(new: Sources, file: str) -> list[tuple[str, str]]:
    name = PurePath(file).name
    return [(one, "") for one in new.files if PurePath(one).name == name]


def _symbols(found: Findings) -> Iterator[str]:
    rules = _rules(found)
    lines = [
        f"`{name}`: {what}. Rests on it: {', '.join(rules.get(name, ['?']))}"
        for name, what in symbol_changes(found)
    ]
    gone = [line for line in lines if ": another body." not in line]
    total = f"of {len(found.before.symbols):,} cited"
    yield _section(f"Cited symbols that are gone or moved, {total}", gone)
    rest = [line for line in lines if ": another body." in line]
    yield _section(f"Cited symbols with another body, {total}", rest)


def _rules(found: Findings) -> dict[str, list[str]]:
    """Return the planner's rules that rest on each symbol."""
    rules: dict[str, list[str]] = {}
    for one in found.cited:
        for name in _names_of(found, one):
            listed = rules.setdefault(name, [])
            if f"`{one.rule}`" not in listed:
                listed.append(f"`{one.rule}`")
    return rules


def _names_of(found: Findings, one: Citation) -> Iterator[str]:
    """Yield what a citation is called in the records."""
    for read in (found.old, found.new):
        place = read.find(one) if read is not None else None
        if place is not None:
            yield f"{place[0]}::{place[1]}"
    if found.old is None:
        path, last = one.path.removeprefix("vllm/"), one.symbol.rpartition(".")[2]
        for name in found.before.symbols:
            file, _, symbol = name.partition("::")
            is_file = f"/{file}".endswith(f"/{path}") if path else bool(last)
            if is_file and symbol.rpartition(".")[2] == last:
                yield name


def _sentences(found: Findings) -> Iterator[str]:
    gone = [one for one in found.before.sentences if one not in found.after.sentences]
    lines = (_code(one) for one in gone)
    yield _section("Sentences of vLLM's that it no longer writes", lines)


def _answers(found: Findings) -> Iterator[str]:
    before, after = found.before.answers, found.after.answers
    asked = len(after)
    both = {*map(answers.key, before)} & {*map(answers.key, after)}
    changed = answers.changed(before, after)
    yield _section(
        f"Cases answered otherwise than by {found.before.release}, of {len(both)}",
        (f"{name}: {what}" for name, what in changed),
    )
    yield _section(
        f"Cases that the planner answers otherwise, of {asked}",
        (
            f"{name}: {what}"
            for name, what in answers.differing(after, found.after.release)
        ),
    )


def _times(seconds: Mapping[str, float]) -> str:
    if not seconds:
        return ""
    lines = (f"{step}: {value:,.0f} s" for step, value in seconds.items())
    return _section("How long it took", lines)


def _code(text: str) -> str:
    short = text if len(text) <= _WIDEST else f"{text[:_WIDEST]} ..."
    return f"`{' '.join(short.split())}`"
