"""YAML and JSON as nodes that know their places in the text.

Nothing is constructed from a document: scalars stay texts, and an anchor's content is
the same node wherever an alias names it.

Source: YAML 1.1 (yaml.org/spec/1.1), as PyYAML and Go's YAML library read it; RFC 8259.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from planner.errors import PlannerError
from planner.reading.passage import Passage
from planner.values import frozen

_MOST_NODES = 20_000
_DEEPEST = 40
_LONGEST_NUMBER = 40
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)+")
_SWITCH = re.compile(r"(?:(yes|true|on)|(?:no|false|off))\Z", re.IGNORECASE)
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)\Z")
_OCTAL = re.compile(r"[-+]?0[0-7_]+\Z")
_NUMBER = re.compile(r"(?:[-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]\d+)?\Z")
_NOTHING = ("", "~", "null", "Null", "NULL")
_JSON = re.compile(
    r'(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<plain>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?'
    r"|true|false|null)|(?P<sign>[][{}:,])"
)
_BLANK = re.compile(r"\s*")
_Opened: TypeAlias = "tuple[Any, list[Node]]"


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
        return _value(self, [_MOST_NODES], 0)


def _value(node: Node, left: list[int], depth: int) -> Any:  # noqa: ANN401
    left[0] -= 1
    if left[0] < 0 or depth > _DEEPEST:
        raise PlannerError(
            f"Anchors make the text larger than {_MOST_NODES:,} values, or deeper than "
            f"{_DEEPEST} levels: write the part on vLLM out."
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
    if len(text) < _LONGEST_NUMBER and _WHOLE.match(text):
        return int(text.replace("_", ""), 0)
    if len(text) < _LONGEST_NUMBER and _OCTAL.match(text):
        return int(text.replace("_", ""), 8)
    if len(text) < _LONGEST_NUMBER and _NUMBER.match(text):
        return float(text.replace("_", ""))
    return text


def documents(page: Passage) -> list[Node]:
    """Return the documents of a page, in JSON or YAML.

    Raises:
        PlannerError: for text that is neither, naming the line; for YAML where PyYAML
            is not installed.
    """
    if page.text.lstrip()[:1] in ("{", "["):
        try:
            return [_JsonReader(page).document()]
        except (ValueError, RecursionError):
            pass
    try:
        import yaml  # noqa: PLC0415 - an extra: JSON needs no YAML
    except ImportError:
        raise PlannerError(
            "Manifests and configurations in YAML need PyYAML: `pip install pyyaml`, "
            "or `pip install 'vllm-memory-planner[notebook]'`. JSON of the same shape "
            "is read without it."
        ) from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return list(_composed(page, yaml, yaml.parse(page.text, Loader=loader)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f"Line {mark.line + 1}: "
        raise PlannerError(
            f"{line}the text is not valid YAML: {error.problem}."
        ) from None
    except PlannerError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise PlannerError(f"The text is not valid YAML: {error}.") from None


def _composed(page: Passage, yaml: Any, events: Any) -> Iterator[Node]:  # noqa: ANN401
    """Yield each document; by a loop, since PyYAML's own composer calls itself."""
    anchors: dict[str, Node] = {}
    stack: list[_Opened] = []
    for count, event in enumerate(events):
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append((event, []))
        if count > _MOST_NODES or len(stack) > _DEEPEST:
            raise PlannerError(
                f"Line {event.start_mark.line + 1}: the text holds more than "
                f"{_MOST_NODES:,} values, or is nested deeper than {_DEEPEST} "
                "levels: give the part on vLLM."
            )
        node = _node(page, yaml, event, stack, anchors)
        if node is None:
            continue
        if getattr(event, "anchor", None) and node.kind == "scalar":
            anchors[event.anchor] = node
        if stack:
            stack[-1][1].append(node)
        else:
            yield node


