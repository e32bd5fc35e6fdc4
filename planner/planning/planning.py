"""plan(): what vLLM would do with a model, a GPU and engine arguments.

The order follows vLLM's start-up: resolve the arguments, refuse what vLLM refuses, load
the weights, profile a run, divide the remaining memory into KV cache blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from planner.engine.arguments import check_release
from planner.engine.devices import gpu_named
from planner.engine.environment import environment_from
from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST, Release, resolve_version
from planner.engine.releases.shared import GROUPS_ALL_RANKS
from planner.engine.settings import EngineSettings, settings_from
from planner.errors import ModelUnavailable, Refused, RefusedArgument
from planner.given import named_in_errors
from planner.memory.account import VLLMError
from planner.memory.kv_cache import capacity
from planner.memory.kv_cache.capacity import StageCache
from planner.memory.kv_cache.kernels import Kernels
from planner.memory.kv_cache.kv_groups import LayerGroup
from planner.memory.kv_cache.kv_spec import Request
from planner.memory.kv_cache.shared_prefix import SharedPrefix, shared_prefix
from planner.models.architecture import ModelArchitecture
from planner.models.files import ModelFiles
from planner.models.lengths import derived_max_model_len, resolve_max_model_len
from planner.planning import batches
from planner.planning.after_sizing import room_note
from planner.planning.calibrations import may_have_records
from planner.planning.calibrations.apply import FoundRecords, find
from planner.planning.cautions import cautions, source_notes
from planner.planning.conditions import conditions
from planner.planning.defaults import ResolvedSettings, layout_of
from planner.planning.host import host_accounts, host_error, host_loading
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.model import architecture, check_refuses, draft_files
from planner.planning.profile_refusals import end_of_start
from planner.planning.resolve import Question, resolve, with_speculation
from planner.planning.result import KVCacheGroup, Outcome, Plan
from planner.planning.stages import Stage, plan_stages, whole_groups
from planner.planning.verdict import (
    alternatives,
    judge,
    limiting_cache,
    longest_request,
)

if TYPE_CHECKING:
    from planner.planning.calibrations.dry import DryFigures


@named_in_errors
def plan(  # noqa: PLR0913 - the inputs of a plan
    model: str | PathLike[str] | ModelArchitecture,
    gpu: str | GPU = "H100",
    *,
    vllm_version: str = NEWEST,
    entrypoint: str = "serve",
    env: Mapping[str, str] | None = None,
    load: Load | None = None,
    **engine_args: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Plan:
    """Plan how vLLM would start this model on this GPU.

    Args:
        model: Hub id, catalogue id, path of a folder or config.json, or a
            ModelArchitecture.
        gpu: catalogue name, "attached" for the first GPU of this machine, or a `GPU`.
        vllm_version: release whose rules apply.
        entrypoint: serve (`vllm serve`), llm (the `LLM` class) or engine (the async
            engine itself, as Ray Data LLM starts it).
        env: vLLM's environment variables.
        load: what the start must serve; `max_model_len` and `max_num_seqs` follow from
            it where they are not given.
        engine_args: vLLM's EngineArgs by name.

    Raises:
        PlannerError: for input that cannot be planned; not fitting is not an error.
        UnknownArchitecture: for a model or setting whose memory is not modelled.
    """
    return _planned(
        Inputs(
            model=fspath(model) if isinstance(model, PathLike) else model,
            gpu=gpu,
            vllm_version=vllm_version,
            entrypoint=entrypoint,
            env=env or {},
            engine_args=engine_args,
            load=load,
        )
    )


def plan_again(inputs: Inputs) -> Plan:
    """Plan what was given, as one value; see `plan`."""
    return plan(
        inputs.model,
        gpu=inputs.gpu,
        vllm_version=inputs.vllm_version,
        entrypoint=inputs.entrypoint,
        env=inputs.env or None,
        load=inputs.load,
        **inputs.engine_args,
    )


def plan_as(inputs: Inputs, release: Release) -> Plan:
    """Plan with a release that is given as an object.

    Raises:
        PlannerError: for input that cannot be planned; not fitting is not an error.
        UnknownArchitecture: for a model or setting whose memory is not modelled.
    """
    return _planned(inputs, release)


def plan_dry(inputs: Inputs, figures: DryFigures) -> Plan:
    """Plan with what vLLM itself measured of this start without a GPU.

    Raises:
        PlannerError: for input that cannot be planned; not fitting is not an error.
        UnknownArchitecture: for a model or setting whose memory is not modelled.
    """
    return _planned(inputs, dry=figures)


def layer_groups(inputs: Inputs) -> tuple[LayerGroup, ...]:
    """Return the KV cache groups of a start over all layers, with their specs.

    Raises:
        PlannerError: for input that cannot be planned.
        Refused: where vLLM refuses it.
    """
    question = _question(inputs, inputs.vllm_version, inputs.engine_args)
    if isinstance(question, Plan):
        return ()
    question = with_speculation(question)
    return whole_groups(question, resolve(question)[1])


def _planned(
    inputs: Inputs, release: Release | None = None, dry: DryFigures | None = None
) -> Plan:
    """Plan a start; arguments that are not given follow from its load."""
    given, load = inputs.engine_args, inputs.load
    follows = {} if load is None else load.arguments(given)
    question = _question(inputs, release or inputs.vllm_version, {**given, **follows})
    if isinstance(question, Plan):
        made = question
    elif load is None and dry is None:
        return _answer(question)
    else:
        made = _answer(replace(question, load=load, dry=dry))
    return made if load is None else replace(made, load=load, follows=tuple(follows))


_EAGER = (
    "enforce_eager: vLLM turns it on itself: CUDA graph is not supported on "
    "BitsAndBytes 8bit yet, fallback to the eager mode."
)


def _question(
    inputs: Inputs, vllm_version: str | Release, engine_args: Mapping[str, Any]
) -> Question | Plan:
    """Read and check the inputs; a plan where vLLM refuses the model itself."""
    gpu, env = inputs.gpu, inputs.env
    release, notes = resolve_version(vllm_version)
    settings = settings_from(engine_args, release)
    device = gpu if isinstance(gpu, GPU) else gpu_named(gpu)
    check_release(engine_args, release)
    environment = environment_from(env, release)
    given_env = tuple((env or {}).items())
    batches.check_entrypoint(inputs.entrypoint)
    try:
        found = architecture(inputs.model, settings, release)
    except Refused as refusal:
        check_refuses(refusal, release)
        return Plan(
            name=str(inputs.model),
            gpu=device,
            settings=settings,
            vllm_version=release.version,
            error=VLLMError(kind="refused", message=str(refusal)),
            outcome=Outcome.REFUSED,
            notes=notes,
            entrypoint=inputs.entrypoint,
            env=given_env,
        )
    if found.quantization_limits.forces_eager and not settings.enforce_eager:
        settings = replace(settings, enforce_eager=True)
        notes = (*notes, _EAGER)
    draft, uncounted = _draft(settings, found, release)
    return Question(
        model=found,
        gpu=device,
        settings=settings,
        env=environment,
        layout=layout_of(settings, environment, device, release),
        entrypoint=inputs.entrypoint,
        release=release,
        notes=(*notes, *source_notes(found)),
        given_env=given_env,
        draft=draft,
        uncounted_draft=uncounted,
    )


def _draft(
    settings: EngineSettings, model: ModelArchitecture, release: Release
) -> tuple[ModelFiles | None, str]:
    """Return the draft's files; without an answer of the Hub, why it is not counted."""
    try:
        return draft_files(settings, model, release), ""
    except ModelUnavailable as reason:
        return None, str(reason)


