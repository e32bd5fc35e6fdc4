"""Names that are imported at their first use, in one table.

Imports point downwards, and functions import nothing except optional packages. The
exceptions are listed here:

- Methods by which a value shows itself or plans again: `Plan.figure` needs a room above
  its own.
- Functions that few runs need and that take long to import.

A test resolves each name and checks that it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeVar

Result = TypeVar("Result")

# Method of a value -> the function of an upper room that implements it.
SHOWN = {
    "Plan.changed": "planner.planning.inputs:changed",
    "Plan.serving": "planner.planning.serving:of_plan",
    "Plan.to_dict": "planner.planning.as_dict:plan_dict",
    "Plan.command": "planner.planning.entrypoints:serve_line",
    "Plan.to_frame": "planner.show.frames:plan_frame",
    "Plan.figure": "planner.show.charts.memory_bars:figure",
    "Plan.dry_run": "planner.confirming.dry.run:of_plan",
    "Plan.explore": "planner.app.widgets.explorer:for_plan",
    "Plan.__str__": "planner.show.plan_text:plan_text",
    "Plan._repr_mimebundle_": "planner.show.page:mimebundle",
    "Confirmation.to_frame": "planner.show.frames:confirmation_frame",
    "Confirmation.figure": "planner.show.charts.confirmed_bars:figure",
    "Confirmation.__str__": "planner.show.confirmation_text:confirmation_text",
    "Confirmation._repr_mimebundle_": "planner.show.confirmation:mimebundle",
    "DryRun.plan": "planner.confirming.dry.plan:plan_of",
    "DryRun.__str__": "planner.show.dry_run:dry_run_text",
    "DryRun._repr_mimebundle_": "planner.show.dry_run:mimebundle",
    "Reading.edits": "planner.export.texts.rewriting:edits",
    "Reading.explain": "planner.export.texts.explaining:explain",
    "Reading.__str__": "planner.show.explanation:reading_text",
    "Reading._repr_mimebundle_": "planner.show.explanation:reading_mimebundle",
    "Explanation.__str__": "planner.show.explanation:explanation_text",
    "Explanation._repr_mimebundle_": "planner.show.explanation:explanation_mimebundle",
    "Pipeline.on": "planner.ray.scheduler:place",
    "Pipeline.nodes_needed": "planner.ray.node_counts:nodes_needed",
    "Pipeline.usual_nodes": "planner.ray.node_counts:usual_nodes",
    "Pipeline.to_dict": "planner.ray.placement:pipeline_dict",
    "Pipeline.to_frame": "planner.show.ray:stages_frame",
    "Pipeline.__str__": "planner.show.ray:pipeline_text",
    "Pipeline._repr_mimebundle_": "planner.show.ray:mimebundle",
    "Placement.to_frame": "planner.show.ray:workers_frame",
    "Placement.figure": "planner.show.charts.ray_nodes:figure",
    "Placement.__str__": "planner.show.ray:placement_text",
    "Placement._repr_mimebundle_": "planner.show.ray:placement_mimebundle",
    "Advice.to_dict": "planner.show.advice:advice_dict",
    "Advice.to_frame": "planner.show.advice:advice_frame",
    "Advice.__str__": "planner.show.advice:advice_text",
    "Advice._repr_html_": "planner.show.advice:advice_html",
    "CommandDiff.html": "planner.show.comparison:diff_html",
    "Comparison.to_frame": "planner.show.comparison:frame",
    "Comparison.figure": "planner.show.charts.compared_bars:figure",
    "Comparison.__str__": "planner.show.comparison:comparison_text",
    "Comparison._repr_mimebundle_": "planner.show.comparison:mimebundle",
    "GPUComparison.to_frame": "planner.show.comparison_gpus:frame",
    "GPUComparison.figure": "planner.show.charts.gpu_bars:figure",
    "GPUComparison.__str__": "planner.show.comparison_gpus:gpus_text",
    "GPUComparison._repr_mimebundle_": "planner.show.comparison_gpus:mimebundle",
    "Grid.to_frame": "planner.show.grid:frame",
    "Grid.heat_map": "planner.show.charts.heat_map:figure",
    "Grid.__str__": "planner.show.grid:grid_text",
    "Grid._repr_mimebundle_": "planner.show.grid:mimebundle",
    "Curve.figure": "planner.show.charts.curve:figure",
    "Solution.__str__": "planner.show.solution:solution_text",
    "Solution._repr_mimebundle_": "planner.show.solution:mimebundle",
    "LoadMap.figure": "planner.show.charts.load_map:figure",
    "LoadMap.__str__": "planner.show.load_map:map_text",
    "LoadMap._repr_mimebundle_": "planner.show.load_map:mimebundle",
    "SetUps.to_frame": "planner.show.set_ups:frame",
    "SetUps.__str__": "planner.show.set_ups:set_ups_text",
    "SetUps._repr_mimebundle_": "planner.show.set_ups:mimebundle",
    "SpeedBound.to_frame": "planner.show.speed:frame",
    "SpeedBound.__str__": "planner.show.speed:speed_text",
    "SpeedBound._repr_mimebundle_": "planner.show.speed:mimebundle",
    "DebugThisStart.html": "planner.app.widgets.pieces:debug_html",
    "DebugThisStart.to_html": "planner.app.widgets.pieces:debug_page",
    "GuessTheBar.html": "planner.app.widgets.pieces:guess_html",
    "GuessTheBar.to_html": "planner.app.widgets.pieces:guess_page",
    "LivingCache.html": "planner.app.widgets.pieces:living_html",
    "LivingCache.to_html": "planner.app.widgets.pieces:living_page",
    "Slider.html": "planner.app.widgets.pieces:slider_html",
    "Slider.to_html": "planner.app.widgets.pieces:slider_page",
    "Upgrade.figure": "planner.show.charts.releases:figure",
    "Upgrade.__str__": "planner.show.upgrade:upgrade_text",
    "Upgrade._repr_mimebundle_": "planner.show.upgrade:mimebundle",
    "Drawn._repr_mimebundle_": "planner.app.widgets.chart:chart_mimebundle",
    # Readers of multimodal models call the reader of the language model inside.
    "language_model_readers": "planner.models.families.registry:readers",
}

# Needed by few runs, and slow to import.
SLOW = frozenset(
    """
    decimal:Decimal
    difflib:get_close_matches
    hashlib:sha256
    http.client:HTTPConnection
    http.client:HTTPSConnection
    shutil:get_terminal_size
    tempfile:gettempdir
    textwrap:wrap
    planner.app.cli.read:expanded
    planner.app.cli.words:understood
    planner.app.voila.app:serve
    planner.app.voila.kernel_app:launch
    planner.app.voila.kernel_app:prepare
    planner.app.widgets.explorer:Explorer
    planner.app.widgets.run_panel:RunPanel
    planner.confirming.dry.run:DryOptions
    planner.confirming.dry.run:DryStart
    planner.confirming.dry.run:dry_python
    planner.confirming.many_cluster:ClusterRuns
    planner.confirming.run:Run
    planner.confirming.start:stage_lines
    planner.engine.devices.attached:first_attached
    planner.engine.devices.processor:processor_gpu
    planner.engine.machines:counted
    planner.engine.machines:machine_named
    planner.engine.settings:settings_from
    planner.export.links:link
    planner.export.plan_file:read_yaml
    planner.export.report_html:html
    planner.export.texts.command:typed
    planner.export.texts.recognising:read
    planner.export:ray_data
    planner.learn.account:recorded
    planner.learn.guessing:guess_the_bar
    planner.learn.progress:keep
    planner.memory.lora.lora:embedding_factor_bytes
    planner.memory.lora.lora:graph_cases
    planner.memory.lora.lora:lora_config
    planner.memory.lora.lora:with_adapters
    planner.memory.lora.towers:Encoding
    planner.memory.lora.towers:adapters_on_host
    planner.memory.lora.towers:with_tower_adapters
    planner.models.drafts.attaching:speculating
    planner.models.quantization.methods:method_named
    planner.models.sources.folder:read
    planner.models.sources.hub_published:load
    planner.models.sources.hub_gguf:fetch
    planner.models.sources.hub_published:models
    planner.models.sources.hub_search:can_search
    planner.models.sources.hub_search:search
    planner.models.sources.huggingface:fetch
    planner.models.sources.huggingface:models
    planner.planning.calibrations.dry:dry_lines
    planner.planning.calibrations.dry:with_dry_cache
    planner.planning.calibrations.store:candidates
    planner.ray:Node
    planner.ray:pipeline
    planner.show.advice:before_any_change
    planner.show.advice:heading
    planner.show.advice:result
    planner.show.charts.compared_bars:figure_spec
    planner.show.charts.ray_nodes:figure_spec
    planner.show.comparison:pinned_html
    planner.show.explanation:explanation_html
    planner.show.charts.load_map:figure_spec
    planner.show.comparison:spoken
    planner.show.load_map:spoken_map
    planner.show.host:host_lines
    planner.show.palette:swatch
    planner.show.ray:section_html
    planner.show.set_ups:drawn
    planner.show.set_ups:row_key
    planner.solve.advice.makers.checkpoints:releases
    planner.solve.advice:advise
    planner.solve.comparing.comparison:compare
    planner.solve.load_map:usual_map
    planner.solve.price_list:gpu_prices
    planner.solve.price_list:save_price
    planner.solve.price_list:saved_prices_path
    planner.solve.set_up_search:page_search
    planner.solve.upgrading:upgrade
    planner.show.upgrade:pinned_html
    planner.show.speed:speed_html
    planner.solve.advice:advise
    planner.solve.comparing.comparison:compare
    planner.solve.speed.bound:speed_bound
    """.split()
)


def late(name: str, /, *args: object, **keywords: object) -> Result:  # type: ignore[type-var]
    """Import and call a function of the tables above.

    The result has the type that the caller declares.

    Args:
        name: a method of `SHOWN`, or `module:function` of `SLOW`.
        args: positional arguments of the call.
        keywords: keyword arguments of the call.

    Raises:
        KeyError: for a name in neither table.
    """
    called: Any = _named(name)
    result: Result = called(*args, **keywords)
    return result


def _named(name: str) -> object:
    place = name if name in SLOW else SHOWN[name]
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)
