"""What the programs for Ray share: arguments and variables of the engine, by release.

The first half has the names and fields of `ray.data.llm` and `ray.serve.llm` that
changed between Ray's releases. What a release reserves is in `planner.ray.releases`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.engine.flags import python_values
from planner.engine.settings import given_arguments
from planner.errors import PlannerError
from planner.export import needs
from planner.export.python_code import Code, literal
from planner.planning.entrypoints import kept_defaults, release_of
from planner.planning.result import Plan
from planner.ray import Pipeline, RayRelease, pipeline

_VLLM = {
    44: "0.7.2",
    45: "0.8.2",
    46: "0.8.5",
    47: "0.8.5",
    48: "0.9.2",
    49: "0.10.0",
    50: "0.10.2",
    51: "0.11.0",
    52: "0.11.0",
    53: "0.12.0",
    54: "0.15.0",
    55: "0.18.0",
    56: "0.22.0",
    57: "0.25.1",
    58: "0.26.0",
    59: "0.27.0",
    60: "0.29.0",
}
_STAGES = {
    "chat_template_stage": "apply_chat_template",
    "tokenize_stage": "tokenize",
    "detokenize_stage": "detokenize",
    "prepare_multimodal_stage": "has_image",
}
_SECRET = "hf_token"
_DEFAULTS = {
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "data_parallel_size": 1,
    "decode_context_parallel_size": 1,
    "enforce_eager": False,
    "enable_expert_parallel": False,
    "enable_lora": False,
    "trust_remote_code": False,
}
"""vLLM's defaults, which are left out even where they were given."""
_RAY_SETS = ("served_model_name", "distributed_executor_backend")
_TASK = ("runner", "convert")
_TASKS = {"embed": "embed", "classify": "classify", "reward": "score"}
_SHARE = "VLLM_RAY_PER_WORKER_GPUS"


def vllm_of(release: RayRelease) -> str:
    """Return the vLLM that `ray[llm]` requires: at least, and from 2.56 on exactly.

    Source: Ray 2.44.1 to 2.60.0, requirements of the extra `llm` in the wheels.
    """
    return _VLLM[release.number[1]]


def brings_one_vllm(release: RayRelease) -> bool:
    """Whether `ray[llm]` requires exactly one release of vLLM."""
    return release.since(56)


def image(release: RayRelease) -> str:
    """Return Ray's image with vLLM.

    The tags of 2.44, 2.46, 2.48 to 2.56 and 2.58 were seen in use; the others are
    inferred from their neighbours.
    """
    if release.since(56):
        kind = "py312-cu130"
    else:
        kind = "py311-cu128" if release.since(48) else "py311-cu124"
    return f"rayproject/ray-llm:{release.version}-{kind}"


def builder(release: RayRelease) -> str:
    """Return the function that builds a processor; 2.53 to 2.55 have both names.

    Source: Ray 2.52.1, 2.53.0, 2.56.1 `data/llm.py`.
    """
    return "build_processor" if release.since(53) else "build_llm_processor"


def stage_field(release: RayRelease, name: str) -> str:
    """Return the field that switches a stage on or off.

    Source: Ray 2.52.1, 2.53.0 `llm/_internal/batch/processor/base.py`
    OfflineProcessorConfig.
    """
    return name if release.has_stage_configs else _STAGES[name]


def has_tasks_in_flight(release: RayRelease) -> bool:
    """Whether max_tasks_in_flight_per_actor is a field of the configuration itself.

    Source: Ray 2.55.1, 2.56.1 `llm/_internal/batch/processor/base.py`.
    """
    return release.since(56)


def has_experimental(release: RayRelease) -> bool:
    """Whether the configuration has a table of experimental settings.

    Source: Ray 2.47.1, 2.48.0 `llm/_internal/batch/processor/base.py`.
    """
    return release.since(48)


