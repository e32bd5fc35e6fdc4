"""The film of a dry run, from the records of PyTorch and of the false GPU.

PyTorch's record has segments, which it gets from the device, and blocks in them, each
with the bytes that were requested. The block itself may be larger: PyTorch counts that,
and so does vLLM, so its allocator is followed here. What the false GPU handed out, and
no segment is, is memory of the driver.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from planner.confirming.dry.result import DriverMemory, DryRun
from planner.confirming.film import (
    DRY,
    LONGEST_LINE,
    Film,
    FilmStage,
    Frame,
    Use,
    facts_of,
    placed,
)
from planner.confirming.stages import stage_of
from planner.units import MIB

_Value = TypeVar("_Value")
_ROUNDED = 512
_SMALL = MIB
"""The largest block of a small segment; also what a large block may have too much."""
_TABLE = 4 * MIB
"""A smaller block that comes with the KV cache is one of its tables."""
_MICROSECONDS = 1_000_000
_TOLD = re.compile(r"GiB|Memory profiling takes")
_UNTOLD = re.compile(r"\n|(?<![\w/])/\w+/|memory snapshot")
"""Lines below each other, paths of this machine, and fields of Python objects."""
_LOADED_LINE = "Model loading took"
"""What comes after it is no weight."""
_LOADED = (FilmStage.LOADING, FilmStage.REPACKING)
_SIGNS = {"segment_alloc": 1, "segment_free": -1}


class Allocator:
    """PyTorch's caching allocator, as far as sizes go.

    Source: PyTorch 2.14 `c10/cuda/CUDACachingAllocator.cpp` round_size, should_split,
    try_merge_blocks.
    """

    def __init__(self) -> None:
        self.reserved_bytes = 0
        self.used_bytes = 0
        self._ends: dict[int, int] = {}
        """Of each free range, by its begin."""
        self._begins: dict[int, int] = {}
        self._blocks: dict[int, int] = {}

    def change_segment(self, address: int, size: int) -> None:
        """Take a segment from the device, or give it back: a negative size."""
        self.reserved_bytes += size
        if size > 0:
            self._release(address, address + size)
        else:
            self._take(address)

    def allocate(self, address: int, requested: int, most_split: int = 0) -> int:
        """Return the size of the block for a request.

        Args:
            address: where it is.
            requested: its bytes.
            most_split: no block for as much or more is split; 0: all are.
        """
        rounded = max(-(-requested // _ROUNDED), 1) * _ROUNDED
        end = self._take(address)
        rest = end - address - rounded
        is_split = rest >= _ROUNDED if rounded <= _SMALL else rest > _SMALL
        if is_split and not 0 < most_split <= rounded:
            end -= rest
            self._release(end, end + rest)
        self._blocks[address] = end
        self.used_bytes += end - address
        return end - address

    def free(self, address: int) -> int:
        """Return the size of the block that is freed; 0 for one from before."""
        end = self._blocks.pop(address, address)
        if end > address:
            self.used_bytes -= end - address
            self._release(address, end)
        return end - address

    def _take(self, begin: int) -> int:
        end = self._ends.pop(begin)
        del self._begins[end]
        return end

    def _release(self, begin: int, end: int) -> None:
        if end in self._ends:
            end = self._take(end)
        begin = self._begins.pop(begin, begin)
        self._ends[begin], self._begins[end] = end, begin


class Reel:
    """Plays the records of one start.

    Args:
        recorded: marks, limits, events and device, as `inside_vllm/dry_film.py` reports
            them.
        outside_bytes: what the device had given before.
        has_graphs: whether CUDA graphs are captured.
    """

    def __init__(
        self, recorded: Mapping[str, Any], outside_bytes: int, *, has_graphs: bool
    ) -> None:
        self._events: list[tuple[int, str, int, int]] = recorded["events"]
        self._marks: list[tuple[int, str, str]] = recorded["marks"]
        self._limits = [(0, 0), *recorded["limits"]]
        self._device: Iterator[tuple[int, int]] = iter(recorded["device"])
        self._outside_bytes = outside_bytes
        self._has_graphs = has_graphs
        self._stages = [
            (time, FilmStage(stage or FilmStage.BUFFERS))
            for time, stage, line in self._marks
            if stage or line.startswith(_LOADED_LINE)
        ]

    def frames(self) -> Iterator[Frame]:
        """Yield the memory after each change of it."""
        uses, live = self._uses(), dict[int, Use]()
        allocator, empty = Allocator(), 0
        used = dict.fromkeys(Use, 0) | {Use.OUTSIDE: self._outside_bytes}
        for (time, action, address, size), use in zip(self._events, uses, strict=True):
            stage = _at(self._stages, time)
            if sign := _SIGNS.get(action):
                is_captured = stage is FilmStage.CAPTURING
                driver = Use.GRAPHS if is_captured else Use.NON_TORCH
                used[driver] += self._of_others(address, sign * size)
                allocator.change_segment(address, sign * size)
                if sign > 0:
                    continue  # for a block, which follows
            elif action == "alloc":
                live[address] = use
                limit = _at(self._limits, time)
                used[use] += allocator.allocate(address, size, limit)
            else:
                used[live.pop(address, Use.EMPTY)] -= allocator.free(address)
            used[Use.EMPTY] = allocator.reserved_bytes - allocator.used_bytes
            if stage is not FilmStage.CAPTURING:
                empty = used[Use.EMPTY]
            yield self._frame(time, stage, used)
        used[Use.GRAPHS] += sum(size for size, _address in self._device)
        if self._has_graphs:
            # Blocks of their pool are free between graphs, and nobody else's.
            pool = max(0, used[Use.EMPTY] - empty)
            used[Use.GRAPHS] += pool
            used[Use.EMPTY] -= pool
        yield self._frame(self._marks[-1][0], FilmStage.READY, used)

    def said(self) -> Iterator[tuple[float, str]]:
        """Yield the lines of the log that show a stage or a size, with seconds."""
        for time, _stage, line in self._marks:
            text = line.strip()
            if (stage_of(text) or _TOLD.search(text)) and not _UNTOLD.search(text):
                yield self._seconds(time), text[:LONGEST_LINE]

    def _frame(self, time: int, stage: FilmStage, used: Mapping[Use, int]) -> Frame:
        sizes = tuple(used[use] for use in Use)
        return Frame(seconds=self._seconds(time), stage=stage, used=sizes)

    def _seconds(self, time: int) -> float:
        return round(max(0, time - self._marks[0][0]) / _MICROSECONDS, 3)

    def _of_others(self, wanted: int, segment: int) -> int:
        """Return what the device handed out to others before it changed a segment."""
        others = 0
        for size, address in self._device:
            if address == wanted and size * segment > 0:
                return others + size - segment
            others += size
        raise LookupError(f"The device does not know of a segment at {wanted}.")

    def _uses(self) -> list[Use]:
        """Return what the block of each event is used for."""
        begun: dict[int, int] = {}
        found = [Use.EMPTY] * len(self._events)
        for at, (time, action, address, _size) in enumerate(self._events):
            if action == "alloc":
                begun[address] = at
            elif action == "free_completed" and address in begun:
                start = begun.pop(address)
                begin = _at(self._stages, self._events[start][0])
                found[start] = _freed(begin, _at(self._stages, time))
        for start in begun.values():
            time, _action, _address, size = self._events[start]
            found[start] = self._kept(_at(self._stages, time), size)
        return found

    def _kept(self, begin: FilmStage, size: int) -> Use:
        if begin in _LOADED:
            return Use.WEIGHTS
        if begin is FilmStage.KV_CACHE and size > _TABLE:
            return Use.KV_CACHE
        is_graph = begin is FilmStage.CAPTURING and self._has_graphs
        return Use.GRAPHS if is_graph else Use.BUFFERS


def _freed(begin: FilmStage, end: FilmStage) -> Use:
    """Return the use of a block that is freed: weights until they are repacked."""
    is_repacked = begin is FilmStage.LOADING and end is not FilmStage.LOADING
    is_loaded = begin in _LOADED and end not in _LOADED
    return Use.WEIGHTS if is_repacked or is_loaded else Use.TEMPORARY


def _at(changes: Sequence[tuple[int, _Value]], time: int) -> _Value:
    """Return what the last change before a time made of it."""
    place = bisect_right(changes, time, key=lambda one: one[0])
    return changes[max(place - 1, 0)][1]


def filmed(run: DryRun, packed: str) -> DryRun:
    """Return a dry run with the film of what was recorded of it."""
    recorded = json.loads(zlib.decompress(base64.b64decode(packed)))
    driver = run.driver[0] if run.driver else DriverMemory()
    total, is_cold = run.gpu.total_memory_bytes, run.measurement.is_compile_cache_cold
    used = total - (run.gpu.free_memory_bytes or total)
    is_eager = bool(run.engine_args.get("enforce_eager"))
    reel = Reel(recorded, used + driver.outside_bytes, has_graphs=not is_eager)
    frames = tuple(reel.frames())
    # As a plan takes it.
    cache = {} if is_cold is None else {"compile_cache": "cold" if is_cold else "warm"}
    film = Film(
        **facts_of(
            run.measurement,
            run.ranks[0] if run.ranks else None,
            {**run.engine_args, **cache},
        ),
        model=run.model,
        gpu=run.gpu.name,
        source=DRY,
        total_bytes=total,
        frames=frames,
        lines=placed(frames, reel.said()),
    )
    return replace(run, film=film.thinned())
