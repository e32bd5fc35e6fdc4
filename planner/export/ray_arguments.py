"""What the engine of a Ray pipeline is given: arguments, variables, the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.engine import given_arguments
from planner.errors import PlannerError
from planner.export import machines, ray_releases
from planner.export.entrypoints import kept_defaults, release_of
from planner.export.python_code import literal
from planner.export.ray_text import Code
from planner.flags import python_values
from planner.ray import Pipeline, RayRelease, pipeline
from planner.result import Plan

_SECRET = "hf_token"
_NOTHING_ASKED = {
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "data_parallel_size": 1,
    "decode_context_parallel_size": 1,
    "enforce_eager": False,
    "enable_expert_parallel": False,
    "enable_lora": False,
    "trust_remote_code": False,
}
"""Values that say what vLLM does anyway."""
_RAY_SETS = ("served_model_name", "distributed_executor_backend")
_TASK = ("runner", "convert")
_TASKS = {"embed": "embed", "classify": "classify", "reward": "score"}
_SHARE = "VLLM_RAY_PER_WORKER_GPUS"


def pipeline_of(what: Pipeline | Plan) -> Pipeline:
    """Return a pipeline as it is, and of a plan that with one engine."""
    return what if isinstance(what, Pipeline) else pipeline(what)


def release_of_ray(found: Pipeline) -> RayRelease:
    """Return the release of Ray that a pipeline is for."""
    return RayRelease.named(found.ray_version)


def data_engine_kwargs(found: Pipeline) -> dict[str, Any]:
    """Return `engine_kwargs` of Ray Data LLM: what differs from its engine's defaults.

    Raises:
        PlannerError: for several engines in a replica.
    """
    given = {k: v for k, v in _given(found.plan).items() if k not in _TASK}
    backend = found.asked.distributed_executor_backend
    named = {"distributed_executor_backend": backend} if backend else {}
    kept = kept_defaults(found.plan, ray_releases.data_entrypoint())
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
    entrypoint = ray_releases.serve_entrypoint(release_of_ray(found))
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
        and not _says_nothing(name, value)
    }


def _says_nothing(name: str, value: object) -> bool:
    default = _NOTHING_ASKED.get(name)
    return default is not None and type(value) is type(default) and value == default


def task_type(plan: Plan) -> str:
    """Return Ray Data's name for what the engine does with a row.

    Source: Ray 2.60.0 `llm/_internal/batch/stages/vllm_engine_stage.py`
    vLLMEngineWrapper (runner, convert).
    """
    if plan.model is None or not plan.model.is_pooling:
        return "generate"
    asked = given_arguments(plan.settings).get("convert")
    return _TASKS.get(str(asked), "embed")


def served_name(plan: Plan) -> str:
    """Return the name by which users of a server call the model."""
    name = given_arguments(plan.settings).get("served_model_name")
    names = [name] if isinstance(name, str) else list(name or ())
    return str(names[0]) if names else plan.name


def variables(found: Pipeline, *, is_told: bool = False) -> dict[str, str]:
    """Return environment variables of the engine, without secrets.

    Workers of Ray's executor that share a GPU are told so, unless Ray does it itself
    (`is_told`).

    Source: vLLM 0.29.0 `v1/executor/ray_executor_v2.py` (VLLM_RAY_PER_WORKER_GPUS).
    """
    given = machines.environment(found.plan)
    share = _share(found)
    if share is not None and not is_told:
        given.setdefault(_SHARE, f"{share:g}")
    return given


def secret_names(found: Pipeline) -> tuple[str, ...]:
    """Return variables of the plan whose values are nobody's business."""
    plan = found.plan
    has_token = isinstance(given_arguments(plan.settings).get(_SECRET), str)
    given = {name for name, _ in plan.env} | ({"HF_TOKEN"} if has_token else set())
    return tuple(name for name in machines.secrets(plan) if name in given)


def runtime_env(found: Pipeline, *, is_told: bool = False) -> dict[str, Any]:
    """Return the argument `runtime_env` with the plan's variables; empty without any.

    A secret is read from the environment where the program starts.
    """
    values: dict[str, Any] = dict(variables(found, is_told=is_told))
    for name in secret_names(found):
        values[name] = Code(f"os.environ[{literal(name)}]")
    return {"runtime_env": {"env_vars": values}} if values else {}


def _share(found: Pipeline) -> float | None:
    """Return the share of a GPU that each worker of a group takes, below 1."""
    if found.backend != "ray":
        return None
    shares = [bundle.gpus for bundle in found.engine.worker.bundles if bundle.gpus]
    return shares[0] if shares and shares[0] < 1 else None


def comments(found: Pipeline, *, brings_vllm: bool = False) -> list[str]:
    """Return lines that say what was planned, and which vLLM is needed for it.

    `brings_vllm`: whether an image comes with the release's own vLLM.
    """
    plan, release = found.plan, release_of_ray(found)
    least, most = found.replicas_minimum, found.replicas_maximum
    count = f"{most}" if least == most else f"{least} to {most}"
    lines = [
        machines.headline(plan),
        f"Ray {release.version}: {count} engine{'s' * (most > 1)} of "
        f"{_gpus(found.gpus_per_replica)} each; {_gpus(found.gpus_total)} in all at "
        "most.",
    ]
    brought = ray_releases.vllm_of(release)
    if plan.vllm_version != brought and (
        brings_vllm or ray_releases.brings_one_vllm(release)
    ):
        what = "The image brings" if brings_vllm else "ray[llm] brings"
        lines.append(
            f"{what} vLLM {brought}, and this plan is for {plan.vllm_version}: install "
            f"that one, or plan vllm_version={brought!r}."
        )
    return lines


def _gpus(count: float) -> str:
    return f"{count:g} GPU" + "s" * (count != 1)


def resources(found: Pipeline) -> Mapping[str, Any] | None:
    """Return the bundles that were given by hand, as Ray Data takes them."""
    asked = found.asked
    given = asked.placement_group_config or asked.resources_per_bundle
    return None if given is None else dict(given)