def data_entrypoint() -> str:
    """Return the `entrypoint` of `planner.plan` for an engine of Ray Data LLM.

    In every release, Ray Data creates the configuration without a usage context, so
    vLLM uses the scheduler's own defaults for any GPU.

    Source: Ray 2.44.1 to 2.60.0 `llm/_internal/batch/stages/vllm_engine_stage.py`
    vLLMEngineWrapper (AsyncEngineArgs.create_engine_config,
    AsyncLLMEngine.from_engine_args).
    """
    return "engine"


def serve_entrypoint(release: RayRelease) -> str:
    """Return the `entrypoint` of `planner.plan` for an engine of Ray Serve LLM.

    Source: Ray 2.48.0, 2.49.2 `llm/_internal/serve/deployments/llm/vllm/vllm_engine.py`
    (UsageContext.OPENAI_API_SERVER).
    """
    return "serve" if release.since(49) else "engine"


def serve_takes_tables(release: RayRelease) -> bool:
    """Whether build_openai_app accepts a table, not only LLMServingArgs.

    Source: Ray 2.48.0, 2.49.2 `serve/llm/__init__.py` build_openai_app.
    """
    return release.since(49)


def serve_resources(release: RayRelease) -> str:
    """Return the field of LLMConfig that sets resources; empty where there is none.

    Source: Ray 2.44.1, 2.45.0, 2.50.1, 2.51.1 LLMConfig.
    """
    if release.since(51):
        return "placement_group_config"
    return "resources_per_bundle" if release.since(45) else ""


def serve_reads_fractions(release: RayRelease) -> bool:
    """Whether Ray Serve LLM itself sets the share of a GPU that vLLM's workers get.

    Source: Ray 2.52.1, 2.53.0 `llm/_internal/serve/engines/vllm/vllm_models.py`.
    """
    return release.since(53)


def pipeline_of(what: Pipeline | Plan) -> Pipeline:
    """Return a pipeline unchanged, and for a plan the pipeline with one engine."""
    return what if isinstance(what, Pipeline) else pipeline(what)


def release_of_ray(found: Pipeline) -> RayRelease:
    """Return the release of Ray that a pipeline is for."""
    return RayRelease.named(found.ray_version)


def data_engine_kwargs(found: Pipeline) -> dict[str, Any]:
    """Return `engine_kwargs` of Ray Data LLM that differ from its engine's defaults.

    Raises:
        PlannerError: for several engines in a replica.
    """
    given = {k: v for k, v in _given(found.plan).items() if k not in _TASK}
    backend = found.asked.distributed_executor_backend
    named = {"distributed_executor_backend": backend} if backend else {}
    kept = kept_defaults(found.plan, data_entrypoint())
    return given | kept | named


def serve_engine_kwargs(found: Pipeline) -> dict[str, Any]:
    """Return `engine_kwargs` of Ray Serve LLM, which always runs Ray's executor.

    Raises:
        PlannerError: for several engines in a replica.

    Source: Ray 2.60.0 `llm/_internal/serve/engines/vllm/vllm_models.py`
    get_initialization_kwargs; `core/configs/llm_config.py` (disable_log_stats).
    """
    given = _given(found.plan)
    given.pop("disable_log_stats", None)
    entrypoint = serve_entrypoint(release_of_ray(found))
    return given | kept_defaults(found.plan, entrypoint)


def _given(plan: Plan) -> dict[str, Any]:
    given = given_arguments(plan.settings)
    engines = given.get("data_parallel_size") or 1
    if engines > 1:
        raise PlannerError(
            f"Ray runs one engine in a replica, not data_parallel_size={engines}: "
            "leave it out, and raise concurrency instead."
        )
    values = python_values(given, release_of(plan))
    return {
        name: value
        for name, value in values.items()
        if name not in _RAY_SETS
        and not (name == _SECRET and isinstance(value, str))
        and not _is_default(name, value)
    }


