"""Starts of vLLM that a controller or a chart completes: KServe, llm-d, vLLM's chart.

Source: KServe 0.16 serving.kserve.io InferenceService, LLMInferenceService
(`config/llmisvcconfig`); llm-d-modelservice `templates/_helpers.tpl`; vLLM production
stack `helm/templates/deployment-vllm-multi.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from planner.errors import PlannerError
from planner.reading.documents.yaml_edits import added, added_below, passage_of
from planner.reading.documents.yaml_nodes import Node
from planner.reading.documents.yaml_words import (
    add_words,
    as_it_is,
    joined_lists,
    list_of,
    word_of,
)
from planner.reading.passage import Edit
from planner.reading.reading import FoundStart, Kind
from planner.reading.scripts.shell import commands_of
from planner.reading.sign_table import signs
from planner.reading.sites import Site, Start, WordList, shell_list
from planner.reading.starts.command import (
    Program,
    env_site,
    env_sites,
    flag_words,
    start_of,
)
from planner.reading.starts.engine_tables import (
    entry,
    model_entry,
    model_site,
    named_entries,
)
from planner.reading.starts.images import slice_of, version_of
from planner.reading.starts.pods import (
    Surroundings,
    gpu_of,
    gpus_of,
    joined_image,
    kubernetes_reads,
    starts_in_container,
    variables_of,
)
from planner.units import whole_number

_HIDDEN = re.compile("[\ue000-\ue07f]")
"""A template, as `manifests` hides it."""
_MORE = "VLLM_ADDITIONAL_ARGS"
_OF_KSERVE = frozenset(signs("arguments of KServe"))
"""Arguments of KServe's own server for Hugging Face models."""
_PARALLEL: Mapping[str, str] = {
    "tensor": "tensor_parallel_size",
    "pipeline": "pipeline_parallel_size",
    "data": "data_parallel_size",
    "dataLocal": "data_parallel_size_local",
    "expert": "enable_expert_parallel",
}
_WORKERS = {
    "tensorParallelSize": "tensor_parallel_size",
    "pipelineParallelSize": "pipeline_parallel_size",
}


def mounted_models(root: Node) -> Iterator[Site]:
    """Yield the model that KServe puts below /mnt/models."""
    for names in (
        ("spec", "predictor", "model", "storageUri"),
        ("spec", "model", "uri"),
    ):
        holder = root.get(*names[:-1])
        pair = None if holder is None else holder.entry(names[-1])
        site = None if pair is None else model_site(*pair)
        if site is not None:
            yield site


def _given(
    container: Node, sites: Sequence[Site] = (), extra: Sequence[WordList] = ()
) -> Start:
    """Return the start in a container whose command a controller writes.

    Args:
        container: what has the arguments.
        sites: what the service's own fields say before them.
        extra: words that the controller adds.
    """
    env, unknown = variables_of(container)
    reads = kubernetes_reads({name: word.value for name, word in env.items()})
    node = container.get("args")
    lists = [list_of(node, reads)] if node is not None and node.items else []
    found = joined_lists([*extra, *lists])
    start = start_of(found, Program(first=0, takes_model=False), env_sites(env))
    add: Callable[[str, object], list[Edit]] = start.add
    if not found.words:
        add = partial(_add_args, container)
    image = container.get("image")
    version = (
        version_of(word_of(image, reads)) if image is not None and image.text else None
    )
    return replace(
        start,
        sites=(*sites, *start.sites),
        add=add,
        gpus=gpus_of(container),
        version=version,
        open=tuple(unknown),
    )


def _add_args(container: Node, name: str, value: object) -> list[Edit]:
    return add_words(container, "args", flag_words(name, value))


