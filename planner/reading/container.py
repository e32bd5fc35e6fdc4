"""Commands that start vLLM inside of something: a container, a shell, a job.

Source: Docker 28 `docker run`, `docker-compose`; the entry point of vLLM's images,
vLLM 0.33.0 `docker/Dockerfile` (`vllm serve`; before 0.12 `python3 -m
vllm.entrypoints.openai.api_server`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from planner.engine.gpu import GPU, find_gpu
from planner.engine.gpu_text import is_description
from planner.errors import PlannerError
from planner.reading.command import (
    Program,
    env_site,
    env_sites,
    program_in,
    start_of,
)
from planner.reading.evaluation import evaluation_in
from planner.reading.passage import Edit
from planner.reading.reading import Kind
from planner.reading.shell import Command, Word, commands_of
from planner.reading.sites import Site, Start, WordList, shell_list
from planner.reading.variables import Over
from planner.units import whole_number
from planner.values import frozen

_STARTS_VLLM = re.compile(
    r"\bvllm\s+serve\s|-m\s+vllm\.entrypoints|\bvllm\s+bench\s|(?:docker|podman)\s+run\s"
)
"""A command in one word: the text that a shell is given to run."""
_REQUIRED = re.compile(r"\bvllm(?:\[[\w,-]+\])?==(?P<version>\d+\.\d+\.\d+\S*)")
_SAYS = ("echo", "printf")
"""Programs that print a command and start none."""
_RUNNERS = ("docker", "podman", "nerdctl", "finch")
_WITHOUT_VALUE = frozenset(
    "--rm --privileged --detach -d --interactive -i --tty -t -it -ti -dit -itd -td -di "
    "--init --read-only --no-healthcheck --oom-kill-disable --publish-all -P --quiet "
    "-q --sig-proxy --disable-content-trust --replace --tls-verify --help -itP".split()
)
"""Flags of `docker run` and `podman run` that take no value."""
_OTHER_BUILD = re.compile(r"rocm|\b(?:tpu|xpu|hpu|gaudi|ascend|neuron)\b")
"""In the names of images for other accelerators."""
_VERSION_TAG = re.compile(
    r"(?:^|[-_])v?(?P<version>\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)?)"
)
_IMAGE_OF_VLLM = re.compile(
    r"(?:^|[/_-])vllm(?:[/:@_-]|$)|llm-d|vllm-openai", re.IGNORECASE
)
_MOST_NAMED = 12
"""Variables that are named in notes: a script has a few of them."""
_MOST_GPUS = 999
_NOT_VLLMS_RELEASE = re.compile(
    r"llm-d|lmcache|rhaiis|(?:^|/)ray|worker-\w*-?vllm|djl-inference|vllm-dlc",
    re.IGNORECASE,
)
"""Images with vLLM inside whose tags count releases of something else."""
_LABELS: Mapping[str, str] = {
    "nvidia-tesla-a100": "A100-40GB",
    "nvidia-h100-mega-80gb": "H100",
    "A100-40G": "A100-40GB",
    "A100-80G": "A100-80GB",
}
"""Labels of GKE and of Ray that are no product's name."""
_DEVICES = re.compile(r"device=(?P<list>[^\"']+)")


@frozen
class FoundStart:
    """A start and the form that it was found in."""

    kind: Kind
    start: Start


def starts_in(commands: Sequence[Command], text: str) -> Iterator[FoundStart]:
    """Yield the starts of vLLM in shell commands, in order."""
    for command in commands:
        if command.words[0].value in _SAYS and not command.into:
            continue
        yield from starts_in_words(
            shell_list(command.words, text), text, command.assigned
        )


def starts_in_words(
    found: WordList, text: str, assigned: Mapping[str, Word]
) -> Iterator[FoundStart]:
    """Yield the starts in the words of one command, with the variables set for it."""
    values = [word.value for word in found.words]
    container = _container_at(values)
    if container is not None:
        yield from _contained(found, container, text, assigned)
        return
    if "kubectl" in values and "run" in values and "--" in values:
        yield from _run_in_a_pod(found, values, text)
        return
    own = Over(_of_env_program(found.words), assigned)
    program = program_in(values)
    if program is not None:
        yield FoundStart(
            kind=Kind.COMMAND,
            start=replace(
                start_of(found, program, env_sites(own)),
                version=_required_version(found.words[: program.first]),
                gpus=visible(own),
            ),
        )
        return
    inner = _shell_text(found.words)
    if inner is not None:
        yield from _in_shell(inner, text, assigned)
        return
    evaluated = evaluation_in(found, env_sites(own))
    if evaluated is not None:
        yield FoundStart(kind=Kind.EVALUATION, start=evaluated)


