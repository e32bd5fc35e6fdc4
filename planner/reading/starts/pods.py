"""Starts of vLLM in the containers of pods and of Compose services.

Source: Kubernetes core/v1 Container ($(VAR) in command, args and env); the Compose
specification (interpolation, deploy.resources.reservations.devices); NVIDIA GPU feature
discovery and GKE node labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

from planner.engine.environment import KNOWN
from planner.engine.gpu import GPU
from planner.reading.documents.yaml_edits import passage_of
from planner.reading.documents.yaml_nodes import Node
from planner.reading.documents.yaml_words import (
    Reads,
    as_it_is,
    joined_lists,
    list_of,
    word_of,
)
from planner.reading.passage import Passage
from planner.reading.reading import FoundStart, Kind
from planner.reading.scripts.shell import Word, commands_of
from planner.reading.scripts.variables import Made
from planner.reading.sign_table import signs
from planner.reading.sites import Start, WordList, shell_list
from planner.reading.starts.adapting import start_of_variables
from planner.reading.starts.container import starts_of_list
from planner.reading.starts.images import one_gpu, slice_of
from planner.units import whole_number
from planner.values import frozen

_OF_KUBERNETES = re.compile(r"\$(?:(?P<dollar>\$)|\((?P<name>[A-Za-z_][\w.-]*)\))")
_OF_COMPOSE = re.compile(
    r"\$(?:(?P<dollar>\$)"
    r"|\{(?P<braced>\w+)(?::?-(?P<default>[^}]*)|[^}]*)(?:\}|(?P<unclosed>\Z))"
    r"|(?P<name>[A-Za-z_]\w*))"
)
"""A brace that is not closed takes the rest: else each would be searched to the end."""
_GPUS = re.compile(r"(?:nvidia\.com|amd\.com)/(?:gpu|mig-.+)(?:\.shared)?\Z")
_DEEPEST = 16
_MOST_PODS = 9_999
_VARIABLES = ("env", "environment", "env_vars", "environment_variables", "envs")
_IMAGES = ("image", "image_name", "Image")
_OF_POD = (("command",), ("args",))
_OF_DOCKER = (
    ("entrypoint", "entryPoint", "Entrypoint"),
    ("command", "cmd", "args", "extraArgs", "Exec"),
)
"""Where a container has its program, and what it is given."""
_LABELS = signs("GPU labels")


def _substituted(
    passage: Passage, pattern: re.Pattern[str], known: Mapping[str, str]
) -> tuple[Passage, tuple[str, ...]]:
    """Put values in the place of variables; return the unknown ones, too."""
    pieces: list[str] = []
    places: list[int] = []
    unknown: list[str] = []
    at = 0
    for match in pattern.finditer(passage.text):
        groups = match.groupdict()
        name = groups["name"] or groups.get("braced")
        value = known.get(name or "", groups.get("default"))
        if groups["dollar"]:
            value = "$"
        elif value is None or groups.get("unclosed") is not None:
            unknown.append(match[0])
            value = match[0]
        else:
            passage.expansion.add(len(value))
        pieces += [passage.text[at : match.start()], value]
        places += [*range(at, match.start()), *[match.start()] * len(value)]
        at = match.end()
    if not at:
        return passage, ()
    places += range(at, len(passage.text) + 1)
    text = "".join([*pieces, passage.text[at:]])
    return passage.inside(text, places, str), tuple(unknown)


def kubernetes_reads(known: Mapping[str, str]) -> Reads:
    """Return what puts in $(NAME), as Kubernetes does in command, args and env."""
    return lambda passage: _substituted(passage, _OF_KUBERNETES, known)


def compose_reads(known: Mapping[str, str]) -> Reads:
    """Return what puts in ${NAME:-default} as Compose does; $$ is a dollar sign."""

    def reads(passage: Passage) -> tuple[Passage, tuple[str, ...]]:
        inner, unknown = _substituted(passage, _OF_COMPOSE, known)
        return replace(inner, encode=lambda new: passage.encode(_dollars(new))), unknown

    return reads


def _dollars(text: str) -> str:
    return text.replace("$", "$$")


@frozen
class Surroundings:
    """What the pod around a container tells."""

    text: str
    """The whole text."""
    gpu: str | GPU | None = None
    open: tuple[str, ...] = ()
    shown: str = ""
    pods: int = 1
    """Pods of a group that serves together."""
    others: int = 0
    """GPUs of further pods that serve together with it."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set around it."""
    given: Mapping[str, Word] = field(default_factory=dict)
    """Variables that a controller gives each pod."""
    granted: int | None = None
    """GPUs that are granted to all of it."""


