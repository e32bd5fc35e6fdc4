"""The CPU memory of a plan's machines, and loading, as text and as tables."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from planner.show.html import Html, fragment
from planner.show.lines import line_rows, named, paired_rows, why
from planner.show.pieces import NOTHING, table, to_open
from planner.show.terminal import row
from planner.units import format_gib
from planner.values import frozen

if TYPE_CHECKING:
    from planner.memory.host.loading import Loading
    from planner.memory.host.nodes import NodeAccount
    from planner.planning.result import Plan

_LOADING_COLUMNS = (
    "Loading",
    ("Size or time", "pl-number"),
    ("Range", "pl-number pl-range"),
    "How it is known",
)
_COLUMNS = (
    "In CPU memory",
    ("Size", "pl-number"),
    ("Kept", "pl-number pl-range"),
    "How it is known",
)

_PAGE_CACHE = (
    "files that were read stay in memory that nothing else needs; it is freed on "
    "demand, so no account counts it"
)


def shown_accounts(plan: Plan) -> tuple[NodeAccount, ...]:
    """Return the accounts worth showing: a setting uses the memory, or it is known."""
    return tuple(account for account in plan.host if account.is_worth_showing)


def bar_label(plan: Plan, account: NodeAccount) -> str:
    """Name the machines of an account, briefly for a bar's label."""
    if sum(len(one.nodes) for one in plan.host) == 1:
        return "machine"
    first, last = account.nodes[0], account.nodes[-1]
    return f"machine {first}" if first == last else f"machines {first}-{last}"


def node_title(plan: Plan, account: NodeAccount) -> str:
    """Name the machines that an account describes."""
    gpus = f"{account.gpus} GPU{'' if account.gpus == 1 else 's'}"
    if sum(len(one.nodes) for one in plan.host) == 1:
        return f"CPU memory of the machine with {gpus}"
    first, last = account.nodes[0], account.nodes[-1]
    if first == last:
        return f"CPU memory of machine {first} with {gpus}"
    return f"CPU memory of machines {first} to {last}, each with {gpus}"


def node_budget(account: NodeAccount) -> str:
    """State how much of a machine's memory is needed."""
    needed = f"{format_gib(account.needed_bytes)} needed"
    if account.capacity_bytes is None:
        return needed
    return f"{needed} of {format_gib(account.capacity_bytes)}"


def host_lines(plan: Plan, width: int) -> list[str]:
    """Write the accounts as text; nothing where none is worth showing."""
    lines: list[str] = []
    for account in shown_accounts(plan):
        lines += ["", f"{node_title(plan, account)}: {node_budget(account)}"]
        for line in account.lines:
            size = format_gib(line.size_bytes)
            lines += row(line.name, size, line.basis, line.why, width=width)
    if lines and plan.loading is not None:
        for one in loading_rows(plan.loading):
            lines += row(one.name, one.figure, one.basis, one.why, width=width)
    return lines


@frozen(kw_only=False)
class LoadingRow:
    """One figure of loading."""

    name: str
    figure: str
    basis: str
    why: str


def loading_rows(loading: Loading) -> tuple[LoadingRow, ...]:
    """Return what loading reads and leaves in the page cache, and how long it takes."""
    stored, read, cached = map(
        format_gib,
        (loading.checkpoint_bytes, loading.disk_bytes, loading.page_cache_bytes),
    )
    basis, seconds = str(loading.checkpoint_basis), f"{ceil(loading.seconds):,} s"
    return (
        LoadingRow("checkpoint", stored, basis, loading.checkpoint_why),
        LoadingRow("read from disk", read, "formula", loading.reading_why),
        LoadingRow("page cache", cached, "formula", _PAGE_CACHE),
        LoadingRow("load time", seconds, str(loading.basis), loading.seconds_why),
    )


def host_spoken(plan: Plan) -> str:
    """Describe the machines' bars for a screen reader; empty where none is drawn."""
    sentences = []
    for account in shown_accounts(plan):
        lines = ", ".join(
            f"{line.name} {format_gib(line.size_bytes)}" for line in account.lines
        )
        title = f"{node_title(plan, account)}, {node_budget(account)}"
        sentences.append(f"{title}: {lines}.")
    return " ".join(sentences)


def host_title(plan: Plan) -> str:
    """State how much the fullest machine needs, else how much is read from disk."""
    accounts = shown_accounts(plan)
    if accounts:
        return node_budget(max(accounts, key=lambda one: one.needed_bytes))
    if plan.loading is None:
        return ""
    return f"{format_gib(plan.loading.disk_bytes)} read from disk"


def host_tables(plan: Plan) -> Html:
    """Show each account, and loading; every line opens to its arithmetic."""
    accounts = (_table(plan, account) for account in plan.host)
    return fragment(accounts, loading_table(plan))


def loading_table(plan: Plan) -> Html:
    """Show what loading reads and how long; empty where that is not modelled."""
    if plan.loading is None:
        return NOTHING
    rows = (
        paired_rows(
            named(row.name),
            f"loading-{row.name}",
            figures=(row.figure, "", row.basis),
            explained=why(row.why),
        )
        for row in loading_rows(plan.loading)
    )
    return table("Loading the weights on one machine", _LOADING_COLUMNS, rows)


def host_html(plan: Plan) -> Html:
    """Show the accounts, folded; empty where none is worth showing."""
    if not shown_accounts(plan):
        return NOTHING
    title = f"CPU memory and disk: {host_title(plan)}"
    return to_open(title, host_tables(plan), "pl-rank pl-host", key="host")


def _table(plan: Plan, account: NodeAccount) -> Html:
    caption = f"{node_title(plan, account)}: {node_budget(account)}"
    first = account.nodes[0]
    rows = (
        line_rows(
            line,
            f"host-{first}-{line.name}",
            beside=f"per {line.per}",
            explained=why(line.why),
        )
        for line in account.lines
    )
    return table(caption, _COLUMNS, rows)
