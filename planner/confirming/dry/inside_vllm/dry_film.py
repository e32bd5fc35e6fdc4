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
from collections.abc import Callable, Iterator
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
_REPACKING, _ON_TRIAL = "repacking", "measuring graphs"
_TALKS_OF_THE_PROFILE = "vllm.v1.worker.gpu_worker"
"""It logs the profile's result at DEBUG."""

_marks: list[tuple[int, str, str]] = []
"""Time in microseconds, stage and line; one of the two is empty."""


_limits: list[tuple[int, int]] = []
"""From which time on the allocator splits no blocks of so many bytes; 0: it splits all.

Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` _scoped_allocator_max_split.
"""


def mark(stage: str, line: str = "") -> None:
    """Note that a stage begins, or that a line was logged."""
    _marks.append((_now(), stage, line))


def _now() -> int:
    return time.time_ns() // 1000


class _Lines(logging.Handler):
    """Notes each line that vLLM logs, when it does."""

    def emit(self, record: logging.LogRecord) -> None:
        mark("", record.getMessage())


def watch(worker: Any, graphs_bytes: Any) -> None:
    """Film the first rank of a class of workers.

    Args:
        worker: vLLM's class.
        graphs_bytes: of a worker, what its CUDA graphs are expected to take. A driver's
            share of it counts when they are captured, and no sooner than vLLM logged
            PyTorch's.
    """
    for method, stage in _STAGES.items():
        _in_stage(worker, method, stage)
    if hasattr(worker, "_scoped_allocator_max_split"):
        _watch_limits(worker)
    begin, capture = worker.init_device, worker.compile_or_warm_up_model

    @functools.wraps(begin)
    def init_device(self: Any) -> Any:
        if self.rank:
            return begin(self)
        _roll()
        result = begin(self)
        estimate = getattr(self.model_runner, "profile_cudagraph_memory", None)
        if estimate is not None:
            self.model_runner.profile_cudagraph_memory = _on_trial(estimate)
        return result

    @functools.wraps(capture)
    def compile_or_warm_up_model(self: Any) -> Any:
        import torch

        before, _total = torch.cuda.mem_get_info()
        result = capture(self)
        after, _total = torch.cuda.mem_get_info()
        more = graphs_bytes(self) - (before - after)
        if graphs_bytes(self) and more > 0:
            _core().device_charge(ctypes.c_int64(more))
        return result

    worker.init_device = init_device
    worker.compile_or_warm_up_model = compile_or_warm_up_model


@after_import("vllm.model_executor.model_loader.base_loader")
def _repacking(module: Any) -> None:
    """Weights are brought into the form of their kernels after they are loaded."""
    process = module.process_weights_after_loading

    @functools.wraps(process)
    def process_weights_after_loading(*args: Any, **kwargs: Any) -> Any:
        mark(_REPACKING)
        return process(*args, **kwargs)

    module.process_weights_after_loading = process_weights_after_loading


def develop() -> None:
    """Report what was recorded, once vLLM is ready."""
    import torch

    mark("ready")
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


def _on_trial(estimate: Callable[[], int]) -> Callable[[], int]:
    def profile_cudagraph_memory() -> int:
        mark(_ON_TRIAL)
        return estimate()

    return profile_cudagraph_memory


def _in_stage(worker: Any, name: str, stage: str) -> None:
    method = getattr(worker, name)

    @functools.wraps(method)
    def in_stage(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.rank == 0:
            mark(stage)
        return method(self, *args, **kwargs)

    setattr(worker, name, in_stage)


def _watch_limits(worker: Any) -> None:
    scoped = worker._scoped_allocator_max_split

    @contextmanager
    def noted(self: Any, max_split_size_mb: int) -> Iterator[None]:
        with scoped(self, max_split_size_mb=max_split_size_mb):
            _limits.append((_now(), max_split_size_mb << 20))
            yield
        _limits.append((_now(), 0))

    worker._scoped_allocator_max_split = noted


def _roll() -> None:
    import torch

    talks = logging.getLogger(_TALKS_OF_THE_PROFILE)
    talks.setLevel(logging.DEBUG)
    logging.getLogger("vllm").addHandler(_Lines())
    torch.cuda.memory._record_memory_history(context=None, max_entries=_MOST_EVENTS)


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
