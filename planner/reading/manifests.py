"""Starts of vLLM in manifests and configurations: what they are, and where to look.

Source: Kubernetes apps/v1, batch/v1; LeaderWorkerSet v1; KServe 0.16 serving.kserve.io
InferenceService, LLMInferenceService (`config/llmisvcconfig`); KubeRay 1.4 ray.io/v1;
llm-d-modelservice `templates/_helpers.tpl`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.errors import PlannerError
from planner.reading.code import starts_in_code
from planner.reading.container import FoundStart, starts_in
from planner.reading.engine_tables import starts_in_serve, starts_in_table
from planner.reading.jobs import starts_in_job
from planner.reading.passage import Passage
from planner.reading.pods import (
    Surroundings,
    gpu_of,
    pods_in,
    starts_in_compose,
    starts_in_container,
)
from planner.reading.reading import Kind
from planner.reading.services import (
    chart_of_llm_d,
    mounted_models,
    starts_in_llm_d,
    starts_in_llm_service,
    starts_in_predictor,
    starts_in_stack,
)
from planner.reading.shell import commands_of
from planner.reading.sites import Site, Start
from planner.reading.yaml_edits import passage_of
from planner.reading.yaml_nodes import Node, documents
from planner.units import whole_number

_LIKE = re.compile(
    r"(?:\s|#[^\n]*\n)*(?:---|%YAML|[{\[]|- |[\"']?[\w./-]+[\"']?[ \t]*:(?:\s|\Z))"
)
_NAMED = re.compile(r"vllm|model|engine|max[-_]|parallel", re.IGNORECASE)
_CLEAR = re.compile(
    r"^(?:apiVersion|services|servingEngineSpec|modelArtifacts|applications)[ \t]*:",
    re.MULTILINE,
)
_CLEAR_BUT_FOR_YAML = re.compile(r"^[\w-]*(?:model|engine)[\w-]*[ \t]*:", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{[^\n{}]*\}\}")
_TEMPLATE_LINE = re.compile(r"^[ \t]*(?:\{\{[^\n{}]*\}\}[ \t]*)+(?=\r?$)", re.MULTILINE)
_PRIVATE = 0xE000
"""Templates are read as characters of Unicode's private use, each in its place."""
_HIDDEN = re.compile(f"[{chr(_PRIVATE)}-{chr(_PRIVATE + 0x7F)}]+")
_MOST_PODS = 9_999
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
    masked = _TEMPLATE.sub(_hidden, _TEMPLATE_LINE.sub(_blanked, page.text))
    whole = masked if page.text == text else text
    for found in _starts_in_page(replace(page, text=masked), whole):
        if masked == page.text:
            yield found
        else:
            yield replace(found, start=_shown(found.start, page.text))


def _blanked(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _hidden(match: re.Match[str]) -> str:
    return "".join(
        chr(_PRIVATE + ord(one)) if one < "\x7f" else chr(_PRIVATE) for one in match[0]
    )


def _readable(text: str) -> str:
    return _HIDDEN.sub(
        lambda match: "".join(chr(ord(one) - _PRIVATE) for one in match[0]), text
    )


def _shown(start: Start, text: str) -> Start:
    """Return a start whose templates are open, and readable again."""
    lines = _TEMPLATE_LINE.findall(text)
    left = (
        [f"A line of the template is left aside: {lines[0].strip()[:80]}"]
        if lines
        else []
    )
    return replace(
        start,
        sites=tuple(map(_opened, start.sites)),
        env={name: _opened(site) for name, site in start.env.items()},
        version=None if start.version is None else _opened(start.version),
        shown=_readable(start.shown),
        notes=tuple(map(_readable, start.notes)),
        open=(*map(_readable, start.open), *left),
    )


def _opened(site: Site) -> Site:
    hidden = _HIDDEN.findall(str(site.value)) + _HIDDEN.findall("".join(site.variables))
    if not hidden and not _HIDDEN.search(site.written):
        return site
    return replace(
        site,
        value=None if hidden else site.value,
        variables=tuple(map(_readable, site.variables or hidden)),
        written=_readable(site.written),
    )


def _starts_in_page(page: Passage, text: str) -> Iterator[FoundStart]:
    if not _LIKE.match(page.text) or not _NAMED.search(page.text):
        return
    try:
        roots = documents(page)
    except PlannerError as error:
        is_missing = "PyYAML" in str(error) and _CLEAR_BUT_FOR_YAML.search(page.text)
        if is_missing or page.expansion.is_too_large or _CLEAR.search(page.text):
            raise
        return
    runtimes = {
        root.word("metadata", "name")
        for root in roots
        if root.word("kind").endswith("ServingRuntime")
    }
    mounted = [site for root in roots for site in mounted_models(root)]
    for root in roots:
        if _is_told_by(root, runtimes):
            continue
        for found in _of_document(root, text):
            yield replace(found, start=_with_mounted(found.start, mounted))


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


def _of_document(root: Node, text: str) -> Iterator[FoundStart]:
    if root.kind == "sequence":
        for item in root.items:
            yield from _of_document(item, text)
    elif root.get("apiVersion") is not None and root.get("kind") is not None:
        yield from _of_object(root, text)
    elif (services := root.get("services")) is not None and services.kind == "mapping":
        yield from starts_in_compose(root, text)
    elif (chart := chart_of_llm_d(root)) is not None:
        yield from starts_in_llm_d(chart, text)
    elif root.get("servingEngineSpec") is not None:
        yield from starts_in_stack(root)
    elif root.kind == "mapping":
        yield from list(starts_in_job(root, text)) or starts_in_table(root)


def _of_object(root: Node, text: str) -> Iterator[FoundStart]:
    """Yield the starts in an object of Kubernetes."""
    kind, spec = root.word("kind"), root.get("spec") or root
    if kind == "List":
        for item in root.items_of("items"):
            yield from _of_document(item, text)
    elif kind == "ConfigMap":
        for _, value in (root.get("data") or root).pairs:
            yield from _of_file(value, text)
    elif kind == "InferenceService" and spec.get("predictor", "model") is not None:
        yield from starts_in_predictor(root)
    elif kind == "LLMInferenceService":
        yield from starts_in_llm_service(root, text)
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
    size = whole_number(root.word("spec", "leaderWorkerTemplate", "size"))
    starts: list[FoundStart] = []
    for pod in pods_in(root):
        gpu, several = gpu_of(pod.get("nodeSelector"), pod.get("affinity"))
        containers = pod.items_of("containers")
        around = Surroundings(
            text=text,
            gpu=gpu,
            open=several,
            shown=root.word("metadata", "name") if len(containers) == 1 else "",
            pods=size if size is not None and size <= _MOST_PODS else 1,
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
