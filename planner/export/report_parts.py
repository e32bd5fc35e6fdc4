"""The parts that both reports share: inputs, ways to start, and the KV cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from planner.engine.releases import is_behind
from planner.engine.settings import given_arguments
from planner.errors import PlannerError
from planner.export.compose_file import compose
from planner.export.links import gpu_to_link, link
from planner.export.needs import environment
from planner.export.python_code import python
from planner.export.values import to_text
from planner.solve.upgrading import Upgrade, upgrade
from planner.values import frozen

if TYPE_CHECKING:
    from planner.planning.result import Plan


@frozen
class StartText:
    """One way to start the plan: text to copy, or the reason why there is none."""

    title: str
    language: str
    text: str = ""
    reason: str = ""


def ways(plan: Plan) -> tuple[StartText, ...]:
    """Return the command, the Python code and the Compose file."""
    return (
        StartText(title="Command", language="sh", text=plan.command() + "\n"),
        _way("Python", "python", lambda: python(plan)),
        _way("Docker Compose", "yaml", lambda: compose(plan)),
    )


def _way(title: str, language: str, write: Callable[[], str]) -> StartText:
    try:
        return StartText(title=title, language=language, text=write())
    except PlannerError as error:
        return StartText(title=title, language=language, reason=str(error))


def link_or_reason(plan: Plan, base: str) -> tuple[str, str]:
    """Return the link of a plan, or the reason why it has none."""
    try:
        return link(plan, base), ""
    except PlannerError as error:
        return "", str(error)


def given(plan: Plan) -> Mapping[str, str]:
    """Return the inputs of the plan by name, without tokens."""
    arguments = given_arguments(plan.settings)
    return {
        "model": plan.name,
        **gpu_to_link(plan.gpu),
        "vllm_version": plan.vllm_version,
        "entrypoint": plan.entrypoint,
        **{f"env.{name}": value for name, value in environment(plan).items()},
        **{
            name: _shown(name, value)
            for name, value in arguments.items()
            if name != "hf_token"
        },
    }


def _shown(name: str, value: object) -> str:
    try:
        return to_text(name, value)
    except PlannerError:
        return repr(value)


def to_newest(plan: Plan) -> Upgrade | None:
    """Return what the newest release does to the plan; None: nothing is to be said."""
    if not is_behind(plan.vllm_version):
        return None
    try:
        return upgrade(plan)
    except PlannerError:
        return None


GROUPS = ("Kind", "Layers", "Tokens in a block", "Bytes of a block of one layer")


def groups(plan: Plan) -> list[tuple[str, ...]]:
    """Return the KV cache groups as rows."""
    return [
        (
            group.kind,
            f"{group.num_layers:,}",
            f"{group.block_size:,}",
            f"{group.page_size_bytes:,}",
        )
        for group in plan.kv_groups
    ]


def blocks_sentence(plan: Plan) -> str:
    """State how many blocks there are, and how many one request needs."""
    return (
        f"{plan.num_gpu_blocks:,} blocks on every rank; one request of the longest "
        f"length needs {plan.blocks_per_request:,}."
    )
