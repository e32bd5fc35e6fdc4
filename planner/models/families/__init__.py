"""config.json to ModelArchitecture: one module per family of models.

Read `facts` (typed access to a config), `decoder` (building blocks), `llama` (most
decoders), then the family you need. `read` below is the entry point; `registry` lists
the reader of each architecture name, and says how to add one.
"""

from __future__ import annotations

from planner.models.families.reading import (
    built_otherwise,
    read,
    supported_architectures,
)

__all__ = ["built_otherwise", "read", "supported_architectures"]