def variables_of(
    container: Node, reads: Reads | None = None
) -> tuple[dict[str, Word], list[str]]:
    """Return a container's variables, and what is open about them, in sentences."""
    found: dict[str, Word] = {}
    unknown: list[str] = []
    known = reads or kubernetes_reads(Made(found, lambda _name, word: word.value))
    for name, word in variables_set_in(container, known):
        if not word.variables or _matters(name):
            found[name] = word
    for item in container.items_of("env"):
        name = item.word("name")
        if item.get("valueFrom") is not None and _matters(name):
            unknown.append(
                f"{name} comes from a secret, a config map or the pod, which the text "
                "does not tell."
            )
    return found, unknown


def image_of(container: Node) -> Node | None:
    """Return the image that a container runs; None for what is no container."""
    return next(filter(None, map(container.get, _IMAGES)), None)


def joined_image(table: Node) -> Word | None:
    """Return the image that a repository and a tag name; the tag alone is written."""
    node = table.get("tag")
    if node is None or node.kind != "scalar" or not table.word("repository"):
        return None
    image = table.word("repository") + ":"
    passage = passage_of(node)
    places = [0] * len(image) + list(range(len(passage.text) + 1))
    named = passage.inside(image + passage.text, places, str)
    return Word(passage=named, start=node.start, end=node.end)


def variables_set_in(container: Node, reads: Reads) -> Iterator[tuple[str, Word]]:
    """Yield its variables: of a table, of NAME=value, or of names and values."""
    tables = [*map(container.get, _VARIABLES)]
    tables += [value for key, value in container.pairs if key.text == "Environment"]
    for table in filter(None, tables):
        for key, value in table.pairs:
            if value.kind == "scalar" and not value.is_nothing:
                yield key.text, word_of(value, reads)
        for item in table.items or ((table,) if table.style == "raw" else ()):
            name, equals, _ = item.text.partition("=")
            given = item.get("value")
            if given is not None and given.kind == "scalar":
                yield item.word("name"), word_of(given, reads)
            elif equals:
                yield name, word_of(item, reads).part(len(name) + 1)


def _matters(name: str) -> bool:
    return name in KNOWN


def starts_in_container(
    container: Node,
    around: Surroundings,
    *,
    kind: Kind = Kind.KUBERNETES,
    is_pod: bool = True,
) -> Iterator[FoundStart]:
    """Yield the starts in a container of a pod, or in one of another platform."""
    reads = compose_reads(around.known)
    env, unknown = variables_of(container, None if is_pod else reads)
    env = {**around.given, **env}
    all_set = dict(variables_set_in(container, reads))
    if is_pod:
        reads = kubernetes_reads(
            {name: word.value for name, word in env.items() if not word.variables}
        )
    program, words = (
        [
            one
            for name in names
            if (one := _words_of(container.get(name), reads, around))
        ]
        for names in (_OF_POD if is_pod else _OF_DOCKER)
    )
    image = image_of(container)
    named = None if image is None or not image.text else word_of(image, reads)
    named = named or (None if image is None else joined_image(image))
    lists = [*program, *words]
    starts = []
    if lists:
        starts = starts_of_list(
            joined_lists(lists),
            0,
            around.text,
            env,
            entrypoint="-" if program else "",
            image=named,
        )
    by_variables = None if starts else start_of_variables(all_set, "", named)
    if by_variables is not None:
        starts = [by_variables.start]
    for start in starts:
        yield FoundStart(kind=kind, start=_placed(start, container, around, unknown))


def _words_of(node: Node | None, reads: Reads, around: Surroundings) -> WordList | None:
    """Return a command that is a list, or a text that is split into words."""
    if node is None or node.is_nothing:
        return None
    if node.items:
        return list_of(node, reads)
    passage, _unknown = reads(passage_of(node))
    commands = commands_of(passage, around.known)
    lists = [shell_list(one.words, around.text) for one in commands]
    if len(lists) == 1:
        return lists[0]
    return joined_lists(lists) if lists else None


def _placed(
    start: Start, container: Node, around: Surroundings, unknown: Iterable[str]
) -> Start:
    """Return a start with what its pod tells."""
    granted = gpus_of(container)
    asked = [key.text for key, _ in _resources(container)]
    gpu, sliced = slice_of(asked, start.gpu or around.gpu)
    notes = list(start.notes)
    if container.items_of("envFrom"):
        notes.append("Variables from a config map or a secret (envFrom) are not read.")
    if around.pods > 1:
        notes.append(f"A group of {around.pods} pods serves together.")
    elif around.others:
        notes.append(f"Its workers have {around.others} further GPUs.")
    return replace(
        start,
        devices=_device_ids(container),
        gpu=gpu,
        gpus=_together(granted or start.gpus or around.granted, around),
        shown=around.shown or container.word("name"),
        notes=tuple(notes),
        open=(*start.open, *around.open, *unknown, *sliced),
    )


