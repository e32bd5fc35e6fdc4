"""Starts in the values of vLLM's own chart, the production stack.

Source: vLLM production stack `helm/templates/deployment-vllm-multi.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from planner.errors import PlannerError
from planner.reading.documents.yaml_edits import added, added_below
from planner.reading.documents.yaml_nodes import Node
from planner.reading.documents.yaml_words import add_words, as_it_is, list_of
from planner.reading.passage import Edit
from planner.reading.reading import FoundStart, Kind
from planner.reading.sign_table import signs
from planner.reading.sites import Site, Start
from planner.reading.starts.command import Program, env_site, flag_words, start_of
from planner.reading.starts.engine_tables import model_entry, named_entries
from planner.reading.starts.images import version_of
from planner.reading.starts.pods import gpu_of, joined_image, variables_of
from planner.units import whole_number

_STACK: Mapping[str, str] = signs("settings of the production stack")
_BESIDE: Mapping[str, str] = signs("entries beside them")
_OF_STACK = ("v0", "v1", "extraArgs", "prometheusMultiprocDir")


def starts_in_stack(root: Node) -> Iterator[FoundStart]:
    """Yield the starts in the values of vLLM's production stack."""
    for spec in root.items_of("servingEngineSpec", "modelSpec"):
        yield FoundStart(kind=Kind.HELM, start=_of_stack(spec))


def _of_stack(spec: Node) -> Start:
    """Return the start of a modelSpec of vLLM's production stack."""
    config = spec.get("vllmConfig")
    extra = spec.get("vllmConfig", "extraArgs")
    sites = [*model_entry(spec, "modelURL"), *named_entries(spec, _BESIDE)]
    sites += [] if config is None else named_entries(config, _STACK)
    if config is not None and config.get("enablePrefixCaching") is None:
        sites.append(_prefix_caching(config))
    found = list_of(extra, as_it_is) if extra is not None and extra.items else None
    if found is not None:
        program = Program(first=0, takes_model=False)
        sites += start_of(found, program, {}).sites
    env, unknown = variables_of(spec)
    selectors = [spec.get("nodeSelectorTerms"), spec.get("nodeSelector")]
    gpu, several = gpu_of(*selectors)
    return Start(
        sites=tuple(sites),
        add=partial(_add_to_stack, spec, config),
        env={name: env_site(name, word) for name, word in env.items()},
        version=_release(spec),
        gpu=gpu,
        gpus=whole_number(spec.word("requestGPU")),
        shown=spec.word("name"),
        notes=tuple(_stack_notes(spec, config)),
        open=(*unknown, *several),
    )


def _prefix_caching(config: Node) -> Site:
    """Return the switch that the chart sets off where it is not given."""
    return Site(
        name="enable_prefix_caching",
        value=False,
        replace=partial(added, config, "enablePrefixCaching"),
        remove=list,
        written="enablePrefixCaching",
    )


def _add_to_stack(
    spec: Node, config: Node | None, name: str, value: object
) -> list[Edit]:
    own = {argument: key for key, argument in _STACK.items()}.get(name)
    beside = {argument: key for key, argument in _BESIDE.items()}.get(name)
    if beside is not None:
        return added(spec, beside, value)
    if own is not None:
        return added_below(spec, "vllmConfig", own, value)
    if config is None:
        raise PlannerError(
            f"The text has no place for {name}: write `vllmConfig:` with `extraArgs: "
            "[]` below the model first."
        )
    return add_words(config, "extraArgs", flag_words(name, value))


def _release(spec: Node) -> Site | None:
    """Return the release that repository and tag tell."""
    image = joined_image(spec)
    return None if image is None or "vllm" not in image.value else version_of(image)


def _stack_notes(spec: Node, config: Node | None) -> Iterator[str]:
    if spec.word("lmcacheConfig", "enabled").lower() == "true":
        yield (
            "lmcacheConfig adds --kv-transfer-config with LMCache's connector, whose "
            "own buffers on the GPU are not counted."
        )
    if spec.get("raySpec") is not None:
        yield "raySpec joins several machines by Ray; requestGPU counts those of one."
    for name in () if config is None else config.names:
        if name not in _STACK and name not in _OF_STACK:
            yield f"vllmConfig.{name} is not read by the chart: left aside."
