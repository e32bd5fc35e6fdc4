"""DryRun: what vLLM measured of itself on a GPU that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any

from planner.confirming.confirmation import measurement_dict
from planner.confirming.measurement import Measurement, WorkerFigures
from planner.engine.gpu import GPU
from planner.errors import PlannerError, UnknownArchitecture
from planner.models.families.recorded import architecture_of
from planner.models.sources.finding import model_files
from planner.planning.calibrations.dry import DryFigures, DryRank
from planner.planning.inputs import Inputs
from planner.planning.planning import plan_dry
from planner.values import frozen
from planner.views import Viewed

if TYPE_CHECKING:
    from planner.confirming.confirmation import Confirmation
    from planner.models.architecture import ModelArchitecture
    from planner.planning.result import Plan


@frozen
class DriverMemory:
    """Memory of a rank that only a driver allocates: the planner's estimate of it.

    A dry run has no driver. vLLM counts these sizes as if it had one.
    """

    non_torch_bytes: int = 0
    """Kernels, buffers of NCCL."""
    cudagraph_bytes: int = 0
    """CUDA graphs as vLLM estimates them, the driver's share included."""
    outside_bytes: int = 0
    """Allocated before vLLM's first snapshot, such as the CUDA context."""


@frozen
class Alive:
    """Blocks that one line of code allocated, in use when most memory is."""

    size_bytes: int
    count: int
    place: str
    """File, line and function, and those of the model's class that called it."""


@frozen
class DryRun(Viewed):
    """One start of vLLM without a GPU, and the plan of the same start."""

    model: str
    gpu: GPU
    entrypoint: str
    engine_args: Mapping[str, Any]
    env: Mapping[str, str] = field(default_factory=dict)
    measurement: Measurement
    cold: Measurement | None = None
    """The start before it, which filled the compile cache; None: there was none."""
    driver: tuple[DriverMemory, ...] = ()
    """Of each pipeline stage, as assumed."""
    estimate: Plan | None = None
    """The plan of the same start; None for a model that the planner does not read."""
    unplanned: str = ""
    """Why there is no estimate."""
    confirmation: Confirmation | None = None
    """Estimate and dry run, line by line."""
    tree: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The first stage's modules, tensors and caches, as vLLM built them."""
    alive: tuple[Alive, ...] = ()
    """What is in use at the peak of the first rank's profile run, the largest first;
    empty unless the run is traced."""
    fault: str | None = None
    """Why the run failed by itself, which is no answer of vLLM; None: it did not."""
    notes: tuple[str, ...] = ()
    log_text: str = ""

    @property
    def started(self) -> bool | None:
        """Whether vLLM started; None if it was stopped before, or the run failed."""
        return self.measurement.is_started

    @property
    def refused(self) -> str | None:
        """Why it did not start, in vLLM's words."""
        return self.measurement.error if self.started is False else None

    @property
    def ranks(self) -> tuple[WorkerFigures, ...]:
        """The ranks that ran, in order: one of each pipeline stage in one process."""
        return tuple(sorted(self.measurement.workers, key=lambda one: one.rank))

    def plan(self) -> Plan:
        """Return the plan with this run's figures in place of its estimates.

        Raises:
            PlannerError: if vLLM did not come as far as its profile run.
        """
        return plan_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except vLLM's log as plain values; sizes in whole bytes."""
        return dry_dict(self)


def dry_dict(run: DryRun) -> dict[str, Any]:
    """Return a dry run in the form of the public contract."""
    measured = run.measurement
    return {
        "model": run.model,
        "gpu": run.gpu.name,
        "vllm_version": measured.vllm_version,
        "entrypoint": run.entrypoint,
        "env": dict(run.env),
        "engine_args": dict(run.engine_args),
        "started": run.started,
        "refused": run.refused,
        **({"fault": run.fault} if run.fault else {}),
        "seconds": round(measured.seconds, 1),
        "compile_cache": _cache(measured),
        "ranks": [_rank(worker) for worker in run.ranks],
        "ranks_cold": [] if run.cold is None else [_rank(w) for w in run.cold.workers],
        "assumed_driver_memory": [asdict(one) for one in run.driver],
        "num_gpu_blocks": measured.num_gpu_blocks,
        "kv_cache_size_tokens": measured.kv_cache_size_tokens,
        "max_concurrency": measured.max_concurrency,
        "kv_groups": _groups(run.ranks),
        "estimate": None if run.estimate is None else run.estimate.to_dict(),
        "unplanned": run.unplanned or None,
        "measured": measurement_dict(measured),
        **({"alive": [asdict(one) for one in run.alive]} if run.alive else {}),
        "notes": list(run.notes),
    }


def _cache(measured: Measurement) -> str | None:
    is_cold = measured.is_compile_cache_cold
    return None if is_cold is None else "cold" if is_cold else "warm"


def _rank(worker: WorkerFigures) -> dict[str, Any]:
    return {
        "rank": worker.rank,
        "weights_bytes": worker.weights_bytes,
        "peak_activation_bytes": worker.peak_activation_bytes,
        "consumed_bytes": worker.consumed_bytes,
        "requested_memory_bytes": worker.requested_memory_bytes,
        "cudagraph_estimate_bytes": worker.cudagraph_estimate_bytes,
        "available_kv_cache_bytes": worker.available_kv_cache_bytes,
    }


def _groups(ranks: tuple[WorkerFigures, ...]) -> list[dict[str, Any]]:
    """Return the KV cache groups of the first rank that reported them."""
    found = next((worker.groups for worker in ranks if worker.groups), ())
    return [asdict(group) for group in found]


def why_undecided(run: DryRun) -> str:
    """Say why a run that vLLM neither refused nor finished says nothing."""
    if run.fault is None:
        return "it was stopped"
    return f"the dry run itself failed, which a GPU would not: {run.fault}"


def plan_of(run: DryRun) -> Plan:
    """Return the plan with a dry run's figures in place of its estimates.

    Raises:
        PlannerError: if vLLM did not come as far as its profile run.
        UnknownArchitecture: for a model that the planner does not read.
    """
    if not run.ranks:
        raise PlannerError(
            f"vLLM did not come as far as its profile run, so there are no figures: "
            f"{run.refused or why_undecided(run)}"
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
        why = run.refused or why_undecided(run)
        raise PlannerError(f"vLLM did not load {run.model}: {why}")
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
            _dry_rank(run, found.get(stage), stage, per_stage)
            for stage in range(stages)
        ),
        is_compile_cache_cold=run.measurement.is_compile_cache_cold,
    )


def _world(run: DryRun) -> int:
    tensor = run.engine_args.get("tensor_parallel_size") or 1
    pipeline = run.engine_args.get("pipeline_parallel_size") or 1
    return int(tensor) * int(pipeline)


def _dry_rank(
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
