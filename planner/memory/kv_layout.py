"""In which order the KV cache lies in memory: it decides how groups share a block.

Layers (L), blocks (B), heads (H), tokens (N) and content (C), outermost first.

Source: vLLM 0.33.0 `v1/kv_cache_layout.py`, `v1/attention/backends/utils.py`
get_supported_kv_cache_layouts and resolve_kv_cache_layout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum

from planner.errors import Refused
from planner.memory.kv_spec import AttentionSpec, KVCacheSpec


class KVCacheLayout(Enum):
    """An order of the KV cache's dimensions, in vLLM's order of names."""

    LBHNC = "LBHNC"
    LBNHC = "LBNHC"
    LHBNC = "LHBNC"
    BLHNC = "BLHNC"
    BLNHC = "BLNHC"
    BHLNC = "BHLNC"

    @property
    def is_block_outermost(self) -> bool:
        """Whether all layers' pages of one block lie side by side."""
        return self.value.startswith("B")

    @property
    def is_block_compact(self) -> bool:
        """Whether each page is one run of bytes."""
        return set(self.value[:2]) == {"L", "B"}


_PREFERENCE = tuple(
    KVCacheLayout(name)
    for name in ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")
)


def supported_layouts(
    declared: Iterable[Sequence[KVCacheLayout] | None],
) -> tuple[KVCacheLayout, ...]:
    """Return the layouts that every kernel takes, the most preferred first.

    `declared` has one entry per kernel; None takes any.

    Raises:
        Refused: when the kernels agree on none.
    """
    given = [tuple(layouts) for layouts in declared if layouts is not None]
    if not given:
        return _PREFERENCE
    if len(set(given)) == 1:
        return given[0]
    votes = Counter(layouts[0] for layouts in given)
    shared = [layout for layout in KVCacheLayout if all(layout in g for g in given)]
    if not shared:
        names = [[layout.name for layout in layouts] for layouts in given]
        raise Refused(f"No KV cache layout satisfies every supported set: {names}.")
    return tuple(sorted(shared, key=lambda layout: -votes[layout]))


def resolve_layout(
    candidates: Sequence[KVCacheLayout],
    specs: Sequence[KVCacheSpec],
    wanted: KVCacheLayout | None = None,
) -> KVCacheLayout:
    """Return the one layout of the model, the wanted one where it is possible.

    Raises:
        Refused: when no candidate can hold the model's pages.
    """
    # Layers that are alike share one object, hence few are looked at.
    shapes = {_shape(spec) for spec in {id(spec): spec for spec in specs}.values()}
    if len(shapes) > 1:
        compact = [layout for layout in candidates if layout.is_block_compact]
        if not compact:
            names = [[layout.name for layout in candidates]]
            raise Refused(
                "Specs with mixed HNC shapes need a block-compact layout, but none is "
                f"in every supported set: {names}."
            )
        candidates = compact
    return wanted if wanted in candidates and wanted else candidates[0]


def _shape(spec: KVCacheSpec) -> tuple[object, ...]:
    if isinstance(spec, AttentionSpec):
        heads = spec.num_head_slots or spec.num_kv_heads
        return (heads, spec.block_size // spec.tokens_per_state, spec.page_size_bytes)
    return (1, 1, spec.page_size_bytes)
