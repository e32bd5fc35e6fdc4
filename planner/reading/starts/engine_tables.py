"""Starts of vLLM in tables of arguments: configurations, plan files, Ray, recipes.

Source: vLLM 0.33.0 `utils/argparse_utils.py` load_config_file; Ray 2.56 `ray.serve.llm`
LLMConfig, `ray.data.llm` vLLMEngineProcessorConfig; vLLM recipes
`models/ORG/NAME.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from planner.engine.arguments import ARGUMENTS
from planner.engine.server import flag_named
from planner.export.plan_file import read_yaml
from planner.reading.documents.yaml_edits import added, added_below, removed, replaced
from planner.reading.documents.yaml_nodes import Node
from planner.reading.documents.yaml_words import (
    add_words,
    as_it_is,
    joined_lists,
    list_of,
    word_of,
)
from planner.reading.flag_values import typed
from planner.reading.passage import Edit
from planner.reading.reading import FoundStart, Kind
from planner.reading.sites import Site, Start, WordList
from planner.reading.starts.command import Program, env_site, flag_words, start_of
from planner.reading.starts.images import gpu_named_in, one_gpu
from planner.units import whole_number

_MODEL = ("model", "model_tag", "model-tag")
_PLAN_KEYS = {
    "model",
    "gpu",
    "vllm_version",
    "entrypoint",
    "env",
    "load",
    "engine_args",
}
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
        at=(key.span, node.span),
    )


def model_entry(table: Node | None, name: str) -> list[Site]:
    """Return the model that an entry of a table names; none where it has no such."""
    found = None if table is None else table.entry(name)
    if table is None or found is None:
        return []
    return [entry(table, "model", *found, found[1].text)]


def entries(table: Node | None) -> Iterator[tuple[Node, Node]]:
    """Yield the entries of a table, those that it merges (<<) first."""
    if table is None:
        return
    names = set(table.names)
    for key, value in table.pairs:
        if key.text == "<<":
            merged = value.items or (value,)
            yield from (
                pair
                for one in merged
                for pair in one.pairs
                if pair[0].text not in names
            )
    yield from (pair for pair in table.pairs if pair[0].text != "<<")


def arguments(table: Node | None) -> list[Site]:
    """Return the entries of a table whose names are vLLM's."""
    return [
        entry(table, key.text.replace("-", "_"), key, node, node.value)
        for key, node in entries(table)
        if table is not None
    ]


def named_entries(table: Node, names: Mapping[str, str]) -> list[Site]:
    """Return the entries of a table whose names stand for arguments."""
    return [
        entry(table, name, key, node, _typed(name, node))
        for key, node in entries(table)
        if (name := names.get(key.text)) and not node.is_nothing
    ]


def _typed(name: str, node: Node) -> object:
    """Return a value as the chart's flag gives it, whether it is quoted or not."""
    known = flag_named(f"--{name}")
    is_quoted = known is not None and isinstance(node.value, str)
    return typed(known[1], [node.text]) if known and is_quoted else node.value


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
        at=((word.start, word.end),),
    )


def variables(table: Node | None) -> dict[str, Site]:
    """Return environment variables that are a table."""
    return {
        key.text: env_site(key.text, word_of(node, as_it_is))
        for key, node in entries(table)
        if node.kind == "scalar" and not node.is_nothing
    }


def starts_in_table(root: Node) -> Iterator[FoundStart]:
    """Yield the starts in a document that is no Kubernetes object."""
    names = set(root.names)
    meta = root.get("model")
    if meta is not None and meta.get("model_id") is not None:
        yield from _of_recipe(root, meta)
    elif "applications" in names or "llm_configs" in names:
        yield from starts_in_serve(root)
    elif "model_loading_config" in names:
        yield FoundStart(kind=Kind.RAY, start=_of_serve(root))
    elif "model_source" in names:
        yield FoundStart(kind=Kind.RAY, start=_of_data(root))
    elif "model" in names and (
        "engine_args" in names or (len(names) > 1 and names <= _PLAN_KEYS)
    ):
        yield FoundStart(kind=Kind.PLAN_FILE, start=_of_plan_file(root))
    elif _is_configuration(root):
        yield FoundStart(kind=Kind.CONFIG, start=_of_configuration(root))


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
    is_dashed: bool,
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
        value = typed(known, [item.text for item in node.items])
    elif node.kind == "scalar" and not isinstance(value, bool) and not node.is_nothing:
        value = typed(known, [node.text])
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
        version = entry(
            root, "vllm_version", key, node, inputs.vllm_version, is_text=True
        )
    return Start(
        sites=tuple(sites),
        add=partial(added_below, root, "engine_args"),
        entrypoint=inputs.entrypoint,
        env=variables(root.get("env")),
        version=version,
        gpu=inputs.gpu,
        notes=("Its load is read by `planner plan -f`.",) if "load" in pairs else (),
    )


