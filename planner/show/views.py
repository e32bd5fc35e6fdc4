"""How results of the rooms below are shown: as text, page, frame and chart.

Each function imports what shows its result, when such a result is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.registries import registry
from planner.show.sheet import shown
from planner.views import Charts, Views

if TYPE_CHECKING:
    from planner.confirming.confirmation import Confirmation
    from planner.confirming.dry.result import DryRun
    from planner.planning.result import Plan
    from planner.ray.pipelines import Pipeline
    from planner.ray.placement import Placement
    from planner.reading.logs.explaining import Explanation
    from planner.reading.reading import Reading
    from planner.solve.advice.result import Advice
    from planner.solve.comparing.comparison import CommandDiff, Comparison
    from planner.solve.comparing.gpus import GPUComparison
    from planner.solve.comparing.grid import Curve, Grid
    from planner.solve.load_map import LoadMap
    from planner.solve.model_fits import ModelFits
    from planner.solve.set_ups import SetUps
    from planner.solve.solution import Solution
    from planner.solve.speed.forecast import SpeedForecast
    from planner.solve.speed.speed import SpeedBound
    from planner.solve.upgrading import Upgrade


def _plan() -> Views[Plan]:
    from planner.show.frames import plan_frame
    from planner.show.plan_text import plan_text

    return Views(text=plan_text, html=_plan_html, frame=plan_frame)


def _plan_html(plan: Plan) -> str:
    from planner.show.page import plan_html  # many print a plan, and need no page

    return plan_html(plan)


def _plan_charts() -> Charts[Plan]:
    from planner.show.charts.memory_bars import figure

    return Charts(figure=figure)


def _confirmation() -> Views[Confirmation]:
    from planner.show import confirmation, frames

    return shown(confirmation.sheet, frame=frames.confirmation_frame)


def _confirmation_charts() -> Charts[Confirmation]:
    from planner.show.charts.confirmed_bars import LEGEND_PIXELS, figure_spec
    from planner.show.charts.frame import drawer

    return Charts(figure=drawer(figure_spec, LEGEND_PIXELS))


def _dry_run() -> Views[DryRun]:
    from planner.show import dry_run

    return shown(dry_run.sheet)


def _pipeline() -> Views[Pipeline]:
    from planner.show import ray

    return shown(ray.pipeline_sheet, frame=ray.stages_frame)


def _placement() -> Views[Placement]:
    from planner.show import ray

    return shown(ray.placement_sheet, frame=ray.workers_frame)


def _placement_charts() -> Charts[Placement]:
    from planner.show.charts import ray_nodes
    from planner.show.charts.frame import drawer

    return Charts(figure=drawer(ray_nodes.figure_spec, ray_nodes.LEGEND_PIXELS))


def _reading() -> Views[Reading]:
    from planner.show import explanation

    return shown(explanation.reading_sheet)


def _explanation() -> Views[Explanation]:
    from planner.show import explanation

    return shown(explanation.explanation_sheet)


def _advice() -> Views[Advice]:
    from planner.show import advice

    return shown(advice.sheet, as_dict=advice.advice_dict, frame=advice.advice_frame)


def _comparison() -> Views[Comparison]:
    from planner.show import compared_plans

    return shown(compared_plans.sheet, frame=compared_plans.frame)


def _comparison_charts() -> Charts[Comparison]:
    from planner.show.charts.compared_bars import figure

    return Charts(figure=figure)


def _command_diff() -> Views[CommandDiff]:
    from planner.show import compared_plans

    return Views(html=compared_plans.diff_html)


def _gpu_comparison() -> Views[GPUComparison]:
    from planner.show import compared_gpus, frames

    return shown(compared_gpus.sheet, frame=lambda one: frames.frame_of(one.rows()))


def _gpu_comparison_charts() -> Charts[GPUComparison]:
    from planner.show.charts import gpu_bars
    from planner.show.charts.frame import drawer

    return Charts(figure=drawer(gpu_bars.figure_spec))


def _grid() -> Views[Grid]:
    from planner.show import frames, grid

    return shown(grid.sheet, frame=lambda one: frames.frame_of(one.rows()))


def _grid_charts() -> Charts[Grid]:
    from planner.show.charts import heat_map
    from planner.show.charts.frame import drawer

    return Charts(heat_map=drawer(heat_map.figure_spec))


def _curve_charts() -> Charts[Curve]:
    from planner.show.charts import curve
    from planner.show.charts.frame import drawer

    return Charts(figure=drawer(curve.figure_spec))


def _load_map() -> Views[LoadMap]:
    from planner.show import load_map

    return shown(load_map.sheet)


def _load_map_charts() -> Charts[LoadMap]:
    from planner.show.charts import load_map
    from planner.show.charts.frame import drawer

    return Charts(figure=drawer(load_map.figure_spec))


def _set_ups() -> Views[SetUps]:
    from planner.show import set_ups

    return shown(set_ups.sheet, frame=set_ups.frame)


def _model_fits() -> Views[ModelFits]:
    from planner.show import model_fits

    return shown(model_fits.sheet, frame=model_fits.frame)


def _solution() -> Views[Solution]:
    from planner.show import solution

    return shown(solution.sheet)


def _speed_bound() -> Views[SpeedBound]:
    from planner.show import speed

    return shown(speed.sheet, frame=speed.frame)


def _speed_forecast() -> Views[SpeedForecast]:
    from planner.show import speed_forecast

    return shown(speed_forecast.sheet, frame=speed_forecast.frame)


def _upgrade() -> Views[Upgrade]:
    from planner.show import upgrade

    return shown(upgrade.sheet)


def _upgrade_charts() -> Charts[Upgrade]:
    from planner.show.charts import releases
    from planner.show.charts.frame import drawer

    return Charts(figure=drawer(releases.figure_spec))


REGISTRY = registry(
    _plan,
    _plan_charts,
    _confirmation,
    _confirmation_charts,
    _dry_run,
    _pipeline,
    _placement,
    _placement_charts,
    _reading,
    _explanation,
    _advice,
    _comparison,
    _comparison_charts,
    _command_diff,
    _gpu_comparison,
    _gpu_comparison_charts,
    _grid,
    _grid_charts,
    _curve_charts,
    _load_map,
    _load_map_charts,
    _set_ups,
    _model_fits,
    _solution,
    _speed_bound,
    _speed_forecast,
    _upgrade,
    _upgrade_charts,
)
