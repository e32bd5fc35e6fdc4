"""Starts of vLLM in the tasks of schedulers of clouds: SkyPilot and dstack.

Source: SkyPilot 0.10 task YAML (resources, num_nodes, envs, run, SKYPILOT_*); dstack
0.19 .dstack.yml (resources.gpu, image, env, commands, DSTACK_*).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.engine.cloud_machines import machine_named
from planner.reading.documents.yaml_edits import passage_of
from planner.reading.documents.yaml_nodes import Node
from planner.reading.documents.yaml_words import as_it_is, word_of
from planner.reading.reading import FoundStart, Kind
from planner.reading.scripts.shell import commands_of
from planner.reading.sites import Start
from planner.reading.starts.around import release_in
from planner.reading.starts.container import starts_in
from planner.reading.starts.images import gpu_named_in, one_gpu, version_of

_TYPES = ("service", "task", "dev-environment")
_OF_SKYPILOT = {"A100": "A100-40GB", "V100": "V100-16GB"}
"""Names that mean the card with less memory there."""
_SIZE = re.compile(r"\d+(?:\.\d+)?\s*[GT]B(?:\.\.)?.*\Z|\.\.", re.IGNORECASE)
_COUNT = re.compile(r"[1-9]\d?\Z")
_Wanted = tuple[str, int]
"""A GPU's name, and how many of them."""


def starts_in_job(root: Node, text: str) -> Iterator[FoundStart]:
    """Yield the starts in a task of SkyPilot or a configuration of dstack."""
    resources = root.get("resources")
    run = root.get("run")
    if run is not None and run.kind == "scalar" and resources is not None:
        yield from _of_skypilot(root, resources, run, text)
    elif root.word("type") in _TYPES and root.items_of("commands"):
        yield from _of_dstack(root, text)


def _of_skypilot(
    root: Node, resources: Node, run: Node, text: str
) -> Iterator[FoundStart]:
    wanted = list(_skypilot_gpus(resources))
    num_nodes = _whole(root.word("num_nodes"))
    known = _env(root.get("envs"))
    if len({count for _, count in wanted}) == 1:
        known["SKYPILOT_NUM_GPUS_PER_NODE"] = str(wanted[0][1])
    known["SKYPILOT_NUM_NODES"] = str(num_nodes)
    release = release_in(text)
    for found in starts_in(commands_of(passage_of(run), known), text):
        start = _placed(found.start, wanted, num_nodes)
        yield FoundStart(
            kind=Kind.SKYPILOT,
            start=replace(
                start,
                version=start.version or release,
                shown=root.word("name"),
            ),
        )


def _skypilot_gpus(resources: Node) -> Iterator[_Wanted]:
    """Yield what `accelerators` allows, or the GPUs of a type of machine."""
    for place in (
        resources,
        *resources.items_of("any_of"),
        *resources.items_of("ordered"),
    ):
        machine = machine_named(place.word("instance_type"))
        if machine is not None:
            yield machine.gpu, machine.gpus
            continue
        allowed = place.get("accelerators")
        if allowed is None:
            continue
        # {L4: 8}, {L4:8} (a name without a value to YAML), [L4:8, A10G:8] and L4:8.
        texts = [f"{name.text}:{count.text}" for name, count in allowed.pairs]
        for text in texts or [item.text for item in allowed.items] or [allowed.text]:
            name, _, count = text.rstrip(":").partition(":")
            if name:
                yield _OF_SKYPILOT.get(name, name), _whole(count)


def _whole(text: str) -> int:
    return int(text) if _COUNT.match(text) else 1


def _env(node: Node | None) -> dict[str, str]:
    """Return the variables of a task, from a table or from NAME=value."""
    if node is None:
        return {}
    named = {key.text: value.text for key, value in node.pairs if value.text}
    for item in node.items:
        name, equals, value = item.text.partition("=")
        if equals:
            named[name] = value
    return named


def _placed(start: Start, wanted: Sequence[_Wanted], num_nodes: int) -> Start:
    """Return a start with the GPU of its task; several are left open."""
    gpu, several = one_gpu(name for name, _ in wanted)
    counts = {count for _, count in wanted}
    granted = counts.pop() * num_nodes if len(counts) == 1 else None
    return replace(
        start,
        gpu=start.gpu or gpu,
        gpus=granted or start.gpus,
        open=(*start.open, *several),
    )


def _of_dstack(root: Node, text: str) -> Iterator[FoundStart]:
    wanted = list(_dstack_gpus(root.get("resources", "gpu")))
    known = _env(root.get("env"))
    if wanted and wanted[0][1]:
        known["DSTACK_GPUS_NUM"] = known["DSTACK_GPUS_PER_NODE"] = str(wanted[0][1])
    image = root.get("image")
    version = None if image is None else version_of(word_of(image, as_it_is))
    version = version or release_in(text)
    for item in root.items_of("commands"):
        for found in starts_in(commands_of(passage_of(item), known), text):
            start = _placed(found.start, [one for one in wanted if one[0]], 1)
            yield FoundStart(
                kind=Kind.DSTACK,
                start=replace(
                    start,
                    version=start.version or version,
                    shown=root.word("name"),
                    open=(*start.open, *_sizes(wanted, root)),
                ),
            )


def _dstack_gpus(node: Node | None) -> Iterator[_Wanted]:
    """Yield the GPUs of `gpu: H100:2`, `A100:80GB:4`, `24GB` or of a table."""
    if node is None:
        return
    if node.pairs:
        names = [item.text for item in node.items_of("name")] or [node.word("name")]
        memory, count = node.word("memory"), _whole(node.word("count"))
        for name in names:
            yield _sized(name, memory), count
        return
    parts = node.text.split(":")
    sizes = [part for part in parts if _SIZE.match(part)]
    counts = [part for part in parts if _COUNT.match(part)]
    names = [part for part in parts if part not in (*sizes, *counts)]
    for name in (names[0] if names else "").split(","):
        yield (
            _sized(name, sizes[0] if sizes else ""),
            _whole(counts[0] if counts else ""),
        )


def _sized(name: str, memory: str) -> str:
    """Return a GPU's name with its memory where both are told, such as A100-80GB."""
    size = memory.replace(" ", "")
    with_size = f"{name}-{size}"
    is_known = bool(name and size) and gpu_named_in(with_size) is not None
    return with_size if is_known else name


def _sizes(wanted: Sequence[_Wanted], root: Node) -> list[str]:
    """Return the sentence for a job that asks for memory, not for a GPU."""
    if not wanted or any(name for name, _ in wanted):
        return []
    asked = root.word("resources", "gpu") or root.word("resources", "gpu", "memory")
    return [f"The text asks for any GPU with {asked}."]
