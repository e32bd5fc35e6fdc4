"""Starts of vLLM in tables of arguments: configurations, Ray, Helm values, recipes.

Source: vLLM 0.33.0 `utils/argparse_utils.py` load_config_file; Ray 2.56 `ray.serve.llm`
LLMConfig, `ray.data.llm` vLLMEngineProcessorConfig; vLLM production stack
`helm/templates/deployment-vllm-multi.yaml`; vLLM recipes `models/ORG/NAME.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from planner.engine.arguments import ARGUMENTS
from planner.engine.server import flag_named
from planner.errors import PlannerError
from planner.export.plan_file import read_yaml
from planner.export.texts.command import Program, env_site, flag_words, start_of, typed
from planner.export.texts.container import Found, gpu_named_in, version_of
from planner.export.texts.passage import Edit
from planner.export.texts.pods import as_it_is, gpu_of, variables_of
from planner.export.texts.reading import Kind
from planner.export.texts.shell import Word
from planner.export.texts.sites import Site, Start
from planner.export.texts.yaml_edits import (
    YamlList,
    added,
    joined_lists,
    list_of,
    passage_of,
    removed,
    replaced,
    word_of,
)
from planner.export.texts.yaml_nodes import Node

_MODEL = ("model", "model_tag", "model-tag")
_PLAN_KEYS = {"model", "gpu", "vllm_version", "entrypoint", "env", "load", "engine_args"}
_STACK: Mapping[str, str] = {
    "enableChunkedPrefill": "enable_chunked_prefill",
    "enablePrefixCaching": "enable_prefix_caching",
    "maxModelLen": "max_model_len",
    "dtype": "dtype",
    "tensorParallelSize": "tensor_parallel_size",
    "pipelineParallelSize": "pipeline_parallel_size",
    "maxNumSeqs": "max_num_seqs",
    "gpuMemoryUtilization": "gpu_memory_utilization",
    "maxLoras": "max_loras",
}
_BESIDE: Mapping[str, str] = {
    "enableLoRA": "enable_lora",
    "enableTool": "enable_auto_tool_choice",
    "toolCallParser": "tool_call_parser",
    "chatTemplate": "chat_template",
}
_OF_STACK = ("v0", "v1", "extraArgs", "prometheusMultiprocDir")
_HF = re.compile(r"hf://\"?(?P<name>[^\"@:]+)")


def entry(  # noqa: PLR0913 - an entry and what it stands for
    table: Node,
    name: str,
    key: Node,
    node: Node,
    value: Any,  # noqa: ANN401 - vLLM's own types
    *,
    is_text: bool = False,
) -> Site:
    """Return an argument that is an entry of a table."""
    own = next((pair for pair in table.pairs if pair[0] is key), None)
    return Site(
        name=name,
        value=value,
        replace=partial(replaced, key, node, is_text=is_text),
        remove=list if own is None else partial(removed, table, key, node),
        written=key.text,
    )


def entries(table: Node | None) -> Iterator[tuple[Node, Node]]:
    """Yield the entries of a table, those that it merges (<<) first."""
    if table is None:
        return
    names = set(table.names)
    for key, value in table.pairs:
        if key.text == "<<":
            merged = value.items or (value,)
            yield from (pair for one in merged for pair in one.pairs if pair[0].text not in names)
    yield from (pair for pair in table.pairs if pair[0].text != "<<")


def arguments(table: Node | None) -> list[Site]:
    """Return the entries of a table whose names are vLLM's."""
    return [
        entry(table, key.text.replace("-", "_"), key, node, node.value)
        for key, node in entries(table)
        if table is not None
    ]


def model_site(key: Node, node: Node) -> Site | None:
    """Return the model of an address hf://org/name; None for another address."""
    match = _HF.match(node.text)
    if match is None:
        return None
    word = word_of(node, as_it_is).part(match.start("name"), match.end("name"))
    return Site(
        name="model",
        value=match["name"],
        replace=lambda value: [word.replaced(str(value))],
        remove=list,
        written=key.text,
    )


def variables(table: Node | None) -> dict[str, Site]:
    """Return environment variables that are a table."""
    return {
        key.text: env_site(key.text, word_of(node, as_it_is))
        for key, node in entries(table)
        if node.kind == "scalar" and not node.is_nothing
    }


