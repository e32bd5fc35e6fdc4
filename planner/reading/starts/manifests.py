"""Starts of vLLM in manifests and configurations: what they are, and where to look.

Source: Kubernetes apps/v1, batch/v1; the Compose specification; LeaderWorkerSet v1;
KServe 0.16 serving.kserve.io InferenceService, LLMInferenceService
(`config/llmisvcconfig`); KubeRay 1.4 ray.io/v1; llm-d-modelservice
`templates/_helpers.tpl`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from planner.reading.documents.blocks import scalar_of, tree_of
from planner.reading.documents.manifest_pages import check_form, roots_of
from planner.reading.documents.templates import (
    shown,
)
from planner.reading.documents.yaml_edits import passage_of
from planner.reading.documents.yaml_nodes import Node, documents
from planner.reading.passage import Passage
from planner.reading.python.code import starts_in_code
from planner.reading.reading import FoundStart, Kind
from planner.reading.scripts.shell import Command, Word, commands_of
from planner.reading.sites import Site, Start, not_too_many, shell_list
from planner.reading.starts.adapting import starts_by_frameworks, starts_of_document
from planner.reading.starts.anywhere import starts_anywhere
from planner.reading.starts.charts import (
    chart_of_llm_d,
    starts_in_llm_d,
    starts_in_stack,
)
from planner.reading.starts.container import starts_in, starts_of_list
from planner.reading.starts.dynamo import KINDS, starts_in_graph
from planner.reading.starts.engine_tables import starts_in_serve, starts_in_table
from planner.reading.starts.frameworks import NoStartError
from planner.reading.starts.jobs import starts_in_job
from planner.reading.starts.pods import (
    Surroundings,
    gpu_of,
    groups_in,
    starts_in_container,
)
from planner.reading.starts.services import (
    mounted_models,
    starts_in_llm_service,
    starts_in_predictor,
)

_MOUNTED = "/mnt/models"


def starts_in_manifest(page: Passage, text: str) -> Iterator[FoundStart]:
    """Yield the starts of vLLM in a manifest or a configuration, in order.

    Args:
        page: the document.
        text: the whole text that it stands in.

    Raises:
        PlannerError: for text with clear marks of a manifest that is not valid, naming
            the line; for YAML where PyYAML is not installed.
    """
    refused: list[str] = []
    is_found = False
    for found in _starts_or_refusals(page, text):
        if isinstance(found, str):
            refused.append(found)
        else:
            is_found = True
            yield replace(found, start=shown(found.start, page.text))
    if refused and not is_found:
        raise NoStartError(refused[0])
    if not is_found:
        check_form(page)


def _starts_in_page(page: Passage, text: str) -> Iterator[FoundStart]:
    """Yield the starts in a document inside of another one."""
    for found in _starts_or_refusals(page, text):
        if not isinstance(found, str):
            yield found


def _starts_or_refusals(page: Passage, text: str) -> Iterator[FoundStart | str]:
    roots, scope = roots_of(page)
    around = Surroundings(text=text, known=scope.env)
    runtimes = {
        root.word("metadata", "name")
        for root in roots
        if root.word("kind").endswith("ServingRuntime")
    }
    mounted = [site for root in roots for site in mounted_models(root)]
    for root in roots:
        if _is_told_by(root, runtimes):
            continue
        adapted = list(starts_of_document(root, roots, text))
        if adapted:
            yield from adapted
            continue
        starts = not_too_many(_of_document(root, around))
        for found in starts:
            yield replace(found, start=_with_mounted(found.start, mounted))
        if not starts:
            yield from starts_of_document(root, roots, text, is_last=True)


def _is_told_by(root: Node, runtimes: set[str]) -> bool:
    """Return whether a serving runtime in the same text tells all of a service."""
    model = root.get("spec", "predictor", "model")
    has_own = model is None or bool(model.items_of("args") or model.items_of("env"))
    return not has_own and model is not None and model.word("runtime") in runtimes


def _with_mounted(start: Start, mounted: Sequence[Site]) -> Start:
    """Put the model's own name in the place of the folder that it is mounted at."""
    if len(mounted) != 1:
        return start
    sites = tuple(
        mounted[0]
        if site.name == "model" and str(site.value).startswith(_MOUNTED)
        else site
        for site in start.sites
    )
    return replace(start, sites=sites)


