"""The result of a start of vLLM: outcome, bars, table, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as w

from planner.app.widgets.chart import PlotlyChart
from planner.confirming.differences import confirmation_of
from planner.show import confirmation as shown
from planner.show import dry_run as shown_dry
from planner.show.charts.confirmed_bars import figure_spec
from planner.show.confirmation import legend_html
from planner.show.confirmation_text import answer, spoken
from planner.show.sheet import Part, html_of

if TYPE_CHECKING:
    from planner.confirming.confirmation import Confirmation
    from planner.confirming.dry.result import DryRun
    from planner.planning.result import Plan


class RunResult(w.VBox):
    """Outcome, bars of estimate and measurement, a table, and an explanation.

    The last start on a device and the last one without a GPU are shown together.
    """

    def __init__(self) -> None:
        super().__init__([])
        self.add_class("planner-run-result")
        self.forget()

    def forget(self) -> None:
        """Compare with no earlier start: another plan is started."""
        self._measured: Confirmation | None = None
        self._dry: Confirmation | None = None

    def clear(self) -> None:
        """Show nothing."""
        self.children = ()

    def show(self, confirmation: Confirmation) -> None:
        """Show a start on a device, beside an earlier one without a GPU."""
        if confirmation.measurement.is_started is not None:
            self._measured = confirmation
        apart = _apart(confirmation, self._dry)
        self._show_parts(
            {
                "verdict": w.HTML(answer(confirmation).to_html()),
                **_comparison(confirmation, self._dry),
                "meaning": w.HTML(html_of((apart, shown.meaning(confirmation)))),
            }
        )

    def show_dry(self, run: DryRun, plan: Plan | None) -> None:
        """Show a start without a GPU, beside its plan and an earlier one on a device.

        Args:
            run: how it went.
            plan: the estimate; None for a model that the planner does not read.
        """
        about = shown_dry.about(run)
        parts = {"verdict": w.HTML(shown_dry.answer(run).to_html())}
        if plan is None:
            parts["table"] = w.HTML(html_of(shown_dry.ranks(run)))
            parts["meaning"] = w.HTML(html_of((about, shown_dry.unplanned(run))))
        else:
            # The run planned again: figures that a Run stored would now be in it.
            dry = confirmation_of(
                plan, run.measurement, log_text=run.log_text, notes=run.notes
            )
            if run.started is not None:
                self._dry = dry
            measured = self._measured
            ranks = shown_dry.ranks(run) if _has_many(run) else ()
            apart = None if measured is None else _apart(measured, dry)
            parts |= _comparison(measured or dry, dry if measured else None)
            meaning = (*ranks, apart, about, shown.meaning(dry))
            parts["meaning"] = w.HTML(html_of(meaning))
        self._show_parts(parts)

    def _show_parts(self, parts: dict[str, w.Widget]) -> None:
        for name, part in parts.items():
            part.add_class("pl-plan")
            part.add_class(f"planner-run-{name}")
        self.children = tuple(parts.values())


def _comparison(
    confirmation: Confirmation, dry: Confirmation | None
) -> dict[str, w.Widget]:
    """Return bars, legend and table; a chart is large, so none is made before."""
    return {
        "bars": PlotlyChart(
            figure=figure_spec(confirmation, dry), label=spoken(confirmation, dry)
        ),
        "legend": w.HTML(legend_html(confirmation, dry)),
        "table": w.HTML(html_of([shown.compared(confirmation, dry)])),
    }


def _apart(confirmation: Confirmation, dry: Confirmation | None) -> Part:
    return None if dry is None else shown_dry.apart_part(dry, confirmation)


def _has_many(run: DryRun) -> bool:
    return len(run.ranks) > 1 or run.cold is not None