def _is_default(name: str, value: object) -> bool:
    default = _DEFAULTS.get(name)
    return default is not None and type(value) is type(default) and value == default


def task_type(plan: Plan) -> str:
    """Return Ray Data's name for the task of the engine.

    Source: Ray 2.60.0 `llm/_internal/batch/stages/vllm_engine_stage.py`
    vLLMEngineWrapper (runner, convert).
    """
    if plan.model is None or not plan.model.is_pooling:
        return "generate"
    convert = given_arguments(plan.settings).get("convert")
    return _TASKS.get(str(convert), "embed")


def served_name(plan: Plan) -> str:
    """Return the name of the model for the users of a server."""
    name = given_arguments(plan.settings).get("served_model_name")
    names = [name] if isinstance(name, str) else list(name or ())
    return str(names[0]) if names else plan.name


def variables(found: Pipeline, *, is_share_set: bool = False) -> dict[str, str]:
    """Return environment variables of the engine, without secrets.

    One of them is the share of a GPU that each worker of Ray's executor gets, unless
    Ray itself sets it (`is_share_set`).

    Source: vLLM 0.29.0 `v1/executor/ray_executor_v2.py` (VLLM_RAY_PER_WORKER_GPUS).
    """
    given = needs.environment(found.plan)
    share = _share(found)
    if share is not None and not is_share_set:
        given.setdefault(_SHARE, f"{share:g}")
    return given


def secret_names(found: Pipeline) -> tuple[str, ...]:
    """Return the names of the plan's variables whose values are secret."""
    plan = found.plan
    has_token = isinstance(given_arguments(plan.settings).get(_SECRET), str)
    given = {name for name, _ in plan.env} | ({"HF_TOKEN"} if has_token else set())
    return tuple(name for name in needs.secrets(plan) if name in given)


def runtime_env(found: Pipeline, *, is_share_set: bool = False) -> dict[str, Any]:
    """Return the argument `runtime_env` with the plan's variables; empty without any.

    A secret is read from the environment where the program starts.
    """
    values: dict[str, Any] = dict(variables(found, is_share_set=is_share_set))
    for name in secret_names(found):
        values[name] = Code(f"os.environ[{literal(name)}]")
    return {"runtime_env": {"env_vars": values}} if values else {}


def _share(found: Pipeline) -> float | None:
    """Return the share of a GPU that each worker of a group takes, if below 1."""
    if found.backend != "ray":
        return None
    shares = [bundle.gpus for bundle in found.engine.worker.bundles if bundle.gpus]
    return shares[0] if shares and shares[0] < 1 else None


def comments(found: Pipeline, *, brings_vllm: bool = False) -> list[str]:
    """Return lines that describe the plan, and the vLLM that it needs.

    `brings_vllm`: whether an image contains the vLLM of the release.
    """
    plan, release = found.plan, release_of_ray(found)
    least, most = found.replicas_minimum, found.replicas_maximum
    count = f"{most}" if least == most else f"{least} to {most}"
    lines = [
        needs.headline(plan),
        f"Ray {release.version}: {count} engine{'s' * (most > 1)} of "
        f"{_gpus(found.gpus_per_replica)} each; {_gpus(found.gpus_total)} in total at "
        "most.",
    ]
    brought = vllm_of(release)
    if plan.vllm_version != brought and (brings_vllm or brings_one_vllm(release)):
        what = "The image brings" if brings_vllm else "ray[llm] brings"
        lines.append(
            f"{what} vLLM {brought}, and this plan is for {plan.vllm_version}: install "
            f"that one, or plan vllm_version={brought!r}."
        )
    return lines


def _gpus(count: float) -> str:
    return f"{count:g} GPU" + "s" * (count != 1)


def resources(found: Pipeline) -> Mapping[str, Any] | None:
    """Return the bundles that the user gave, as Ray Data takes them."""
    settings = found.asked
    given = settings.placement_group_config or settings.resources_per_bundle
    return None if given is None else dict(given)
