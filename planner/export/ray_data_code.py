"""A Ray pipeline as a program: `vLLMEngineProcessorConfig` and `build_processor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.errors import PlannerError
from planner.export import ray_arguments
from planner.export.python_code import Code, call
from planner.export.ray_arguments import (
    comments,
    data_engine_kwargs,
    pipeline_of,
    release_of_ray,
    resources,
    runtime_env,
    secret_names,
    task_type,
)
from planner.given import named_in_errors
from planner.planning.result import Plan
from planner.ray import Pipeline, RayRelease

_MAX_TOKENS = 256
"""Length of an answer, where no load is given."""
_DEFAULT_STAGES = {
    "chat_template_stage": True,
    "tokenize_stage": True,
    "detokenize_stage": True,
    "prepare_multimodal_stage": False,
}


@named_in_errors
def ray_data(what: Pipeline | Plan) -> str:
    """Return a program that runs a pipeline with Ray Data LLM, for its release of Ray.

    It reads a folder of Parquet files with a column `prompt` and writes another.
    Defaults of Ray and vLLM are left out; defaults of the plan's entry point that
    differ are written, so that the figures stay valid.

    Args:
        what: a pipeline of `planner.ray`, or a plan, for one engine of it.

    Raises:
        PlannerError: for settings that the release of Ray does not have.

    >>> from planner.ray import pipeline
    >>> code = ray_data(pipeline("Qwen/Qwen3-8B", gpu="L4", concurrency=2))
    >>> print(code[code.index("config =") : code.index("def")].rstrip())
    config = vLLMEngineProcessorConfig(
        model_source="Qwen/Qwen3-8B",
        concurrency=2,
    )
    """
    found = pipeline_of(what)
    release = release_of_ray(found)
    head = "\n".join(f"# {line}" for line in comments(found))
    config = call("vLLMEngineProcessorConfig", _config(found, release), target="config")
    functions = (_preprocess(found), _postprocess(found), _main(found, release))
    start = f"{head}\n{_imports(found, release)}\n\n{config}"
    return "\n\n\n".join([start, *functions])


def _imports(found: Pipeline, release: RayRelease) -> str:
    """Return the imports, sorted."""
    system = ["import os"] if secret_names(found) else []
    names = sorted([ray_arguments.builder(release), "vLLMEngineProcessorConfig"])
    return "\n".join(
        [
            *system,
            "import sys",
            "",
            "import ray",
            f"from ray.data.llm import {', '.join(names)}",
        ]
    )


def _config(found: Pipeline, release: RayRelease) -> dict[str, Any]:
    """Return the arguments of vLLMEngineProcessorConfig that differ from the defaults.

    Source: Ray 2.44.1 to 2.60.0 `data/llm.py`, `llm/_internal/batch/processor/`.
    """
    settings, task = found.asked, task_type(found.plan)
    values_and_defaults: dict[str, tuple[Any, Any]] = {
        "engine_kwargs": (data_engine_kwargs(found), {}),
        "task_type": (task, "generate"),
        "concurrency": (settings.concurrency or 1, 1),
        "accelerator_type": (settings.accelerator_type, None),
        "batch_size": (found.batch_size, release.batch_size),
        "max_concurrent_batches": (
            found.max_concurrent_batches,
            release.max_concurrent_batches,
        ),
        "max_pending_requests": (settings.max_pending_requests, None),
        release.resources_argument: (resources(found), None),
    }
    arguments = {
        name: value
        for name, (value, default) in values_and_defaults.items()
        if value != default
    }
    return (
        {"model_source": found.plan.name}
        | arguments
        | _in_flight(found, release)
        | _stages(found, release)
        | runtime_env(found)
    )


def _in_flight(found: Pipeline, release: RayRelease) -> dict[str, Any]:
    name = "max_tasks_in_flight_per_actor"
    count = found.asked.max_tasks_in_flight_per_actor
    if count is None:
        return {}
    if ray_arguments.has_tasks_in_flight(release):
        return {name: count}
    if ray_arguments.has_experimental(release):
        return {"experimental": {name: count}}
    raise PlannerError(
        f"{name}: Ray {release.version} does not have this setting; it came with 2.48."
    )


def _stages(found: Pipeline, release: RayRelease) -> dict[str, Any]:
    """Return the stages that differ from Ray's defaults."""
    stages = {}
    for name, default in _DEFAULT_STAGES.items():
        value = getattr(found.asked, name)
        if value is None and name != "prepare_multimodal_stage":
            # An embedding needs neither the chat template nor detokenization.
            value = task_type(found.plan) == "generate" or name == "tokenize_stage"
        if value is not None and value is not default:
            plain = value if isinstance(value, bool) else dict(value)
            stages[ray_arguments.stage_field(release, name)] = plain
    return stages


def _is_chat(found: Pipeline) -> bool:
    """Whether rows are sent as chats: the stage with the chat template is on."""
    stage = found.asked.chat_template_stage
    if stage is None:
        return task_type(found.plan) == "generate"
    return stage if isinstance(stage, bool) else bool(stage.get("enabled", True))


def _preprocess(found: Pipeline) -> str:
    """Return the function that turns a row into a request."""
    is_generating = task_type(found.plan) == "generate"
    request = (
        '"messages": [{"role": "user", "content": row["prompt"]}]'
        if _is_chat(found)
        else '"prompt": row["prompt"]'
    )
    lines = [
        "def preprocess(row):",
        '    """Send the engine what the row has in `prompt`."""',
        "    return {",
        f"        {request},",
    ]
    if is_generating:
        longest = found.load.output_tokens if found.load else _MAX_TOKENS
        lines.append(f'        "sampling_params": {{"max_tokens": {longest}}},')
    return "\n".join([*lines, "    }"])


def _postprocess(found: Pipeline) -> str:
    """Return the function that extracts the answer."""
    is_generating = task_type(found.plan) == "generate"
    column = "generated_text" if is_generating else "embeddings"
    kept = "answer" if is_generating else "embedding"
    return "\n".join(
        [
            "def postprocess(row):",
            f'    """Keep the prompt, and store the answer in `{kept}`."""',
            f'    return {{"prompt": row["prompt"], "{kept}": row["{column}"]}}',
        ]
    )


def _main(found: Pipeline, release: RayRelease) -> str:
    """Return the program: build, read, run, write."""
    arguments: dict[str, Any] = {
        "preprocess": Code("preprocess"),
        "postprocess": Code("postprocess"),
    }
    for name in ("preprocess_map_kwargs", "postprocess_map_kwargs"):
        given = getattr(found.asked, name)
        if given:
            arguments[name] = dict(given)
    built = _call_with_config(ray_arguments.builder(release), arguments)
    return "\n".join(
        [
            "def main(source, target):",
            '    """Read rows from a folder of Parquet files, write answers to '
            'another."""',
            *built,
            "    processor(ray.data.read_parquet(source)).write_parquet(target)",
            "",
            "",
            'if __name__ == "__main__":',
            "    main(*sys.argv[1:])",
            "",
        ]
    )


def _call_with_config(name: str, arguments: dict[str, Any]) -> Iterator[str]:
    text = call(name, arguments, target="processor", indent="    ")
    first, *rest = text.split("\n")
    yield first
    yield "        config,"
    yield from rest
