"""Starts of vLLM wherever a document runs a command or a container.

Source: GitHub Actions and GitLab CI (`run`, `script`), Ansible 2.19 (`command`,
`shell`, `docker_container`, `podman_container`), cloud-init 25 (`runcmd`,
`write_files`), Task 3 (`cmds`), llama-swap (`cmd`), Terraform's docker, kubernetes and
aws providers, Nomad 1.10.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from planner.reading.documents.yaml_edits import passage_of
from planner.reading.documents.yaml_nodes import Node
from planner.reading.documents.yaml_words import as_it_is, list_of, word_of
from planner.reading.passage import Passage
from planner.reading.reading import FoundStart, Kind
from planner.reading.scripts.shell import Word, commands_of
from planner.reading.scripts.variables import Over
from planner.reading.sign_table import signs
from planner.reading.starts.adapting import start_of_variables, starts_of_document
from planner.reading.starts.container import starts_in, starts_in_words
from planner.reading.starts.frameworks import device_named
from planner.reading.starts.pods import (
    Surroundings,
    image_of,
    starts_in_container,
    variables_set_in,
)
from planner.units import whole_number
from planner.values import frozen

_PROSE = frozenset(signs("entries of prose"))
"""Entries that tell about a start and run none."""
_RUNS = re.compile(r"vllm|docker|podman", re.IGNORECASE)
_SHELL = re.compile(r"(?:\S*/)?(?:ba|z|da|a)?sh\Z|bash\b.*-c")
_DOCUMENT = re.compile(r"^[ ]*(?:[\w.-]+:(?:\s|$)|- |\{|\[)", re.MULTILINE)
_BREAK = re.compile(r"^[ \t]*#[^\n]*|\\?\r?\n", re.MULTILINE)
"""What llama-swap takes for a blank in the lines of a command."""
_DEEPEST = 24

_DEVICES = [path.split(".") for path in signs("places of a GPU's name")]
_COUNTS = [path.split(".") for path in signs("places of a number of GPUs")]
"""Where platforms name the GPU, and how many, for what stands below."""

Read = Callable[[Passage, str], Iterator[FoundStart]]
"""Reads a document that stands in a scalar."""


@frozen
class _Place:
    """Where in a document a value stands."""

    around: Surroundings
    read: Read
    is_swap: bool
    """Whether it is a configuration of llama-swap."""
    key: str = ""
    env: Mapping[str, Word] = field(default_factory=dict)
    """The variables that are set around it."""
    depth: int = 0

    def below(self, key: str) -> _Place:
        """Return the place of an entry."""
        return replace(self, key=key, depth=self.depth + 1)


def starts_anywhere(
    root: Node, around: Surroundings, read: Read
) -> Iterator[FoundStart]:
    """Yield the starts in the commands and containers of a document, in order."""
    is_swap = root.get("models") is not None
    yield from _below(root, _Place(around=around, read=read, is_swap=is_swap))


def _below(node: Node, place: _Place) -> Iterator[FoundStart]:
    if place.depth > _DEEPEST or place.key.lower() in _PROSE:
        return
    if node.kind == "mapping":
        yield from _in_table(node, place)
    elif node.kind == "sequence":
        yield from _in_list(node, place)
    elif _RUNS.search(node.text):
        yield from _in_page(passage_of(node), place)


def _in_table(node: Node, place: _Place) -> Iterator[FoundStart]:
    own = dict(variables_set_in(node, as_it_is))
    known = {name: word.value for name, word in own.items()}
    outside = _beside(node, place.around)
    inside = replace(outside, known={**outside.known, **known})
    found = list(_of_container(node, place.key, outside))
    if found:
        yield from found
        return
    place = replace(place, around=inside, env={**place.env, **own})
    for name, value in node.pairs:
        found += _below(value, place.below(name.text))
    image = node.get("environment", "image") or node.get("base_image", "image")
    named = None if image is None else word_of(image, as_it_is)
    if own and not found:
        by_variables = start_of_variables(own, "", named)
        found = [] if by_variables is None else [_granted(by_variables, inside)]
    yield from found


def _of_container(node: Node, key: str, around: Surroundings) -> Iterator[FoundStart]:
    if image_of(node) is None:
        return
    is_pod = key in ("container", "containers", "mainContainer", "init_container")
    shown = replace(around, shown=around.shown or key)
    found = list(starts_in_container(node, shown, kind=Kind.CONTAINER, is_pod=is_pod))
    if not any(site.name == "model" for one in found for site in one.start.sites):
        values = starts_of_document(node, (), around.text, is_last=True)
        own = [_granted(one, shown) for one in values if isinstance(one, FoundStart)]
        found = own or found
    yield from found


def _in_list(node: Node, place: _Place) -> Iterator[FoundStart]:
    texts = [item.text for item in node.items if item.kind == "scalar"]
    is_plain = len(texts) == len(node.items) and any(map(_RUNS.search, texts))
    is_vector = is_plain and (
        _SHELL.match(texts[0]) or not any(" " in one.strip() for one in texts[:3])
    )
    if is_vector:
        words = list_of(node, as_it_is)
        for found in starts_in_words(words, place.around.text, place.env):
            yield _granted(found, place.around)
    elif is_plain:  # the lines of one script
        page = _lines_of([passage_of(item) for item in node.items])
        yield from _in_page(page, place)
    else:
        for item in node.items:
            yield from _below(item, place.below(place.key))


def _in_page(page: Passage, place: _Place) -> Iterator[FoundStart]:
    text = place.around.text
    if place.key == "cmd" and place.is_swap:
        blank = _BREAK.sub(lambda match: " " * len(match[0]), page.text)
        page = replace(page, text=blank)
    if "\n" in page.text.strip() and _DOCUMENT.match(page.text):
        found = list(place.read(page, text))
        if found:
            yield from found
            return
    commands = [
        replace(command, assigned=Over(command.assigned, place.env))
        for command in commands_of(page, {**place.around.known, **place.env})
    ]
    for one in starts_in(commands, text):
        yield _granted(one, place.around)


def _lines_of(pages: Sequence[Passage]) -> Passage:
    """Return the lines of a list as one text."""
    ends = [replace(page, text=page.text + "\n") for page in pages]
    places = [place for page in pages for place in page.places]
    places.append(places[-1])
    return replace(pages[0], text="".join(page.text for page in ends), places=places)


def _beside(table: Node, around: Surroundings) -> Surroundings:
    """Return the surroundings with the GPUs that a table grants what is below it."""
    named = next((word for path in _DEVICES if (word := table.word(*path))), "")
    gpu, count = device_named(named)
    counts = [whole_number(table.word(*path)) for path in _COUNTS]
    counts += [
        whole_number(item.word("value"))
        for item in table.items_of("resourceRequirements")
        if item.word("type") == "GPU"
    ]
    granted = next((one for one in counts if one), count)
    return replace(around, gpu=gpu or around.gpu, granted=granted or around.granted)


def _granted(found: FoundStart, around: Surroundings) -> FoundStart:
    start = found.start
    return replace(
        found,
        start=replace(
            start,
            gpu=start.gpu or around.gpu,
            gpus=start.gpus or around.granted,
            shown=start.shown or around.shown,
        ),
    )
