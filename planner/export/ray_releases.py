"""Ray's releases: names and fields of `ray.data.llm` and `ray.serve.llm` that changed.

What a release reserves is in `planner.ray.releases`; here is how it is written.
"""

from __future__ import annotations

from planner.ray.releases import RayRelease

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


def vllm_of(release: RayRelease) -> str:
    """Return the vLLM that `ray[llm]` of a release asks for: at least, from 2.56 just.

    Source: Ray 2.44.1 to 2.60.0, requirements of the extra `llm` in the wheels.
    """
    return _VLLM[release.number[1]]


def brings_one_vllm(release: RayRelease) -> bool:
    """Whether `ray[llm]` asks for one release of vLLM and no other."""
    return release.since(56)


def image(release: RayRelease) -> str:
    """Return Ray's own image with vLLM.

    Tags of 2.44, 2.46, 2.48 to 2.56 and 2.58 were seen in use; the others follow their
    neighbours.
    """
    if release.since(56):
        kind = "py312-cu130"
    else:
        kind = "py311-cu128" if release.since(48) else "py311-cu124"
    return f"rayproject/ray-llm:{release.version}-{kind}"


def builder(release: RayRelease) -> str:
    """Return what builds a processor; both names in 2.53 to 2.55.

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
    """Whether max_tasks_in_flight_per_actor is a field, not an experimental one.

    Source: Ray 2.55.1, 2.56.1 `llm/_internal/batch/processor/base.py`.
    """
    return release.since(56)


def has_experimental(release: RayRelease) -> bool:
    """Whether the configuration has a table of experimental settings.

    Source: Ray 2.47.1, 2.48.0 `llm/_internal/batch/processor/base.py`.
    """
    return release.since(48)


def data_entrypoint() -> str:
    """Return what `planner.plan(entrypoint=...)` needs for an engine of Ray Data LLM.

    Ray Data makes the configuration without a usage context, in every release, and
    vLLM then fills in the scheduler's own defaults, whatever the GPU.

    Source: Ray 2.44.1 to 2.60.0 `llm/_internal/batch/stages/vllm_engine_stage.py`
    vLLMEngineWrapper (AsyncEngineArgs.create_engine_config,
    AsyncLLMEngine.from_engine_args).
    """
    return "engine"


def serve_entrypoint(release: RayRelease) -> str:
    """Return what `planner.plan(entrypoint=...)` needs for an engine of Ray Serve LLM.

    Source: Ray 2.48.0, 2.49.2 `llm/_internal/serve/deployments/llm/vllm/vllm_engine.py`
    (UsageContext.OPENAI_API_SERVER).
    """
    return "serve" if release.since(49) else "engine"


def serve_takes_tables(release: RayRelease) -> bool:
    """Whether build_openai_app takes a table, not LLMServingArgs alone.

    Source: Ray 2.48.0, 2.49.2 `serve/llm/__init__.py` build_openai_app.
    """
    return release.since(49)


def serve_resources(release: RayRelease) -> str:
    """Return the field of LLMConfig that sets resources; empty: there is none.

    Source: Ray 2.44.1, 2.45.0, 2.50.1, 2.51.1 LLMConfig.
    """
    if release.since(51):
        return "placement_group_config"
    return "resources_per_bundle" if release.since(45) else ""


def serve_reads_fractions(release: RayRelease) -> bool:
    """Whether Ray Serve LLM tells vLLM itself that workers share a GPU.

    Source: Ray 2.52.1, 2.53.0 `llm/_internal/serve/engines/vllm/vllm_models.py`.
    """
    return release.since(53)
