"""Starts of vLLM that a chart completes: llm-d's, and vLLM's production stack.

Source: llm-d-modelservice 0.4 `templates/_helpers.tpl`; vLLM production stack
`helm/templates/deployment-vllm-multi.yaml`, `ray-cluster.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from planner.errors import PlannerError
from planner.reading.documents.yaml_edits import added, added_below, passage_of
from planner.reading.documents.yaml_nodes import Node
from planner.reading.documents.yaml_words import (
    add_words,
    as_it_is,
    list_of,
    word_of,
)
from planner.reading.passage import Edit
from planner.reading.reading import FoundStart, Kind
from planner.reading.scripts.shell import Word
from planner.reading.sign_table import signs
from planner.reading.sites import Site, Start
from planner.reading.starts.command import Program, env_site, flag_words, start_of
from planner.reading.starts.engine_tables import (
    model_entry,
    model_site,
    named_entries,
)
from planner.reading.starts.images import slice_of, version_of
from planner.reading.starts.pods import (
    Surroundings,
    gpu_of,
    joined_image,
    starts_in_container,
    variables_of,
)
from planner.reading.starts.services import elsewhere, given_in, sizes_in
from planner.units import whole_number

_HIDDEN = re.compile("[\ue000-\ue07f]")
"""A template, as `manifests` hides it."""
_SIZES = {"tensor": "TP_SIZE", "data": "DP_SIZE", "dataLocal": "DP_SIZE_LOCAL"}
"""Variables that llm-d's chart sets from a table of sizes."""


def chart_of_llm_d(root: Node) -> Node | None:
    """Return the values of llm-d's chart, which may be a part of another chart's."""
    for place in (root, *(value for _, value in root.pairs)):
        if place.get("modelArtifacts") is not None:
            return place
    return None


def starts_in_llm_d(chart: Node, text: str) -> Iterator[FoundStart]:
    """Yield the starts of llm-d's pods for decode and prefill."""
    for part in ("decode", "prefill"):
        if (pods := chart.get(part)) is not None:
            yield from _of_llm_d(chart, pods, part, text)


def _of_llm_d(chart: Node, pods: Node, part: str, text: str) -> Iterator[FoundStart]:
    if pods.word("create").lower() == "false":
        return
    gpu, several = gpu_of(pods.get("acceleratorTypes"), pods.get("extraConfig"))
    model, unknown = _artifact(chart)
    for container in pods.items_of("containers"):
        if container.word("modelCommand") in ("vllmServe", "imageDefault"):
            sites = [*model, *sizes_in(pods.get("parallelism"))]
            given = given_in(container, sites)
            start = replace(
                given,
                gpu=gpu,
                gpus=given.gpus or _gpus_of_sizes(sites),
                shown=part,
                open=(*unknown, *given.open, *several),
            )
            yield FoundStart(kind=Kind.HELM, start=start)
        else:
            around = Surroundings(
                text=text,
                gpu=gpu,
                open=several,
                shown=part,
                pods=_workers(pods.get("parallelism")),
                given=_variables(pods.get("parallelism")),
            )
            yield from starts_in_container(container, around, kind=Kind.HELM)


def _workers(table: Node | None) -> int:
    """Return the pods of a group, which together have all replicas of the data."""
    if table is None:
        return 1
    data, local = (whole_number(table.word(one)) for one in ("data", "dataLocal"))
    own = whole_number(table.word("workers"))
    return own or (data // local if data and local else 0) or 1


def _variables(table: Node | None) -> Mapping[str, Word]:
    """Return the variables that llm-d's chart sets in each container."""
    found: dict[str, Word] = {}
    for key, node in () if table is None else table.pairs:
        if key.text in _SIZES and whole_number(node.text):
            found[_SIZES[key.text]] = word_of(node, as_it_is)
    workers = None if table is None else table.get("workers") or table.get("data")
    if workers is not None:
        found["LWS_GROUP_SIZE"] = _written_as(workers, str(_workers(table)))
    return found


def _written_as(node: Node, text: str) -> Word:
    """Return a word that follows from a value, at its place."""
    page = passage_of(node)
    named = page.inside(text, [0] * (len(text) + 1), str)
    return Word(passage=named, start=node.start, end=node.end)


def _gpus_of_sizes(sites: Sequence[Site]) -> int | None:
    """Return the GPUs that the chart requests where no limit is given."""
    sizes = {site.name: site.value for site in sites if isinstance(site.value, int)}
    data = sizes.get("data_parallel_size_local", sizes.get("data_parallel_size", 1))
    total: int = sizes.get("tensor_parallel_size", 1) * data
    return total


def _artifact(chart: Node) -> tuple[list[Site], list[str]]:
    """Return the model of llm-d's modelArtifacts, and what is open about it."""
    artifacts = chart.get("modelArtifacts")
    uri = None if artifacts is None else artifacts.entry("uri")
    site = None if uri is None else model_site(*uri)
    is_template = site is not None and bool(_HIDDEN.search(str(site.value)))
    if site is not None and not is_template:
        return [site], []
    named = model_entry(artifacts, "name") if is_template or uri is None else []
    return named, [] if named else [elsewhere("" if uri is None else uri[1].text)]


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
    gpu, sliced = slice_of([spec.word("requestGPUType")], gpu)
    return Start(
        sites=tuple(sites),
        add=partial(_add_to_stack, spec, config),
        env={name: env_site(name, word) for name, word in env.items()},
        version=_release(spec),
        gpu=gpu,
        gpus=_gpus_of_stack(spec),
        shown=spec.word("name"),
        notes=tuple(_stack_notes(spec, config)),
        open=(*unknown, *several, *sliced),
    )


def _gpus_of_stack(spec: Node) -> int | None:
    """Return the GPUs of a pod, or of all pods that Ray joins: a head and workers."""
    own = whole_number(spec.word("requestGPU"))
    if own is None or spec.get("raySpec") is None:
        return own
    head = whole_number(spec.word("raySpec", "headNode", "requestGPU")) or 0
    return head + own * (whole_number(spec.word("replicaCount")) or 1)


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
        yield "raySpec joins a head and replicaCount workers by Ray: all their GPUs."
    if spec.word("vllmConfig", "v0") == "1":
        yield "v0 asks for vLLM's first engine, which the planner does not plan: as V1."
    for name in () if config is None else config.names:
        if name not in _STACK and name not in _OF_STACK:
            yield f"vllmConfig.{name} is not read by the chart: left aside."
