"""Whether `import planner` brings this package, or another one of that name.

llm-d-planner's is called `planner` too, and so is its command.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
"""This package, called `vllm_memory_planner` where it was installed from a wheel."""
_OURS = (str(PACKAGE / "__init__.py"), str(PACKAGE.with_name("planner.py")))


def other_planner() -> str:
    """Return the file of the other package that `import planner` brings; "": none."""
    spec = find_spec("planner")
    found = spec.origin if spec is not None else None
    return "" if found is None or found in _OURS else found


def sentence(other: str) -> str:
    """Say that there is another package, and what to do."""
    return (
        f"`import planner` and maybe the command `planner` are another package's here "
        f"({other}): use `import vllm_memory_planner` and `vllm-memory-planner`, or "
        "install one of the two into an environment of its own."
    )
