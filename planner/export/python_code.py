"""A plan as Python code: the `LLM(...)` call with the given arguments.

The writers of literals and calls are here too, for all exported Python code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from planner.engine.flags import python_values
from planner.engine.settings import given_arguments
from planner.errors import PlannerError
from planner.export.needs import environment, headline
from planner.given import named_in_errors
from planner.planning.entrypoints import kept_defaults, release_of

if TYPE_CHECKING:
    from planner.planning.result import Plan

_SECRET = "hf_token"
_WIDTH = 88


@named_in_errors
def python(plan: Plan) -> str:
    """Return Python code that starts this plan with vLLM's `LLM` class.

    Code for a plan of `vllm serve` keeps the plan's figures: where the class has other
    defaults, those of the server are written out.

    Raises:
        PlannerError: for several engines, which the class does not start, and for a
            value that Python code cannot express.

    >>> import planner
    >>> print(python(planner.plan("Qwen/Qwen3-8B", entrypoint="llm")))
    # Qwen/Qwen3-8B with vLLM 0.33.0 on H100: fits.
    from vllm import LLM
    <BLANKLINE>
    if __name__ == "__main__":  # vLLM's processes import this file again
        llm = LLM(
            model="Qwen/Qwen3-8B",
        )
    <BLANKLINE>
    """
    return "\n".join([f"# {headline(plan)}", *_environment(plan), *_call(plan), ""])


def python_arguments(plan: Plan) -> dict[str, Any]:
    """Return the arguments of the `LLM` class, without the model.

    Raises:
        PlannerError: for several engines, which the class does not start.
    """
    given = given_arguments(plan.settings)
    engines = given.get("data_parallel_size") or 1
    if engines > 1:
        raise PlannerError(
            f"The LLM class starts one engine only, not data_parallel_size={engines}: "
            "use `vllm serve`, or start the class once for each."
        )
    if isinstance(given.get(_SECRET), str):
        del given[_SECRET]
    return python_values(given, release_of(plan))


def _environment(plan: Plan) -> list[str]:
    variables = environment(plan)
    if not variables:
        return ["from vllm import LLM"]
    lines = [f"os.environ[{literal(k)}] = {literal(v)}" for k, v in variables.items()]
    return [
        "import os",
        "",
        *lines,
        "",
        "from vllm import LLM  # reads the variables",
    ]


def _call(plan: Plan) -> Iterator[str]:
    yield ""
    yield 'if __name__ == "__main__":  # vLLM\'s processes import this file again'
    yield "    llm = LLM("
    yield f"        model={literal(plan.name)},"
    for name, value in python_arguments(plan).items():
        yield f"        {name}={literal(value)},"
    kept = kept_defaults(plan, "llm")
    if kept:
        door = "the async engine" if plan.entrypoint == "engine" else "`vllm serve`"
        yield f"        # The defaults of {door}, which the class does not share."
    for name, number in kept.items():
        yield f"        {name}={number},"
    yield "    )"


def literal(value: object) -> str:
    """Return a value as Python writes it.

    Raises:
        PlannerError: for a value that is not a text, number, switch, list or table.
    """
    if isinstance(value, str):
        is_plain = value.isprintable() and not set(value) & {'"', "\\"}
        return f'"{value}"' if is_plain else ascii(value)
    if isinstance(value, Mapping):
        items = (f"{literal(k)}: {literal(inner)}" for k, inner in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(literal, value)) + "]"
    return _checked(value)


def _checked(value: object) -> str:
    text = repr(value)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise PlannerError(
            f"{text} cannot be written as Python code: use text, numbers, True, False, "
            "lists and tables."
        ) from None
    return text


class Code(str):
    """A value that is already code, such as a name."""

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

    The first line starts after `used` columns, and the others are indented by `depth`.
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
