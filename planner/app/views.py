"""What widgets are for values of other rooms: the explorer, charts, lessons' pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.planning.result import ExplorerMaker
from planner.registries import registry
from planner.views import Views

if TYPE_CHECKING:
    from planner.learn.debugging import DebugThisStart
    from planner.learn.guessing import GuessTheBar
    from planner.learn.living import LivingCache
    from planner.learn.slide import Slider
    from planner.show.charts.frame import ChartShower


def _explorer_maker() -> ExplorerMaker:
    from planner.app.widgets.explorer import for_plan

    return ExplorerMaker(explorer=for_plan)


def _chart_shower() -> ChartShower:
    from planner.app.widgets.chart import chart_mimebundle
    from planner.show.charts.frame import ChartShower

    return ChartShower(mimebundle=chart_mimebundle)


def _slider() -> Views[Slider]:
    from planner.app.widgets.pieces import slider_html, slider_page

    return Views(text=str, html=slider_html, page=slider_page)


def _living() -> Views[LivingCache]:
    from planner.app.widgets.pieces import living_html, living_page

    return Views(text=str, html=living_html, page=living_page)


def _guess() -> Views[GuessTheBar]:
    from planner.app.widgets.pieces import guess_html, guess_page

    return Views(text=str, html=guess_html, page=guess_page)


def _debug() -> Views[DebugThisStart]:
    from planner.app.widgets.pieces import debug_html, debug_page

    return Views(text=str, html=debug_html, page=debug_page)


REGISTRY = registry(_explorer_maker, _chart_shower, _slider, _living, _guess, _debug)
