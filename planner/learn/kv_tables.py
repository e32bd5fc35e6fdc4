"""The blocks of a KV cache, and the table of blocks of each group of layers.

All groups take their blocks from one pool. A group's rule says which blocks a request
needs, which it no longer needs, and which are kept for other requests. Left out:
speculative tokens, an encoder's blocks, and hits that end inside a block.

Source: vLLM 0.33.0 `v1/core/block_pool.py` BlockPool;
`v1/core/single_type_kv_cache_manager.py` FullAttentionManager, SlidingWindowManager,
ChunkedLocalAttentionManager and MambaManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from planner.values import frozen

Key: TypeAlias = tuple[int, str, int]
"""A group, whose tokens a block ends, and how many tokens end with it."""
SHARED = "shared"
"""The owner of the blocks of a prefix that all requests begin with."""
NEVER = 1 << 60


class GroupKind(StrEnum):
    """What a group of layers stores of a request."""

    FULL = "every token"
    WINDOW = "a window"
    CHUNK = "a chunk"
    STATE = "a state"


class Phase(StrEnum):
    """What becomes of a request."""

    TO_COME = "to come"
    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


@frozen
class GroupRule:
    """How a group of layers uses blocks."""

    block_size: int
    kind: GroupKind = GroupKind.FULL
    kept_tokens: int = 0
    """Of a window or a chunk."""
    is_reused: bool = False
    """Of states: whether those at the ends of blocks are kept for other requests."""
    has_checkpoints: bool = False
    """Of such states: whether a kernel also saves one inside a prompt."""


@frozen
class Arrival:
    """A request, before it arrives."""

    name: str
    step: int
    """When it arrives, from 1."""
    prompt_tokens: int
    answer_tokens: int
    shared_tokens: int = 0
    """Of the prompt, the beginning that it has in common with the others."""

    @property
    def total_tokens(self) -> int:
        """Prompt and answer."""
        return self.prompt_tokens + self.answer_tokens


@dataclass(slots=True, kw_only=True, eq=False)
class DrawnRequest:
    """A request, as far as it is."""

    arrival: Arrival
    phase: Phase = Phase.TO_COME
    computed: int = 0
    """Tokens in the cache."""
    known: int = 0
    """Its tokens: the prompt, and the answer so far."""
    preemptions: int = 0
    junction: int = 0
    """Tokens of a prefix that some groups have stored and others have not; 0: none."""
    is_told: bool = False
    """Whether the events say why it waits."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.arrival.name

    @property
    def last_boundary(self) -> int:
        """The tokens of its prompt of which another request can find all."""
        return self.arrival.prompt_tokens - 1

    @property
    def prefill_end(self) -> int:
        """The tokens that are known before the next one is drawn."""
        return max(self.arrival.prompt_tokens, self.known - 1)

    def whose(self, end: int) -> str:
        """Return to whom its first `end` tokens belong."""
        return SHARED if end <= self.arrival.shared_tokens else self.name


@dataclass(slots=True, kw_only=True, eq=False)
class Block:
    """A block of the pool."""

    index: int
    owners: list[str] = field(default_factory=list)
    key: Key | None = None
    """Under which other requests find it."""
    group: int = 0
    content: str = ""
    """Whose tokens it holds."""
    tokens: int = 0
    """As last drawn."""


