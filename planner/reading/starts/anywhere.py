"""Starts of vLLM wherever a document runs a command or a container.

Source: GitHub Actions and GitLab CI (`run`, `script`), Ansible 2.19 (`command`,
`shell`, `docker_container`, `podman_container`), cloud-init 25 (`runcmd`,
`write_files`), Task 3 (`cmds`), llama-swap (`cmd`), Terraform's docker, kubernetes and
aws providers, Nomad 1.10.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from planner.reading.documents.yaml_edits import passage_of
from planner.reading.documents.yaml_nodes import Node
from planner.reading.documents.yaml_words import as_it_is, list_of, word_of
from planner.reading.passage import Passage
from planner.reading.reading import FoundStart, Kind
from planner.reading.scripts.shell import Word, commands_of
from planner.reading.scripts.variables import Over
from planner.reading.starts.adapting import device_named, start_of_variables
from planner.reading.starts.container import starts_in, starts_in_words
from planner.reading.starts.pods import (
    Surroundings,
    image_of,
    starts_in_container,
    variables_set_in,
)
from planner.units import whole_number

_PROSE = frozenset(
    "name desc description title summary help msg message prompt comment note notes "
    "label labels annotations when if on assert until test text echo debug fail "
    "default changed_when cmdstop livenessprobe readinessprobe startupprobe "
    "healthcheck macros env environment vars variables".split()
)
"""Entries that tell about a start and run none."""
_RUNS = re.compile(r"vllm|docker|podman", re.IGNORECASE)
_SHELL = re.compile(r"(?:\S*/)?(?:ba|z|da|a)?sh\Z|bash\b.*-c")
_DOCUMENT = re.compile(r"^[ ]*(?:[\w.-]+:(?:\s|$)|- |\{|\[)", re.MULTILINE)
_BREAK = re.compile(r"^[ \t]*#[^\n]*|\\?\r?\n", re.MULTILINE)
"""What llama-swap takes for a blank in the lines of a command."""
_DEEPEST = 24

_DEVICES = [
    tuple(path.split("."))
    for path in (
        "accelerator accelerators resources.accelerator instance_type instanceType "
        "machine_type vm_size gpu_type gpuType compute hardware.compute "
        "resources.gpu_type node_config.machine_type"
    ).split()
]
_COUNTS = [
    tuple(path.split("."))
    for path in (
        "gpu_count gpuCount num_gpus hardware.gpu_count resources.limits.gpu "
        "resources.requests.gpu resources.device.nvidia/gpu.count resources.gpu"
    ).split()
]
"""Where platforms name the GPU, and how many, for what stands below."""

Read = Callable[[Passage, str], Iterator[FoundStart]]
"""Reads a document that stands in a scalar."""


def starts_anywhere(
    root: Node, around: Surroundings, read: Read
) -> Iterator[FoundStart]:
    """Yield the starts in the commands and containers of a document, in order."""
    walk = _Walk(read, is_swap=root.get("models") is not None)
    yield from walk.of(root, "", around, {}, 0)


class _Walk:
    """Goes through the values of a document."""

    def __init__(self, read: Read, *, is_swap: bool) -> None:
        self.read = read
        self.is_swap = is_swap

    def of(
        self,
        node: Node,
        key: str,
        around: Surroundings,
        env: dict[str, Word],
        depth: int,
    ) -> Iterator[FoundStart]:
        """Yield the starts below one value, with the variables set around it."""
        if depth > _DEEPEST or key.lower() in _PROSE:
            return
        if node.kind == "scalar":
            yield from self._of_text(node, key, around, env)
        elif node.kind == "sequence":
            yield from self._of_list(node, key, around, env, depth)
        else:
            yield from self._of_table(node, key, around, env, depth)

    def _of_table(
        self,
        node: Node,
        key: str,
        around: Surroundings,
        env: dict[str, Word],
        depth: int,
    ) -> Iterator[FoundStart]:
        own = dict(variables_set_in(node, as_it_is))
        outside = around
        if own:
            env = {**env, **own}
            known = {name: word.value for name, word in own.items()}
            around = replace(around, known={**around.known, **known})
        around = _beside(node, around)
        outside = replace(around, known=outside.known)
        found = list(self._of_container(node, key, outside))
        if found:
            yield from found
            return
        for name, value in node.pairs:
            found += self.of(value, name.text, around, env, depth + 1)
        image = node.get("environment", "image") or node.get("base_image", "image")
        named = None if image is None else word_of(image, as_it_is)
        by_variables = None
        if own and not found:
            by_variables = start_of_variables(own, "", named)
        if by_variables is not None:
            found = [_granted(by_variables, around)]
        yield from found

    def _of_container(
        self, node: Node, key: str, around: Surroundings
    ) -> Iterator[FoundStart]:
        if image_of(node) is None:
            return
        is_pod = key in ("container", "containers", "mainContainer", "init_container")
        shown = replace(around, shown=around.shown or key)
        yield from starts_in_container(node, shown, kind=Kind.CONTAINER, is_pod=is_pod)

    def _of_list(
        self,
        node: Node,
        key: str,
        around: Surroundings,
        env: dict[str, Word],
        depth: int,
    ) -> Iterator[FoundStart]:
        texts = [item.text for item in node.items if item.kind == "scalar"]
        is_plain = len(texts) == len(node.items) and any(map(_RUNS.search, texts))
        is_vector = is_plain and (
            _SHELL.match(texts[0]) or not any(" " in one.strip() for one in texts[:3])
        )
        if is_vector:
            words = list_of(node, as_it_is)
            for found in starts_in_words(words, around.text, env):
                yield _granted(found, around)
            return
        if is_plain:  # the lines of one script
            page = _lines_of([passage_of(item) for item in node.items])
            yield from self._of_page(page, key, around, env)
            return
        for item in node.items:
            yield from self.of(item, key, around, env, depth + 1)

    def _of_text(
        self, node: Node, key: str, around: Surroundings, env: dict[str, Word]
    ) -> Iterator[FoundStart]:
        if _RUNS.search(node.text):
            yield from self._of_page(passage_of(node), key, around, env)

    def _of_page(
        self, page: Passage, key: str, around: Surroundings, env: dict[str, Word]
    ) -> Iterator[FoundStart]:
        if key == "cmd" and self.is_swap:
            blank = _BREAK.sub(lambda match: " " * len(match[0]), page.text)
            page = replace(page, text=blank)
        if "\n" in page.text.strip() and _DOCUMENT.match(page.text):
            found = list(self.read(page, around.text))
            if found:
                yield from found
                return
        commands = [
            replace(command, assigned=Over(command.assigned, env))
            for command in commands_of(page, {**around.known, **env})
        ]
        for one in starts_in(commands, around.text):
            yield _granted(one, around)


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
            start, gpu=start.gpu or around.gpu, gpus=start.gpus or around.granted
        ),
    )
