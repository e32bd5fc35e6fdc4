"""A plotly figure on a page, drawn by plotly.js itself.

plotly's own FigureWidget sends 5 MB of JavaScript through every kernel's socket and
echoes 20 kB per update; `docs/performance.md` has both measurements.
These widgets send the figure's JSON only. plotly.js comes from the installed plotly
package: as a static file where the page offers one (the app), else once per page from
the kernel (JupyterLab).
"""

from __future__ import annotations

import anywidget
import traitlets

from planner.widgets import plotly_js
from planner.widgets.static_files import script, sheet


class PlotlyChart(anywidget.AnyWidget):
    """Show a figure given as plotly's JSON; setting `figure` redraws it in place."""

    _esm = script("connected.js", "draw.js", "chart.js")
    _css = sheet("chart.css")

    figure = traitlets.Dict().tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    """What a screen reader reads instead of the picture."""

    def __init__(self, **traits: object) -> None:
        super().__init__(**traits)
        self.on_msg(self._answer)

    def _answer(self, _widget: object, content: object, _buffers: object) -> None:
        """Send plotly.js to a page that has none."""
        if content == "plotly.js":
            self.send("plotly.js", buffers=[plotly_js.for_page()])
