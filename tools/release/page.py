"""One page for a person: what remains once the machine has read a new release.

Beside it two files: the readings with their edits, and `Change`s to fill in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tools.release import answers
from tools.release.differing import Difference
from tools.release.judging import Judged, came_and_went
from tools.release.ranking import Reading, counted
from tools.release.record import Record

BODY_MINUTES, LINE_MINUTES = 1.0, 0.2
STATEMENTS_A_MINUTE = 10
"""How long a person reads: assumed, nobody has measured it."""
_MOST_BODIES = 4
_MOST_RULES = 3
_MOST_NAMES = 12
_WIDEST = 150
_OF_DOCS = "[Adding a release](../docs/adding-a-release.md) says what to do with each."


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """What a new release leaves for a person."""

    before: Record
    after: Record
    judged: Judged
    missing: list[tuple[str, str]]
    """Names that came, each with what the planner lacks."""
    sentences: list[tuple[str, str]]
    """New sentences on memory, each with its file."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each step took."""


def minutes(one: Reading, each: float = BODY_MINUTES) -> float:
    """Return about how long a reading takes, whose bodies take so long to find."""
    return each * len(one.bodies) + one.statements / STATEMENTS_A_MINUTE


def page(found: Remaining) -> str:
    """Write the page."""
    judged = found.judged
    hours = sum(map(minutes, judged.first)) / 60
    lines = sum(minutes(one, LINE_MINUTES) for one in judged.short)
    machine = sum(found.seconds.values()) / 60
    read = len(judged.first) + len(judged.short)
    parts = [
        f"# vLLM {found.after.release}: what remains for a person",
        f"{len(judged.short)} short edits, {lines:.0f} minutes, then "
        f"{len(judged.first)} readings, about {hours:.1f} hours "
        f"({BODY_MINUTES:.0f} minute a body and {STATEMENTS_A_MINUTE} statements a "
        f"minute, assumed), after {machine:.0f} minutes of the machine. {_OF_DOCS}",
        f"Of {judged.bodies:,} bodies that differ from {found.before.release}, the "
        f"machine closed {len(judged.closed):,}. {len(judged.readings) - read:,} "
        f"readings are behind these {read}: open one where a case below differs and "
        "none of the first explains it.",
        _list("Short edits, in this order", map(_line, judged.short)),
        _table("Read, in this order", _READ, map(_row, enumerate(judged.first, 1))),
        _list("Tensors that are kept from now on", map(_kept, judged.kept)),
        _list("Lists of names near to what is cited", map(_names, judged.tables)),
        _list("Defaults of configuration", _defaults(found)),
        _list("Names that came, and what is missing", map(_lacks, found.missing)),
        _list("New sentences on memory", map(_sentence, found.sentences)),
        _list("Cases", _cases(found)),
        _list("Closed by the machine", _reasons(judged)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


_READ = (
    *("", "body", "with it", "alike", "about", "rests on it", "models", "cases"),
    "minutes",
)


def _row(numbered: tuple[int, Reading]) -> tuple[str, ...]:
    number, one = numbered
    return (
        str(number),
        f"`{one.key}`",
        *(
            _some([each.key for each in some], _MOST_BODIES)
            for some in (one.beside, one.alike)
        ),
        ", ".join(one.kinds),
        _rests(one),
        str(one.models),
        _said(one.suspicion),
        f"{minutes(one):.0f}",
    )


def _rests(one: Reading) -> str:
    rules = [rule.removeprefix("planner/") for rule in one.rules]
    return f"{one.near}: {_some(rules, _MOST_RULES)}" if rules else one.near


def _line(one: Reading) -> str:
    """Return an edit in a line: each statement that went or came."""
    edits = (
        f"{how} `{_short(each.text)}`"
        + (f" under `{_short(each.under[-1])}`" if each.under else "")
        for body in one.bodies
        for how, part in zip(("went", "came"), body.edit, strict=True)
        for each in part
    )
    alike = f" (and {len(one.alike)} alike)" if one.alike else ""
    return f"`{one.key}`{alike}: {'; '.join(edits)}. {_rests(one)}"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _WIDEST else f"{words[:_WIDEST]} ..."


def _kept(pair: tuple[str, str]) -> str:
    return f"`{pair[0]}`: `{_short(pair[1])}`"


def _said(suspicion: float | None) -> str:
    if suspicion is None:
        return "none ran it"
    return f"differ: {suspicion:.2f}" if suspicion else "none of its own"


def _some(names: list[str], most: int) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _names(one: Difference) -> str:
    came, went = came_and_went(one)
    parts = [
        f"{word} {_some(names, _MOST_NAMES)}"
        for word, names in (("came", came), ("went", went))
        if names
    ]
    return f"`{one.key}`: {'; '.join(parts) or 'another order or value'}"


def _defaults(found: Remaining) -> Iterator[str]:
    for kind, new in found.after.values.items():
        old = found.before.values.get(kind, {})
        for name, value in new.items():
            if name not in old:
                yield f"came: `{name}` = `{value[:_WIDEST]}`"
            elif old[name] != value:
                yield f"`{name}`: `{old[name][:_WIDEST]}` becomes `{value[:_WIDEST]}`"


def _lacks(pair: tuple[str, str]) -> str:
    return f"`{pair[0]}`: {pair[1]}"


def _sentence(pair: tuple[str, str]) -> str:
    return f"`{pair[0]}`: {_short(pair[1])}"


def _cases(found: Remaining) -> Iterator[str]:
    before, after = found.before.answers, found.after.answers
    for name, what in answers.changed(before, after):
        yield f"otherwise than {found.before.release}: {name}: {what}"
    for name, what in answers.differing(after, found.after.release):
        yield f"otherwise than the planner: {name}: {what}"


def _reasons(judged: Judged) -> Iterator[str]:
    for reason, count in judged.reasons.most_common():
        yield f"{count:,}: {reason}"


def _table(
    title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]
) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    if not lines:
        return ""
    head = "| " + " | ".join(columns) + " |"
    rule = "|" + " --- |" * len(columns)
    return "\n".join([f"## {title}", "", head, rule, *lines])


def _list(title: str, lines: Iterable[str]) -> str:
    listed = [f"- {line}" for line in lines]
    return "\n".join([f"## {title} ({len(listed)})", "", *listed]) if listed else ""


def edits(found: Remaining) -> str:
    """Write each reading with the statements that went and came, and what was closed.

    Comments, logging and other platforms are left out, as in the comparison.
    """
    parts = [f"# vLLM {found.after.release}: readings, and what was closed"]
    judged = found.judged
    shown = {one.key for one in (*judged.first, *judged.short)}
    parts += _edits(judged.first)
    parts += ["# Short edits", *_edits(judged.short), "# Behind these"]
    parts += _edits(one for one in judged.readings if one.key not in shown)
    parts.append("# Closed by the machine")
    parts.append("\n".join(f"- `{key}`: {why}" for key, why in judged.closed))
    return "\n\n".join(parts) + "\n"


def _edits(readings: Iterable[Reading]) -> Iterator[str]:
    for number, one in enumerate(readings, 1):
        yield f"## {number}. `{one.key}`\n\nRests on it: {', '.join(one.rules)}"
        yield from map(_diff, one.bodies)
        if one.alike:
            names = ", ".join(f"`{body.key}`" for body in one.alike)
            yield f"The same edit in {names}"


def _diff(one: Difference) -> str:
    where = f", was `{one.was}`" if one.was else ""
    lines = [
        f"{sign} {'  ' * len(each.under)}{each.text}"
        + (f"  # under {each.under[-1]}" if each.under else "")
        for sign, part in zip("-+", one.edit, strict=True)
        for each in part
    ]
    return "\n".join([f"`{one.name}` {one.how}{where}:", "", "```diff", *lines, "```"])


def stubs(found: Remaining) -> str:
    """Write a `Change` for each reading, under the module whose rule rests on it.

    For those of the short edits too that a rule of the planner's cites by name.
    """
    release = found.after.release
    number = ", ".join(release.split(".")[:2])
    modules: dict[str, list[str]] = {}
    judged = found.judged
    named = (one for one in judged.short if one.near == "named")
    for one in (*judged.first, *named):
        # The rule of a figure, before a reader or a lesson that rests on it too.
        rules = sorted(one.rules, key=lambda rule: (counted([rule]) < 1, rule))
        module = rules[0].partition("::")[0] if rules else "planner/"
        file, _, name = one.key.partition("::")
        modules.setdefault(module, []).append(
            f"_{_constant(name)} = Change(\n"
            f"    since=({number}),\n"
            f'    what="",  # {", ".join(one.kinds)}; asked by {", ".join(one.rules)}\n'
            f'    source="vLLM {release} `{file}` {name}",\n)'
        )
    parts = [
        f'"""`Change`s of vLLM {release} to fill in, each in the module above it.\n\n'
        "A place that changed no rule gets none: take its stub away.\n"
        '"""',
        *(f"# Fails: {line}" for line in _cases(found)),
        "from planner.engine.releases.change import Change",
    ]
    for module, changes in sorted(modules.items()):
        parts += [f"# {module}", *changes]
    return "\n\n".join(parts) + "\n"


def _constant(name: str) -> str:
    """Return the name of a constant for a function or class."""
    last = name.removesuffix(".__init__").rpartition(".")[2].strip("_")
    spaced = "".join(
        f"_{one}" if one.isupper() and last[place - 1 : place].islower() else one
        for place, one in enumerate(last)
    )
    return f"CHANGES_{spaced}".upper()
