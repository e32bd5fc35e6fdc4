"""Write plain values as YAML that every YAML reader reads back as the same values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_PLAIN = re.compile(
    r"(?:(?:--)?[A-Za-z/][A-Za-z0-9_./-]*(?:[:@,+][A-Za-z0-9_./-]+)*"
    r"|[1-9][0-9]*(?:s|m|gb|Gi))\Z",
    re.ASCII,
)
"""Words, flags, paths, images, and numbers with a unit, which need no quotes."""
_READ_AS_OTHERS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Words that YAML 1.1 reads as booleans or null."""


_LONGEST_KEY = 1_024
"""Readers look for the colon of a key so far ahead; a longer key has a sign before it.

Source: YAML 1.1, section 7.3.1 (simple keys).
"""


class LiteralBlock(str):
    """A text of several lines that is written as a block with its line breaks."""

    __slots__ = ()


def yaml_text(value: object) -> str:
    r"""Return tables, lists, texts, numbers and switches as YAML.

    >>> print(yaml_text({"image": "a:v1", "ports": ["8000:8000"], "tty": None}))
    image: a:v1
    ports:
      - "8000:8000"
    tty: null

    >>> print(yaml_text({"code": LiteralBlock("if a:\n    b()\n")}))
    code: |
      if a:
          b()
    """
    return "\n".join(_lines(value))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            written = _scalar(str(key))
            if len(written) > _LONGEST_KEY:
                yield f"? {written}"
                written = ""
            yield from _entry(f"{written}:", inner)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            first, *rest = _lines(item)
            yield f"- {first}"
            yield from _indented(rest)
    else:
        yield _scalar(value)


def _entry(head: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        yield head
        yield from _indented(_lines(value))
    elif isinstance(value, LiteralBlock) and _is_block(value):
        yield f"{head} |"
        yield from _indented(value[:-1].split("\n"))
    else:
        yield f"{head} {_scalar(value)}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in lines)


def _is_block(text: str) -> bool:
    """Whether a text is read back the same from a block: it ends in one line break."""
    lines = text[:-1].split("\n")
    is_plain = all(line.isprintable() and line == line.rstrip() for line in lines)
    return (
        text.endswith("\n")
        and is_plain
        and bool(lines[-1])
        and lines[0][:1].strip() != ""
    )


def _scalar(value: Any) -> str:  # noqa: ANN401 - any plain value
    if isinstance(value, str):
        return value if _is_plain(value) else quoted(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value)


def _is_plain(text: str) -> bool:
    return _PLAIN.match(text) is not None and text.lower() not in _READ_AS_OTHERS


def _number(value: float) -> str:
    """Return a number with a decimal point: YAML 1.1 reads 1e-05 as a text."""
    text = repr(value)
    mantissa, power, exponent = text.partition("e")
    if not power:
        return text
    point = mantissa if "." in mantissa else f"{mantissa}.0"
    sign = "" if exponent.startswith("-") else "+"
    return f"{point}e{sign}{exponent.removeprefix('+')}"


def quoted(text: str) -> str:
    """Return any text in double quotes."""
    written = json.dumps(text, ensure_ascii=False)
    return "".join(
        character if character.isprintable() else f"\\U{ord(character):08x}"
        for character in written
    )
