"""The reference of vLLM's engine arguments, from the planner's table of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from planner.engine.arguments import ARGUMENTS, Argument, Group, Kind
from planner.engine.releases import NEWEST, OLDEST, came_later, resolve_version

_KINDS = {
    Kind.SWITCH: "a switch, off as --no-...",
    Kind.WHOLE: "a whole number",
    Kind.COUNT: "a whole number, also as 8k (8000) or 8K (8192)",
    Kind.LENGTH: "a whole number, also as 8k (8000) or 8K (8192), or auto",
    Kind.SIZE: "bytes, also as 8k (8000), 8K (8192) or 8GiB",
    Kind.NUMBER: "a number",
    Kind.SHARE: "a number above 0 and at most 1",
    Kind.CHOICE: "one of",
    Kind.TEXT: "a text",
    Kind.TABLE: "a table of names and values, as JSON",
    Kind.NAMES: "texts",
    Kind.NUMBERS: "whole numbers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An argument as the reference has it."""

    name: str
    words: str
    """Its flag, and what stands for a value."""
    text: str
    facts: str
    """What it may be, and since when it is there: one sentence."""


def entries(group: Group) -> Iterator[Entry]:
    """Yield what the reference says of each argument of a group."""
    for argument in ARGUMENTS.values():
        if argument.group is group:
            yield Entry(
                name=argument.name,
                words=_words(argument),
                text=argument.explained,
                facts=_sentence(_facts(argument)),
            )


def _words(argument: Argument) -> str:
    if not argument.has_flag:
        return argument.name
    if argument.kind is Kind.SWITCH:
        return argument.flag
    return f"{argument.flag} {argument.metavar}{' ...' if argument.is_list else ''}"


def _facts(argument: Argument) -> Iterator[str]:
    words = ", ".join(map(str, argument.taken or argument.offered))
    if argument.only_on:
        yield "a switch"
    elif argument.kind is Kind.CHOICE:
        yield f"{_KINDS[argument.kind]} {words}"
    else:
        yield f"{_KINDS[argument.kind]}{f', such as {words}' if words else ''}"
    yield from _bounds(argument)
    if argument.default not in (None, ""):
        yield f"vLLM's default is {_written(argument.default)}"
    if argument.short:
        yield f"also written {argument.short}"
    if argument.server_only:
        yield "of the server alone"
    yield from _releases(argument)
    if argument.kept_out:
        yield f"no link sets it, as it {argument.kept_out}"
    elif argument.safe_keys:
        yield "links set only those of its keys that name no file, code or address"


def _bounds(argument: Argument) -> Iterator[str]:
    if argument.least is not None:
        yield f"from {argument.least}"
    if argument.most is not None:
        yield f"at most {argument.most:,}"


def _releases(argument: Argument) -> Iterator[str]:
    first = came_later("arguments", argument.name, resolve_version(OLDEST)[0])
    if first is not None:
        yield f"since vLLM {first}"
    if argument.gone:
        yield f"until vLLM {argument.gone}, which has it no more"


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _sentence(parts: Iterator[str]) -> str:
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


class EngineArguments(SphinxDirective):
    """`{engine-arguments}`: a section for each group, an entry for each argument."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        about = f"As vLLM {NEWEST} has them."
        return [nodes.paragraph("", about), *map(self._section, Group)]

    def _section(self, group: Group) -> nodes.section:
        section = nodes.section("", nodes.title("", str(group)), names=[str(group)])
        self.state.document.note_implicit_target(section)
        section += nodes.paragraph("", f"{group.classes[0].upper()}{group.classes[1:]}")
        section += nodes.definition_list("", *map(self._item, entries(group)))
        return section

    def _item(self, entry: Entry) -> nodes.definition_list_item:
        term = nodes.term("", "", nodes.literal(entry.words, entry.words))
        name = nodes.make_id(f"argument-{entry.name}")
        term["ids"].append(name)
        found = addnodes.index(entries=[("single", entry.name, name, "main", None)])
        said = [nodes.paragraph("", words) for words in (entry.text, entry.facts)]
        return nodes.definition_list_item("", term, nodes.definition("", found, *said))


def setup(app: Sphinx) -> dict[str, bool]:
    """Give Sphinx the directive."""
    app.add_directive("engine-arguments", EngineArguments)
    return {"parallel_read_safe": True}
