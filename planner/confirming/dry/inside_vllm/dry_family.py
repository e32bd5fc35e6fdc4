"""What the files of a model's family consist of, and how they are put together.

Sizes of images and sounds determine the memory of the profile run, so they are those
that the family's checkpoints publish: from config.json where it has them, else the
defaults of Transformers' class, or figures with their source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Config = Mapping[str, Any]


class MissingFilesError(ValueError):
    """Files cannot be made from config.json alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a family needs beside config.json."""

    special: Mapping[str, int | None] = field(default_factory=dict)
    """Text of a special token -> its id; None: any."""
    words: tuple[str, ...] = ()
    """Texts that must be one token each, without being special."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Attributes that a processor reads of its tokenizer, as `image_token` -> text."""
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of a file -> its content."""


def token_id(config: Config, *names: str) -> int | None:
    """Return the first of these token ids that config.json has."""
    found = (config.get(f"{name}_{end}") for name in names for end in ("id", "index"))
    return next((number for number in found if isinstance(number, int)), None)


def settings(part: Config, *names: str, **other_names: str) -> dict[str, Any]:
    """Return entries that a part of config.json has, some under other names."""
    wanted = {name: name for name in names} | other_names
    return {
        name: part[source]
        for name, source in wanted.items()
        if part.get(source) is not None
    }


def preprocessor(
    name: str, image: str | None = None, **others: object
) -> dict[str, dict[str, Any]]:
    """Return preprocessor_config.json: classes, and settings."""
    of_images = {} if image is None else {"image_processor_type": image}
    return {
        "preprocessor_config.json": {"processor_class": name, **of_images, **others}
    }


def processor(name: str, **others: object) -> dict[str, dict[str, Any]]:
    """Return processor_config.json: the class, and settings."""
    return {"processor_config.json": {"processor_class": name, **others}}


def videos(name: str, **others: object) -> dict[str, dict[str, Any]]:
    """Return video_preprocessor_config.json: the class, and settings."""
    return {"video_preprocessor_config.json": {"video_processor_type": name, **others}}


def tokens(config: Config, texts: Mapping[str, str]) -> dict[str, int | None]:
    """Return special tokens with the ids that config.json has under their names."""
    return {text: token_id(config, name) for name, text in texts.items()}


def edges(shortest: int, longest: int) -> dict[str, int]:
    """Return limits, which several families mean as pixels of an image."""
    return {"shortest_edge": shortest, "longest_edge": longest}


def square(side: int | list[int]) -> dict[str, int]:
    """Return a size from the side of a square, or from height and width."""
    height, width = side if isinstance(side, list) else (side, side)
    return {"height": height, "width": width}
