"""A Ray pipeline's engine as a server: `LLMConfig` and `build_openai_app`.

It has the pipeline's `engine_kwargs`, and its fewest and most replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import PlannerError
from planner.export import ray_arguments
from planner.export.python_code import call
from planner.export.ray_arguments import (
    comments,
    pipeline_of,
    release_of_ray,
    resources,
    runtime_env,
    secret_names,
    serve_engine_kwargs,
    served_name,
    variables,
)
from planner.export.yaml_text import yaml_text
from planner.given import named_in_errors
from planner.planning.result import Plan
from planner.ray import Pipeline, RayRelease

APPLICATION = "ray.serve.llm:build_openai_app"


@named_in_errors
def ray_serve(what: Pipeline | Plan) -> str:
    """Return a program that serves a pipeline's engine with Ray Serve LLM.

    Args:
        what: a pipeline of `planner.ray`, or a plan, for one engine of it.

    Raises:
        PlannerError: for settings that the release of Ray does not have.

    >>> from planner.ray import pipeline
    >>> code = ray_serve(pipeline("Qwen/Qwen3-8B", gpu="L4", concurrency=(1, 4)))
    >>> [line.strip() for line in code.splitlines() if "replicas" in line][0][:40]
    'deployment_config={"autoscaling_config":'
    """
    found = pipeline_of(what)
    release = release_of_ray(found)
    has_tables = ray_arguments.serve_takes_tables(release)
    names = [
        "LLMConfig",
        *([] if has_tables else ["LLMServingArgs"]),
        "build_openai_app",
    ]
    given = '{"llm_configs": [config]}' if has_tables else _older_arguments()
    lines = [
        *(f"# {line}" for line in comments(found)),
        *(["import os", ""] if secret_names(found) else []),
        "from ray import serve",
        f"from ray.serve.llm import {', '.join(names)}",
        "",
        call("LLMConfig", _config(found) | _environment(found), target="config"),
        "",
        f"app = build_openai_app({given})",
        "",
        'if __name__ == "__main__":',
        "    serve.run(app, blocking=True)",
        "",
    ]
    return "\n".join(lines)


@named_in_errors
def ray_serve_config(what: Pipeline | Plan) -> str:
    """Return the same as a configuration for `serve deploy` and `serve run`.

    It has no secrets: set them where the nodes of the cluster start.

    Args:
        what: a pipeline of `planner.ray`, or a plan, for one engine of it.

    Raises:
        PlannerError: for settings that the release of Ray does not have.
    """
    found = pipeline_of(what)
    head = "".join(f"# {line}\n" for line in comments(found))
    return f"{head}{yaml_text(applications(found))}\n"


def applications(found: Pipeline) -> dict[str, Any]:
    """Return the configuration of Ray Serve's applications.

    Source: Ray 2.60.0 `serve/schema.py` ServeDeploySchema, ServeApplicationSchema.
    """
    is_share_set = ray_arguments.serve_reads_fractions(release_of_ray(found))
    plain = variables(found, is_share_set=is_share_set)
    config = _config(found)
    if plain:
        config["runtime_env"] = {"env_vars": plain}
    application = {
        "name": "llm",
        "route_prefix": "/",
        "import_path": APPLICATION,
        "args": {"llm_configs": [config]},
    }
    return {"applications": [application]}


def _older_arguments() -> str:
    return "LLMServingArgs(llm_configs=[config])"


def _environment(found: Pipeline) -> dict[str, Any]:
    is_share_set = ray_arguments.serve_reads_fractions(release_of_ray(found))
    return runtime_env(found, is_share_set=is_share_set)


def _config(found: Pipeline) -> dict[str, Any]:
    """Return the arguments of LLMConfig that differ from its defaults.

    Source: Ray 2.60.0 `llm/_internal/serve/core/configs/llm_config.py` LLMConfig, and
    that of older releases.
    """
    release, plan = release_of_ray(found), found.plan
    name = served_name(plan)
    loading = {"model_id": name} | (
        {"model_source": plan.name} if name != plan.name else {}
    )
    engine = serve_engine_kwargs(found)
    kind = found.asked.accelerator_type
    return {
        "model_loading_config": loading,
        **({"engine_kwargs": engine} if engine else {}),
        **({} if kind is None else {"accelerator_type": kind}),
        "deployment_config": {"autoscaling_config": _replicas(found)},
        **_resources(found, release),
    }


def _replicas(found: Pipeline) -> dict[str, int]:
    """Return the numbers of replicas, since Ray's own maximum is not the plan's.

    Source: Ray 2.60.0 `serve/config.py` AutoscalingConfig (initial_replicas is
    min_replicas where it is not given).
    """
    return {
        "min_replicas": found.replicas_minimum,
        "max_replicas": found.replicas_maximum,
    }


def _resources(found: Pipeline, release: RayRelease) -> dict[str, Any]:
    """Return the bundles that the user gave, under Ray Serve's name."""
    given = resources(found)
    if given is None:
        return {}
    name = ray_arguments.serve_resources(release)
    if name == release.resources_argument:
        return {name: given}
    bundle = _common_bundle(given)
    if bundle is None or not name:
        raise PlannerError(
            f"Ray Serve LLM {release.version} takes one bundle for all workers alike: "
            "give every bundle the same resources, and the default strategy."
        )
    return {name: bundle}


def _common_bundle(config: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the bundle of all workers; None if they differ or the strategy does."""
    bundles = config.get("bundles") or [config.get("bundle_per_worker") or {}]
    first = dict(bundles[0])
    is_usual = config.get("strategy", "PACK") == "PACK"
    return first if is_usual and all(dict(one) == first for one in bundles) else None
