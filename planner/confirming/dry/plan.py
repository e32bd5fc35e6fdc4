"""The plan of a dry run: vLLM's own figures where it has them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.errors import PlannerError, UnknownArchitecture
from planner.models.families.recorded import architecture_of
from planner.models.sources.finding import model_files
from planner.planning.calibrations.dry import DryFigures, DryRank
from planner.planning.inputs import Inputs
from planner.planning.planning import plan_dry

if TYPE_CHECKING:
    from planner.confirming.dry.result import DryRun
    from planner.confirming.measurement import Measurement, WorkerFigures
    from planner.models.architecture import ModelArchitecture
    from planner.planning.result import Plan


def plan_of(run: DryRun) -> Plan:
    """Return the plan with a dry run's figures in place of its estimates.

    Raises:
        PlannerError: if vLLM did not come as far as its profile run.
        UnknownArchitecture: for a model that the planner does not read.
    """
    if not run.ranks:
        raise PlannerError(
            f"vLLM did not come as far as its profile run, so there are no figures: "
            f"{run.refused or 'it was stopped'}"
        )
    inputs = Inputs(
        model=run.model if run.estimate is not None else _built(run),
        gpu=run.gpu,
        vllm_version=run.measurement.vllm_version or "",
        entrypoint=run.entrypoint,
        env=run.env,
        engine_args=run.engine_args,
    )
    plan = plan_dry(inputs, figures_of(run))
    return replace(plan, notes=tuple(dict.fromkeys((*plan.notes, *run.notes))))


def _built(run: DryRun) -> ModelArchitecture:
    """Return the model as vLLM built it, for one that the planner does not read."""
    if not run.tree:
        raise PlannerError(f"vLLM did not load {run.model}: {run.refused}")
    files = model_files(run.model)
    whole, stages = run.tree, int(run.engine_args.get("pipeline_parallel_size") or 1)
    if stages > 1:
        raise UnknownArchitecture(
            f"{run.model} is known from its first pipeline stage only: "
            "`planner record` asks vLLM for all of it."
        )
    version = run.measurement.vllm_version
    source = f"vLLM {version}'s own start without a GPU"
    model = architecture_of(files, whole, None, source=source)
    return replace(model, files=files)


def figures_of(run: DryRun) -> DryFigures:
    """Return what vLLM measured on each pipeline stage."""
    stages = max(len(run.driver), 1)
    per_stage = max(_world(run) // stages, 1)
    found = {worker.rank // per_stage: worker for worker in run.ranks}
    return DryFigures(
        vllm_version=run.measurement.vllm_version or "",
        ranks=tuple(
            _rank(run, found.get(stage), stage, per_stage) for stage in range(stages)
        ),
        is_compile_cache_cold=run.measurement.is_compile_cache_cold,
    )


def _world(run: DryRun) -> int:
    tensor = run.engine_args.get("tensor_parallel_size") or 1
    pipeline = run.engine_args.get("pipeline_parallel_size") or 1
    return int(tensor) * int(pipeline)


def _rank(
    run: DryRun, worker: WorkerFigures | None, stage: int, per_stage: int
) -> DryRank:
    if worker is None:
        return DryRank(weights_bytes=None, persistent_bytes=None, peak_bytes=None)
    assumed = run.driver[stage].non_torch_bytes if stage < len(run.driver) else 0
    return DryRank(
        weights_bytes=worker.weights_bytes,
        persistent_bytes=_persistent(worker, assumed),
        peak_bytes=worker.peak_activation_bytes,
        cold_peak_bytes=_cold_peak(run.cold, stage, per_stage),
    )


def _persistent(worker: WorkerFigures, assumed_bytes: int) -> int | None:
    """Return what stays allocated beside the weights and the assumed driver memory.

    Up to 0.26 vLLM measures non-torch memory by itself, and what PyTorch keeps is part
    of neither figure.
    """
    if worker.consumed_bytes is None or worker.weights_bytes is None:
        return None
    return max(0, worker.consumed_bytes - worker.weights_bytes - assumed_bytes)


def _cold_peak(cold: Measurement | None, stage: int, per_stage: int) -> int | None:
    workers = () if cold is None else cold.workers
    found = {worker.rank // per_stage: worker for worker in workers}
    return found[stage].peak_activation_bytes if stage in found else None
