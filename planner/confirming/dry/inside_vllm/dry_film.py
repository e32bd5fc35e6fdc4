"""The start on film: every allocation of a rank, with vLLM's stages and log lines.

PyTorch records its blocks and segments, the false GPU what it hands out, this module
when vLLM enters a stage and what it logs. They are reported as they are; the planner
makes the film of them (`planner/confirming/dry/reel.py`).
"""

from __future__ import annotations

import base64
import ctypes
import functools
import json
import logging
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dry_hooks import after_import
from offline import report

_MOST_EVENTS = 10_000_000
_ACTIONS = ("segment_alloc", "segment_free", "alloc", "free_completed")
_STAGES = {
    "init_device": "starting",
    "load_model": "loading weights",
    "determine_available_memory": "profiling",
    "initialize_from_config": "KV cache",
    "compile_or_warm_up_model": "capturing graphs",
}
"""What vLLM does in the methods of its worker."""
_TALKS_OF_THE_PROFILE = "vllm.v1.worker.gpu_worker"
"""It logs the profile's result at DEBUG."""

_marks: list[tuple[int, str, str]] = []
"""Time in microseconds, stage and line; one of the two is empty."""
_limits: list[tuple[int, int]] = []
"""From which time on no blocks of so many bytes are split; 0: all are.

Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` _scoped_allocator_max_split.
"""


def watch(worker: Any, graphs_bytes: Any) -> None:
    """Film the first rank of a class of workers.

    Args:
        worker: vLLM's class.
        graphs_bytes: of a worker, what its CUDA graphs are expected to take. The
            driver's share of it counts once vLLM has logged PyTorch's.
    """
    begin, capture = worker.init_device, worker.compile_or_warm_up_model

    def init_device(self: Any) -> Any:
        if self.rank == 0:
            _roll()
        result = begin(self)
        _mark_calls(self.model_runner, "profile_cudagraph_memory", "measuring graphs")
        return result

    def compile_or_warm_up_model(self: Any) -> Any:
        import torch

        before, _total = torch.cuda.mem_get_info()
        result = capture(self)
        taken = before - torch.cuda.mem_get_info()[0]
        if graphs_bytes(self) > taken:
            _core().device_charge(ctypes.c_int64(graphs_bytes(self) - taken))
        return result

    worker.init_device = init_device
    worker.compile_or_warm_up_model = compile_or_warm_up_model
    for method, stage in _STAGES.items():
        _mark_calls(worker, method, stage)
    if hasattr(worker, "_scoped_allocator_max_split"):
        _mark_limits(worker)


@after_import("vllm.model_executor.model_loader.base_loader")
def _repacking(module: Any) -> None:
    """Weights are brought into the form of their kernels after they are loaded."""
    _mark_calls(module, "process_weights_after_loading", "repacking")


def develop() -> None:
    """Report what was recorded, once vLLM is ready."""
    import torch

    _mark("ready")
    traces = torch.cuda.memory._snapshot()["device_traces"]
    recorded = {
        "marks": _marks,
        "limits": _limits,
        "events": [
            (one["time_us"], one["action"], one["addr"], one["size"])
            for one in next(filter(None, traces), [])
            if one["action"] in _ACTIONS
        ],
        "device": _changes(),
    }
    # A start that captures graphs has 300,000 events: one long line, packed.
    packed = zlib.compress(json.dumps(recorded).encode())
    report("film", packed=base64.b64encode(packed).decode())


class _Lines(logging.Handler):
    """Notes each line that vLLM logs, when it does."""

    def emit(self, record: logging.LogRecord) -> None:
        _mark("", record.getMessage())


def _roll() -> None:
    import torch

    logging.getLogger(_TALKS_OF_THE_PROFILE).setLevel(logging.DEBUG)
    logging.getLogger("vllm").addHandler(_Lines())
    torch.cuda.memory._record_memory_history(context=None, max_entries=_MOST_EVENTS)


def _now() -> int:
    return time.time_ns() // 1000


def _mark(stage: str, line: str = "") -> None:
    _marks.append((_now(), stage, line))


def _mark_calls(owner: Any, name: str, stage: str) -> None:
    """Let a function mark the begin of a stage, on the first rank."""
    function = getattr(owner, name, None)
    if function is None:
        return

    @functools.wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Any:
        if not getattr(args[0] if args else owner, "rank", 0):
            _mark(stage)
        return function(*args, **kwargs)

    setattr(owner, name, marked)


def _mark_limits(worker: Any) -> None:
    scoped = worker._scoped_allocator_max_split

    @contextmanager
    def noted(self: Any, max_split_size_mb: int) -> Iterator[None]:
        with scoped(self, max_split_size_mb=max_split_size_mb):
            _limits.append((_now(), max_split_size_mb << 20))
            yield
        _limits.append((_now(), 0))

    worker._scoped_allocator_max_split = noted


class _Change(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_int64), ("address", ctypes.c_int64))


def _changes() -> list[tuple[int, int]]:
    """Return what the false GPU handed out and took back: signed bytes, address."""
    core, found = _core(), ctypes.POINTER(_Change)()
    core.device_changes.restype = ctypes.c_size_t
    count = core.device_changes(ctypes.byref(found))
    return [(one.bytes, one.address) for one in found[:count]]


def _core() -> ctypes.CDLL:
    return ctypes.CDLL("libplannergpu.so", mode=ctypes.RTLD_GLOBAL)