def starts_in_serve(root: Node) -> Iterator[FoundStart]:
    """Yield the engines of a Ray Serve configuration."""
    for application in root.items_of("applications") or (root,):
        places = [application.get("args") or application]
        for place in places:
            parts = ("prefill_config", "decode_config", "llm_config")
            configs = [*place.items_of("llm_configs"), *map(place.get, parts)]
            for config in configs:
                if config is not None and config.kind == "mapping":
                    yield FoundStart(kind=Kind.RAY, start=_of_serve(config))


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
        notes.append(
            "deployment_config sets how many such engines run, not their size."
        )
    if config.get("lora_config") is not None:
        notes.append(
            "lora_config is read by Ray; vLLM's own limits are in engine_kwargs."
        )
    return _of_ray(config, sites, notes, unknown, "serve", loading)


def _of_data(root: Node) -> Start:
    """Return the start of a processor's configuration of Ray Data."""
    return _of_ray(root, model_entry(root, "model_source"), [], (), "engine")


def _of_ray(  # noqa: PLR0913 - what both configurations have
    config: Node,
    sites: Sequence[Site],
    notes: Sequence[str],
    unknown: Sequence[str],
    entrypoint: str,
    loading: Node | None = None,
) -> Start:
    label = config.word("accelerator_type")
    gpu, not_known = one_gpu([label] if label else ())
    bundles = config.items_of("placement_group_config", "bundles")
    granted = [whole_number(bundle.word("GPU")) for bundle in bundles]
    counts = [count for count in granted if count is not None]
    shown = "" if loading is None else loading.word("model_id")
    return Start(
        sites=(*sites, *arguments(config.get("engine_kwargs"))),
        add=partial(added_below, config, "engine_kwargs"),
        entrypoint=entrypoint,
        env=variables(config.get("runtime_env", "env_vars")),
        gpu=gpu,
        gpus=sum(counts) if counts and len(counts) == len(granted) else None,
        shown=shown,
        notes=tuple(notes),
        open=(*unknown, *not_known),
    )


def _of_recipe(root: Node, model: Node) -> Iterator[FoundStart]:
    """Yield a start for each variant of a recipe, with the features that are on."""
    table = root.get("variants")
    variants = (
        [("default", None)]
        if table is None
        else [(key.text, node) for key, node in table.pairs]
    )
    for name, variant in variants:
        yield FoundStart(kind=Kind.RECIPE, start=_variant(root, model, name, variant))


def _variant(root: Node, model: Node, name: str, variant: Node | None) -> Start:
    found = _recipe_words(root, model, variant, is_default=name == "default")
    start = start_of(found, Program(first=0, takes_model=False), {})
    sites = model_entry(variant, "model_id") or model_entry(model, "model_id")
    sizes = None if variant is None else variant.entry("tp")
    size = None if sizes is None else whole_number(sizes[1].text)
    if variant is not None and sizes is not None and size is not None:
        sites.append(entry(variant, "tensor_parallel_size", *sizes, size))
    extra = None if variant is None or name == "default" else variant.get("extra_env")
    named = root.word("meta", "default_hardware")
    least = (variant and variant.word("min_vllm_version")) or model.word(
        "min_vllm_version"
    )
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
) -> WordList:
    off = {item.text for item in root.items_of("opt_in_features")}
    nodes = [model.get("base_args")]
    if variant is not None and not is_default:
        nodes.append(variant.get("extra_args"))
    on = [
        feature for key, feature in entries(root.get("features")) if key.text not in off
    ]
    nodes += [feature.get("args") for feature in on]
    # Each variant has them again, however many there are.
    put_in = [node.size for node in (*nodes, *on) if node is not None]
    root.page.expansion.add(sum(put_in))
    lists = [
        list_of(node, as_it_is) for node in nodes if node is not None and node.items
    ]
    return joined_lists(lists)


def _add_to_recipe(model: Node, name: str, value: object) -> list[Edit]:
    return add_words(model, "base_args", flag_words(name, value))
