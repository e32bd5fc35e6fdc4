"""Starts of vLLM in manifests and configurations: Kubernetes, Compose, KServe, Ray, Helm.

Source: Kubernetes apps/v1, batch/v1; LeaderWorkerSet v1; KServe 0.16 serving.kserve.io
InferenceService, LLMInferenceService (`config/llmisvcconfig`); KubeRay 1.4 ray.io/v1;
llm-d-modelservice `templates/_helpers.tpl`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from planner.errors import PlannerError
from planner.export.texts.code import starts_in_code
from planner.export.texts.command import (
    Program,
    env_sites,
    flag_words,
    start_of,
)
from planner.export.texts.container import Found, starts_in, version_of
from planner.export.texts.engine_tables import (
    entry,
    model_site,
    starts_in_serve,
    starts_in_table,
)
from planner.export.texts.passage import Edit, Passage
from planner.export.texts.pods import (
    Surroundings,
    gpu_of,
    gpus_of,
    kubernetes_reads,
    pods_in,
    starts_in_compose,
    starts_in_container,
    variables_of,
)
from planner.export.texts.reading import Kind
from planner.export.texts.shell import commands_of
from planner.export.texts.sites import Site, Start, WordList, shell_list
from planner.export.texts.yaml_edits import (
    added,
    joined_lists,
    list_of,
    passage_of,
    replaced,
    replaced_file,
    word_of,
)
from planner.export.texts.yaml_nodes import Node, documents

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
_TEMPLATE_LINE = re.compile(r"^[ \t]*(?:\{\{[^\n{}]*\}\}[ \t]*)+$", re.MULTILINE)
_PRIVATE = 0xE000
"""Templates are read as characters of Unicode's private use, each in its place."""
_HIDDEN = re.compile(f"[{chr(_PRIVATE)}-{chr(_PRIVATE + 0x7F)}]+")
_MOUNTED = "/mnt/models"
_OF_KSERVE = frozenset(
    "model_name model_id model_dir backend predictor_host predictor_name "
    "tensor_input_names return_token_type_ids disable_lower_case "
    "disable_special_tokens enable_docs_url enable_latency_logging http_port grpc_port "
    "workers max_threads".split()
)
"""Arguments of KServe's own server for Hugging Face models."""
_PARALLEL: Mapping[str, str] = {
    "tensor": "tensor_parallel_size",
    "pipeline": "pipeline_parallel_size",
    "data": "data_parallel_size",
    "dataLocal": "data_parallel_size_local",
    "expert": "enable_expert_parallel",
}


def starts_in_manifest(text: str) -> Iterator[Found]:
    """Yield the starts of vLLM in a manifest or a configuration, in order.

    Raises:
        PlannerError: for text with clear marks of a manifest that is not valid, naming
            the line; for YAML where PyYAML is not installed.
    """
    masked = _TEMPLATE.sub(_hidden, _TEMPLATE_LINE.sub(_blanked, text))
    for found in _starts_in_page(Passage.whole(masked), masked):
        if masked == text:
            yield found
        else:
            yield replace(found, start=_shown(found.start, text))


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
    left = [f"A line of the template is left aside: {lines[0].strip()[:80]}"] if lines else []
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


def _starts_in_page(page: Passage, text: str) -> Iterator[Found]:
    if not _LIKE.match(page.text) or not _NAMED.search(page.text):
        return
    try:
        roots = documents(page)
    except PlannerError as error:
        is_missing = "PyYAML" in str(error) and _CLEAR_BUT_FOR_YAML.search(page.text)
        if is_missing or _CLEAR.search(page.text):
            raise
        return
    mounted = [site for root in roots for site in _mounted(root)]
    for root in roots:
        for found in _of_document(root, text):
            yield replace(found, start=_with_mounted(found.start, mounted))


def _mounted(root: Node) -> Iterator[Site]:
    """Yield the model that KServe puts below /mnt/models."""
    for names in (("spec", "predictor", "model", "storageUri"), ("spec", "model", "uri")):
        holder = root.get(*names[:-1])
        pair = None if holder is None else holder.entry(names[-1])
        site = None if pair is None else model_site(*pair)
        if site is not None:
            yield site


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


def _of_document(root: Node, text: str) -> Iterator[Found]:
    if root.kind == "sequence":
        for item in root.items:
            yield from _of_document(item, text)
    elif root.get("apiVersion") is not None and root.get("kind") is not None:
        yield from _of_object(root, text)
    elif (services := root.get("services")) is not None and services.kind == "mapping":
        yield from starts_in_compose(root, text)
    elif (chart := _chart_of_llm_d(root)) is not None:
        for part in ("decode", "prefill"):
            if (pods := chart.get(part)) is not None:
                yield from _of_llm_d(chart, pods, part, text)
    elif root.kind == "mapping":
        yield from starts_in_table(root)


