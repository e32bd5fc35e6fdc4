"""A small KV cache step by step: blocks, windows, states, prefixes, and a preemption.

A step of vLLM's scheduler draws one token of each answer. In the steps shown here a
running request gets many tokens, `tokens_per_step`; between them, every step of the
scheduler is followed, and those in which no block changes are taken at once. Left out:
priorities, speculation, the watermark, and asynchronous scheduling, with which a window
gives up a block one token later.

Source: vLLM 0.33.0 `v1/core/sched/scheduler.py` Scheduler.schedule (running requests
first, in the order of their arrival; without a free block the last of them is
preempted; waiting requests start only in a step without a preemption) and
_preempt_request (its blocks are freed, nothing counts as computed, it waits in front of
the others); `v1/core/kv_cache_manager.py` KVCacheManager.allocate_slots.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import lcm

from planner.learn.kv_hits import CachedBlocks, found_in
from planner.learn.kv_states import ReusedStateTable, StateTable, saves_inside
from planner.learn.kv_tables import (
    NEVER,
    Arrival,
    BlockTable,
    DrawnRequest,
    GroupKind,
    GroupRule,
    Phase,
    Pool,
    WindowTable,
)
from planner.values import frozen


@frozen
class DrawnBlock:
    """What a block of the cache holds after a step."""

    owners: tuple[str, ...]
    """The requests that use it; several share a prefix."""
    tokens: int
    """Of which it holds keys and values; a state counts as full."""
    content: str
    """Whose tokens they are, a request's or `SHARED`; empty for an empty block. Without
    owners the tokens are kept until the block is allocated again."""
    kind: GroupKind
    """Of its group of layers."""
    size: int
    """Tokens of which it has room for the keys and values."""


@frozen
class Standing:
    """How a request stands after a step."""

    name: str
    phase: Phase
    tokens: int
    """Computed."""
    total_tokens: int
    preemptions: int


@frozen
class DrawnStep:
    """The cache after a step, and what happened in it."""

    blocks: tuple[DrawnBlock, ...]
    requests: tuple[Standing, ...]
    events: tuple[str, ...]

    @property
    def used(self) -> int:
        """The blocks that requests use."""
        return sum(bool(block.owners) for block in self.blocks)


class Simulation:
    """Requests that share a KV cache of a few blocks, one step after the other."""

    def __init__(  # noqa: PLR0913 - the cache, and what vLLM's arguments set
        self,
        arrivals: Sequence[Arrival],
        *,
        rules: Sequence[GroupRule],
        num_blocks: int,
        tokens_per_step: int | None = None,
        max_num_seqs: int = 256,
        max_num_batched_tokens: int = NEVER,
        enable_prefix_caching: bool = True,
        unit: str = "block",
    ) -> None:
        """Prepare the requests and an empty cache.

        Args:
            arrivals: the requests, in the order of their arrival.
            rules: of the groups of layers, one each.
            num_blocks: of the cache, without the one that vLLM keeps empty.
            tokens_per_step: of its answer, what a running request gets in a step; a
                block without it.
            max_num_seqs: the requests that may run at once.
            max_num_batched_tokens: the tokens that a step of the scheduler computes.
            enable_prefix_caching: whether a known prefix is found in the cache.
            unit: what the events call a block.
        """
        self._requests = [DrawnRequest(arrival=one) for one in arrivals]
        self.pool = Pool(num_blocks, is_caching=enable_prefix_caching)
        self._aligned = lcm(*(rule.block_size for rule in rules))
        self._most_tokens = max_num_batched_tokens
        longest = max(one.total_tokens for one in arrivals)
        self.tables = [
            self._table(rule, group, longest) for group, rule in enumerate(rules)
        ]
        self._waiting: deque[DrawnRequest] = deque()
        self._running: list[DrawnRequest] = []
        self._per_step = tokens_per_step or rules[0].block_size
        self._max_num_seqs = max_num_seqs
        self._splits = any(rule.is_reused for rule in rules)
        self._unit = unit
        self._events: list[str] = []
        self._step = 0
        self._is_calm = False

    @property
    def requests(self) -> tuple[DrawnRequest, ...]:
        """All requests, in the order of their arrival."""
        return tuple(self._requests)

    def steps(self, most: int = 200) -> tuple[DrawnStep, ...]:
        """Return the empty cache and every step, to the end of the last request."""
        found = [self._shown()]
        while not self._is_over and len(found) <= most:
            found.append(self.step())
        return tuple(found)

    def step(self) -> DrawnStep:
        """Make one step; requests arrive in the last of the scheduler's in it."""
        self._step += 1
        self._events = []
        left = self._per_step
        while left > 1:
            left -= self._rest(left - 1) or self._schedule()
        self._arrive()
        self._schedule()
        return self._shown()

    @property
    def _is_over(self) -> bool:
        return all(one.phase is Phase.FINISHED for one in self._requests)

    def _table(self, rule: GroupRule, group: int, longest: int) -> BlockTable:
        most = NEVER
        if rule.kind in (GroupKind.WINDOW, GroupKind.CHUNK):
            # Source: vLLM 0.33.0 `v1/kv_cache_interface.py` SlidingWindowSpec and
            # ChunkedLocalAttentionSpec, max_admission_blocks_per_request.
            is_window = rule.kind is GroupKind.WINDOW
            kept = rule.kept_tokens - is_window + self._most_tokens
            most = -(-min(kept, longest) // rule.block_size) + is_window
        kinds = {
            GroupKind.FULL: BlockTable,
            GroupKind.WINDOW: WindowTable,
            GroupKind.CHUNK: WindowTable,
        }
        state = ReusedStateTable if rule.is_reused else StateTable
        chosen = kinds.get(rule.kind, state)
        return chosen(self.pool, rule, group, alignment=self._aligned, most=most)

    def _arrive(self) -> None:
        for one in self._requests:
            arrival = one.arrival
            if one.phase is not Phase.TO_COME or arrival.step > self._step:
                continue
            one.phase, one.known = Phase.WAITING, arrival.prompt_tokens
            self._waiting.append(one)
            shared = arrival.shared_tokens
            common = f", {shared:,} of them the shared beginning" if shared else ""
            self._events.append(
                f"{arrival.name} arrives with a prompt of "
                f"{arrival.prompt_tokens:,} tokens{common}."
            )

    def _rest(self, most: int) -> int:
        """Take the steps of the scheduler at once in which no block changes."""
        is_decoding = all(one.known - one.computed == 1 for one in self._running)
        if not (self._is_calm and is_decoding and self._running):
            return 0
        if len(self._running) > self._most_tokens:
            return 0
        steps = min(
            most,
            *(one.arrival.total_tokens - one.known - 1 for one in self._running),
            *(t.calm(one.computed) for one in self._running for t in self.tables),
        )
        for one in self._running:
            one.computed += max(steps, 0)
            one.known += max(steps, 0)
        return max(steps, 0)

    def _schedule(self) -> int:
        """Make one step of the scheduler, and draw a token where a prompt is done."""
        changes = self.pool.changes
        for table in self.tables:
            table.new_step()
        scheduled: dict[str, int] = {}
        if not self._run(scheduled):
            self._admit(scheduled)
        for one in list(self._running):
            one.computed += scheduled.get(one.name, 0)
            if one.name in scheduled and one.computed == one.known:
                one.known += 1
                self._finish(one)
        self._is_calm = self.pool.changes == changes
        return 1

    def _run(self, scheduled: dict[str, int]) -> bool:
        """Let running requests go on; return whether one was preempted."""
        was_full = False
        for one in list(self._running):
            new = self._chunk(one, one.computed, self._most_tokens, scheduled)
            if one not in self._running or not new:
                continue
            while not self._allocate(one, new):
                was_full = True
                self._preempt(self._running.pop())
                if one not in self._running:
                    return True
            scheduled[one.name] = new
        return was_full

    def _chunk(
        self, one: DrawnRequest, begin: int, budget: int, scheduled: dict[str, int]
    ) -> int:
        """Return the tokens of a request that a step computes, from `begin` on."""
        new = min(one.known - begin, budget - sum(scheduled.values()))
        return self._split(one, begin, new) if self._splits and new else new

    def _split(self, one: DrawnRequest, begin: int, new: int) -> int:
        """End a part of a prompt where a state is stored.

        Source: vLLM 0.33.0 `v1/core/sched/scheduler.py` _mamba_block_aligned_split.
        """
        end, size = begin + new, self._aligned
        if begin >= one.prefill_end:
            return new
        saves = all(
            table.rule.has_checkpoints
            for table in self.tables
            if table.rule.kind is GroupKind.STATE
        )
        position = (one.prefill_end - 1) // size * size
        is_saved = (
            saves
            and end >= one.prefill_end
            and saves_inside(begin, end, size)
            and begin < position < end
        )
        if end < one.prefill_end:
            whole = end // size * size
            if whole > begin or size <= self._most_tokens:
                end = whole
        stops = [0 if is_saved else (one.known - 1) // size * size]
        if begin % size and not is_saved:
            stops.append((begin // size + 1) * size)
        if begin < one.junction < end:
            stops.append(begin + (one.junction - begin) // size * size)
        return max(min([s for s in stops if begin < s < end], default=end) - begin, 0)

    def _allocate(
        self, one: DrawnRequest, new: int, found: CachedBlocks | None = None
    ) -> bool:
        """Give a request the blocks for its next tokens; False without enough.

        Source: vLLM 0.33.0 `v1/core/kv_cache_manager.py` KVCacheManager.allocate_slots.
        """
        parts = found.blocks if found else [[] for _ in self.tables]
        begin = one.computed + (found.tokens if found else 0)
        pairs = list(zip(self.tables, parts, strict=True))
        if found and self._lacks(
            [t.missing(one, one.known, b, begin, is_admission=True) for t, b in pairs]
        ):
            return False
        for table in self.tables:
            table.drop(one, begin)
        if self._lacks([t.missing(one, begin + new, b, begin) for t, b in pairs]):
            return False
        for table, part in pairs:
            if found and any(found.blocks):
                table.adopt(one, part, found.tokens)
        for table in self.tables:
            table.grow(one, begin + new)
            if self.pool.is_caching:
                table.store(one, (begin + new) // self._aligned * self._aligned)
        return True

    def _lacks(self, missing: Sequence[int]) -> bool:
        return sum(missing) > len(self.pool.free)

    def _preempt(self, one: DrawnRequest) -> None:
        count = self._free(one)
        one.phase, one.computed = Phase.PREEMPTED, 0
        one.preemptions += 1
        self._waiting.appendleft(one)
        self._events.append(
            f"The cache is full: {one.name}, the last to arrive, is preempted. "
            f"It gives up {self._counted(count)} and waits, first in line."
        )

    def _admit(self, scheduled: dict[str, int]) -> None:
        while self._waiting and len(self._running) < self._max_num_seqs:
            one = self._waiting[0]
            found = CachedBlocks(blocks=[[] for _ in self.tables])
            if self.pool.is_caching:
                found = found_in(self.tables, one, self._aligned)
                one.junction = found.junction
            new = self._chunk(one, found.tokens, self._most_tokens, scheduled)
            if not new:
                return
            if not self._allocate(one, new, found):
                self._wait(one)
                return
            scheduled[one.name] = new
            self._start(self._waiting.popleft(), found)

    def _wait(self, one: DrawnRequest) -> None:
        """Say once why a request waits."""
        if not one.is_told:
            one.is_told = True
            free = self._counted(len(self.pool.free))
            self._events.append(f"{one.name} waits: its prompt needs more than {free}.")

    def _start(self, one: DrawnRequest, found: CachedBlocks) -> None:
        is_back = one.phase is Phase.PREEMPTED
        one.phase, one.is_told = Phase.RUNNING, False
        one.computed = found.tokens
        self._running.append(one)
        does = "comes back" if is_back else "starts"
        again = " again" if is_back else ""
        kept = f" {found.tokens:,} tokens found in the cache," if found.tokens else ""
        self._events.append(
            f"{one.name} {does}:{kept} {one.known - found.tokens:,} to compute{again}."
        )

    def _free(self, one: DrawnRequest) -> int:
        return sum(table.free(one) for table in self.tables)

    def _finish(self, one: DrawnRequest) -> None:
        """End a request whose answer is whole."""
        if one.known < one.arrival.total_tokens:
            return
        self._running.remove(one)
        one.phase = Phase.FINISHED
        count = self._free(one)
        kept = "; what can be found again is kept until its room is needed"
        self._events.append(
            f"{one.name} is finished and frees {self._counted(count)}"
            f"{kept if self.pool.is_caching else ''}."
        )

    def _shown(self) -> DrawnStep:
        for table in self.tables:
            for one in self._running:
                table.draw(one)
        return DrawnStep(
            blocks=tuple(
                DrawnBlock(
                    owners=tuple(block.owners),
                    tokens=block.tokens if block.owners or block.key else 0,
                    content=block.content if block.owners or block.key else "",
                    kind=self.tables[block.group].rule.kind,
                    size=self.tables[block.group].size,
                )
                for block in self.pool.blocks
            ),
            requests=tuple(
                Standing(
                    name=one.name,
                    phase=one.phase,
                    tokens=one.computed if one.phase is Phase.RUNNING else 0,
                    total_tokens=one.arrival.total_tokens,
                    preemptions=one.preemptions,
                )
                for one in self._requests
            ),
            events=tuple(self._events),
        )

    def _counted(self, count: int) -> str:
        return f"{count} {self._unit}{'' if count == 1 else 's'}"
