"""What the arguments of vLLM mean that a question names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from planner.engine.arguments import ARGUMENTS, Memory

_NAME = re.compile(r"(?<![\w-])(?:--)?[a-z]+(?:[-_][a-z0-9]+)+", re.ASCII)
_MOST = 3


@cache
def _spoken() -> Mapping[str, str]:
    """Return the arguments by what people call them, such as "tensor parallel"."""
    short = {
        name.removeprefix("enable_").removesuffix("_size"): name for name in ARGUMENTS
    }
    words = {one.replace("_", " "): name for one, name in short.items() if "_" in one}
    return {word.lower(): name for word, name in words.items()}


@cache
def _in_words() -> re.Pattern[str]:
    longest_first = sorted(_spoken(), key=len, reverse=True)
    return re.compile(
        rf"\b(?:{'|'.join(map(re.escape, longest_first))})", re.IGNORECASE
    )


def meanings_in(text: str) -> Iterator[str]:
    """Yield what each argument of vLLM that a text names means.

    >>> [said.partition(":")[0] for said in meanings_in("What is --max-num-seqs?")]
    ['max_num_seqs']
    """
    names = [
        match[0].removeprefix("--").replace("-", "_") for match in _NAME.finditer(text)
    ]
    names += [_spoken()[match[0].lower()] for match in _in_words().finditer(text)]
    known = [name for name in dict.fromkeys(names) if name in ARGUMENTS]
    for name in known[:_MOST]:
        argument = ARGUMENTS[name]
        effect = (
            "" if argument.memory is not Memory.NONE else " It takes no GPU memory."
        )
        yield f"{name}: {argument.text}{effect}"