def starts_in_table(root: Node) -> Iterator[Found]:
    """Yield the starts in a document that is no Kubernetes object."""
    names = set(root.names)
    meta = root.get("model")
    if "servingEngineSpec" in names:
        for spec in root.list("servingEngineSpec", "modelSpec"):
            yield Found(kind=Kind.HELM, start=_of_stack(spec))
    elif meta is not None and meta.get("model_id") is not None:
        yield from _of_recipe(root, meta)
    elif "applications" in names or "llm_configs" in names:
        yield from starts_in_serve(root)
    elif "model_loading_config" in names:
        yield Found(kind=Kind.RAY, start=_of_serve(root))
    elif "model_source" in names:
        yield Found(kind=Kind.RAY, start=_of_data(root))
    elif "model" in names and (
        "engine_args" in names or (len(names) > 1 and names <= _PLAN_KEYS)
    ):
        yield Found(kind=Kind.PLAN_FILE, start=_of_plan_file(root))
    elif _is_configuration(root):
        yield Found(kind=Kind.CONFIG, start=_of_configuration(root))


def _is_configuration(root: Node) -> bool:
    known = [name for name in root.names if name in _MODEL or _known(name)]
    engine = [name for name in root.names if name.replace("-", "_") in ARGUMENTS]
    foreign = {"messages", "prompt", "input", "architectures", "model_type"}
    is_mostly = len(known) * 3 >= len(root.names) * 2
    return bool(engine) and is_mostly and not foreign & set(root.names)


def _known(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z][\w-]*", name) is not None and (
        flag_named("--" + name) is not None
    )


def _of_configuration(root: Node) -> Start:
    """Return the start of `vllm serve --config FILE`."""
    sites = [_configured(root, key, node) for key, node in entries(root)]
    is_dashed = any("-" in name for name in root.names)
    is_dashed |= not any("_" in name for name in root.names)
    return Start(sites=tuple(sites), add=partial(_configure, root, is_dashed))


def _configure(
    root: Node,
    is_dashed: bool,  # noqa: FBT001 - bound by partial
    name: str,
    value: object,
) -> list[Edit]:
    return added(root, name.replace("_", "-") if is_dashed else name, value)


def _configured(root: Node, key: Node, node: Node) -> Site:
    if key.text in _MODEL:
        return entry(root, "model", key, node, node.text)
    found = flag_named("--" + key.text)
    name, known = (key.text.replace("-", "_"), None) if found is None else found
    value = node.value
    if node.kind == "sequence":
        value = typed(name, known, [item.text for item in node.items])
    elif node.kind == "scalar" and not isinstance(value, bool) and not node.is_nothing:
        value = typed(name, known, [node.text])
    return entry(root, name, key, node, value)


def _of_plan_file(root: Node) -> Start:
    """Return the start of the project's own files."""
    inputs = read_yaml(root.page.text).inputs
    pairs = {key.text: (key, node) for key, node in root.pairs}
    sites = [entry(root, "model", *pairs["model"], inputs.model)]
    table = root.get("engine_args")
    sites += [
        replace(site, value=inputs.engine_args[site.name])
        for site in arguments(table)
        if site.name in inputs.engine_args
    ]
    version = None
    if "vllm_version" in pairs:
        key, node = pairs["vllm_version"]
        version = entry(root, "vllm_version", key, node, inputs.vllm_version, is_text=True)
    return Start(
        sites=tuple(sites),
        add=partial(_add_below, root, "engine_args"),
        entrypoint=inputs.entrypoint,
        env=variables(root.get("env")),
        version=version,
        gpu=inputs.gpu,
        notes=("Its load is read by `planner plan -f`.",) if "load" in pairs else (),
    )


def _add_below(root: Node, table: str, name: str, value: object) -> list[Edit]:
    found = root.get(table)
    if found is None or not found.pairs:
        empty = root.entry(table)
        if empty is None:
            return added(root, table, {name: value})
        return replaced(*empty, {name: value})
    return added(found, name, value)


def starts_in_serve(root: Node) -> Iterator[Found]:
    """Yield the engines of a Ray Serve configuration."""
    for application in root.list("applications") or (root,):
        places = [application.get("args") or application]
        for place in places:
            parts = ("prefill_config", "decode_config", "llm_config")
            configs = [*place.list("llm_configs"), *map(place.get, parts)]
            for config in configs:
                if config is not None and config.kind == "mapping":
                    yield Found(kind=Kind.RAY, start=_of_serve(config))