def starts_in_predictor(root: Node) -> Iterator[FoundStart]:
    """Yield the start of a KServe InferenceService."""
    predictor = root.get("spec", "predictor")
    model = root.get("spec", "predictor", "model")
    if predictor is None or model is None:
        return
    named = model.word("modelFormat", "name") + model.word("runtime")
    if not re.search("vllm|hugging", named, re.IGNORECASE):
        return
    given = _given(model)
    sites = [
        replace(site, name="model") if site.name == "model_id" else site
        for site in given.sites
        if site.name == "model_id" or site.name not in _OF_KSERVE
    ]
    unknown = list(given.open)
    if not any(site.name == "model" for site in sites):
        mounted = list(mounted_models(root))
        sites = [*mounted, *sites]
        if not mounted:
            unknown.append(_elsewhere(model.word("storageUri") or "a storage"))
    workers = predictor.get("workerSpec")
    sites += [] if workers is None else named_entries(workers, _WORKERS)
    nodes = whole_number(predictor.word("workerSpec", "pipelineParallelSize")) or 1
    granted = given.gpus
    own = [
        f"{site.written} is read by KServe itself."
        for site in given.sites
        if site.name in _OF_KSERVE and site.name != "model_id"
    ]
    gpu, several = gpu_of(predictor.get("nodeSelector"), predictor.get("affinity"))
    start = replace(
        given,
        sites=tuple(sites),
        gpu=gpu,
        gpus=None if granted is None else granted * nodes,
        shown=root.word("metadata", "name"),
        notes=(*given.notes, *own, "The serving runtime chooses vLLM's release."),
        open=(*unknown, *several),
    )
    yield FoundStart(kind=Kind.KUBERNETES, start=start)


def _elsewhere(address: str) -> str:
    return f"The model comes from {address[:120]}: name it, model='org/name'."


def _parallel(table: Node | None) -> Iterator[Site]:
    """Yield the sizes that a controller turns into arguments."""
    for key, node in () if table is None else table.pairs:
        if key.text in _PARALLEL and table is not None and not node.is_nothing:
            yield entry(table, _PARALLEL[key.text], key, node, node.value)


def starts_in_llm_service(root: Node, text: str) -> Iterator[FoundStart]:
    """Yield the starts of a KServe LLMInferenceService: decode, and prefill."""
    spec = root.get("spec")
    name = root.word("metadata", "name")
    parts = [(spec, name), (None if spec is None else spec.get("prefill"), "prefill")]
    for part, shown in parts:
        if part is None or spec is None:
            continue
        for start in _llm_starts(root, part, text):
            yield FoundStart(kind=Kind.KUBERNETES, start=replace(start, shown=shown))


def _llm_starts(root: Node, part: Node, text: str) -> Iterator[Start]:
    containers = part.items_of("template", "containers")
    main = [one for one in containers if one.word("name") == "main"] or containers[:1]
    gpu, several = gpu_of(part.get("template"))
    mounted = list(mounted_models(root))
    unknown = [] if mounted else [_elsewhere(root.word("spec", "model", "uri"))]
    if main and main[0].items_of("command"):
        around = Surroundings(text=text, gpu=gpu, open=several)
        yield from (one.start for one in starts_in_container(main[0], around))
        return
    sites = [*mounted, *_parallel(part.get("parallelism"))]
    if not main:
        yield Start(sites=tuple(sites), add=partial(_add_parallel, part), gpu=gpu)
        return
    given = _given(main[0], sites, _additional(main[0], text))
    yield replace(
        given,
        env={n: site for n, site in given.env.items() if n != _MORE},
        gpu=gpu,
        open=(*unknown, *given.open, *several),
    )


def _additional(container: Node, text: str) -> list[WordList]:
    """Return the words of the variable that KServe adds to the command."""
    for item in container.items_of("env"):
        value = item.get("value")
        if item.word("name") == _MORE and value is not None and value.text:
            return [
                shell_list(one.words, text) for one in commands_of(passage_of(value))
            ]
    return []


def _add_parallel(part: Node, name: str, value: object) -> list[Edit]:
    own = {argument: key for key, argument in _PARALLEL.items()}.get(name)
    if own is None:
        raise PlannerError(
            f"The text has no container that could take {name}: give the service a "
            "template with args."
        )
    return added_below(part, "parallelism", own, value)


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
            sites = [*model, *_parallel(pods.get("parallelism"))]
            given = _given(container, sites)
            start = replace(
                given,
                gpu=gpu,
                gpus=given.gpus or _gpus_of_sizes(sites),
                shown=part,
                open=(*unknown, *given.open, *several),
            )
            yield FoundStart(kind=Kind.HELM, start=start)
        else:
            around = Surroundings(text=text, gpu=gpu, open=several, shown=part)
            yield from starts_in_container(container, around, kind=Kind.HELM)


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
    return named, [] if named else [_elsewhere("" if uri is None else uri[1].text)]


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