def _of_object(root: Node, text: str) -> Iterator[Found]:
    """Yield the starts in an object of Kubernetes."""
    kind, spec = root.word("kind"), root.get("spec") or root
    if kind == "List":
        for item in root.list("items"):
            yield from _of_document(item, text)
    elif kind == "ConfigMap":
        for _, value in (root.get("data") or root).pairs:
            yield from _of_file(value, text)
    elif kind == "InferenceService" and spec.get("predictor", "model") is not None:
        yield from _of_predictor(root, text)
    elif kind == "LLMInferenceService":
        yield from _of_llm_service(root, text)
    else:
        found = list(_of_ray_object(spec, text))
        yield from found or _of_pods(root, text)


def _of_file(value: Node, text: str) -> Iterator[Found]:
    """Yield the starts in a file that a ConfigMap holds."""
    if "vllm" not in value.text.lower():
        return
    page = passage_of(value)
    found = list(_starts_in_page(page, text))
    if not found:
        found = [
            replace(one, start=_within(one.start, page))
            for one in starts_in_code(page.text)
        ]
    yield from found or starts_in(commands_of(page), text)


def _within(start: Start, page: Passage) -> Start:
    """Return a start that was read in a text inside a scalar, with its own places."""

    def moved(site: Site) -> Site:
        return replace(
            site,
            replace=lambda value: replaced_file(site.replace(value), page),
            remove=lambda: replaced_file(site.remove(), page),
        )

    return replace(
        start,
        sites=tuple(map(moved, start.sites)),
        add=lambda name, value: replaced_file(start.add(name, value), page),
        env={name: moved(site) for name, site in start.env.items()},
        version=None if start.version is None else moved(start.version),
    )


def _of_ray_object(spec: Node, text: str) -> Iterator[Found]:
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
            yield Found(kind=Kind.RAY, start=replace(found.start, gpu=gpu, open=several))


def _of_pods(root: Node, text: str) -> Iterator[Found]:
    size = root.word("spec", "leaderWorkerTemplate", "size")
    seen = 0
    for pod in pods_in(root):
        gpu, several = gpu_of(pod.get("nodeSelector"), pod.get("affinity"))
        containers = pod.list("containers")
        around = Surroundings(
            text=text,
            gpu=gpu,
            open=several,
            shown=root.word("metadata", "name") if len(containers) == 1 else "",
            pods=int(size) if size.isdigit() and len(size) < 5 else 1,
        )
        for container in containers:
            for found in starts_in_container(container, around):
                is_worker = any(site.name == "headless" for site in found.start.sites)
                if not (seen and is_worker):
                    seen += 1
                    yield found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What a service's own fields say of the start in its container."""

    sites: tuple[Site, ...]
    container: Node
    found: WordList
    start: Start
    unknown: tuple[str, ...]


def _given(
    container: Node, sites: Sequence[Site], extra: Sequence[WordList] = ()
) -> _Given:
    """Read the arguments of a container whose command a controller writes."""
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
    return _Given(
        sites=tuple(sites),
        container=container,
        found=found,
        start=replace(start, add=add, gpus=gpus_of(container), version=version),
        unknown=tuple(unknown),
    )


def _add_args(container: Node, name: str, value: object) -> list[Edit]:
    words = flag_words(name, value)
    pair = container.entry("args")
    return added(container, "args", words) if pair is None else replaced(*pair, words)


def _of_predictor(root: Node, text: str) -> Iterator[Found]:
    """Yield the start of a KServe InferenceService."""
    predictor = root.get("spec", "predictor")
    model = root.get("spec", "predictor", "model")
    if predictor is None or model is None:
        return
    named = model.word("modelFormat", "name") + model.word("runtime")
    if not re.search("vllm|hugging", named, re.IGNORECASE):
        return
    given = _given(model, ())
    sites = [
        replace(site, name="model") if site.name == "model_id" else site
        for site in given.start.sites
        if site.name == "model_id" or site.name not in _OF_KSERVE
    ]
    unknown = list(given.unknown)
    if not any(site.name == "model" for site in sites):
        mounted = list(_mounted(root))
        sites = [*mounted, *sites]
        if not mounted:
            unknown.append(_elsewhere(model.word("storageUri") or "a storage"))
    own = [
        f"{site.written} is read by KServe itself."
        for site in given.start.sites
        if site.name in _OF_KSERVE and site.name != "model_id"
    ]
    gpu, several = gpu_of(predictor.get("nodeSelector"), predictor.get("affinity"))
    start = replace(
        given.start,
        sites=tuple(sites),
        gpu=gpu,
        shown=root.word("metadata", "name"),
        notes=(*given.start.notes, *own, "The serving runtime chooses vLLM's release."),
        open=(*unknown, *several),
    )
    yield Found(kind=Kind.KUBERNETES, start=start)


