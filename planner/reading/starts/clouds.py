"""What runs a container: `docker run`, and the commands of clouds and clusters.

Source: Docker 28 `docker run`; Podman 5.6 `podman run`; NVIDIA Container Toolkit 1.18;
Apptainer 1.4 `apptainer run` (the image's own entry point);
Google Cloud SDK 530 `gcloud run deploy`; Kubernetes 1.33 `kubectl run`; runpodctl 1.14
`create pod`; Vast.ai CLI 0.3 `create instance`; Azure CLI 2.7 `az container create`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from planner.reading.scripts.shell import Word, commands_of
from planner.reading.sign_table import signs
from planner.reading.sites import WordList, shell_list
from planner.units import whole_number
from planner.values import frozen

_INHERIT = ("apptainer", "singularity")
"""Programs whose containers have the variables of the shell."""
_RUNNERS = ("docker", "podman", "nerdctl", "finch", *_INHERIT)
_OF_APPTAINER = frozenset(signs("apptainer flags without a value"))
_WITHOUT_VALUE = frozenset(signs("docker flags without a value"))
"""Flags of `docker run` and `podman run` that take no value."""
IMAGE_OF_VLLM = re.compile(
    r"(?:^|[/_-])vllm(?:[/:@_-]|$)|llm-d|vllm-openai", re.IGNORECASE
)
_IMAGE = re.compile(r"ima?ge?|cont|repo", re.IGNORECASE)
"""In the name of a variable that stands for an image."""
_DEVICES = re.compile(r"device=(?P<list>[^\"']+)")
_MOST_GPUS = 999
_MOST_OPTIONS = 40


def container_at(values: Sequence[str]) -> int | None:
    """Return where the words after `docker run` begin."""
    for at, value in enumerate(values):
        if value.rsplit("/", 1)[-1] in _RUNNERS:
            for then in range(at + 1, min(at + 4, len(values))):
                if values[then] in ("run", "create"):
                    return then + 1
    return None


class Run:
    """The options of `docker run`, up to the image."""

    def __init__(self, words: Sequence[Word], first: int) -> None:
        self.words = words
        self.env: dict[str, Word] = {}
        self.entrypoint: Word | None = None
        self.gpus: str | None = None
        self.name = ""
        self.notes: list[str] = []
        runner = words[first - 2].value.rsplit("/", 1)[-1] if first > 1 else ""
        self.inherits = runner in _INHERIT
        self.alone = _OF_APPTAINER if self.inherits else _WITHOUT_VALUE
        self.image = self._read(first)

    def _read(self, at: int) -> int:
        while at < len(self.words):
            word = self.words[at]
            is_open = self._is_more(word, at)
            if word.value[:1] not in ("-", "") and not is_open:
                break
            flag, equals, _value = word.value.partition("=")
            if not flag or is_open or flag in self.alone:
                at += 1
            elif equals:
                self._take(flag, word.part(len(flag) + 1))
                at += 1
            else:
                if at + 1 < len(self.words):
                    self._take(flag, self.words[at + 1])
                at += 2
        return at

    def _is_more(self, word: Word, at: int) -> bool:
        """Return whether a word that the text does not tell is options, no image."""
        rest = (one.value for one in self.words[at + 1 : at + 1 + _MOST_OPTIONS])
        return word.value in word.variables and (
            not _IMAGE.search(word.value) and any(map(IMAGE_OF_VLLM.search, rest))
        )

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


def devices_named(gpus: str | None) -> tuple[str, ...]:
    """Return which GPUs `--gpus` names; empty where it counts them.

    >>> devices_named('"device=0,2"')
    ('0', '2')
    """
    devices = _DEVICES.search(gpus or "")
    return () if devices is None else tuple(devices["list"].split(","))


def number_of_gpus(gpus: str | None) -> int | None:
    """Return how many GPUs `--gpus` grants; None for all of them."""
    if gpus is None or devices_named(gpus):
        return len(devices_named(gpus)) or None
    count = whole_number(gpus.strip("\"'").removeprefix("count="))
    return count if count is not None and count <= _MOST_GPUS else None


@frozen
class _Form:
    """How one program is told what a container runs."""

    begins: Sequence[str]
    """Words that stand in its command, in this order."""
    image: str = "--image"
    program: str = "--command"
    """The option that replaces the image's own entry point."""
    words: str = ""
    """The option whose value is the arguments."""
    behind: str = "--"
    """The word behind which the arguments stand."""
    is_list: bool = False
    """Whether commas part an option's words; else a shell does."""
    env: Sequence[str] = ("--env", "-e")
    gpu: str = "--gpu-type"
    gpus: str = "--gpu"


