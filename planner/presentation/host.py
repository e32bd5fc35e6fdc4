"""A node's CPU memory as text and as a table."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil
from typing import TYPE_CHECKING

from planner.presentation.line_rows import line_rows
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.memory.host import NodeAccount, NodeLine
    from planner.memory.loading import Loading
    from planner.result import Plan

_LOADING_HEAD = (
    "<thead><tr><th scope='col'>Loading</th><th scope='col' class='pl-number'>Size or "
    "time</th><th scope='col' class='pl-number pl-range'></th><th scope='col'>Basis"
    "</th></tr></thead>"
)
_HEAD = (
    "<thead><tr><th scope='col'>In CPU memory</th><th scope='col' class='pl-number'>"
    "Size</th><th scope='col' class='pl-number pl-range'>Kept</th>"
    "<th scope='col'>Basis</th></tr></thead>"
)


def shown_accounts(plan: Plan) -> tuple[NodeAccount, ...]:
    """Return the accounts worth showing: those with a setting's or a known size."""
    return tuple(account for account in plan.host if account.is_worth_showing)


def bar_label(plan: Plan, account: NodeAccount) -> str:
    """Name the machines of an account as briefly as a bar's label."""
    if sum(len(one.nodes) for one in plan.host) == 1:
        return "machine"
    first, last = account.nodes[0], account.nodes[-1]
    return f"machine {first}" if first == last else f"machines {first}-{last}"


def node_title(plan: Plan, account: NodeAccount) -> str:
    """Name the machines that an account stands for."""
    gpus = f"{account.gpus} GPU{'' if account.gpus == 1 else 's'}"
    if sum(len(one.nodes) for one in plan.host) == 1:
        return f"CPU memory of the machine with {gpus}"
    first, last = account.nodes[0], account.nodes[-1]
    if first == last:
        return f"CPU memory of machine {first} with {gpus}"
    return f"CPU memory of machines {first} to {last}, each with {gpus}"


def node_budget(account: NodeAccount) -> str:
    """Say how much of a machine's memory is needed."""
    needed = f"{format_gib(account.needed_bytes)} needed"
    if account.capacity_bytes is None:
        return needed
    return f"{needed} of {format_gib(account.capacity_bytes)}"


def host_lines(plan: Plan) -> list[str]:
    """Write the accounts for a terminal; nothing where none is worth showing."""
    lines: list[str] = []
    for account in shown_accounts(plan):
        lines += ["", f"{node_title(plan, account)}: {node_budget(account)}"]
        lines += [
            f"  {line.name:<19}{format_gib(line.size_bytes):>12}  {line.basis:<8}"
            f"  {line.why}"
            for line in account.lines
        ]
    if lines and plan.loading is not None:
        lines += [
            f"  {row.name:<19}{row.figure:>12}  {row.basis:<8}  {row.why}"
            for row in loading_rows(plan.loading)
        ]
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadingRow:
    """One figure of loading."""

    name: str
    figure: str
    basis: str
    why: str


def loading_rows(loading: Loading) -> tuple[LoadingRow, ...]:
    """Return what loading reads, leaves in the page cache, and takes."""
    size = loading.checkpoint_bytes
    basis = str(loading.checkpoint_basis)
    return (
        LoadingRow(
            name="checkpoint",
            figure=format_gib(size),
            basis=basis,
            why=loading.checkpoint_why,
        ),
        LoadingRow(
            name="read from disk",
            figure=format_gib(loading.disk_bytes),
            basis="formula",
            why=loading.reading_why,
        ),
        LoadingRow(
            name="page cache",
            figure=format_gib(loading.page_cache_bytes),
            basis="formula",
            why="what is read stays in memory that nothing else needs; it is given "
            "back at once and counted nowhere",
        ),
        LoadingRow(
            name="load time",
            figure=f"{ceil(loading.seconds):,} s",
            basis=str(loading.basis),
            why=loading.seconds_why,
        ),
    )


def host_spoken(plan: Plan) -> str:
    """Read the machines' bars aloud; empty where none is drawn."""
    said = []
    for account in shown_accounts(plan):
        lines = ", ".join(
            f"{line.name} {format_gib(line.size_bytes)}" for line in account.lines
        )
        said.append(f"{node_title(plan, account)}, {node_budget(account)}: {lines}.")
    return " ".join(said)


def host_title(plan: Plan) -> str:
    """Say how much the fullest machine needs, else how much is read from disk."""
    accounts = shown_accounts(plan)
    if accounts:
        return node_budget(max(accounts, key=lambda one: one.needed_bytes))
    if plan.loading is None:
        return ""
    return f"{format_gib(plan.loading.disk_bytes)} read from disk"


def host_tables(plan: Plan) -> str:
    """Show each account, and loading; every line opens to its arithmetic."""
    accounts = "".join(_table(plan, account) for account in plan.host)
    return accounts + loading_table(plan)


def loading_table(plan: Plan) -> str:
    """Show what loading reads and takes; empty where that is not modelled."""
    if plan.loading is None:
        return ""
    rows = "".join(
        f"<tr class='pl-line' data-key='loading-{escape(row.name)}'><th scope='row'>"
        f"<span class='pl-line-name'>{escape(row.name)}</span></th>"
        f"<td class='pl-number'>{escape(row.figure)}</td>"
        "<td class='pl-number pl-range'></td>"
        f"<td class='pl-basis'>{escape(row.basis)}</td></tr>"
        f"<tr class='pl-explained'><td colspan='4'><p class='pl-why'>{escape(row.why)}"
        "</p></td></tr>"
        for row in loading_rows(plan.loading)
    )
    return (
        "<table class='pl-lines'><caption>Loading the weights on one machine</caption>"
        f"{_LOADING_HEAD}<tbody>{rows}</tbody></table>"
    )


def host_html(plan: Plan) -> str:
    """Show the accounts, to be opened; nothing where none is worth showing."""
    if not shown_accounts(plan):
        return ""
    tables = host_tables(plan)
    return (
        "<details class='pl-rank pl-host' data-key='host'><summary>CPU memory and "
        f"disk: "
        f"{escape(host_title(plan))}</summary>{tables}</details>"
    )


def _table(plan: Plan, account: NodeAccount) -> str:
    rows = "".join(
        _row(line, f"host-{account.nodes[0]}-{line.name}") for line in account.lines
    )
    return (
        f"<table class='pl-lines'><caption>{escape(node_title(plan, account))}: "
        f"{escape(node_budget(account))}</caption>{_HEAD}<tbody>{rows}</tbody></table>"
    )


def _row(line: NodeLine, key: str) -> str:
    return line_rows(
        line,
        key,
        beside=f"per {escape(str(line.per))}",
        explained=f"<p class='pl-why'>{escape(line.why)}</p>",
    )
