"""pipeline(): from a model or a plan and Ray's arguments to a `Pipeline`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from os import PathLike
from typing import Any

from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.models.architecture import ModelArchitecture
from planner.planning.load import Load
from planner.planning.planning import plan as plan_memory
from planner.planning.result import Plan
from planner.ray.amounts import (
    MOST,
    check_amount,
    check_fraction,
    check_mapping,
    check_text,
    is_count,
    shown,
)
from planner.ray.bounds import throughput
from planner.ray.bundles import Bundle, PlacementGroup
from planner.ray.cautions import cautions, known_gpu
from planner.ray.engine import backend_of, engine_request
from planner.ray.pipelines import Asked, Pipeline
from planner.ray.releases import NEWEST, RayRelease
from planner.ray.stages import ENGINE, POSTPROCESS, PREPROCESS, Stage

_DEFAULT_SEQS = 128
"""What Ray before 2.56 assumed for max_num_seqs where it was not set."""
_RAY_FIELDS = frozenset(Asked.__dataclass_fields__)


@named_in_errors
def pipeline(  # noqa: PLR0913 - the package's entry point
    model: str | PathLike[str] | ModelArchitecture | Plan,
    *,
    num_rows: int | None = None,
    load: Load | None = None,
    ray_version: str = NEWEST,
    gpu: str | GPU | None = None,
    vllm_version: str | None = None,
    env: Mapping[str, str] | None = None,
    **arguments: Any,  # noqa: ANN401 - Ray's and vLLM's own argument names and types
) -> Pipeline:
    """Compute what a Ray Data LLM pipeline needs: GPUs, CPUs, placement groups.

    Args:
        model: a plan, which is used unchanged; or a model as `planner.plan` takes it,
            planned with the defaults of the engine that Ray Data LLM starts.
        num_rows: rows of the dataset, for bounds on the run time.
        load: tokens of a row's prompt and answer.
        ray_version: release of Ray whose rules apply, 2.44 to 2.60.
        gpu: as `planner.plan` takes it.
        vllm_version: as `planner.plan` takes it.
        env: vLLM's environment variables.
        arguments: Ray's fields (`concurrency`, `accelerator_type`, `batch_size`,
            `max_concurrent_batches`, `max_tasks_in_flight_per_actor`,
            `max_pending_requests`, `placement_group_config`, `preprocess_map_kwargs`,
            `postprocess_map_kwargs`, `chat_template_stage`, ...) and engine arguments.

    Raises:
        PlannerError: for invalid input, with what to do about it.
        UnknownArchitecture: for a model or setting whose memory is not modelled.

    >>> pipeline("Qwen/Qwen3-8B", gpu="H100", concurrency=4).gpus_total
    4
    """
    release = RayRelease.named(ray_version)
    requested = Asked(**{k: v for k, v in arguments.items() if k in _RAY_FIELDS})
    engine_args = {k: v for k, v in arguments.items() if k not in _RAY_FIELDS}
    start = {"gpu": gpu, "vllm_version": vllm_version, "env": env}
    kind = requested.accelerator_type
    if kind is not None:
        check_text("accelerator_type", kind)
    if gpu is None and kind is not None and not isinstance(model, Plan):
        start["gpu"] = _gpu_of(kind)
    plan = _planned(
        model, {k: v for k, v in start.items() if v is not None}, engine_args
    )
    rows = None if num_rows is None else count_of("num_rows", num_rows, 1)
    bare = _bare(plan, requested, release)
    found = replace(bare, num_rows=rows, load=load)
    found = replace(found, throughput=throughput(found))
    return replace(found, cautions=cautions(found))


def _gpu_of(accelerator_type: str) -> GPU:
    """Return the GPU that Ray's accelerator name refers to.

    Raises:
        PlannerError: for an accelerator that is not a known GPU.
    """
    found = known_gpu(accelerator_type)
    if found is None:
        raise PlannerError(
            f"accelerator_type={accelerator_type!r}: the planner knows no GPU of that "
            "name. Give gpu=... as well; `planner gpus` lists them."
        )
    return found


def _planned(
    model: str | PathLike[str] | ModelArchitecture | Plan,
    start: dict[str, Any],
    engine_args: dict[str, Any],
) -> Plan:
    if not isinstance(model, Plan):
        return plan_memory(model, entrypoint="engine", **start, **engine_args)
    given = sorted([*start, *engine_args])
    if given:
        raise PlannerError(
            f"{', '.join(given)}: a plan is not changed here. Use plan.changed(...), "
            "or "
            "give the model instead of the plan."
        )
    return model


def _bare(plan: Plan, requested: Asked, release: RayRelease) -> Pipeline:
    """Return the pipeline without bounds and cautions."""
    batches = count_of(
        "max_concurrent_batches",
        requested.max_concurrent_batches,
        release.max_concurrent_batches,
    )
    world_size = (plan.settings.tensor_parallel_size or 1) * (
        plan.settings.pipeline_parallel_size or 1
    )
    backend = backend_of(requested, world_size, release)
    return Pipeline(
        plan=plan,
        asked=requested,
        ray_version=release.version,
        backend=backend,
        batch_size=count_of("batch_size", requested.batch_size, release.batch_size),
        max_concurrent_batches=batches,
        max_tasks_in_flight=count_of(
            "max_tasks_in_flight_per_actor",
            requested.max_tasks_in_flight_per_actor,
            release.tasks_in_flight(batches),
        ),
        max_pending_requests=_max_pending(plan, requested, release),
        stages=_stages(requested, world_size, backend, release),
    )


def _max_pending(plan: Plan, requested: Asked, release: RayRelease) -> int | None:
    """Return how many rows an engine accepts at once; None: no limit.

    Source: Ray 2.60.0 and 2.55.1 `stages/vllm_engine_stage.py`.
    """
    limit = requested.max_pending_requests
    if limit is not None:
        if type(limit) is not int or limit > MOST:
            raise PlannerError(
                f"max_pending_requests={shown(limit)}: a whole number; 0 or less: no "
                "limit."
            )
        return limit if limit > 0 else None
    seqs = plan.settings.max_num_seqs or _DEFAULT_SEQS
    if release.reads_resolved_max_num_seqs and plan.resolved is not None:
        seqs = plan.resolved.max_num_seqs
    return ceil(seqs * (plan.settings.pipeline_parallel_size or 1) * 1.1)


def _stages(
    requested: Asked, world_size: int, backend: str, release: RayRelease
) -> tuple[Stage, ...]:
    least, most = concurrency_of(requested.concurrency, release)
    worker, actor = engine_request(requested, world_size, backend, release)
    engine = Stage(
        name=ENGINE,
        is_actors=True,
        workers_minimum=least,
        workers_maximum=most,
        worker=worker,
        actor=actor,
    )
    images = (
        "PrepareMultimodalStage" if release.has_stage_configs else "PrepareImageStage"
    )
    found = (
        _map_stage(PREPROCESS, requested.preprocess_map_kwargs, release),
        _cpu_stage(
            images, requested.prepare_multimodal_stage or False, requested, release
        ),
        _cpu_stage(
            "ChatTemplateStage", requested.chat_template_stage, requested, release
        ),
        _cpu_stage("TokenizeStage", requested.tokenize_stage, requested, release),
        engine,
        _cpu_stage("DetokenizeStage", requested.detokenize_stage, requested, release),
        _map_stage(POSTPROCESS, requested.postprocess_map_kwargs, release),
    )
    return tuple(stage for stage in found if stage is not None)


def _map_stage(
    name: str, given: Mapping[str, Any] | None, release: RayRelease
) -> Stage:
    amounts, limit = map_resources(f"{name}_map_kwargs", given, release)
    return Stage(
        name=name,
        is_actors=False,
        workers_minimum=1,
        workers_maximum=limit,
        worker=_single(amounts),
    )


def _cpu_stage(
    name: str,
    config: Any,  # noqa: ANN401 - True, False or settings
    requested: Asked,
    release: RayRelease,
) -> Stage | None:
    """Return a CPU stage; None where it is switched off.

    Source: Ray 2.60.0 `stages/configs.py` resolve_stage_config.
    """
    settings: dict[str, Any] = dict(config) if isinstance(config, Mapping) else {}
    if config is False or not settings.get("enabled", True):
        return None
    if settings and not release.has_stage_configs:
        raise PlannerError(
            f"{name}: Ray {release.version} only switches it on or off; settings of a "
            "stage came with 2.53."
        )
    concurrency = settings.get("concurrency")
    if concurrency is None:
        concurrency = requested.concurrency or 1
    least, most = stage_concurrency(concurrency, name)
    cpus, memory = settings.get("num_cpus"), settings.get("memory")
    amounts = {"CPU": 1 if cpus is None else cpus, "memory": memory or 0}
    for resource, amount in amounts.items():
        check_amount(f"{name}: {resource}", amount)
    return Stage(
        name=name,
        is_actors=True,
        workers_minimum=least,
        workers_maximum=most,
        worker=_single(amounts),
    )


def _single(amounts: Mapping[str, float]) -> PlacementGroup:
    """Return the request of one worker, which may be empty."""
    bundle = Bundle.of(amounts)
    return PlacementGroup(bundles=(bundle,), strategy="PACK", is_single_request=True)


# Checks of a user's settings, as Ray makes them.


def concurrency_of(
    value: Any,  # noqa: ANN401 - typed by a user
    release: RayRelease,
) -> tuple[int, int]:
    """Return the minimum and the maximum number of engines.

    A whole number is a fixed pool up to Ray 2.54, and 1 to that many since then.

    Raises:
        PlannerError: for invalid counts, or where the release does not accept them.
    """
    if value is None:
        return 1, 1
    if is_count(value):
        return (1 if release.is_autoscaling else value), value
    is_pair = isinstance(value, tuple | list) and len(value) == 2  # noqa: PLR2004
    if not is_pair or not all(is_count(part) for part in value):
        raise PlannerError(
            f"concurrency={shown(value)}: give a number of engines from 1, "
            "or a pair (min, max)."
        )
    least, most = value
    if least > most:
        raise PlannerError(
            f"concurrency={shown(value)}: the minimum, {least}, is above the maximum, "
            f"{most}. Swap them, or give one number."
        )
    if not release.takes_ranges:
        raise PlannerError(
            f"concurrency={shown(value)}: Ray {release.version} takes one number "
            "for the engine; (min, max) needs Ray 2.50 or later."
        )
    return least, most


def stage_concurrency(
    value: Any,  # noqa: ANN401 - typed by a user
    name: str,
) -> tuple[int, int]:
    """Return the minimum and maximum workers of a CPU stage; n means 1 to n.

    Source: Ray 2.60.0 `processor/utils.py` normalize_cpu_stage_concurrency.
    """
    if is_count(value):
        return 1, value
    is_pair = isinstance(value, tuple | list) and len(value) == 2  # noqa: PLR2004
    if not is_pair or not all(is_count(part) for part in value):
        raise PlannerError(
            f"{name}: concurrency={shown(value)} must be a number from 1 or (min, max)."
        )
    if value[0] > value[1]:
        raise PlannerError(
            f"{name}: concurrency={shown(value)} has its minimum above its maximum."
        )
    return value[0], value[1]


def count_of(name: str, value: Any, default: int) -> int:  # noqa: ANN401 - typed by a user
    """Return a whole number of at least 1, or the default.

    Raises:
        PlannerError: for any other value.
    """
    if value is None:
        return default
    if not is_count(value):
        raise PlannerError(f"{name}={shown(value)}: a whole number from 1 is needed.")
    return int(value)


def map_resources(
    name: str, given: Mapping[str, Any] | None, release: RayRelease
) -> tuple[dict[str, float], int | None]:
    """Return what a map task reserves, and how many run at once; None: no limit.

    Raises:
        PlannerError: for settings that Ray refuses for a function.

    Source: Ray 2.60.0 `data/dataset.py` Dataset.map, `data/_internal/util.py`
    get_compute_strategy, `_common/ray_option_utils.py`.
    """
    if given is not None and not release.has_map_kwargs:
        raise PlannerError(
            f"{name}: Ray {release.version} has no such argument; it came with 2.51."
        )
    check_mapping(name, given)
    given = dict(given or {})
    limit = given.get("concurrency")
    if isinstance(limit, tuple | list):
        raise PlannerError(
            f"{name}: concurrency={shown(limit)}. Ray says: ``concurrency`` is set as "
            "a tuple of integers, but ``fn`` is not a callable class. Give one number."
        )
    if limit is not None and not is_count(limit):
        raise PlannerError(
            f"{name}: concurrency={shown(limit)} must be a number from 1."
        )
    resources = given.get("resources") or {}
    check_mapping(f"{name}: resources", resources)
    amounts = {
        "CPU": given.get("num_cpus"),
        "GPU": given.get("num_gpus"),
        "memory": given.get("memory"),
        **resources,
    }
    amounts["CPU"] = 1 if amounts["CPU"] is None else amounts["CPU"]
    kind = given.get("accelerator_type")
    if kind:
        check_text(f"{name}: accelerator_type", kind)
        amounts[f"accelerator_type:{kind}"] = 0.001
    checked = {k: _amount(name, k, v) for k, v in amounts.items() if v is not None}
    return checked, limit


def _amount(owner: str, name: str, value: Any) -> float:  # noqa: ANN401 - typed by a user
    check_text(f"{owner}: a resource's name", name)
    check_amount(f"{owner}: {name}", value)
    check_fraction(owner, name, value)
    return float(value)