def _elsewhere(address: str) -> str:
    return f"The model comes from {address[:120]}: name it, model='org/name'."


def _parallel(table: Node | None) -> Iterator[Site]:
    """Yield the sizes that a controller turns into arguments."""
    for key, node in () if table is None else table.pairs:
        if key.text in _PARALLEL and table is not None and not node.is_nothing:
            yield entry(table, _PARALLEL[key.text], key, node, node.value)


def _of_llm_service(root: Node, text: str) -> Iterator[Found]:
    """Yield the starts of a KServe LLMInferenceService: decode, and prefill."""
    spec = root.get("spec")
    name = root.word("metadata", "name")
    parts = [(spec, name), (None if spec is None else spec.get("prefill"), "prefill")]
    for part, shown in parts:
        if part is None or spec is None:
            continue
        for start in _llm_starts(root, part, text):
            yield Found(kind=Kind.KUBERNETES, start=replace(start, shown=shown))


def _llm_starts(root: Node, part: Node, text: str) -> Iterator[Start]:
    containers = part.list("template", "containers")
    main = [one for one in containers if one.word("name") == "main"] or containers[:1]
    gpu, several = gpu_of(part.get("template"))
    mounted = list(_mounted(root))
    unknown = [] if mounted else [_elsewhere(root.word("spec", "model", "uri"))]
    if main and main[0].list("command"):
        around = Surroundings(text=text, gpu=gpu, open=several)
        yield from (one.start for one in starts_in_container(main[0], around))
        return
    sites = [*mounted, *_parallel(part.get("parallelism"))]
    if not main:
        yield Start(sites=tuple(sites), add=partial(_add_parallel, part), gpu=gpu)
        return
    given = _given(main[0], sites, _additional(main[0], text))
    yield replace(
        given.start,
        sites=(*given.sites, *given.start.sites),
        env={n: site for n, site in given.start.env.items() if n != _MORE},
        gpu=gpu,
        open=(*unknown, *given.unknown, *several),
    )


_MORE = "VLLM_ADDITIONAL_ARGS"


def _additional(container: Node, text: str) -> list[WordList]:
    """Return the words of the variable that KServe adds to the command."""
    for item in container.list("env"):
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
    table = part.get("parallelism")
    if table is None:
        return added(part, "parallelism", {own: value})
    return added(table, own, value)


def _chart_of_llm_d(root: Node) -> Node | None:
    """Return the values of llm-d's chart, which may be a part of another chart's."""
    for place in (root, *(value for _, value in root.pairs)):
        if place.get("modelArtifacts") is not None:
            return place
    return None


def _of_llm_d(chart: Node, pods: Node, part: str, text: str) -> Iterator[Found]:
    """Yield the starts of llm-d's pods for decode or prefill."""
    if pods.word("create").lower() == "false":
        return
    gpu, several = gpu_of(pods.get("acceleratorTypes"), pods.get("extraConfig"))
    model, unknown = _artifact(chart)
    for container in pods.list("containers"):
        if container.word("modelCommand") in ("vllmServe", "imageDefault"):
            sites = [*model, *_parallel(pods.get("parallelism"))]
            given = _given(container, sites)
            start = replace(
                given.start,
                sites=(*given.sites, *given.start.sites),
                gpu=gpu,
                gpus=given.start.gpus or _gpus_of_sizes(given.sites),
                shown=part,
                open=(*unknown, *given.unknown, *several),
            )
            yield Found(kind=Kind.HELM, start=start)
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
    name = None if artifacts is None else artifacts.entry("name")
    site = None if uri is None else model_site(*uri)
    is_template = site is not None and bool(_HIDDEN.search(str(site.value)))
    if site is not None and not is_template:
        return [site], []
    if artifacts is not None and name is not None and (is_template or uri is None):
        return [entry(artifacts, "model", *name, name[1].text)], []
    return [], [_elsewhere("" if uri is None else uri[1].text)]
