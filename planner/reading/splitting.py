"""The documents in a text: each with its language and its place in the whole text.

A reader of a language takes the page of one document, and the whole text beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from planner.reading.passage import Passage
from planner.values import frozen


class Language(StrEnum):
    """What a document is written in."""

    PYTHON = "python"
    SHELL = "shell"
    DATA = "data"
    """YAML, JSON, TOML: manifests and configurations."""
    IMAGE = "Dockerfile"
    UNKNOWN = ""
    """Not said: each reader is asked."""


@frozen
class Document:
    """A part of a text that is read by itself."""

    language: Language
    page: Passage
    """As its reader sees it; each character has its place in the whole text."""


def documents_of(text: str) -> Iterator[Document]:
    """Yield the documents of a text in their order."""
    yield document_of(Passage.whole(text))


def document_of(page: Passage, hint: str = "") -> Document:
    """Return a stretch of a text as a document of its own.

    Args:
        page: the stretch, such as the body of a here-document.
        hint: the name of a language or of a file, where the text says one.
    """
    return Document(language=_LANGUAGES.get(_ending(hint), Language.UNKNOWN), page=page)


def _ending(hint: str) -> str:
    return hint.strip().rsplit("/", 1)[-1].rsplit(".", 1)[-1].lower()


_LANGUAGES = {
    **dict.fromkeys(("python", "py", "python3", "py3", "ipython"), Language.PYTHON),
    **dict.fromkeys(
        ("bash", "sh", "shell", "zsh", "console", "shell-session", "shellsession"),
        Language.SHELL,
    ),
    **dict.fromkeys(("yaml", "yml", "json", "toml"), Language.DATA),
    **dict.fromkeys(("dockerfile", "containerfile", "docker"), Language.IMAGE),
}
"""By the word after a fence, or by the ending of a file's name."""