def _answer(question: Question) -> Plan:
    try:
        question = with_speculation(question)
        resolved, kernels = resolve(question)
        return _plan_resolved(question, resolved, kernels)
    except RefusedArgument as refusal:
        error = VLLMError(kind="refused", message=str(refusal))
        env = replace(question.env, allow_long_max_model_len=True)
        allowed = _answer(replace(question, is_waived=True, env=env))
        return replace(allowed, error=error, outcome=Outcome.REFUSED)
    except Refused as refusal:
        return Plan(
            **_asked(question),
            error=VLLMError(kind="refused", message=str(refusal)),
            outcome=Outcome.REFUSED,
            notes=question.notes,
        )


def _asked(question: Question) -> dict[str, Any]:
    """Return what a plan repeats of its question."""
    return {
        "name": question.model.name,
        "model": question.model,
        "gpu": question.gpu,
        "settings": question.settings,
        "vllm_version": question.release.version,
        "entrypoint": question.entrypoint,
        "env": question.given_env,
    }


def _plan_resolved(
    question: Question, resolved: ResolvedSettings, kernels: Kernels
) -> Plan:
    whole = whole_groups(question, kernels)
    found = _measured(question, resolved)
    given_gpu = question.gpu
    if found.record is not None:
        question = replace(question, gpu=found.corrected(given_gpu))
    stages = plan_stages(question, resolved, kernels, found)
    verdict = judge(question, resolved, stages, whole)
    request = verdict.request
    caches = [stage.cache for stage in stages]
    limiting = limiting_cache(caches)
    groups = whole if question.release.has(GROUPS_ALL_RANKS) else limiting.groups
    figures = capacity.capacity(groups, limiting.num_blocks, request, question.release)
    fewest = limiting_cache([stage.low for stage in stages]).num_blocks
    blocks = capacity.RequestBlocks(groups=tuple(groups), request=request)
    lowest = capacity.capacity(groups, fewest, request, question.release)
    host = host_accounts(question, resolved, stages)
    error, outcome = verdict.error, verdict.outcome
    end = end_of_start(question, resolved, kernels) or host_error(host)
    if end is not None and outcome in (Outcome.FITS, Outcome.TOO_CLOSE):
        error, outcome = end, Outcome.DOES_NOT_FIT
    limit, speculation = _longest_allowed(question), question.model.speculation
    longest = 0
    if verdict.depends_on_length:
        longest = longest_request([stage.low for stage in stages], limit, request)
    return Plan(
        **_asked(question),
        resolved=replace(resolved, max_model_len=request.max_model_len),
        ranks=tuple(stage.rank for stage in stages),
        kv_groups=tuple(
            KVCacheGroup(
                kind=g.spec.kind,
                num_layers=g.num_layers,
                block_size=g.spec.block_size,
                page_size_bytes=g.spec.page_size_bytes,
            )
            for g in whole
        ),
        error=error,
        outcome=outcome,
        host=host,
        loading=host_loading(question, host, stages),
        blocks_per_request=figures.blocks_per_request,
        request_blocks=blocks,
        shared_prefix=_shared_prefix(question, resolved, groups, request),
        num_gpu_blocks=figures.num_gpu_blocks,
        kv_cache_size_tokens=figures.kv_cache_size_tokens,
        max_concurrency=figures.max_concurrency,
        max_concurrency_low=lowest.max_concurrency,
        max_model_len_that_fits=longest or None,
        alternatives=alternatives(stages, request, whole, question.release),
        safe_gpu_memory_utilization=verdict.safe_utilization,
        estimated_max_model_len=_estimated(error, caches, request),
        needed_kv_cache_bytes=limiting.needed_bytes(request),
        conditions=conditions(question),
        notes=(
            *question.notes,
            *(() if speculation is None else speculation.notes),
            *found.notes_for(given_gpu, [stage.rank for stage in stages]),
            *cautions(question, resolved, stages),
            *_room(question, resolved, stages, error),
        ),
    )


