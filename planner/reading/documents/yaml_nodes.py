"""The documents of a page in YAML or JSON.

Source: YAML 1.1 (yaml.org/spec/1.1), as PyYAML reads it; RFC 8259.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from planner.errors import PlannerError
from planner.reading.documents.blocks import json_of
from planner.reading.documents.nodes import DEEPEST, MOST_NODES, Node, resolved
from planner.reading.passage import Passage

__all__ = ["Node", "documents", "resolved"]

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)+")
_Opened: TypeAlias = "tuple[Any, list[Node]]"


def documents(page: Passage) -> list[Node]:
    """Return the documents of a page, in JSON or YAML.

    Raises:
        PlannerError: for text that is neither, naming the line; for YAML where PyYAML
            is not installed.
    """
    if page.text.lstrip()[:1] in ("{", "["):
        try:
            return [json_of(page)]
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
        if count > MOST_NODES or len(stack) > DEEPEST:
            raise PlannerError(
                f"Line {event.start_mark.line + 1}: the text holds more than "
                f"{MOST_NODES:,} values, or is nested deeper than {DEEPEST} "
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