class Pool:
    """All blocks; those that are free lie in the order in which they are taken."""

    def __init__(self, num_blocks: int, *, is_caching: bool) -> None:
        """Prepare an empty cache."""
        self.blocks = [Block(index=index + 1) for index in range(num_blocks)]
        self.free = deque(self.blocks)
        self.is_caching = is_caching
        self.changes = 0
        self._held: dict[Key, dict[int, Block]] = {}

    def take(self, count: int, owner: str, group: int) -> list[Block]:
        """Take free blocks; what they held is forgotten."""
        taken = [self.free.popleft() for _ in range(count)]
        for block in taken:
            self.forget(block)
            block.owners, block.group, block.tokens = [owner], group, 0
        self.changes += count
        return taken

    def find(self, key: Key) -> Block | None:
        """Return the first block that is stored under a key."""
        return next(iter(self._held.get(key, {}).values()), None)

    def touch(self, blocks: Iterable[Block | None], owner: str) -> None:
        """Use blocks that were found."""
        for block in blocks:
            if block is None:
                continue
            if not block.owners:
                self.free.remove(block)
            block.owners.append(owner)
            self.changes += 1

    def store(self, block: Block, key: Key) -> None:
        """Let a block be found."""
        if block.key == key:
            return
        self.forget(block)
        block.key = key
        self._held.setdefault(key, {})[block.index] = block
        self.changes += 1

    def forget(self, block: Block) -> None:
        """Let a block be found no longer."""
        if block.key is not None:
            held = self._held[block.key]
            del held[block.index]
            if not held:
                del self._held[block.key]
        block.key = None

    def release(self, blocks: Iterable[Block | None], owner: str) -> int:
        """Free blocks, those to take first in front; return how many are free now.

        A block that can be found goes to the end of the line.
        """
        first: list[Block] = []
        last: list[Block] = []
        for block in blocks:
            if block is None:
                continue
            block.owners.remove(owner)
            self.changes += 1
            if not block.owners:
                is_kept = self.is_caching and block.key is not None
                (last if is_kept else first).append(block)
        self.free.extendleft(reversed(first))
        self.free.extend(last)
        return len(first) + len(last)


class BlockTable:
    """The blocks of each request in a group whose layers store every token."""

    def __init__(
        self, pool: Pool, rule: GroupRule, group: int, *, alignment: int, most: int
    ) -> None:
        """Prepare a table.

        Args:
            pool: of all groups.
            rule: of this group.
            group: its number.
            alignment: tokens of which a hit is a multiple.
            most: blocks of one request, for which its admission is checked.
        """
        self.pool, self.rule, self.group = pool, rule, group
        self.size = rule.block_size
        self.alignment = alignment
        self.most = most
        self.blocks: dict[str, list[Block | None]] = {}
        self._stored: dict[str, int] = {}

    def skipped(self, computed: int) -> int:  # noqa: ARG002 - of windows and states
        """Return the tokens at the beginning that are no longer needed."""
        return 0

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

        Args:
            one: the request.
            tokens: that need room, those that have it included.
            found: its blocks that other requests left.
            computed: tokens that are or were computed.
            is_admission: whether its whole prompt must fit.
        """
        needed = -(-tokens // self.size)
        if is_admission:
            needed = min(needed, self.most)
        has = len(self.blocks.get(one.name, ()))
        if one.name in self._stored:
            return max(needed - has, 0)
        skipped = self.skipped(computed) // self.size
        return max(needed - max(skipped, len(found) + has), 0) + unused(
            found[max(0, skipped - has) :]
        )

    def adopt(
        self, one: DrawnRequest, found: Sequence[Block | None], computed: int
    ) -> None:
        """Begin a table with the blocks that were found."""
        skipped = max(self.skipped(computed) // self.size, 0)
        used = found[skipped:]
        self.pool.touch(used, one.name)
        self.blocks[one.name] = [*[None] * skipped, *used]
        self._stored[one.name] = len(self.blocks[one.name])

    def grow(self, one: DrawnRequest, tokens: int) -> None:
        """Take the blocks for so many tokens."""
        blocks = self.blocks.setdefault(one.name, [])
        self._take(one, -(-tokens // self.size) - len(blocks))

    def drop(self, one: DrawnRequest, computed: int) -> None:
        """Free the blocks that are no longer needed, the last one first."""
        blocks = self.blocks.get(one.name, [])
        place = min(self.skipped(computed) // self.size, len(blocks)) - 1
        freed = []
        while place >= 0 and blocks[place] is not None:
            freed.append(blocks[place])
            blocks[place] = None
            place -= 1
        self.pool.release(freed, one.name)

    def store(self, one: DrawnRequest, tokens: int) -> None:
        """Let other requests find the full blocks of so many tokens."""
        blocks = self.blocks[one.name]
        begin, end = self._stored.get(one.name, 0), tokens // self.size
        for place in range(begin, end):
            block = blocks[place]
            if block is not None and self._is_kept(one, place):
                self.pool.store(block, self.key(one, (place + 1) * self.size))
                block.tokens, block.content = (
                    self.size,
                    one.whose((place + 1) * self.size),
                )
        self._stored[one.name] = max(begin, end)

    def free(self, one: DrawnRequest) -> int:
        """Free a request's blocks, the last one first; return how many are free now."""
        self._stored.pop(one.name, None)
        blocks = self.blocks.pop(one.name, [])
        return self.pool.release(reversed(blocks), one.name)

    def new_step(self) -> None:
        """Begin a step of the scheduler."""

    def draw(self, one: DrawnRequest) -> None:
        """Write into its blocks what they hold of a request."""
        for place, block in enumerate(self.blocks.get(one.name, [])):
            if block is not None:
                block.tokens = self.held(one, place)
                block.content = one.whose((place + 1) * self.size)

    def held(self, one: DrawnRequest, place: int) -> int:
        """Return the tokens that a block of a request holds."""
        return min(one.computed - place * self.size, self.size)

    def key(self, one: DrawnRequest, end: int) -> Key:
        """Return under what the block that ends there is found."""
        return (self.group, one.whose(end), end)

    def calm(self, computed: int) -> int:
        """Return the steps of a token each in which its blocks stay as they are."""
        rest = computed % self.size
        return 0 if rest == 0 else self.size - 1 - rest

    def _take(self, one: DrawnRequest, count: int) -> None:
        if count > 0:
            taken = self.pool.take(count, one.name, self.group)
            self.blocks[one.name].extend(taken)

    def _is_kept(self, one: DrawnRequest, place: int) -> bool:  # noqa: ARG002
        return True


