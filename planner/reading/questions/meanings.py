"""What the arguments of vLLM mean that a question names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.engine.arguments import ARGUMENTS, Memory

_NAME = re.compile(r"(?<![\w-])(?:--)?[a-z]+(?:[-_][a-z0-9]+)+", re.ASCII)
_MOST = 3


def meanings_in(text: str) -> Iterator[str]:
    """Yield what each argument of vLLM that a text names means.

    >>> [said.partition(":")[0] for said in meanings_in("What is --max-num-seqs?")]
    ['max_num_seqs']
    """
    names = (
        match[0].removeprefix("--").replace("-", "_") for match in _NAME.finditer(text)
    )
    known = [name for name in dict.fromkeys(names) if name in ARGUMENTS]
    for name in known[:_MOST]:
        argument = ARGUMENTS[name]
        effect = (
            "" if argument.memory is not Memory.NONE else " It takes no GPU memory."
        )
        yield f"{name}: {argument.text}{effect}"