_FORMS = tuple(_Form(**row) for row in signs("container commands"))
PROGRAMS = (*_RUNNERS, *(one.begins[0] for one in _FORMS))
"""What the commands begin with that run a container, here or elsewhere."""
_ITEM = re.compile(r"[^,]+")


@frozen
class Deployment:
    """A container as a command describes it."""

    found: WordList
    """What it runs: its program where it has one of its own, and the arguments."""
    image: Word | None
    env: Mapping[str, Word]
    has_program: bool
    gpu: str
    gpus: str


def deployment_in(found: WordList, text: str) -> Deployment | None:
    """Return the container that a command deploys; None where it deploys none."""
    values = [word.value for word in found.words]
    form = next((one for one in _FORMS if _begins(one.begins, values)), None)
    if form is None:
        return None
    own = list(takewhile(lambda word: word.value != form.behind, found.words))
    options = dict(_options(own))
    names = dict.fromkeys((form.program, form.words))
    lists = [_list_in(options[n], text, form) for n in names if n in options]
    behind = len(own) + 1
    if behind < len(values):
        rest = replace(found, words=found.words[behind:], spans=found.spans[behind:])
        lists.append(rest)
    lists = [one for one in lists if one.words]
    if not lists:
        return None
    gpu, gpus = options.get(form.gpu), options.get(form.gpus)
    return Deployment(
        found=replace(
            lists[-1],
            words=tuple(word for one in lists for word in one.words),
            spans=tuple(span for one in lists for span in one.spans),
        ),
        image=options.get(form.image),
        env=dict(_env(own, form)),
        has_program=form.program in options,
        gpu="" if gpu is None else gpu.value,
        gpus="" if gpus is None else gpus.value,
    )


def _begins(begins: Sequence[str], values: Sequence[str]) -> bool:
    rest = iter(values[:8])
    return all(any(value == name for value in rest) for name in begins)


def _options(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """Yield options with their values, in either form."""
    for at, word in enumerate(words):
        name, equals, _ = word.value.partition("=")
        if name.startswith("-") and equals:
            yield name, word.part(len(name) + 1)
        elif name.startswith("-"):
            yield name, words[at + 1] if at + 1 < len(words) else word.part(len(name))


def _env(words: Sequence[Word], form: _Form) -> Iterator[tuple[str, Word]]:
    for name, value in _options(words):
        for item in _ITEM.finditer(value.value) if name in form.env else ():
            variable, equals, _ = item[0].partition("=")
            if equals:
                yield variable, value.part(item.start() + len(variable) + 1, item.end())


def _list_in(word: Word, text: str, form: _Form) -> WordList:
    """Return the words in an option's value."""
    if not form.is_list:
        commands = commands_of(word.passage)
        return shell_list(commands[0].words, text) if commands else _NOTHING
    if word.value.startswith("-") and word.value == form.words:
        return _NOTHING
    items = list(_ITEM.finditer(word.value))
    parts = [word.part(*item.span()) for item in items]
    spans = [word.part(max(item.start() - 1, 0), item.end()) for item in items]
    return WordList(
        words=tuple(replace(one, via=None) for one in parts),
        spans=tuple((one.start, one.end) for one in spans),
        before_flag=",",
        before_value=",",
    )


_NOTHING = WordList(words=(), spans=())