def _room(
    question: Question,
    resolved: ResolvedSettings,
    stages: Sequence[Stage],
    error: VLLMError | None,
) -> tuple[str, ...]:
    """Return which share leaves enough, where vLLM finds less free than requested."""
    if error is None or error.kind != "free_memory":
        return ()
    note = room_note(question.gpu, resolved, [stage.rank for stage in stages])
    return (note,) if note else ()


def _shared_prefix(
    question: Question,
    resolved: ResolvedSettings,
    groups: Sequence[LayerGroup],
    request: Request,
) -> SharedPrefix | None:
    """Return what requests with the same beginning share; None: nothing."""
    if not resolved.enable_prefix_caching:
        return None
    draft = question.model.speculation
    is_drafted = draft is not None and draft.reads_target
    return shared_prefix(groups, request, is_drafted=is_drafted)


def _measured(question: Question, resolved: ResolvedSettings) -> FoundRecords:
    """Look up the stored measurements of the same start on the user's GPU."""
    if not may_have_records():
        return FoundRecords()
    from planner.planning.calibrations.key import Start  # noqa: PLC0415 - few need it

    start = Start(
        model=question.model,
        settings=question.settings,
        resolved=resolved,
        env=question.env,
        given_env=question.given_env,
        release=question.release,
    )
    return find(question.gpu, start)


def _estimated(
    error: VLLMError | None, caches: list[StageCache], request: Request
) -> int | None:
    """Return the length that vLLM names where one request does not fit.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` estimate_max_model_len.
    """
    if error is None or error.kind != "max_model_len":
        return None
    return longest_request(caches, request.max_model_len, request) or None


def _longest_allowed(question: Question) -> int:
    """Return the upper limit of the search for the longest request, by the config."""
    release = question.release
    derived = derived_max_model_len(question.model, release)
    default = resolve_max_model_len(None, question.model, question.env, release)
    return max(default, int(min(derived, 1 << 24)))
