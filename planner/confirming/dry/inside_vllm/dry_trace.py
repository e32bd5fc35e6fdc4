"""What is alive at the peak of the profile run, by the line of code that allocated it.

PyTorch's allocator records each allocation with its Python stack. Played again, the
events say when the most bytes were in use, and which were.
"""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import Any

from offline import report

_MOST_EVENTS = 10_000_000
_LIBRARIES = ("/torch/", "/triton/", "/contextlib.py", "<frozen", "<string>")


def watch(runner: Any) -> None:
    """Trace the next profile run of a model runner."""
    import torch

    memory, profile = torch.cuda.memory, runner.profile_run

    def profile_run(*args: Any, **kwargs: Any) -> Any:
        memory._record_memory_history(max_entries=_MOST_EVENTS, stacks="python")
        try:
            return profile(*args, **kwargs)
        finally:
            traces = memory._snapshot()["device_traces"]
            memory._record_memory_history(enabled=None)
            report("trace", alive=alive_at_peak(next(filter(None, traces), [])))

    runner.profile_run = profile_run


def alive_at_peak(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is in use when most is: bytes, count and place, the largest first.

    Blocks of before the first event are not among them.
    """
    alive: dict[int, dict[str, Any]] = {}
    used = most = 0
    moment: list[dict[str, Any]] = []
    is_over = False  # the peak is copied when the first block after it is freed
    for event in events:
        if event["action"] == "alloc":
            alive[event["addr"]] = event
            used += event["size"]
            is_over = is_over or used > most
            most = max(most, used)
        elif event["action"] == "free_completed":
            if is_over:
                moment, is_over = list(alive.values()), False
            used -= alive.pop(event["addr"], {"size": 0})["size"]
    if is_over:
        moment = list(alive.values())
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for event in moment:
        place = _place(event.get("frames") or [])
        sizes[place] += event["size"]
        counts[place] += 1
    return [
        {"size_bytes": size, "count": counts[place], "place": place}
        for place, size in sizes.most_common()
    ]


def _place(frames: list[dict[str, Any]]) -> str:
    """Return the innermost line outside of PyTorch, and the one of a model's class."""
    own = [one for one in frames if not any(x in one["filename"] for x in _LIBRARIES)]
    if not own:
        return "unknown"
    of_models = [one for one in own[1:] if "/models/" in one["filename"]]
    return " < ".join(map(_line, [own[0], *of_models[:1]]))


def _line(frame: dict[str, Any]) -> str:
    parts = PurePath(frame["filename"]).parts
    start = len(parts) - 1 - parts[::-1].index("vllm") if "vllm" in parts else -1
    return f"{'/'.join(parts[start:])}:{frame['line']} {frame['name']}"