def _run_in_a_pod(
    found: WordList, values: Sequence[str], text: str
) -> Iterator[FoundStart]:
    """Yield the start of `kubectl run NAME --image=IMAGE -- ARGUMENTS`."""
    env: dict[str, Word] = {}
    image = None
    for word in found.words[: values.index("--")]:
        flag, equals, value = word.value.partition("=")
        if flag == "--image" and equals:
            image = word.part(len("--image="))
        elif flag == "--env" and "=" in value:
            name = value.partition("=")[0]
            env[name] = word.part(len(f"--env={name}="))
    first = values.index("--") + 1
    for start in starts_of_list(found, first, text, env, image=image):
        yield FoundStart(kind=Kind.CONTAINER, start=start)


def _in_shell(
    inner: Word, text: str, assigned: Mapping[str, Word]
) -> Iterator[FoundStart]:
    """Yield the starts in a text that another shell runs."""
    for command in commands_of(inner.passage, assigned):
        yield from starts_in_words(
            shell_list(command.words, text), text, Over(command.assigned, assigned)
        )


def _required_version(words: Sequence[Word]) -> Site | None:
    """Return the release in a requirement: `uv run --with vllm==0.11.0`."""
    for word in words:
        match = _REQUIRED.search(word.value)
        if match is not None:
            return env_site("vllm_version", word.part(*match.span("version")))
    return None


def visible(assigned: Mapping[str, Word]) -> int | None:
    """Return how many GPUs CUDA_VISIBLE_DEVICES leaves; None: not set or open."""
    word = assigned.get("CUDA_VISIBLE_DEVICES")
    if word is None or word.variables or not word.value.strip():
        return None
    return len(word.value.split(","))


def _of_env_program(words: Sequence[Word]) -> dict[str, Word]:
    """Return variables set by `env NAME=value program`, or by a launcher's words."""
    named: dict[str, Word] = {}
    for word in words:
        match = re.match(r"(VLLM_\w+)=", word.value)
        if match:
            named[match[1]] = word.part(match.end())
    return named


def _shell_text(words: Sequence[Word]) -> Word | None:
    """Return the text that another shell runs: of `bash -lc TEXT`, `ssh host TEXT`."""
    for word in words[1:]:
        if _STARTS_VLLM.search(word.value):
            return word
    return None


def _container_at(values: Sequence[str]) -> int | None:
    """Return where the words after `docker run` begin."""
    for at, value in enumerate(values):
        if value.rsplit("/", 1)[-1] in _RUNNERS:
            for then in range(at + 1, min(at + 4, len(values))):
                if values[then] in ("run", "create"):
                    return then + 1
    return None


class _Run:
    """The options of `docker run`, up to the image."""

    def __init__(self, words: Sequence[Word], first: int) -> None:
        self.words = words
        self.env: dict[str, Word] = {}
        self.entrypoint: Word | None = None
        self.gpus: str | None = None
        self.name = ""
        self.notes: list[str] = []
        self.image = self._read(first)

    def _read(self, at: int) -> int:
        while at < len(self.words) and self.words[at].value[:1] in ("-", ""):
            word = self.words[at]
            flag, equals, _value = word.value.partition("=")
            if not flag or flag in _WITHOUT_VALUE:
                at += 1
            elif equals:
                self._take(flag, word.part(len(flag) + 1))
                at += 1
            else:
                if at + 1 < len(self.words):
                    self._take(flag, self.words[at + 1])
                at += 2
        return at

    def _take(self, flag: str, value: Word) -> None:
        if flag in ("-e", "--env"):
            name, equals, _ = value.value.partition("=")
            if equals:
                self.env[name] = value.part(len(name) + 1)
        elif flag == "--env-file":
            self.notes.append(f"The variables in {value.value} are not read.")
        elif flag == "--gpus":
            self.gpus = value.value
        elif flag == "--entrypoint":
            self.entrypoint = value
        elif flag == "--name":
            self.name = value.value
        elif flag == "--device" and value.value.startswith("nvidia.com/gpu"):
            self.gpus = value.value.partition("=")[2] or self.gpus


def _contained(
    found: WordList, first: int, text: str, assigned: Mapping[str, Word]
) -> Iterator[FoundStart]:
    # It reads what containers hold, too.
    from planner.reading.adapting import start_of_variables  # noqa: PLC0415 - as above

    run = _Run(found.words, first)
    if run.image >= len(found.words):
        return
    image = found.words[run.image]
    entrypoint = "" if run.entrypoint is None else run.entrypoint.value
    # Variables of the shell around it do not reach the container.
    env = {name: run.env[name] for name in run.env}
    by_variables = None
    if run.image + 1 == len(found.words):
        by_variables = start_of_variables(env, "", image)
    if by_variables is not None:
        yield by_variables
        return
    for one in starts_of_list(
        found, run.image + 1, text, env, entrypoint=entrypoint, image=image
    ):
        yield FoundStart(
            kind=Kind.CONTAINER,
            start=replace(
                one,
                gpus=_count(run.gpus) or one.gpus,
                shown=run.name,
                notes=(*one.notes, *run.notes, *_not_passed(assigned)),
            ),
        )