def _node(
    page: Passage,
    yaml: Any,  # noqa: ANN401 - the library
    event: Any,  # noqa: ANN401 - PyYAML's
    stack: list[_Opened],
    anchors: dict[str, Node],
) -> Node | None:
    """Return the node that an event completes."""
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in anchors:
            raise PlannerError(
                f"Line {event.start_mark.line + 1}: *{event.anchor} names no anchor "
                "before it."
            )
        at = (event.start_mark.index, event.end_mark.index)
        page.expansion.add(anchors[event.anchor].size)
        return replace(anchors[event.anchor], at=at)
    if isinstance(event, yaml.ScalarEvent):
        return _scalar_node(page, event)
    if isinstance(event, yaml.CollectionEndEvent):
        opened, children = stack.pop()
        node = _collection(page, opened, children, event.end_mark.index)
        if opened.anchor:
            anchors[opened.anchor] = node
        return node
    return None


def _scalar_node(page: Passage, event: Any) -> Node:  # noqa: ANN401 - PyYAML's
    start, end = event.start_mark.index, event.end_mark.index
    properties = _PROPERTIES.match(page.text, start, end)
    begin = start if properties is None else properties.end()
    stop = end
    if event.style in ("|", ">"):  # without the blank lines after it
        stop = max(begin + 1, len(page.text[begin:end].rstrip()) + begin)
    return Node(
        kind="scalar",
        page=page,
        start=begin,
        end=end,
        at=(begin, stop),
        style=event.style or "",
        text=event.value,
        size=1 + len(event.value),
    )


def _collection(
    page: Passage,
    event: Any,  # noqa: ANN401 - PyYAML's
    children: list[Node],
    end: int,
) -> Node:
    is_mapping = type(event).__name__ == "MappingStartEvent"
    if not event.flow_style and children:
        end = children[-1].at[1]
    start = event.start_mark.index
    if children and not event.flow_style:
        start = children[0].at[0]
        if not is_mapping:
            start = max(page.text.rfind("-", 0, start), event.start_mark.index)
    pairs = tuple(zip(children[::2], children[1::2], strict=True)) if is_mapping else ()
    return Node(
        kind="mapping" if is_mapping else "sequence",
        page=page,
        start=start,
        end=end,
        at=(start, end),
        style="flow" if event.flow_style else "",
        items=() if is_mapping else tuple(children),
        pairs=pairs,
        size=1 + sum(child.size for child in children),
    )


class _JsonReader:
    """Reads JSON with the places of its values."""

    def __init__(self, page: Passage) -> None:
        self.page = page
        self.at = 0

    def document(self) -> Node:
        """Return the whole document; ValueError for anything else."""
        node = self._value(0)
        if self._blank() != len(self.page.text):
            raise ValueError
        return node

    def _blank(self) -> int:
        match = _BLANK.match(self.page.text, self.at)
        self.at = self.at if match is None else match.end()
        return self.at

    def _token(self) -> re.Match[str]:
        match = _JSON.match(self.page.text, self._blank())
        if match is None:
            raise ValueError
        self.at = match.end()
        return match

    def _value(self, depth: int) -> Node:
        match = self._token()
        if match["sign"] in ("{", "["):
            return self._collection(match.start(), depth, match["sign"])
        if match["sign"]:
            raise ValueError
        is_text = match["text"] is not None
        return self._node(
            "scalar",
            match.start(),
            style='"' if is_text else "json",
            text=json.loads(match[0], strict=False) if is_text else match[0],
        )

    def _node(self, kind: str, start: int, **rest: Any) -> Node:  # noqa: ANN401
        return Node(
            kind=kind,
            page=self.page,
            start=start,
            end=self.at,
            at=(start, self.at),
            size=self.at - start,
            **rest,
        )

    def _collection(self, start: int, depth: int, sign: str) -> Node:
        if depth > _DEEPEST:
            raise ValueError
        closing = "}" if sign == "{" else "]"
        children: list[Node] = []
        while not self.page.text.startswith(closing, self._blank()):
            if children and self._token()["sign"] != ",":
                raise ValueError
            children.append(self._value(depth + 1))
            if sign == "{":
                if self._token()["sign"] != ":":
                    raise ValueError
                children.append(self._value(depth + 1))
        self.at += 1
        if sign == "[":
            return self._node("sequence", start, style="json", items=tuple(children))
        pairs = tuple(zip(children[::2], children[1::2], strict=True))
        return self._node("mapping", start, style="json", pairs=pairs)
