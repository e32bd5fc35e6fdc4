"""What a learner takes home: a command, a link to the app, and a plan of one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planner.errors import PlannerError
from planner.export import links, report_html
from planner.learn.display import Shown, ShownAsText
from planner.planning.result import Plan
from planner.show.document import whole
from planner.show.html import tag
from planner.show.pieces import command_line
from planner.show.verdict import subject, verdict
from planner.values import frozen

APP = "http://127.0.0.1:8866/"
"""Where `planner app` and `make app` open the page."""
PAGE = "my-plan.html"


@frozen(repr=False)
class TakenHome(ShownAsText):
    """The command, the link and the page of a plan."""

    plan: Plan
    command: str
    link: str
    """Empty for a model in a folder, which another machine does not have."""
    page: Path
    """The report, which any browser opens without a network."""

    @property
    def head(self) -> str:
        """Name the plan and its verdict."""
        answer = verdict(self.plan)
        return f"{subject(self.plan)}: {answer.symbol} {answer.headline}"

    def __str__(self) -> str:
        return "\n".join(
            [
                self.head,
                f"The command: {self.command}",
                f"In the app: {self.link or 'not for a model in a folder'}",
                f"The plan on one page: {self.page.name}, beside this notebook",
            ]
        )

    def _repr_html_(self) -> str:
        opened = tag("a", self.link, href=self.link) if self.link else "no link"
        return whole(
            tag("p", tag("strong", self.head)),
            tag("p", "The command:"),
            command_line(self.command, "The command"),
            tag("p", "In the app: ", opened),
            tag("p", "The plan on one page: ", tag("code", self.page.name),
                ", beside this notebook. Print it, or send it to a colleague."),
        )  # fmt: skip


def take_home(plan: Any, *, base: str = APP) -> TakenHome | Shown:  # noqa: ANN401 - or `...`
    """Write the plan's page beside the notebook, and return it with command and link.

    Args:
        plan: the plan to take home; `...` while there is none.
        base: address of the app that the link opens.
    """
    if plan is ...:
        return Shown(title="Nothing yet", text="Replace the ... with your plan.")
    page = Path(PAGE)
    page.write_text(report_html.html(plan, base=base), encoding="utf-8")
    try:
        link = links.link(plan, base)
    except PlannerError:
        link = ""
    return TakenHome(plan=plan, command=plan.command(), link=link, page=page)
