"""How results of the rooms below are shown: as text, page, frame and chart.

Each function imports what shows its result, when such a result is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.registries import registry
from planner.views import Charts, Views

if TYPE_CHECKING:
    from planner.confirming.confirmation import Confirmation
    from planner.confirming.dry.result import DryRun
    from planner.planning.result import Plan
    from planner.ray.pipelines import Pipeline
    from planner.ray.placement import Placement
    from planner.solve.advice.result import Advice
    from planner.solve.comparing.comparison import CommandDiff, Comparison
    from planner.solve.comparing.gpus import GPUComparison
    from planner.solve.comparing.grid import Curve, Grid
    from planner.solve.load_map import LoadMap
    from planner.solve.model_fits import ModelFits
    from planner.solve.set_ups import SetUps
    from planner.solve.solution import Solution
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
    from planner.show import confirmation, confirmation_text, frames

    return Views(
        text=confirmation_text.confirmation_text,
        html=confirmation.confirmation_html,
        frame=frames.confirmation_frame,
    )


def _confirmation_charts() -> Charts[Confirmation]:
    from planner.show.charts.confirmed_bars import figure

    return Charts(figure=figure)


def _dry_run() -> Views[DryRun]:
    from planner.show import dry_run

    return Views(text=dry_run.dry_run_text, html=dry_run.dry_run_html)


def _pipeline() -> Views[Pipeline]:
    from planner.show import ray

    return Views(
        text=ray.pipeline_text,
        html=ray.pipeline_page,
        frame=ray.stages_frame,
    )


def _placement() -> Views[Placement]:
    from planner.show import ray

    return Views(
        text=ray.placement_text,
        html=ray.placement_page,
        frame=ray.workers_frame,
    )


def _placement_charts() -> Charts[Placement]:
    from planner.show.charts.ray_nodes import figure

    return Charts(figure=figure)


def _advice() -> Views[Advice]:
    from planner.show import advice

    return Views(
        text=advice.advice_text,
        html=advice.advice_html,
        as_dict=advice.advice_dict,
        frame=advice.advice_frame,
    )


def _comparison() -> Views[Comparison]:
    from planner.show import compared_plans

    return Views(
        text=compared_plans.comparison_text,
        html=compared_plans.whole_html,
        frame=compared_plans.frame,
    )


def _comparison_charts() -> Charts[Comparison]:
    from planner.show.charts.compared_bars import figure

    return Charts(figure=figure)


def _command_diff() -> Views[CommandDiff]:
    from planner.show import compared_plans

    return Views(html=compared_plans.diff_html)


def _gpu_comparison() -> Views[GPUComparison]:
    from planner.show import compared_gpus

    return Views(
        text=compared_gpus.gpus_text,
        html=compared_gpus.whole_html,
        frame=compared_gpus.frame,
    )


def _gpu_comparison_charts() -> Charts[GPUComparison]:
    from planner.show.charts.gpu_bars import figure

    return Charts(figure=figure)


def _grid() -> Views[Grid]:
    from planner.show import grid

    return Views(text=grid.grid_text, html=grid.whole_html, frame=grid.frame)


def _grid_charts() -> Charts[Grid]:
    from planner.show.charts.heat_map import figure

    return Charts(heat_map=figure)


def _curve_charts() -> Charts[Curve]:
    from planner.show.charts.curve import figure

    return Charts(figure=figure)


def _load_map() -> Views[LoadMap]:
    from planner.show import load_map

    return Views(text=load_map.map_text, html=load_map.map_html)


def _load_map_charts() -> Charts[LoadMap]:
    from planner.show.charts.load_map import figure

    return Charts(figure=figure)


def _set_ups() -> Views[SetUps]:
    from planner.show import set_ups

    return Views(
        text=set_ups.set_ups_text,
        html=set_ups.set_ups_html,
        frame=set_ups.frame,
    )


def _model_fits() -> Views[ModelFits]:
    from planner.show import model_fits

    return Views(
        text=model_fits.models_text,
        html=model_fits.models_html,
        frame=model_fits.frame,
    )


def _solution() -> Views[Solution]:
    from planner.show import solution

    return Views(text=solution.solution_text, html=solution.solution_html)


def _speed_bound() -> Views[SpeedBound]:
    from planner.show import speed

    return Views(
        text=speed.speed_text,
        html=speed.whole_html,
        frame=speed.frame,
    )


def _upgrade() -> Views[Upgrade]:
    from planner.show import upgrade

    return Views(text=upgrade.upgrade_text, html=upgrade.whole_html)


def _upgrade_charts() -> Charts[Upgrade]:
    from planner.show.charts.releases import figure

    return Charts(figure=figure)


REGISTRY = registry(
    _plan,
    _plan_charts,
    _confirmation,
    _confirmation_charts,
    _dry_run,
    _pipeline,
    _placement,
    _placement_charts,
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
    _upgrade,
    _upgrade_charts,
)
