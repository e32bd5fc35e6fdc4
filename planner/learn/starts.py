"""Starts of vLLM to compare plans with: published ones, and a dry run of one's own.

`data/recorded/published.json` has the figures that others published, with whom to
thank; their plans are computed each time.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from planner.confirming import installation
from planner.confirming.dry.result import DryRun
from planner.confirming.dry.run import HOW_TO_INSTALL
from planner.data import DATA
from planner.engine.devices import gpu_named
from planner.errors import PlannerError
from planner.learn.account import rank_of
from planner.learn.display import Shown, ShownAsText
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.show.document import whole
from planner.show.html import Html, tag
from planner.show.pieces import listed, row, table
from planner.surroundings import is_in_browser
from planner.units import GIB, format_gib
from planner.values import frozen

_FILE = DATA / "recorded" / "published.json"
_COLUMNS = (
    "Start",
    ("Weights, planned", "pl-number"),
    ("Weights, logged", "pl-number"),
    ("KV cache, planned", "pl-number"),
    ("KV cache, logged", "pl-number"),
    ("Difference", "pl-number"),
    ("In its range?", "pl-number"),
)
_LOOK = "pl-lines pl-stacked pl-long"
_ELSEWHERE = (
    "What it looks like is in docs/dry-run.md, and docs/accuracy.md compares such "
    "runs with their plans."
)


@frozen
class PublishedStart:
    """A start that somebody published: what vLLM logged, and its plan."""

    name: str
    credit: str
    """Whose log it is."""
    address: str
    plan: Plan
    weights_bytes: int
    kv_cache_bytes: int
    tokens: int

    @property
    def error_bytes(self) -> int:
        """What the plan has more of KV cache than vLLM had; negative: less."""
        return rank_of(self.plan).available_kv_cache_bytes - self.kv_cache_bytes

    @property
    def is_inside(self) -> bool:
        """Whether vLLM's figure, which it logs to 0.01 GiB, is in the plan's range."""
        rank, half = rank_of(self.plan), GIB // 200
        low = rank.available_kv_cache_low_bytes - half
        return low <= self.kv_cache_bytes <= rank.available_kv_cache_high_bytes + half

    @property
    def what(self) -> str:
        """Model, card, release and share of the card."""
        resolved = self.plan.resolved
        share = "" if resolved is None else f"{resolved.gpu_memory_utilization:g}"
        model = self.plan.name.rpartition("/")[2]
        return (
            f"{model} on {self.plan.gpu.name}, vLLM {self.plan.vllm_version}, share "
            f"{share}"
        )


@frozen(repr=False)
class Published(ShownAsText):
    """Published starts beside their plans, shown as a table."""

    starts: tuple[PublishedStart, ...]

    def __getitem__(self, place: int) -> PublishedStart:
        return self.starts[place]

    def __str__(self) -> str:
        lines = ["; ".join([one.what, *_figures(one)]) for one in self.starts]
        return "\n".join([*lines, *_credits(self.starts)])

    def _repr_html_(self) -> str:
        caption = "Published starts and their plans"
        thanks = {one.credit: one.address for one in self.starts}.items()
        return whole(
            table(caption, _COLUMNS, map(_row, self.starts), _LOOK),
            tag("p", "With thanks to those who published their logs:"),
            listed(
                (
                    tag("a", text, href=to, target="_blank", rel="noopener noreferrer")
                    for text, to in thanks
                ),
                None,
            ),
        )


def _row(one: PublishedStart) -> Html:
    titles = [title for title, _ in _COLUMNS[1:]]
    cells = (
        tag(
            "td",
            figure,
            class_="pl-number",
            data_label=title,
        )
        for title, figure in zip(titles, _figures(one), strict=True)
    )
    return row(one.what, *cells)


def _figures(one: PublishedStart) -> list[str]:
    rank = rank_of(one.plan)
    return [
        format_gib(rank.line("weights").size_bytes),
        format_gib(one.weights_bytes),
        format_gib(rank.available_kv_cache_bytes),
        format_gib(one.kv_cache_bytes),
        _signed(-one.error_bytes),
        _inside(one),
    ]


def _signed(size_bytes: int) -> str:
    """Write what was logged beyond the plan, as a confirmation does."""
    if abs(size_bytes) < GIB // 200:
        return "none, as logged"
    sign = "+" if size_bytes > 0 else "-"
    return f"{sign}{format_gib(abs(size_bytes))}"


def _inside(one: PublishedStart) -> str:
    return "✔ inside" if one.is_inside else "✘ outside"


def _credits(starts: tuple[PublishedStart, ...]) -> list[str]:
    return [f"Source: {text}" for text in dict.fromkeys(one.credit for one in starts)]


def published() -> Published:
    """Return three published starts and a second one of the third's machine."""
    table: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return Published(starts=tuple(_start(one) for one in table["starts"]))


def _start(record: dict[str, Any]) -> PublishedStart:
    arguments, logged = dict(record["plan"]), record["logged"]
    gpu = gpu_named(arguments.pop("gpu"))
    if record["total_gpu_gib"] is not None:
        gpu = replace(gpu, total_memory_bytes=round(record["total_gpu_gib"] * GIB))
    return PublishedStart(
        name=record["name"],
        credit=record["credit"],
        address=record["address"],
        plan=plan(gpu=gpu, **arguments),
        weights_bytes=round(logged["weights_gib"] * GIB),
        kv_cache_bytes=round(logged["kv_cache_gib"] * GIB),
        tokens=logged["tokens"],
    )


def dry_run_here(planned: Plan, *, start: bool = False) -> DryRun | Shown:
    """Let the vLLM of this machine start for a plan, on a GPU that is not there.

    Args:
        planned: the plan to start for.
        start: whether it starts; it takes about a minute.

    Returns:
        The dry run. Without `start`, or where no vLLM for NVIDIA GPUs is installed,
        what would start, or how to install one.
    """
    try:
        found = None if is_in_browser() else installation.find()
    except PlannerError:
        found = None
    if found is None or found.is_cpu_build:
        why = "A browser does not run other programs." if is_in_browser() else ""
        text = f"{why or HOW_TO_INSTALL}\n{_ELSEWHERE}"
        return Shown(title="No dry run here", text=text)
    if not start:
        return Shown(
            title="Ready",
            text=f"{installation.sentence(found)} With start=True it starts for "
            f"{planned.name} on {planned.gpu.name}, and answers in about a minute.",
        )
    return planned.dry_run()
