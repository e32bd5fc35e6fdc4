"""What a KV cache has of a request's beginning: the longest prefix of all groups.

Source: vLLM 0.33.0 `v1/core/kv_cache_coordinator.py` HybridKVCacheCoordinator;
`v1/core/single_type_kv_cache_manager.py` find_longest_cache_hit of each manager.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from planner.learn.kv_tables import Block, BlockTable, DrawnRequest, GroupKind
from planner.values import frozen

Row: TypeAlias = "list[Block | None]"


@frozen
class CachedBlocks:
    """The blocks that a request need not compute."""

    blocks: list[Row]
    """One row for each group; None for a block that the group does not need."""
    tokens: int = 0
    junction: int = 0
    """Tokens that some groups have, where others have fewer; 0: all have as many."""


def found_in(
    tables: Sequence[BlockTable], one: DrawnRequest, alignment: int
) -> CachedBlocks:
    """Return what all groups have of a request, without its last token.

    That one is computed again, for its logits.
    """
    parts = _alike(tables)
    is_simple = len(parts) == 2 and parts[0][0].rule.kind is GroupKind.FULL  # noqa: PLR2004
    rows: dict[int, Row] = {}
    tokens, longest = one.known - 1, 0
    while True:
        current = tokens
        for part in parts:
            first = part[0]
            if first.rule.kind is GroupKind.FULL and first.group in rows:
                current = min(current, len(rows[first.group]) * first.size)
                continue
            current = _search(part, one, current, alignment, rows)
            longest = max(longest, current)
        if current >= tokens:
            break
        tokens = current
        if is_simple:
            break
    for table in tables:
        if table.rule.kind is GroupKind.FULL:
            del rows[table.group][-(-tokens // table.size) :]
    return CachedBlocks(
        blocks=[rows[table.group] for table in tables],
        tokens=tokens,
        junction=longest if longest > tokens else 0,
    )


def _alike(tables: Sequence[BlockTable]) -> list[list[BlockTable]]:
    """Collect the groups of one rule, those that store every token first."""
    parts: dict[object, list[BlockTable]] = {}
    for table in tables:
        parts.setdefault(table.rule, []).append(table)
    return sorted(
        parts.values(), key=lambda part: part[0].rule.kind is not GroupKind.FULL
    )


def _search(
    part: Sequence[BlockTable],
    one: DrawnRequest,
    most: int,
    alignment: int,
    rows: dict[int, Row],
) -> int:
    """Find the longest prefix of some groups of one rule; return its tokens."""
    search = {
        GroupKind.FULL: _of_every_token,
        GroupKind.WINDOW: _of_window,
        GroupKind.CHUNK: _of_chunk,
        GroupKind.STATE: _of_state,
    }[part[0].rule.kind]
    size = part[0].size
    places = search(part, one, most, alignment)
    for table in part:
        rows[table.group] = [
            None if place is None else table.pool.find(table.key(one, place * size))
            for place in places
        ]
    return len(places) * size


Places: TypeAlias = "list[int | None]"
"""For each block, its number from 1 where it is used; None where it is not needed."""


def _has(part: Sequence[BlockTable], one: DrawnRequest, place: int) -> bool:
    """Whether all groups have a block, by its number from 1."""
    return all(
        table.pool.find(table.key(one, place * table.size)) is not None
        for table in part
    )


def _of_every_token(
    part: Sequence[BlockTable], one: DrawnRequest, most: int, alignment: int
) -> Places:
    size, places = part[0].size, 0
    while places < most // size and _has(part, one, places + 1):
        places += 1
    tokens = places * size // alignment * alignment
    return list(range(1, -(-tokens // size) + 1))


def _of_window(
    part: Sequence[BlockTable], one: DrawnRequest, most: int, alignment: int
) -> Places:
    """From the right: so many blocks in a row as a window needs, or all to the left."""
    size, needed = part[0].size, -(-(part[0].rule.kept_tokens - 1) // part[0].size)
    end = run = 0
    for place in range(most // size, 0, -1):
        if not _has(part, one, place):
            run = 0
            continue
        if run == 0:
            if place * size % alignment:
                continue
            end = place
        run += 1
        if run >= needed:
            return [None] * (end - run) + list(range(end - run + 1, end + 1))
    while run * size % alignment:
        run -= 1
    return list(range(1, run + 1))


def _of_chunk(
    part: Sequence[BlockTable], one: DrawnRequest, most: int, _aligned: int
) -> Places:
    """Nothing of the chunks before the last one is needed."""
    size, kept = part[0].size, part[0].rule.kept_tokens
    begin = end = most // kept * kept // size
    while end < most // size and _has(part, one, end + 1):
        end += 1
    return [None] * begin + list(range(begin + 1, end + 1))


def _of_state(
    part: Sequence[BlockTable], one: DrawnRequest, most: int, alignment: int
) -> Places:
    """The last state that is there."""
    size = part[0].size
    for place in range(most // size, 0, -1):
        if place * size % alignment == 0 and _has(part, one, place):
            return [*[None] * (place - 1), place]
    return []
