"""The table of blocks of a group whose layers store a state of each request.

A block holds a whole state. With prefix caching vLLM also keeps the states at the ends
of some blocks, which other requests with the same beginning start from.

Source: vLLM 0.33.0 `v1/core/single_type_kv_cache_manager.py` MambaManager.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.learn.kv_tables import (
    NEVER,
    Block,
    BlockTable,
    DrawnRequest,
    GroupRule,
    Key,
    Pool,
    unused,
)


class StateTable(BlockTable):
    """The states of requests, one each."""

    def skipped(self, computed: int) -> int:
        """Return the tokens whose state is no longer needed: all but the last."""
        return computed - 1

    def held(self, one: DrawnRequest, place: int) -> int:  # noqa: ARG002 - it is whole
        """Return the tokens that a block of a request holds: a state is whole."""
        return self.size

    def calm(self, computed: int) -> int:
        """Return the steps of a token each in which its blocks stay as they are."""
        rest = (computed - 1) % self.size
        return min(BlockTable.calm(self, computed), self.size - rest if rest else 0)


class ReusedStateTable(StateTable):
    """The states of requests, and those that other requests can start from."""

    def __init__(
        self, pool: Pool, rule: GroupRule, group: int, *, alignment: int, most: int
    ) -> None:
        """Prepare a table."""
        BlockTable.__init__(self, pool, rule, group, alignment=alignment, most=most)
        self._before: dict[str, int] = {}
        self._retired: dict[str, int] = {}
        self._saved: dict[str, tuple[int, int]] = {}
        self._fresh: set[Key] = set()

    def missing(
        self,
        one: DrawnRequest,
        tokens: int,
        found: Sequence[Block | None],
        computed: int,
        *,
        is_admission: bool = False,
    ) -> int:
        """Return the free blocks that a request needs to have so many tokens.

        A state that is written in this step can be read in the next one only.
        """
        last = found[-1] if found else None
        if last is not None and last.key in self._fresh:
            return NEVER
        blocks = self.blocks.setdefault(one.name, [])
        new = -(-tokens // self.size) - len(found) - len(blocks)
        saved = self._saves(one, tokens, computed)
        if not is_admission:
            self._saved.pop(one.name, None)
            if saved:
                self._saved[one.name] = (saved, -(-tokens // self.size) - 2)
        return min(new, 1 + bool(saved)) + unused(found)

    def grow(self, one: DrawnRequest, tokens: int) -> None:
        """Take a block for the newest state, and one for a state that is saved."""
        blocks = self.blocks.setdefault(one.name, [])
        needed, is_saving = -(-tokens // self.size), one.name in self._saved
        if needed > len(blocks) or is_saving:
            if blocks:
                self._before[one.name] = len(blocks) - 1
            gap = needed - 1 - is_saving - len(blocks)
            blocks.extend([None] * max(gap, 0))
            self._take(one, needed - len(blocks))

    def drop(self, one: DrawnRequest, computed: int) -> None:
        """Free the states before the newest one."""
        name, blocks = one.name, self.blocks.get(one.name, [])
        begin = self._retired.get(name, 0)
        end = min(self.skipped(computed) // self.size, len(blocks))
        if begin < end:
            self._give(one, range(end - 1, begin - 1, -1))
            self._retired[name] = end
        before = self._before.get(name)
        if before is not None and before < -(-computed // self.size) - 1:
            self._give(one, [before])

    def store(self, one: DrawnRequest, tokens: int) -> None:
        """Let other requests start from the states at the ends of blocks."""
        blocks, begin = self.blocks[one.name], self._stored.get(one.name, 0)
        BlockTable.store(self, one, tokens)
        end = self._stored[one.name]
        self._store_saved(one)
        for block in blocks[begin:end]:
            if block is not None and block.key is not None:
                self._fresh.add(block.key)

    def free(self, one: DrawnRequest) -> int:
        """Free a request's blocks; return how many are free now."""
        for kept in (self._before, self._retired, self._saved):
            kept.pop(one.name, None)
        return BlockTable.free(self, one)

    def new_step(self) -> None:
        """Begin a step of the scheduler."""
        self._fresh.clear()

    def _give(self, one: DrawnRequest, places: Sequence[int]) -> None:
        blocks = self.blocks[one.name]
        freed = [blocks[place] for place in places]
        for place in places:
            blocks[place] = None
        self.pool.release(freed, one.name)

    def _saves(self, one: DrawnRequest, tokens: int, computed: int) -> int:
        """Return the tokens after which a kernel saves the state; 0: it saves none.

        Source: vLLM 0.33.0 `v1/core/single_type_kv_cache_manager.py`
        MambaManager._needs_internal_checkpoint.
        """
        blocks = self.blocks.get(one.name, [])
        place = -(-tokens // self.size) - 2
        if (
            self.rule.has_checkpoints
            and tokens >= one.prefill_end
            and saves_inside(computed, tokens, self.size)
            and (place >= len(blocks) or blocks[place] is None)
        ):
            return (place + 1) * self.size
        return 0

    def _store_saved(self, one: DrawnRequest) -> None:
        """Store the state that a kernel saves inside a prompt, at the end of a block.

        Source: vLLM 0.33.0 `v1/core/single_type_kv_cache_manager.py`
        MambaManager._cache_partial_tail_block.
        """
        last = one.last_boundary // self.size * self.size
        saved, place = self._saved.get(one.name, (0, 0))
        block = self.blocks[one.name][place] if saved else None
        if block is not None and saved not in (last, one.junction):
            self.pool.forget(block)
        elif block is not None:
            self._keep(block, self.key(one, saved))

    def _keep(self, block: Block, key: Key) -> None:
        if block.key != key:
            self.pool.store(block, key)
            self._fresh.add(key)

    def _is_kept(self, one: DrawnRequest, place: int) -> bool:
        """Keep the state at the end of the prompt, and at a junction.

        Source: vLLM 0.33.0 `v1/core/single_type_kv_cache_manager.py`
        MambaManager.reachable_block_mask.
        """
        return any(
            tokens // self.alignment * self.alignment // self.size - 1 == place
            for tokens in (one.last_boundary, one.junction)
        )


def saves_inside(begin: int, end: int, size: int) -> bool:
    """Whether a kernel can save the last state at the end of a block, in a chunk.

    Source: vLLM 0.33.0 `v1/kv_cache_interface.py` is_mamba_prefill_checkpoint_valid,
    where blocks are a multiple of the alignment that it asks for.
    """
    position = (end - 1) // size * size
    return (
        begin % size == 0
        and -(-end // size) - 2 > (begin - 1) // size
        and begin + size <= position
        and begin < position < end
    )
