"""The options of `docker run`, up to the image.

Source: Docker 28 `docker run`; Podman 5.6 `podman run`; NVIDIA Container Toolkit 1.18.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner.reading.scripts.shell import Word
from planner.reading.sign_table import signs
from planner.units import whole_number

_RUNNERS = ("docker", "podman", "nerdctl", "finch")
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
        self.image = self._read(first)

    def _read(self, at: int) -> int:
        while at < len(self.words):
            word = self.words[at]
            is_open = self._is_more(word, at)
            if word.value[:1] not in ("-", "") and not is_open:
                break
            flag, equals, _value = word.value.partition("=")
            if not flag or is_open or flag in _WITHOUT_VALUE:
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
