"""A small KV cache step by step: blocks, shared prefixes, and a preemption.

It follows vLLM's scheduler and block pool in the large. Left out: the limit of
`max_num_batched_tokens` (a prompt is computed in one step), priorities,
speculation, and the watermark.

Source: vLLM 0.33.0 `v1/core/sched/scheduler.py` Scheduler.schedule (running requests
first, in the order of their arrival; without a free block the last of them is
preempted; waiting requests start only in a step without a preemption) and
_preempt_request (its blocks are freed, nothing counts as computed, it waits in front of
the others); `v1/core/kv_cache_manager.py` get_computed_blocks (full blocks of a known
prefix are found, all but the last token); `v1/core/block_pool.py` BlockPool (a freed
block keeps its content until it is allocated again, the least recently freed first).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from planner.values import frozen

Content: TypeAlias = tuple[str, int]
"""Whose tokens a full block holds, and the place of the block in the request."""
SHARED = "shared"
"""The owner of the blocks of a prefix that all requests begin with."""


class Phase(StrEnum):
    """What becomes of a request."""

    TO_COME = "to come"
    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


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


@frozen
class Block:
    """What a block of the cache holds after a step."""

    owners: tuple[str, ...]
    """The requests that use it; several share a prefix."""
    tokens: int
    content: str
    """Whose tokens they are, a request's or `SHARED`; empty for an empty block. Without
    owners the tokens are kept until the block is allocated again."""


@frozen
class Standing:
    """How a request stands after a step."""

    name: str
    phase: Phase
    tokens: int
    """In the cache."""
    total_tokens: int
    preemptions: int


@frozen
class Step:
    """The cache after a step, and what happened in it."""

    blocks: tuple[Block, ...]
    requests: tuple[Standing, ...]
    events: tuple[str, ...]

    @property
    def used(self) -> int:
        """The blocks that requests use."""
        return sum(bool(block.owners) for block in self.blocks)


@dataclass(slots=True, kw_only=True)
class _Slot:
    """A block of the pool."""

    index: int
    owners: list[str] = field(default_factory=list)
    tokens: int = 0
    content: Content | None = None
    """Whose block it is; it can be found again once it is full."""


@dataclass(slots=True, kw_only=True)
class _Request:
    arrival: Arrival
    phase: Phase = Phase.TO_COME
    slots: list[_Slot] = field(default_factory=list)
    computed: int = 0
    known: int = 0
    """Its tokens: the prompt, and the answer so far."""
    preemptions: int = 0
    is_told: bool = False
    """Whether the events say why it waits."""


class Simulation:
    """Requests that share a KV cache of a few blocks, one step after the other."""

    def __init__(  # noqa: PLR0913 - the cache, and what vLLM's arguments set
        self,
        arrivals: Sequence[Arrival],
        *,
        num_blocks: int,
        block_size: int,
        tokens_per_step: int | None = None,
        max_num_seqs: int = 256,
        enable_prefix_caching: bool = True,
        unit: str = "block",
    ) -> None:
        """Prepare the requests and an empty cache.

        Args:
            arrivals: the requests, in the order of their arrival.
            num_blocks: of the cache, without the one that vLLM keeps empty.
            block_size: tokens in a block.
            tokens_per_step: of its answer, what a running request gets in a step; a
                block without it.
            max_num_seqs: the requests that may run at once.
            enable_prefix_caching: whether a known prefix is found in the cache.
            unit: what the events call a block.
        """
        self._requests = [_Request(arrival=one) for one in arrivals]
        self._slots = [_Slot(index=index) for index in range(num_blocks)]
        self._free = deque(self._slots)
        self._waiting: deque[_Request] = deque()
        self._running: list[_Request] = []
        self._block_size = block_size
        self._per_step = tokens_per_step or block_size
        self._max_num_seqs = max_num_seqs
        self._is_caching = enable_prefix_caching
        self._unit = unit
        self._events: list[str] = []
        self._step = 0

    def steps(self, most: int = 200) -> tuple[Step, ...]:
        """Return the empty cache and every step, to the end of the last request."""
        found = [self._shown()]
        while not self._is_over and len(found) <= most:
            found.append(self.step())
        return tuple(found)

    def step(self) -> Step:
        """Make one step: arrivals, running requests, waiting ones, then the ends."""
        self._step += 1
        self._events = []
        self._arrive()
        if not self._run():
            self._admit()
        self._finish()
        return self._shown()

    @property
    def _is_over(self) -> bool:
        return all(one.phase is Phase.FINISHED for one in self._requests)

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

    def _run(self) -> bool:
        """Let running requests go on; return whether one was preempted."""
        was_full = False
        for one in list(self._running):
            wanted = min(one.known + self._per_step, one.arrival.total_tokens)
            while one in self._running and not self._grow(one, wanted):
                self._preempt(self._running.pop())
                was_full = True
            if one in self._running:
                one.known = wanted
        return was_full

    def _grow(self, one: _Request, tokens: int) -> bool:
        """Give a request the blocks for its tokens; False without enough free ones."""
        missing = -(-tokens // self._block_size) - len(one.slots)
        if missing > len(self._free):
            return False
        for _ in range(missing):
            slot = self._free.popleft()
            slot.owners, slot.tokens = [one.arrival.name], 0
            slot.content = self._content(one, len(one.slots))
            one.slots.append(slot)
        for place, slot in enumerate(one.slots):
            filled = min(tokens - place * self._block_size, self._block_size)
            slot.tokens = max(slot.tokens, filled)
        one.computed = tokens
        return True

    def _preempt(self, one: _Request) -> None:
        count = self._free_slots(one)
        one.phase, one.computed = Phase.PREEMPTED, 0
        one.preemptions += 1
        self._waiting.appendleft(one)
        self._events.append(
            f"The cache is full: {one.arrival.name}, the last to arrive, is preempted. "
            f"It gives up {self._counted(count)} and waits, first in line."
        )

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._max_num_seqs:
            one = self._waiting[0]
            found = self._found(one)
            needed = -(-one.known // self._block_size) - len(found)
            # What is found may itself be free: it is no longer, once it is taken.
            free = len(self._free) - sum(not slot.owners for slot in found)
            if needed > free:
                self._wait(one, needed, free)
                return
            self._start(self._waiting.popleft(), found)

    def _wait(self, one: _Request, needed: int, free: int) -> None:
        """Say once why a request waits."""
        if one.is_told:
            return
        one.is_told = True
        self._events.append(
            f"{one.arrival.name} waits: it needs {self._counted(needed)}, {free} free."
        )

    def _start(self, one: _Request, found: list[_Slot]) -> None:
        is_back = one.phase is Phase.PREEMPTED
        for slot in found:
            if not slot.owners:
                self._free.remove(slot)
            slot.owners.append(one.arrival.name)
        one.slots, one.phase, one.is_told = list(found), Phase.RUNNING, False
        self._running.append(one)
        self._grow(one, one.known)
        new = len(one.slots) - len(found)
        does = "comes back" if is_back else "starts"
        again = " again" if is_back else ""
        kept = f" {self._counted(len(found))} found in the cache," if found else ""
        self._events.append(
            f"{one.arrival.name} {does}:{kept} {self._counted(new)} computed{again}."
        )

    def _found(self, one: _Request) -> list[_Slot]:
        """Return the full blocks that the cache has of a request, without its last."""
        if not self._is_caching:
            return []
        held = {
            slot.content: slot
            for slot in self._slots
            if slot.content and slot.tokens == self._block_size
        }
        found: list[_Slot] = []
        for place in range((one.known - 1) // self._block_size):
            slot = held.get(self._content(one, place))
            if slot is None:
                break
            found.append(slot)
        return found

    def _content(self, one: _Request, place: int) -> Content:
        end = (place + 1) * self._block_size
        is_shared = end <= one.arrival.shared_tokens
        return (SHARED if is_shared else one.arrival.name, place)

    def _free_slots(self, one: _Request) -> int:
        """Free a request's blocks, the last one first; return how many are free now."""
        freed = 0
        for slot in reversed(one.slots):
            slot.owners.remove(one.arrival.name)
            if slot.owners:
                continue
            freed += 1
            if self._is_caching and slot.tokens == self._block_size:
                self._free.append(slot)
            else:
                slot.tokens, slot.content = 0, None
                self._free.appendleft(slot)
        one.slots = []
        return freed

    def _finish(self) -> None:
        """End the requests whose answers are whole."""
        for one in list(self._running):
            if one.computed < one.arrival.total_tokens:
                continue
            self._running.remove(one)
            one.phase = Phase.FINISHED
            count = self._free_slots(one)
            kept = "; full ones keep their tokens until they are needed"
            self._events.append(
                f"{one.arrival.name} is finished and frees {self._counted(count)}"
                f"{kept if self._is_caching else ''}."
            )

    def _shown(self) -> Step:
        return Step(
            blocks=tuple(
                Block(
                    owners=tuple(slot.owners),
                    tokens=slot.tokens,
                    content=slot.content[0] if slot.content and slot.tokens else "",
                )
                for slot in self._slots
            ),
            requests=tuple(
                Standing(
                    name=one.arrival.name,
                    phase=one.phase,
                    tokens=one.computed if one.slots else 0,
                    total_tokens=one.arrival.total_tokens,
                    preemptions=one.preemptions,
                )
                for one in self._requests
            ),
            events=tuple(self._events),
        )

    def _counted(self, count: int) -> str:
        return f"{count} {self._unit}{'' if count == 1 else 's'}"
