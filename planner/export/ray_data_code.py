"""A Ray pipeline as a program: `vLLMEngineProcessorConfig` and `build_processor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.errors import PlannerError
from planner.export import ray_releases
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
from planner.export.ray_text import Code, call
from planner.ray import Pipeline, RayRelease
from planner.result import Plan

_MAX_TOKENS = 256
"""Of an answer, where no load says it."""
_DEFAULT_STAGES = {
    "chat_template_stage": True,
    "tokenize_stage": True,
    "detokenize_stage": True,
    "prepare_multimodal_stage": False,
}


def ray_data(what: Pipeline | Plan) -> str:
    """Return a program that runs a pipeline with Ray Data LLM, of its release of Ray.

    It reads a folder of Parquet files with a column `prompt` and writes another. What
    Ray and vLLM do anyway is left out; what the plan has from another entry point is
    written, so that its figures stay.

    Args:
        what: a pipeline of `planner.ray`, or a plan: one engine of it.

    Raises:
        PlannerError: for what the release of Ray cannot be told.

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
    """Return the imports in the order that tools sort them in."""
    system = ["import os"] if secret_names(found) else []
    names = sorted([ray_releases.builder(release), "vLLMEngineProcessorConfig"])
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
    """Return the arguments of vLLMEngineProcessorConfig that say something.

    Source: Ray 2.44.1 to 2.60.0 `data/llm.py`, `llm/_internal/batch/processor/`.
    """
    asked, task = found.asked, task_type(found.plan)
    by_hand = resources(found)
    told: dict[str, tuple[Any, Any]] = {
        # What is told, and what Ray does without.
        "engine_kwargs": (data_engine_kwargs(found), {}),
        "task_type": (task, "generate"),
        "concurrency": (asked.concurrency or 1, 1),
        "accelerator_type": (asked.accelerator_type, None),
        "batch_size": (found.batch_size, release.batch_size),
        "max_concurrent_batches": (
            found.max_concurrent_batches,
            release.max_concurrent_batches,
        ),
        "max_pending_requests": (asked.max_pending_requests, None),
        release.resources_argument: (by_hand, None),
    }
    arguments = {name: given for name, (given, usual) in told.items() if given != usual}
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
    if ray_releases.has_tasks_in_flight(release):
        return {name: count}
    if ray_releases.has_experimental(release):
        return {"experimental": {name: count}}
    raise PlannerError(
        f"{name}: Ray {release.version} cannot be told; it came with 2.48."
    )


def _stages(found: Pipeline, release: RayRelease) -> dict[str, Any]:
    """Return the stages that are not as Ray has them."""
    given = {}
    for name, default in _DEFAULT_STAGES.items():
        told = getattr(found.asked, name)
        if told is None and name != "prepare_multimodal_stage":
            # Of plain texts no chat is made, and of numbers no text.
            told = task_type(found.plan) == "generate" or name == "tokenize_stage"
        if told is not None and told is not default:
            value = told if isinstance(told, bool) else dict(told)
            given[ray_releases.stage_field(release, name)] = value
    return given


def _chats(found: Pipeline) -> bool:
    """Whether rows are asked as chats: the stage with the template is on."""
    told = found.asked.chat_template_stage
    if told is None:
        return task_type(found.plan) == "generate"
    return told if isinstance(told, bool) else bool(told.get("enabled", True))


def _preprocess(found: Pipeline) -> str:
    """Return the function that makes a question of a row."""
    is_generating = task_type(found.plan) == "generate"
    asked = (
        '"messages": [{"role": "user", "content": row["prompt"]}]'
        if _chats(found)
        else '"prompt": row["prompt"]'
    )
    lines = [
        "def preprocess(row):",
        '    """Ask the engine what the row has in `prompt`."""',
        "    return {",
        f"        {asked},",
    ]
    if is_generating:
        longest = found.load.output_tokens if found.load else _MAX_TOKENS
        lines.append(f'        "sampling_params": {{"max_tokens": {longest}}},')
    return "\n".join([*lines, "    }"])


def _postprocess(found: Pipeline) -> str:
    """Return the function that takes the answer out."""
    is_generating = task_type(found.plan) == "generate"
    column = "generated_text" if is_generating else "embeddings"
    kept = "answer" if is_generating else "embedding"
    return "\n".join(
        [
            "def postprocess(row):",
            f'    """Keep the prompt, and what came of it in `{kept}`."""',
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
    built = _call_with_config(ray_releases.builder(release), arguments)
    return "\n".join(
        [
            "def main(source, target):",
            '    """Answer the rows of one folder of Parquet files in another."""',
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
