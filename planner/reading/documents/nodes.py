"""Values of a document that know their places in the text.

Nothing is constructed from a document: scalars stay texts, and an anchor's content is
the same node wherever an alias names it.

Source: YAML 1.1 (yaml.org/spec/1.1), as PyYAML and Go's YAML library read it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from planner.errors import PlannerError
from planner.reading.passage import Passage
from planner.values import frozen

MOST_NODES = 20_000
DEEPEST = 40
_LONGEST_NUMBER = 40
_SWITCH = re.compile(r"(?:(yes|true|on)|(?:no|false|off))\Z", re.IGNORECASE)
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)\Z")
_OCTAL = re.compile(r"[-+]?0[0-7_]+\Z")
_NUMBER = re.compile(r"(?:[-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]\d+)?\Z")
_NOTHING = ("", "~", "null", "Null", "NULL")


@frozen(eq=False)
class Node:
    """A value of a document: a scalar, a list or a table."""

    kind: str
    """"scalar", "sequence" or "mapping"."""
    page: Passage
    """The text that the node is in."""
    start: int
    end: int
    """Its place in the page, without anchor and tag."""
    at: tuple[int, int]
    """Where it stands in its parent: the alias where there is one."""
    style: str = ""
    """Its quote or | or >; of lists and tables "flow" or ""; "json" in JSON."""
    text: str = ""
    """A scalar as its reader sees it."""
    items: tuple[Node, ...] = ()
    pairs: tuple[tuple[Node, Node], ...] = ()
    size: int = 1
    """Its characters and nodes, with what aliases put in."""

    @classmethod
    def of(cls, page: Passage, kind: str, start: int, end: int, **rest: Any) -> Node:  # noqa: ANN401
        """Return a value between two places."""
        size = end - start
        return cls(
            kind=kind,
            page=page,
            start=start,
            end=end,
            at=(start, end),
            size=size,
            **rest,
        )

    @property
    def span(self) -> tuple[int, int]:
        """Its place in the whole text."""
        return self.page.places[self.start], self.page.places[self.end]

    @property
    def is_alias(self) -> bool:
        """Whether an anchor elsewhere holds its content."""
        return self.at[0] != self.start and self.page.text.startswith("*", self.at[0])

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is written here, or null."""
        return self.kind == "scalar" and not self.style and self.text in _NOTHING

    def entry(self, name: str) -> tuple[Node, Node] | None:
        """Return the key and the value of a name, own ones before merged ones."""
        found = [pair for pair in self.pairs if pair[0].text == name]
        if found:
            return found[-1]
        for key, value in self.pairs:
            if key.text == "<<" and not key.style:
                for table in value.items or (value,):
                    if any(inner.text == name for inner, _ in table.pairs):
                        return table.entry(name)
        return None

    def get(self, *names: str) -> Node | None:
        """Return the value under names, one below the other; None without one."""
        found: Node = self
        for name in names:
            pair = found.entry(name)
            if pair is None:
                return None
            found = pair[1]
        return found

    def word(self, *names: str) -> str:
        """Return the scalar under names; empty without one."""
        found = self.get(*names)
        is_text = found is not None and found.kind == "scalar" and not found.is_nothing
        return found.text if found is not None and is_text else ""

    def items_of(self, *names: str) -> tuple[Node, ...]:
        """Return the items under names; none without a list."""
        found = self.get(*names)
        return () if found is None else found.items

    @property
    def names(self) -> list[str]:
        """The names of a table."""
        return [key.text for key, _ in self.pairs]

    @property
    def value(self) -> Any:  # noqa: ANN401 - any plain value
        """The value as YAML 1.1 types it.

        Raises:
            PlannerError: for anchors that make it larger than the text can be.
        """
        return _value(self, [MOST_NODES], 0)


def _value(node: Node, left: list[int], depth: int) -> Any:  # noqa: ANN401
    left[0] -= 1
    if left[0] < 0 or depth > DEEPEST:
        raise PlannerError(
            f"Anchors make the text larger than {MOST_NODES:,} values, or deeper than "
            f"{DEEPEST} levels: write the part on vLLM out."
        )
    if node.kind == "scalar":
        return _scalar(node)
    if node.kind == "sequence":
        return [_value(item, left, depth + 1) for item in node.items]
    return {key.text: _value(inner, left, depth + 1) for key, inner in node.pairs}


def _scalar(node: Node) -> Any:  # noqa: ANN401 - any plain value
    text = node.text
    if node.style != "json":
        return resolved(text) if not node.style else text
    try:
        return json.loads(text)
    except ValueError:  # such as 00, or a number of thousands of digits
        return text


def resolved(text: str) -> Any:  # noqa: ANN401 - any plain value
    """Return what YAML 1.1 reads a plain scalar as.

    >>> resolved("8192"), resolved("on"), resolved("1e-5"), resolved("org/m")
    (8192, True, '1e-5', 'org/m')
    """
    if text in _NOTHING:
        return None
    if match := _SWITCH.match(text):
        return match[1] is not None
    number = text.replace("_", "") if len(text) < _LONGEST_NUMBER else ""
    if number and _WHOLE.match(text):
        return int(number, 0)
    if number and _OCTAL.match(text):
        return int(number, 8)
    return float(number) if number and _NUMBER.match(text) else text
