"""How one kind of cache names its backend and its KV cache spec."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.memory.backend import AttentionBackend
from planner.memory.cache_context import BlockSizes, CacheContext
from planner.memory.kv_spec import KVCacheSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFamily:
    """The two questions to a class of `planner.caches`.

    Both functions get the layer itself first, of the class that they stand for.
    """

    backend: Callable[[Any, CacheContext], AttentionBackend | None]
    """Chooses the kernel or refuses; None: no kernel has a say."""
    spec: Callable[
        [Any, AttentionBackend | Any, CacheContext, BlockSizes], KVCacheSpec | None
    ]
    """Returns what the layer keeps; None: nothing."""
