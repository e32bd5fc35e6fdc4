"""A plan as Python: the `LLM(...)` call with what was given, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from planner.engine import given_arguments
from planner.errors import PlannerError
from planner.export.entrypoints import kept_defaults, release_of
from planner.export.machines import environment, headline
from planner.flags import python_values

if TYPE_CHECKING:
    from planner.result import Plan

_SECRET = "hf_token"


def python(plan: Plan) -> str:
    """Return Python code that starts this plan with vLLM's `LLM` class.

    Code for a plan of `vllm serve` keeps the plan's figures: where the class has other
    defaults, the server's are written out.

    Raises:
        PlannerError: for several engines, which the class does not start, and for a
            value that Python code cannot hold.

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
    """Return what the `LLM` class is given, besides the model.

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
        PlannerError: for what is no text, number, switch, list or table.
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
