"""What widgets are for values of other rooms: the explorer, charts, lessons' pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import ErrorView, lacking
from planner.planning.result import ExplorerMaker
from planner.registries import registry
from planner.views import Views

if TYPE_CHECKING:
    from planner.learn.display import ShownAsPage
    from planner.show.charts.frame import ChartShower


def _explorer_maker() -> ExplorerMaker:
    try:
        from planner.app.widgets.explorer import Explorer
    except ModuleNotFoundError as missing:
        raise lacking("explore()", missing) from missing

    return ExplorerMaker(explorer=Explorer.for_plan)


def _chart_shower() -> ChartShower:
    from planner.app.widgets.chart import chart_mimebundle
    from planner.show.charts.frame import ChartShower

    return ChartShower(mimebundle=chart_mimebundle)


def _pieces() -> Views[ShownAsPage]:
    from planner.app.widgets.pieces import html, page

    return Views(text=str, html=html, page=page)


def _error_view() -> ErrorView:
    from planner.app.notebook_errors import shown_lines

    return ErrorView(lines=shown_lines)


REGISTRY = registry(_explorer_maker, _chart_shower, _pieces, _error_view)