def _of_document(root: Node, around: Surroundings) -> Iterator[FoundStart]:
    if root.style == "names":  # lines that a shell's text may have, too
        return
    found = not_too_many(_of_form(root, around))
    yield from found or starts_anywhere(root, around, _starts_in_page)


def _of_form(root: Node, around: Surroundings) -> Iterator[FoundStart]:
    """Yield the starts of a document whose form is known."""
    if root.kind == "sequence":
        for item in root.items:
            yield from _of_form(item, around)
    elif root.get("apiVersion") is not None and root.get("kind") is not None:
        yield from _of_object(root, around)
    elif (services := root.get("services")) is not None and services.kind == "mapping":
        yield from _of_compose(root, around)
    elif root.get("resource", "helm_release") is not None:
        yield from _of_helm_release(root, around)
    elif root.kind == "mapping":
        yield from _of_values(root, around.text)


def _of_compose(root: Node, around: Surroundings) -> Iterator[FoundStart]:
    """Yield the starts in the services of a Compose file."""
    services = root.get("services")
    for key, service in () if services is None else services.pairs:
        if service.kind == "mapping":
            yield from starts_in_container(
                service,
                replace(around, shown=key.text),
                kind=Kind.COMPOSE,
                is_pod=False,
            )


def _of_values(root: Node, text: str) -> Iterator[FoundStart]:
    """Yield the starts in a chart's values, a job or a table of arguments."""
    if (chart := chart_of_llm_d(root)) is not None:
        yield from starts_in_llm_d(chart, text)
    elif root.get("servingEngineSpec") is not None:
        yield from starts_in_stack(root)
    else:
        yield from not_too_many(starts_in_job(root, text)) or starts_in_table(root)


def _of_object(root: Node, around: Surroundings) -> Iterator[FoundStart]:
    """Yield the starts in an object of Kubernetes."""
    text = around.text
    kind, spec = root.word("kind"), root.get("spec") or root
    if kind == "List":
        for item in root.items_of("items"):
            yield from _of_form(item, around)
    elif kind == "ConfigMap":
        for _, value in (root.get("data") or root).pairs:
            yield from _of_file(value, text)
    elif kind == "InferenceService" and spec.get("predictor", "model") is not None:
        yield from starts_in_predictor(root)
    elif kind == "LLMInferenceService":
        yield from starts_in_llm_service(root, text)
    elif kind in KINDS:
        yield from starts_in_graph(root, around)
    else:
        found = list(_of_ray_object(spec, text))
        yield from found or _of_pods(root, text)


def _of_file(value: Node, text: str) -> Iterator[FoundStart]:
    """Yield the starts in a file that a ConfigMap holds."""
    if "vllm" not in value.text.lower():
        return
    page = passage_of(value)
    found = list(_starts_in_page(page, text)) or list(starts_in_code(page, text))
    for one in found or starts_in(commands_of(page), text):
        kind = one.kind if one.kind in (Kind.RAY, Kind.HELM) else Kind.KUBERNETES
        yield replace(one, kind=kind)


def _of_ray_object(spec: Node, text: str) -> Iterator[FoundStart]:
    """Yield the starts in what a RayService or a RayJob runs."""
    gpu, several = gpu_of(spec)
    served = spec.get("serveConfigV2")
    if served is not None and served.kind == "scalar":
        for root in documents(passage_of(served)):
            for found in starts_in_serve(root):
                start = replace(found.start, gpu=found.start.gpu or gpu)
                open_ = start.open if start.gpu else (*start.open, *several)
                yield replace(found, start=replace(start, open=open_))
    entrypoint = spec.get("entrypoint")
    if entrypoint is not None and entrypoint.kind == "scalar":
        for found in starts_in(commands_of(passage_of(entrypoint)), text):
            yield FoundStart(
                kind=Kind.RAY, start=replace(found.start, gpu=gpu, open=several)
            )