def _resources(container: Node) -> Iterator[tuple[Node, Node]]:
    """Yield what a pod may take, its limits before its requests."""
    for part in ("limits", "requests"):
        table = container.get("resources", part)
        yield from () if table is None else table.pairs


def _together(granted: int | None, around: Surroundings) -> int | None:
    """Return the GPUs of all pods that serve together."""
    if granted is None:
        return around.others or None
    return granted * around.pods + around.others


def _devices(container: Node) -> Iterator[Node]:
    """Yield what a container of Compose asks for."""
    yield from container.items_of("deploy", "resources", "reservations", "devices")
    yield from container.items_of("device_requests")
    yield from container.items_of("gpus")


def _device_ids(container: Node) -> tuple[str, ...]:
    ids = (one.items_of("device_ids") for one in _devices(container))
    return tuple(one for items in ids for item in items for one in item.text.split(","))


def gpus_of(container: Node) -> int | None:
    """Return how many GPUs a container is granted; None where it does not say."""
    granted = _granted(container)
    if granted is not None:
        return granted
    ids = _device_ids(container)
    counts = (whole_number(one.word("count")) for one in _devices(container))
    count = next((one for one in counts if one), None)
    return len(ids) or count or whole_number(container.word("gpus"))


def _granted(container: Node) -> int | None:
    """Return the GPUs among a pod's limits, or a swarm's generic resources."""
    for name, value in _resources(container):
        count = whole_number(value.text)
        if _GPUS.match(name.text) and count is not None:
            return count
    reserved = ("deploy", "resources", "reservations", "generic_resources")
    for item in container.items_of(*reserved):
        if "gpu" in item.word("discrete_resource_spec", "kind").lower():
            return whole_number(item.word("discrete_resource_spec", "value"))
    return None


def gpu_of(*places: Node | None) -> tuple[str | GPU | None, tuple[str, ...]]:
    """Return the GPU that node labels ask for, and what is open about it."""
    return one_gpu(name for place in places for name in _labelled(place, 0))


def _labelled(place: Node | None, depth: int) -> Iterator[str]:
    """Yield the values of GPU labels below a place."""
    if place is None or depth > _DEEPEST:
        return
    for item in place.items[:100]:
        yield from _labelled(item, depth + 1)
    key = place.word("key") or place.word("labelKey")
    if key in _LABELS and place.word("operator") in ("", "In"):
        values = place.items_of("values") or place.items_of("labelValues")
        yield from (value.text for value in values)
    for name, value in place.pairs[:100]:
        if name.text in _LABELS and value.text:
            yield value.text
        elif value.kind != "scalar":
            yield from _labelled(value, depth + 1)


@frozen
class Group:
    """What is shaped as a pod's specification, and what serves together with it."""

    pod: Node
    pods: int = 1
    others: int = 0
    """GPUs of pods of another shape."""
    size: Node | None = None
    """Where a LeaderWorkerSet says how many pods each group has."""

    @property
    def given(self) -> Mapping[str, Word]:
        """The variables that the group's controller gives each pod."""
        size = self.size
        return {} if size is None else {"LWS_GROUP_SIZE": word_of(size, as_it_is)}


def groups_in(
    node: Node, depth: int = 0, pods: int = 1, size: Node | None = None
) -> Iterator[Group]:
    """Yield the specifications of pods, in the order of the text."""
    if depth > _DEEPEST:
        return
    if node.items_of("containers"):
        yield Group(pod=node, pods=pods, size=size)
    is_leader = node.get("workerTemplate") is not None
    size = node.get("size") if is_leader else size
    count = whole_number(node.word("size" if is_leader else "podGroupSize"))
    pods = count if count is not None and count <= _MOST_PODS else pods
    for key, value in node.pairs:
        others = _beside(node, key.text, pods)
        for inner in (value,) if value.kind == "mapping" else value.items:
            for group in groups_in(inner, depth + 1, 1 if others else pods, size):
                yield replace(group, others=group.others + others)


def _beside(node: Node, head: str, pods: int) -> int:
    """Return the GPUs of the workers of a head or a leader."""
    if head == "leaderTemplate":
        return (pods - 1) * _gpus_below(node.get("workerTemplate"))
    groups = node.items_of("workerGroupSpecs") if head == "headGroupSpec" else ()
    counts = [whole_number(group.word("replicas") or "1") or 0 for group in groups]
    return sum(
        count * _gpus_below(group)
        for count, group in zip(counts, groups, strict=True)
        if count <= _MOST_PODS
    )


def _gpus_below(node: Node | None) -> int:
    group = None if node is None else next(groups_in(node), None)
    containers = () if group is None else group.pod.items_of("containers")
    return sum(gpus_of(one) or 0 for one in containers)