class WindowTable(BlockTable):
    """The blocks of a group whose layers store a window, or a chunk, of the tokens."""

    def skipped(self, computed: int) -> int:
        """Return the tokens before the window of the next one."""
        kept = self.rule.kept_tokens
        if self.rule.kind is GroupKind.CHUNK:
            return computed // kept * kept
        return max(0, computed - kept + 1)

    def calm(self, computed: int) -> int:
        """Return the steps of a token each in which its blocks stay as they are."""
        kept = self.rule.kept_tokens
        if self.rule.kind is GroupKind.CHUNK:
            return min(BlockTable.calm(self, computed), kept - computed % kept)
        rest = (computed - kept + 1) % self.size
        return min(BlockTable.calm(self, computed), self.size - rest if rest else 0)

    @property
    def run(self) -> int:
        """The blocks in a row that a hit needs."""
        return -(-(self.rule.kept_tokens - 1) // self.size)

    def _is_kept(self, one: DrawnRequest, place: int) -> bool:
        """Keep what a hit at the end of the prompt, or at a junction, needs.

        Source: vLLM 0.33.0 `v1/core/single_type_kv_cache_manager.py`
        SlidingWindowManager.reachable_block_mask; `config/cache.py`
        prefix_cache_retention_interval, 0 by default.
        """
        if self.rule.kind is GroupKind.CHUNK or self.alignment % self.size:
            return True
        ends = (
            tokens // self.alignment * self.alignment // self.size
            for tokens in (one.last_boundary, one.junction)
        )
        return any(end - self.run <= place < end for end in ends)


def unused(blocks: Iterable[Block | None]) -> int:
    """Return how many are free: they are no longer, once they are used."""
    return sum(block is not None and not block.owners for block in blocks)
