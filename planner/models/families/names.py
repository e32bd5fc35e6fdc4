"""Which module reads which architecture, known without an import of the module.

`planner/data/architectures.txt` has it: `python -m tools.architectures` writes the file
from the tables `ROWS` and `READERS` of the modules.
"""

from __future__ import annotations

from planner.data import DATA


def _families() -> dict[str, tuple[str, ...]]:
    lines = (DATA / "architectures.txt").read_text(encoding="utf-8").splitlines()
    names = (line.split() for line in lines if not line.startswith("#"))
    return {module: tuple(read) for module, *read in names}


FAMILIES = _families()
"""Modules with readers or rows, and the names that each reads."""

SERVED_BY_TRANSFORMERS = ("Ministral3ForCausalLM",)
"""Architectures that releases before vLLM's own class leave to Transformers.

Others came to vLLM before Transformers knew them, or have no reader of that form.

Source: vLLM 0.19.1 `models/registry.py` _try_resolve_transformers; 0.20.0 has a class.
"""
