"""A chart that draws itself in a browser that has no plotly for Python.

The page gets the chart in plotly's JSON, and the plotly.js that the explorer uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A chart, described in plotly's JSON; a notebook shows it as the last value."""

    described: dict[str, Any]

    def to_plotly_json(self) -> dict[str, Any]:
        """Return data and layout, as plotly's own figures do."""
        return self.described

    @property
    def label(self) -> str:
        """What a screen reader reads instead of the picture."""
        traces = [one for one in self.described["data"] if one.get("showlegend", True)]
        names = dict.fromkeys(one["name"] for one in traces if one.get("name"))
        return f"Chart: {', '.join(names)}." if names else "Chart."

    def _repr_mimebundle_(self, **options: Any) -> Any:  # noqa: ANN401 - anywidget's
        from planner.widgets.chart import PlotlyChart  # noqa: PLC0415 - optional

        chart = PlotlyChart(figure=self.described, label=self.label)
        return chart._repr_mimebundle_(**options)