def _of_serve(config: Node) -> Start:
    """Return the start of an LLMConfig of Ray Serve."""
    loading = config.get("model_loading_config")
    source = None if loading is None else loading.entry("model_source")
    served = None if loading is None else loading.entry("model_id")
    chosen = source or served
    sites: list[Site] = []
    unknown: tuple[str, ...] = ()
    if loading is not None and chosen is not None and chosen[1].kind == "scalar":
        sites.append(entry(loading, "model", *chosen, chosen[1].text, is_text=True))
    elif chosen is not None:
        unknown = ("The model comes from a bucket: name it, model='org/name'.",)
    notes = []
    if config.get("deployment_config") is not None:
        notes.append("deployment_config sets how many such engines run, not their size.")
    if config.get("lora_config") is not None:
        notes.append("lora_config is read by Ray; vLLM's own limits are in engine_kwargs.")
    return _of_ray(config, sites, notes, unknown, "serve", loading)


def _of_data(root: Node) -> Start:
    """Return the start of a processor's configuration of Ray Data."""
    found = root.entry("model_source")
    sites = [] if found is None else [entry(root, "model", *found, found[1].text)]
    return _of_ray(root, sites, [], (), "engine")


def _of_ray(  # noqa: PLR0913 - what both configurations have
    config: Node,
    sites: Sequence[Site],
    notes: Sequence[str],
    unknown: Sequence[str],
    entrypoint: str,
    loading: Node | None = None,
) -> Start:
    label = config.word("accelerator_type")
    gpu = gpu_named_in(label) if label else None
    if label and gpu is None:
        unknown = [*unknown, f"The GPU {label[:80]} is not in the catalogue."]
    bundles = config.list("placement_group_config", "bundles")
    granted = [bundle.word("GPU") for bundle in bundles]
    shown = "" if loading is None else loading.word("model_id")
    return Start(
        sites=(*sites, *arguments(config.get("engine_kwargs"))),
        add=partial(_add_below, config, "engine_kwargs"),
        entrypoint=entrypoint,
        env=variables(config.get("runtime_env", "env_vars")),
        gpu=gpu,
        gpus=sum(map(int, granted)) if granted and all(map(str.isdigit, granted)) else None,
        shown=shown,
        notes=tuple(notes),
        open=tuple(unknown),
    )


def _of_stack(spec: Node) -> Start:
    """Return the start of a modelSpec of vLLM's production stack."""
    config = spec.get("vllmConfig")
    model = spec.entry("modelURL")
    extra = spec.get("vllmConfig", "extraArgs")
    sites = [] if model is None else [entry(spec, "model", *model, model[1].text)]
    sites += _named(spec, _BESIDE)
    sites += [] if config is None else _named(config, _STACK)
    if config is not None and config.get("enablePrefixCaching") is None:
        sites.append(_prefix_caching(config))
    found = list_of(extra, as_it_is) if extra is not None and extra.items else None
    if found is not None:
        program = Program(first=0, takes_model=False)
        sites += start_of(found, program, {}).sites
    env, unknown = variables_of(spec)
    selectors = [spec.get("nodeSelectorTerms"), spec.get("nodeSelector")]
    gpu, several = gpu_of(*selectors)
    granted = spec.word("requestGPU")
    return Start(
        sites=tuple(sites),
        add=partial(_add_to_stack, spec, config, found),
        env={name: env_site(name, word) for name, word in env.items()},
        version=_release(spec),
        gpu=gpu,
        gpus=int(granted) if granted.isdigit() else None,
        shown=spec.word("name"),
        notes=tuple(_stack_notes(spec, config)),
        open=(*unknown, *several),
    )


