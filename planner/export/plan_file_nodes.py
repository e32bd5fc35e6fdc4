"""The text of a plan file as nested values that know their lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.errors import PlannerError

LONGEST = 200_000
"""Characters of a plan file; the longest lists of names fit many times."""
_DEEPEST = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value of the file."""

    value: Any
    """As the file's format reads it."""
    text: str | None = None
    """As it is written; None for tables and lists."""
    items: Mapping[str, Node] | None = None
    """Of a table."""
    line: int | None = None
    """From 1; None where the format does not tell."""

    @property
    def where(self) -> str:
        """The beginning of a sentence about it."""
        return "" if self.line is None else f"Line {self.line}: "


def parse(text: str) -> Node:
    """Read YAML, or JSON where the text begins with a brace.

    Raises:
        PlannerError: for what is neither, what is too long, and anchors.
    """
    if len(text) > LONGEST:
        raise PlannerError(
            f"The plan file holds {len(text):,} characters; {LONGEST:,} are allowed."
        )
    if text.lstrip().startswith("{"):
        return _from_json(text)
    return _from_yaml(text)


def _from_json(text: str) -> Node:
    try:
        return _of_value(json.loads(text, object_pairs_hook=_once))
    except json.JSONDecodeError as error:
        raise PlannerError(
            f"Line {error.lineno}: the plan file is no JSON: {error.msg}."
        ) from None
    except RecursionError:
        raise PlannerError("The plan file is nested too deeply.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise PlannerError(f"{name!r} is given twice in one table.")
    return dict(pairs)


def _of_value(value: Any) -> Node:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return Node(value=value, items={k: _of_value(v) for k, v in value.items()})
    if isinstance(value, list):
        return Node(value=value)
    return Node(
        value=value, text=value if isinstance(value, str) else json.dumps(value)
    )


def _from_yaml(text: str) -> Node:
    try:
        import yaml  # noqa: PLC0415 - an extra: JSON files need no YAML
    except ImportError:
        raise PlannerError(
            "Plan files in YAML need PyYAML: `pip install pyyaml`, or "
            "`pip install 'vllm-memory-planner[app]'`. JSON of the same shape is read "
            "without it."
        ) from None
    try:
        _check_shape(yaml, text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f"Line {mark.line + 1}: "
        raise PlannerError(
            f"{line}the plan file is no YAML: {error.problem}."
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise PlannerError(f"The plan file is no YAML: {error}.") from None
    if root is None:
        raise PlannerError("The plan file is empty.")
    return _of_node(root, value, root.start_mark.line + 1)


def _check_shape(yaml: Any, text: str) -> None:  # noqa: ANN401 - the library
    """Refuse what takes long to read, as soon as it is met."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise PlannerError("A plan file uses no anchors: write the value out.")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            line = event.start_mark.line + 1
            raise PlannerError(f"Line {line}: nested too deeply.")


def _of_node(node: Any, value: Any, line: int) -> Node:  # noqa: ANN401 - PyYAML's
    """Put lines to values; of lists, the line of the list is enough."""
    if node.id == "mapping":
        items: dict[str, Node] = {}
        for key, inner in node.value:
            name = str(key.value)
            at = key.start_mark.line + 1
            if key.id != "scalar" or name in items or name not in value:
                raise PlannerError(
                    f"Line {at}: {name!r} is no name, or is given twice in one table."
                )
            items[name] = _of_node(inner, value[name], at)
        return Node(value=value, items=items, line=line)
    if node.id == "scalar":
        return Node(value=value, text=node.value, line=line)
    return Node(value=value, line=line)
