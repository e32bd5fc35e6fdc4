"""Write calls and tables as Python code, one argument on a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.export.python_code import literal

_WIDTH = 88


class Code(str):
    """A value that is code already, such as a name."""

    __slots__ = ()


def call(
    name: str, arguments: Mapping[str, Any], *, target: str = "", indent: str = ""
) -> str:
    """Return a call with keyword arguments, assigned to `target`.

    >>> print(call("f", {"a": 1, "b": {"c": Code("d")}}, target="x"))
    x = f(
        a=1,
        b={"c": d},
    )
    """
    head = f"{indent}{target} = {name}(" if target else f"{indent}{name}("
    lines = [head]
    for key, value in arguments.items():
        depth = len(indent) + 4
        first, *rest = written(value, used=depth + len(key) + 1, depth=depth)
        lines.append(f"{indent}    {key}={first}")
        lines += [f"{indent}    {line}" for line in rest]
        lines[-1] += ","
    return "\n".join([*lines, f"{indent})"])


def written(value: Any, *, used: int, depth: int) -> Iterator[str]:  # noqa: ANN401 - plain
    """Return the lines of a value; a table that is too long has a line for each entry.

    `used` columns stand before it, and its lines are `depth` columns in.
    """
    flat = _flat(value)
    is_table = isinstance(value, Mapping)
    if used + len(flat) < _WIDTH or not isinstance(value, Mapping | list | tuple):
        yield flat
        return
    yield "{" if is_table else "["
    entries = (
        value.items() if isinstance(value, Mapping) else ((None, v) for v in value)
    )
    for key, inner in entries:
        name = f"{literal(key)}: " if is_table else ""
        first, *rest = written(inner, used=depth + 4 + len(name), depth=depth + 4)
        lines = [f"{name}{first}", *rest]
        yield from (f"    {line}" for line in lines[:-1])
        yield f"    {lines[-1]},"
    yield "}" if is_table else "]"


def _flat(value: Any) -> str:  # noqa: ANN401 - any plain value
    if isinstance(value, Code):
        return str(value)
    if isinstance(value, Mapping):
        items = (f"{literal(key)}: {_flat(inner)}" for key, inner in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, tuple):
        inner = ", ".join(map(_flat, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flat, value)) + "]"
    return literal(value)
