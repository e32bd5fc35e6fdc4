"""Starts of vLLM that KServe's controller completes.

Source: KServe 0.16 serving.kserve.io InferenceService, LLMInferenceService
(`config/llmisvcconfig`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from planner.errors import PlannerError
from planner.reading.documents.yaml_edits import added_below, passage_of
from planner.reading.documents.yaml_nodes import Node
from planner.reading.documents.yaml_words import (
    add_words,
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
    env_sites,
    flag_words,
    start_of,
)
from planner.reading.starts.engine_tables import (
    entry,
    model_site,
    named_entries,
)
from planner.reading.starts.images import version_of
from planner.reading.starts.pods import (
    Surroundings,
    gpu_of,
    gpus_of,
    kubernetes_reads,
    starts_in_container,
    variables_of,
)
from planner.units import whole_number

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


def given_in(
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
    given = given_in(model)
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
            unknown.append(elsewhere(model.word("storageUri") or "a storage"))
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


def elsewhere(address: str) -> str:
    """Return what is open about a model that comes from somewhere else than the Hub."""
    return f"The model comes from {address[:120]}: name it, model='org/name'."


def sizes_in(table: Node | None) -> Iterator[Site]:
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
    unknown = [] if mounted else [elsewhere(root.word("spec", "model", "uri"))]
    if main and main[0].items_of("command"):
        around = Surroundings(text=text, gpu=gpu, open=several)
        yield from (one.start for one in starts_in_container(main[0], around))
        return
    sites = [*mounted, *sizes_in(part.get("parallelism"))]
    if not main:
        yield Start(sites=tuple(sites), add=partial(_add_parallel, part), gpu=gpu)
        return
    given = given_in(main[0], sites, _additional(main[0], text))
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
