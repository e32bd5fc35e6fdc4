"""Cautions about a pipeline: where it behaves unlike its numbers, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, floor
from typing import TYPE_CHECKING

from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.ray.amounts import is_amount, shown
from planner.ray.bounds import replicas_used
from planner.ray.pipelines import Caution
from planner.ray.releases import RayRelease

if TYPE_CHECKING:
    from planner.ray.pipelines import Pipeline

_PER_WORKER = "VLLM_RAY_PER_WORKER_GPUS"


def cautions(pipeline: Pipeline) -> tuple[Caution, ...]:
    """Return what to know before starting the pipeline, fatal cautions first."""
    makers = (
        _memory,
        _placement_group,
        _shared_gpus,
        _batches,
        _kv_cache,
        _concurrency,
        _stages,
        _plan,
    )
    found = [caution for maker in makers for caution in maker(pipeline)]
    return tuple(sorted(found, key=lambda caution: not caution.is_fatal))


def _memory(pipeline: Pipeline) -> Iterator[Caution]:
    """Whether one replica fits in memory."""
    plan = pipeline.plan
    if plan.fits:
        return
    reason = "" if plan.error is None else f" vLLM says: {plan.error.message}"
    yield Caution(
        kind="memory",
        message=f"One replica {plan.outcome} on {plan.gpu.name}.{reason}",
        is_fatal=True,
    )


def _placement_group(pipeline: Pipeline) -> Iterator[Caution]:
    """Whether the placement group meets the needs of vLLM's executor.

    Source: vLLM 0.33.0 `v1/executor/ray_utils.py` initialize_ray_cluster,
    `v1/executor/ray_executor_v2.py`, `envs.py` VLLM_RAY_PER_WORKER_GPUS.
    """
    stage = pipeline.engine
    if not stage.worker.gpus and not pipeline.plan.gpu.is_cpu:
        yield Caution(
            kind="group",
            message="The engine reserves no GPU, so that Ray shows it none. Add "
            '"GPU": 1 to its bundles.',
            is_fatal=True,
        )
    if stage.actor is None:
        return
    bundles = stage.worker.bundles
    settings = pipeline.plan.settings
    world = (settings.tensor_parallel_size or 1) * (
        settings.pipeline_parallel_size or 1
    )
    with_gpus = [bundle for bundle in bundles if bundle.gpus]
    if len(with_gpus) < world:
        yield Caution(
            kind="group",
            message=f"{world} GPU workers need {world} bundles with a GPU; the group "
            f"has {len(with_gpus)}. vLLM refuses to start.",
            is_fatal=True,
        )
    if any(bundle.gpus > 1 for bundle in bundles):
        yield Caution(
            kind="group",
            message="vLLM says: Placement group bundle cannot have more than 1 GPU.",
            is_fatal=True,
        )
    if stage.worker.cpus < 1:
        yield Caution(
            kind="group",
            message="The engine's actor requests 1 CPU within its placement group, and "
            f'its bundles hold {stage.worker.cpus:g}. Add "CPU": 1 to a bundle.',
            is_fatal=True,
        )
    needed = _gpus_of_a_worker(dict(pipeline.plan.env))
    least = min((bundle.gpus for bundle in with_gpus), default=1)
    if least < needed:
        yield Caution(
            kind="group",
            message=f"vLLM's workers request {needed:g} GPU each, and a bundle "
            f"has {least:g}: they are never placed. Set VLLM_RAY_PER_WORKER_GPUS="
            f"{least:g} in the runtime_env.",
            is_fatal=True,
        )


def _gpus_of_a_worker(env: Mapping[str, str]) -> float:
    """Return the GPUs that each of vLLM's workers requests.

    Raises:
        PlannerError: where the variable is not a number.
    """
    text = env.get(_PER_WORKER, "1.0")
    try:
        found = float(text)
    except ValueError:
        found = -1
    if not is_amount(found):
        raise PlannerError(
            f"{_PER_WORKER}={shown(text)}: a number of GPUs is needed, such as 0.5."
        )
    return found


def _shared_gpus(pipeline: Pipeline) -> Iterator[Caution]:
    """Whether workers that share a GPU fit in its memory, which Ray does not divide."""
    share = min((b.gpus for b in pipeline.engine.worker.bundles if b.gpus), default=1)
    resolved = pipeline.plan.resolved
    if share < 1 and resolved is not None and not resolved.kv_cache_memory_bytes:
        count = floor(1 / share)
        used = count * resolved.gpu_memory_utilization
        if used > 1:
            yield Caution(
                kind="shared_gpu",
                message=f"{count} replicas may share a GPU, and each takes "
                f"{resolved.gpu_memory_utilization:g} of its memory: {used:g} in "
                "total. "
                f"Set gpu_memory_utilization to {floor(90 / count) / 100:g} or less.",
                is_fatal=count > 1 and pipeline.replicas_minimum > 1,
            )
    for stage in pipeline.stages:
        part = stage.worker.gpus % 1
        if stage.is_engine or not part:
            continue
        if share < 1:
            yield Caution(
                kind="shared_gpu",
                message=f"{stage.name} takes {part:g} of a GPU and may share it with a "
                "replica. Ray does not divide memory: what it uses there must be left "
                "free by gpu_memory_utilization.",
            )


def _batches(pipeline: Pipeline) -> Iterator[Caution]:
    """Whether the batches keep vLLM busy.

    Source: Ray 2.60.0 `stages/vllm_engine_stage.py` vLLMEngineStageUDF,
    vLLMEngineWrapper; `processor/base.py` OfflineProcessorConfig.
    """
    resolved = pipeline.plan.resolved
    if resolved is None:
        return
    batches = min(pipeline.max_concurrent_batches, pipeline.max_tasks_in_flight)
    rows, seqs = batches * pipeline.batch_size, resolved.max_num_seqs
    if rows < seqs:
        yield Caution(
            kind="starved",
            message=f"{batches} batches of {pipeline.batch_size} rows are {rows:,} at "
            f"once, and vLLM takes max_num_seqs={seqs:,}: it is not filled. Raise "
            f"max_concurrent_batches to {ceil(seqs / pipeline.batch_size)}, or "
            "batch_size.",
        )
    if pipeline.max_tasks_in_flight < pipeline.max_concurrent_batches:
        yield Caution(
            kind="in_flight",
            message=f"Ray {pipeline.ray_version} sends an engine "
            f"{pipeline.max_tasks_in_flight} batches at once, fewer than "
            f"max_concurrent_batches={pipeline.max_concurrent_batches}.",
        )
    capacity = seqs * resolved.pipeline_parallel_size
    limit = pipeline.max_pending_requests
    if limit is not None and limit < capacity:
        yield Caution(
            kind="pending",
            message=f"max_pending_requests={limit:,} lets fewer rows through than "
            f"vLLM takes: max_num_seqs {seqs:,} x {resolved.pipeline_parallel_size} "
            f"pipeline stages = {capacity:,}. Ray's own would be "
            f"{ceil(capacity * 1.1):,}.",
        )


def _kv_cache(pipeline: Pipeline) -> Iterator[Caution]:
    """Whether the KV cache holds the requests in flight."""
    plan = pipeline.plan
    if plan.resolved is None or not plan.fits:
        return
    holds: float = plan.max_concurrency
    tokens = plan.resolved.max_model_len
    if pipeline.throughput is not None:
        at_most = pipeline.throughput.speed.memory_holds
        if at_most is None:
            return
        holds, tokens = at_most, pipeline.throughput.speed.load.request_tokens
    at_once = min(pipeline.rows_in_flight, plan.resolved.max_num_seqs)
    if holds < at_once:
        yield Caution(
            kind="queued",
            message=f"The KV cache holds {holds:,.1f} requests of {tokens:,} tokens, "
            f"and up to {at_once:,} rows are worked on at once: if they grow that "
            "long, vLLM interrupts some and computes them again.",
        )


def _concurrency(pipeline: Pipeline) -> Iterator[Caution]:
    """Whether as many engines run as `concurrency` suggests."""
    release = RayRelease.named(pipeline.ray_version)
    concurrency = pipeline.asked.concurrency
    if isinstance(concurrency, int) and concurrency > 1 and release.is_autoscaling:
        yield Caution(
            kind="autoscaling",
            message=f"concurrency={concurrency} is 1 to {concurrency} engines in Ray "
            f"{pipeline.ray_version}: it starts one, and more while rows wait. For a "
            f"fixed pool give concurrency=({concurrency}, {concurrency}).",
        )
    used = replicas_used(pipeline)
    if used < pipeline.replicas_maximum:
        yield Caution(
            kind="few_rows",
            message=f"{pipeline.num_rows:,} rows are {used} batches of "
            f"{pipeline.batch_size}: at most {used} of {pipeline.replicas_maximum} "
            "engines get any.",
        )
    if pipeline.engine.actor is not None and pipeline.replicas_maximum > 1:
        yield Caution(
            kind="pending_groups",
            message="Ray Data counts no GPUs for engines with placement groups: it "
            "requests all of them, and those that find no room wait.",
        )


def _stages(pipeline: Pipeline) -> Iterator[Caution]:
    """The GPUs of the stages beside the engine."""
    for stage in pipeline.stages:
        if stage.is_actors or not stage.worker.gpus:
            continue
        if stage.workers_maximum is None:
            yield Caution(
                kind="no_limit",
                message=f"{stage.name} has no concurrency: Ray starts as many tasks as "
                f"there are GPUs free, {stage.worker.gpus:g} each. The total counts "
                f"one. Give {stage.name}_map_kwargs a concurrency.",
            )
        yield Caution(
            kind="tasks_need_gpus",
            message=f"{stage.name} needs {stage.worker.gpus:g} GPU besides the "
            "engines. "
            "Engines keep theirs to the end: where they take all, no row passes.",
        )


def _plan(pipeline: Pipeline) -> Iterator[Caution]:
    """Whether the plan matches what Ray Data LLM starts."""
    plan = pipeline.plan
    settings = plan.settings
    open_ones = [
        name
        for name in ("max_num_batched_tokens", "max_num_seqs")
        if getattr(settings, name) is None
    ]
    if plan.entrypoint != "engine" and open_ones and plan.resolved is not None:
        values = " and ".join(f"{n}={getattr(plan.resolved, n):,}" for n in open_ones)
        yield Caution(
            kind="entrypoint",
            message=f"The plan is for {plan.entrypoint}, whose defaults are {values}. "
            "The engine that Ray Data LLM starts has 2,048 tokens and 128 requests: "
            "write these two out to keep the plan's figures.",
        )
    kind = pipeline.accelerator_type
    named = None if kind is None else known_gpu(kind)
    if named is not None and named.name.split("-")[0] != plan.gpu.name.split("-")[0]:
        yield Caution(
            kind="accelerator",
            message=f"The memory is planned for {plan.gpu.name}, and engines ask for "
            f"nodes with {kind}: plan for gpu={named.name!r}.",
        )
    if (settings.data_parallel_size or 1) > 1:
        yield Caution(
            kind="data_parallel",
            message=f"data_parallel_size={settings.data_parallel_size}: Ray Data LLM "
            "reserves tensor x pipeline GPUs only. Use concurrency for replicas.",
            is_fatal=True,
        )


def known_gpu(accelerator_type: str) -> GPU | None:
    """Return the GPU with Ray's name, such as A100-80G; None: unknown.

    Source: Ray 2.60.0 `util/accelerators/accelerators.py`.
    """
    for name in (accelerator_type, f"{accelerator_type}B"):
        try:
            return GPU.named(name)
        except PlannerError:
            continue
    return None