def _not_passed(assigned: Mapping[str, Word]) -> list[str]:
    names = (name for name in assigned if name.startswith("VLLM_"))
    return [
        f"{name} is set outside of the container and does not reach vLLM."
        for name in islice(names, _MOST_NAMED)
    ]


def _count(gpus: str | None) -> int | None:
    """Return how many GPUs `--gpus` grants; None for all of them."""
    if gpus is None:
        return None
    devices = _DEVICES.search(gpus)
    if devices is not None:
        return len(devices["list"].split(","))
    count = whole_number(gpus.strip("\"'").removeprefix("count="))
    return count if count is not None and count <= _MOST_GPUS else None


def starts_of_list(  # noqa: PLR0913 - what a container has
    found: WordList,
    first: int,
    text: str,
    env: Mapping[str, Word],
    *,
    entrypoint: str = "",
    image: Word | None = None,
) -> list[Start]:
    """Return the starts in a container's words from `first` on.

    Args:
        found: the container's command and arguments.
        first: index of the first of them; an image's name may stand before.
        text: the whole text.
        env: variables set in the container.
        entrypoint: a program given in place of the image's own; `vllm serve` else.
        image: the image's name, whose tag may be the release.
    """
    within = _from(found, max(first - 1, 0))
    is_nested = _container_at([word.value for word in within.words]) is not None
    inner = [
        one.start
        for one in (() if is_nested else starts_in_words(within, text, env))
        if one.kind is Kind.COMMAND
    ]
    if not inner:
        inner = _of_entrypoint(found, first, env, entrypoint, image)
    version = None if image is None else version_of(image)
    notes = _image_notes(image, version)
    return [
        replace(one, version=one.version or version, notes=(*one.notes, *notes))
        for one in inner
    ]


def _of_entrypoint(
    found: WordList,
    first: int,
    env: Mapping[str, Word],
    entrypoint: str,
    image: Word | None,
) -> list[Start]:
    """Return the start by the image's own entry point, if it is vLLM's."""
    is_vllm = image is not None and bool(_IMAGE_OF_VLLM.search(image.value))
    named = entrypoint.split()
    if entrypoint and "vllm" not in entrypoint:
        return []
    if not is_vllm and not entrypoint:
        return []
    words = found.words[first:]
    at = first
    if named and named[-1].endswith("vllm") and words and words[0].value == "serve":
        at += 1
    return [start_of(found, Program(first=at), env_sites(env))]


def _from(found: WordList, first: int) -> WordList:
    return replace(found, words=found.words[first:], spans=found.spans[first:])


def version_of(image: Word) -> Site | None:
    """Return the release in an image's tag; None for `latest` and the like."""
    _name, colon, tag = image.value.partition("@")[0].rpartition(":")
    match = _VERSION_TAG.search(tag) if colon else None
    if match is None or _NOT_VLLMS_RELEASE.search(image.value):
        return None
    start = len(image.value.partition("@")[0]) - len(tag) + match.start("version")
    return _release_in(image, start, start + len(match["version"]))


def _release_in(image: Word, start: int, end: int) -> Site:
    """Return the release in an image's name, without a digest when it is changed.

    Where a variable stands for the tag, all that it stands for is written.
    """
    places, value = image.passage.places, image.value
    first, last = start, end if "@" not in value else len(value)
    while first and places[first - 1] == places[start]:
        first -= 1
    while last < len(value) and places[last] == places[start]:
        last += 1
    before, after = value[first:start], value[end:last].partition("@")[0]
    site = env_site("vllm_version", image.part(start, end))
    word = image.part(first, last)
    return replace(
        site,
        replace=lambda new: [
            Edit(start=word.start, end=word.end, text=f"{before}{new}{after}")
        ],
    )


def _image_notes(image: Word | None, version: Site | None) -> list[str]:
    if image is not None and _OTHER_BUILD.search(image.value):
        return [
            f"The image {image.value[:120]} is not vLLM's build for NVIDIA GPUs, "
            "which a plan is for."
        ]
    if image is None or version is not None:
        return []
    return [
        f"The image {image.value[:120]} does not tell its release: planned as the "
        "newest unless vllm_version is given."
    ]


def gpu_named_in(text: str) -> str | GPU | None:
    """Return the GPU that a label or a product's name stands for; None: not known."""
    words = re.sub(r"[-_]+", " ", text).strip()
    if text in _LABELS:
        return GPU.named(_LABELS[text])
    if is_description(text):
        with suppress(PlannerError):
            return GPU.named(text)
    names = (text, words, re.sub(r"(?i)^nvidia\s+", "", words))
    return next((gpu for name in names if (gpu := find_gpu(name))), None)