def _named(table: Node, names: Mapping[str, str]) -> list[Site]:
    return [
        entry(table, names[key.text], key, node, node.value)
        for key, node in entries(table)
        if key.text in names and not node.is_nothing
    ]


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
    spec: Node, config: Node | None, extra: YamlList | None, name: str, value: object
) -> list[Edit]:
    own = {argument: key for key, argument in _STACK.items()}.get(name)
    beside = {argument: key for key, argument in _BESIDE.items()}.get(name)
    if beside is not None:
        return added(spec, beside, value)
    if config is None:
        words = {own: value} if own else {"extraArgs": flag_words(name, value)}
        return added(spec, "vllmConfig", words)
    if own is not None:
        return added(config, own, value)
    if extra is not None:
        return extra.insert(len(extra.words) - 1, flag_words(name, value))
    return added(config, "extraArgs", flag_words(name, value))


def _release(spec: Node) -> Site | None:
    """Return the release that repository and tag tell."""
    node = spec.get("tag")
    if node is None or "vllm" not in spec.word("repository"):
        return None
    image = spec.word("repository") + ":"
    passage = passage_of(node)
    places = [0] * len(image) + list(range(len(passage.text) + 1))
    named = passage.inside(image + passage.text, places, str)
    return version_of(Word(passage=named, start=node.start, end=node.end))


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


def _of_recipe(root: Node, model: Node) -> Iterator[Found]:
    """Yield a start for each variant of a recipe, with the features that are on."""
    table = root.get("variants")
    variants = [("default", None)] if table is None else [
        (key.text, node) for key, node in table.pairs
    ]
    for name, variant in variants:
        yield Found(kind=Kind.RECIPE, start=_variant(root, model, name, variant))


def _variant(root: Node, model: Node, name: str, variant: Node | None) -> Start:
    found = _recipe_words(root, model, variant, is_default=name == "default")
    start = start_of(found, Program(first=0, takes_model=False), {})
    holder, pair = model, model.entry("model_id")
    if variant is not None and variant.get("model_id") is not None:
        holder, pair = variant, variant.entry("model_id")
    sites = [entry(holder, "model", *pair, pair[1].text)] if pair else []
    sizes = None if variant is None else variant.entry("tp")
    if variant is not None and sizes is not None and sizes[1].text.isdigit():
        sites.append(
            entry(variant, "tensor_parallel_size", *sizes, int(sizes[1].text))
        )
    extra = None if variant is None or name == "default" else variant.get("extra_env")
    named = root.word("meta", "default_hardware")
    least = (variant and variant.word("min_vllm_version")) or model.word("min_vllm_version")
    notes = [f"The recipe asks for vLLM {least} or newer."] if least else []
    notes += [
        f"{part} of the recipe are not applied: add what your machine needs."
        for part in ("hardware_overrides", "strategy_overrides")
        if (inner := root.get(part)) is not None and inner.pairs
    ]
    return replace(
        start,
        sites=(*sites, *start.sites),
        add=partial(_add_to_recipe, model),
        env={**variables(model.get("base_env")), **variables(extra)},
        gpu=gpu_named_in(named) if named else None,
        shown=name,
        notes=(*start.notes, *notes),
        open=()
        if sizes
        else (
            "A recipe leaves the number of GPUs to the machine: give "
            "tensor_parallel_size.",
        ),
    )


def _recipe_words(
    root: Node, model: Node, variant: Node | None, *, is_default: bool
) -> YamlList:
    off = {item.text for item in root.list("opt_in_features")}
    nodes = [model.get("base_args")]
    if variant is not None and not is_default:
        nodes.append(variant.get("extra_args"))
    for key, feature in entries(root.get("features")):
        if key.text not in off:
            nodes.append(feature.get("args"))
    lists = [list_of(node, as_it_is) for node in nodes if node is not None and node.items]
    return joined_lists(lists)


def _add_to_recipe(model: Node, name: str, value: object) -> list[Edit]:
    base = model.entry("base_args")
    words = flag_words(name, value)
    if base is None:
        return added(model, "base_args", words)
    if not base[1].items:
        return replaced(*base, words)
    found = list_of(base[1], as_it_is)
    return found.insert(len(found.words) - 1, words)


def refused(text: str) -> PlannerError:
    """Return the error of a place that the text does not have."""
    return PlannerError(f"The text has no place for {text}: change it where it is.")


def joined_sites(sites: Iterable[Site], *others: Iterable[Site]) -> tuple[Site, ...]:
    """Return sites and those of other places whose names are not among them."""
    found = list(sites)
    for more in others:
        names = {site.name for site in found}
        found += [site for site in more if site.name not in names]
    return tuple(found)