def _of_pods(root: Node, text: str) -> Iterator[FoundStart]:
    starts: list[FoundStart] = []
    for group in groups_in(root):
        pod = group.pod
        gpu, several = gpu_of(pod.get("nodeSelector"), pod.get("affinity"))
        containers = pod.items_of("containers")
        around = Surroundings(
            text=text,
            gpu=gpu,
            open=several,
            shown=root.word("metadata", "name") if len(containers) == 1 else "",
            pods=group.pods,
            others=group.others,
            given=group.given,
        )
        for container in containers:
            starts += starts_in_container(container, around)
    workers = [found.start for found in starts if _is_worker(found.start)]
    if len(workers) == len(starts):
        yield from starts
    for found in starts:
        if not _is_worker(found.start):
            yield replace(found, start=_with_workers(found.start, workers))


def _is_worker(start: Start) -> bool:
    return any(site.name == "headless" for site in start.sites)


def _with_workers(start: Start, workers: Sequence[Start]) -> Start:
    """Return a start whose changes are written into its workers' commands, too."""
    if not workers:
        return start

    def both(site: Site) -> Site:
        others = [
            one for worker in workers for one in worker.sites if _is_same(one, site)
        ]
        return replace(
            site,
            replace=lambda value: [
                edit for one in (site, *others) for edit in one.replace(value)
            ],
            remove=lambda: [edit for one in (site, *others) for edit in one.remove()],
        )

    return replace(
        start,
        sites=tuple(map(both, start.sites)),
        add=lambda name, value: [
            edit for one in (start, *workers) for edit in one.add(name, value)
        ],
    )


def _is_same(one: Site, other: Site) -> bool:
    return (one.name, one.path) == (other.name, other.path)


def starts_by_programs(commands: Sequence[Command], text: str) -> Iterator[FoundStart]:
    """Yield the starts by programs of frameworks, and by Helm's `--set`.

    Raises:
        PlannerError: where a framework's program starts no vLLM, saying why.
    """
    found = [*starts_by_frameworks(commands, text), *_of_helm(commands, text)]
    starts = [one for one in found if not isinstance(one, str)]
    refused = [one for one in found if isinstance(one, str)]
    if refused and not starts:
        raise NoStartError(refused[0])
    yield from starts or _of_flags(commands, text)


def _of_flags(commands: Sequence[Command], text: str) -> Iterator[FoundStart]:
    """Yield the starts by flags alone, as the form of a container has them.

    Other words make a sentence of them.
    """
    for command in commands:
        if not command.words or not command.words[0].value.startswith("--"):
            continue
        for start in starts_of_list(shell_list(command.words, text), 0, text, {}):
            is_model = any(one.written == "the model" for one in start.sites)
            if not is_model and not any("to no flag" in one for one in start.notes):
                yield FoundStart(kind=Kind.COMMAND, start=start)


def _of_helm(commands: Sequence[Command], text: str) -> Iterator[FoundStart]:
    """Yield the starts in the values that `helm install` sets."""
    for command in commands:
        values = [word.value for word in command.words]
        if "helm" in values[:3] and any(one.startswith("--set") for one in values):
            root = tree_of(
                (scalar_of(path), scalar_of(value))
                for path, value in _set_by(command.words)
            )
            if root is not None:
                yield from _of_form(root, Surroundings(text=text))


def _of_helm_release(root: Node, around: Surroundings) -> Iterator[FoundStart]:
    """Yield the starts in the `set` blocks of Terraform's Helm provider."""
    releases = root.get("resource", "helm_release")
    for _, release in () if releases is None else releases.pairs:
        for encoded in release.items_of("values"):
            if encoded.kind == "mapping":
                yield from _of_form(encoded, around)
        blocks = [value for key, value in release.pairs if key.text == "set"]
        tables = [one for block in blocks for one in (block.items or (block,))]
        pairs = [(one.get("name"), one.get("value")) for one in tables]
        given = [(name, value) for name, value in pairs if name and value]
        tree = tree_of(given)
        if tree is not None:
            yield from _of_form(tree, around)


def _set_by(words: Sequence[Word]) -> Iterator[tuple[Word, Word]]:
    """Yield the paths and the values of `--set a.b[0].c=d,e=f`."""
    for before, word in pairwise(words):
        flag, equals, _ = before.value.partition("=")
        if not re.fullmatch(r"--set(?:-string|-literal)?", flag):
            continue
        given = before.part(len(flag) + 1) if equals else word
        for match in re.finditer(
            r"(?P<path>[^=,]+)=(?P<value>(?:[^,\\]|\\.)*)", given.value
        ):
            yield given.part(*match.span("path")), given.part(*match.span("value"))
