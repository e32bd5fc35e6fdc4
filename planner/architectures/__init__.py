"""config.json to ModelArchitecture: one module per family of models.

Read `facts` (typed access to a config), `decoder` (building blocks), `llama` (most
decoders), then the family you need. `read` below is the door; `registry` says which
reader understands which architecture name.
"""

from __future__ import annotations

from planner.architectures.reading import read, supported_architectures

__all__ = ["read", "supported_architectures"]
