"""Which of vLLM's checks stopped a start, and its arithmetic with the text's figures.

Everything here comes from the text alone: it also holds for a model that is not known.

Source: vLLM 0.33.0 `v1/worker/utils.py` request_memory, `v1/core/kv_cache_utils.py`
check_enough_kv_cache_memory, `v1/worker/gpu_model_runner.py` _dummy_sampler_run,
`v1/worker/gpu_worker.py` determine_available_memory, `config/compilation.py`
resolve_cudagraph_mode_and_sizes, `config/model.py` get_and_verify_max_len; earlier
releases likewise. PyTorch 2.9
`c10/cuda/CUDACachingAllocator.cpp`; Linux 6 `mm/oom_kill.c`; Kubernetes 1.34.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from planner.confirming.log import Allocation, LogReading, allocation_in
from planner.reading.logs.checks import Check, Failure, Row, StartStage, check_table
from planner.units import GIB, MIB, format_gib, format_size

_CONTEXT_BYTES = GIB
"""A process's CUDA context and NCCL's buffers take less: more is another program's."""
_WORTH_NAMING_BYTES = 64 * MIB
_MOST_NOT_TORCH_BYTES = 8 * GIB
"""CUDA, NCCL and what kernels keep take less: more is another program's."""
_LAST = 4_000
"""Characters at a text's end that may have the cause."""


def failure_of(log: LogReading, text: str) -> Failure | None:
    """Return why the start that wrote a log stopped; None if it did not.

    Args:
        log: its reading.
        text: the text itself, or the part of it that was read.
    """
    error = log.later_error if log.started else log.error
    if error is None and log.started is not False:
        return None
    words = error or text[-_LAST:]
    check = _check(words)
    if check is Check.OTHER and log.figures.get("available_kv_gib", 1) <= 0:
        check = Check.NO_KV  # what the text shows ends before the error
    if check in (Check.ALLOCATION, Check.CUDA) and not log.started:
        check = _phase(text) or check
    if check is Check.NCCL:
        words = text[-_LAST:]
    failed = allocation_in(text) if check in _OF_ALLOCATION else None
    row = check_table()[check]
    if check in _OF_ALLOCATION:
        arithmetic, missing = _allocation(failed)
    elif check in _ARITHMETIC:
        arithmetic, missing = _ARITHMETIC[check](log, words)
    else:
        numbers = row.numbers_in(words)
        arithmetic = (row.arithmetic.format(**numbers),) if numbers else ()
        missing = None
    return Failure(
        check=check,
        stage=_stage(log, row, text),
        sentence=row.sentence,
        arithmetic=arithmetic,
        others=tuple(_others(log, failed)),
        hints=(*row.hints, *_allocation_hints(failed)),
        missing_bytes=missing,
    )


def _check(words: str) -> Check:
    for row in check_table().values():
        if row.sign and re.search(row.sign, words):
            return row.check
    return Check.OTHER


def _phase(text: str) -> Check | None:
    """Return the check in whose functions an allocation failed, the innermost first."""
    rows = (row for row in check_table().values() if row.phase)
    return next((row.check for row in rows if re.search(row.phase, text)), None)


def _stage(log: LogReading, row: Row, text: str) -> StartStage:
    if log.started:
        return StartStage.SERVING
    if row.stage is not None:
        return row.stage
    if "kv_tokens" in log.figures or "num_gpu_blocks" in log.figures:
        return StartStage.CAPTURE
    if "weights_gib" in log.figures:
        return StartStage.PROFILE
    is_loading = re.search(
        r"Starting to load model|load_model|Loading safetensors", text
    )
    return StartStage.LOADING if is_loading else StartStage.UNKNOWN


_Arithmetic = tuple[tuple[str, ...], int | None]


def _free_memory(log: LogReading, _words: str) -> _Arithmetic:
    total, free = _gib(log, "total_gpu_gib"), _gib(log, "free_at_start_gib")
    wanted = _gib(log, "requested_gib")
    share = log.setting.shown.get("gpu_memory_utilization")
    if not total or free is None or wanted is None:
        return (), None
    product = f"{share} x {format_gib(total)} = " if share else ""
    return (
        f"Budget: {product}{format_gib(wanted)}. Free: {format_gib(free)}. "
        f"Short of it: {format_gib(wanted - free)}.",
        f"The largest gpu_memory_utilization that passes is {_down(free / total)} "
        f"({format_gib(free)} / {format_gib(total)}).",
    ), wanted - free


def _down(share: float) -> str:
    return f"{int(share * 100) / 100:.2f}"


def _account(log: LogReading, _words: str = "") -> _Arithmetic:
    """Return the budget, what takes it, and what is left."""
    names = (
        ("weights_gib", "weights"),
        ("activation_gib", "peak activation"),
        ("non_torch_gib", "non-torch memory"),
        ("cudagraph_estimated_gib", "CUDA graphs (estimated)"),
    )
    taken = [
        f"{words} {format_gib(size)}"
        for name, words in names
        if (size := _gib(log, name)) is not None
    ]
    wanted, left = _requested(log), _gib(log, "available_kv_gib")
    begin = "" if wanted is None else f"Budget {format_gib(wanted)}. "
    uses = f"Taken: {', '.join(taken)}. " if taken else ""
    rest = "" if left is None else f"Left for the KV cache: {format_gib(left)}."
    sentence = f"{begin}{uses}{rest}".strip()
    return ((sentence,) if sentence else ()), (None if left is None else max(-left, 0))


def _requested(log: LogReading) -> int | None:
    wanted, total = _gib(log, "requested_gib"), _gib(log, "total_gpu_gib")
    share = log.setting.shown.get("gpu_memory_utilization")
    if wanted is None and total is not None and isinstance(share, float):
        return int(share * total)
    return wanted


def _max_model_len(log: LogReading, words: str) -> _Arithmetic:
    needed, left = _gib(log, "needed_kv_gib"), _gib(log, "available_kv_gib")
    length = re.search(r"max seq len \((\d+)\)", words)
    tokens = re.search(r"stored in KV cache \((\d+)\)", words)
    if tokens is not None and length is not None:
        return (
            f"One request: {int(length[1]):,} tokens. The KV cache holds "
            f"{int(tokens[1]):,}: {int(length[1]) - int(tokens[1]):,} too few.",
        ), None
    if needed is None or left is None:
        return _account(log)
    found = [
        f"One request{f' of {int(length[1]):,} tokens' if length else ''} needs "
        f"{format_gib(needed)}. Available: {format_gib(left)}. Short: "
        f"{format_gib(needed - left)}."
    ]
    if length is not None and needed > 0 and int(length[1]):
        each = needed / int(length[1])
        found.append(
            f"That is {format_size(round(each))} for each token and GPU; "
            f"{format_gib(left)} hold about {int(left / each):,} tokens."
        )
    most = log.figures.get("estimated_max_len")
    if most:
        found.append(
            f"vLLM's own estimate of the longest that starts: {most:,} tokens."
        )
    return tuple(found), needed - left


def _allocation(failed: Allocation | None) -> _Arithmetic:
    if failed is None or failed.tried_bytes is None:
        return (), None
    if failed.free_bytes is None:
        return (f"It tried to allocate {format_size(failed.tried_bytes)}.",), None
    whole = f" of {format_gib(failed.total_bytes)}" if failed.total_bytes else ""
    short = failed.tried_bytes - failed.free_bytes
    found = [
        f"It tried to allocate {format_size(failed.tried_bytes)}; "
        f"{format_size(failed.free_bytes)}{whole} were free. Short: "
        f"{format_size(max(short, 0))}."
    ]
    parts = (
        ("allocated by PyTorch", failed.torch_bytes),
        ("of that in private pools, as of CUDA graphs", failed.graphs_bytes),
        ("reserved by PyTorch but unallocated", failed.reserved_bytes),
        ("other memory of this process (CUDA, NCCL, kernels)", _not_torch(failed)),
    )
    held = [f"{format_size(size)} {words}" for words, size in parts if size]
    if held:
        found.append(f"This process held {', '.join(held)}.")
    return tuple(found), max(short, 0)


def _not_torch(failed: Allocation) -> int | None:
    if failed.in_use_bytes is None or failed.torch_bytes is None:
        return None
    rest = failed.in_use_bytes - failed.torch_bytes - (failed.reserved_bytes or 0)
    return max(rest, 0)


def _mamba(log: LogReading, words: str) -> _Arithmetic:
    asked = re.search(r"max_num_seqs \((\d+)\)", words)
    blocks, had = log.figures.get("mamba_blocks"), _gib(log, "available_kv_gib")
    if asked is None or not blocks:
        return (), None
    wanted = int(asked[1])
    missing = None if had is None else round(had * (wanted / blocks - 1))
    more = "" if missing is None else f" That many more take {format_gib(missing)}."
    return (
        f"Sequences at once: {wanted:,}. Blocks: {blocks:,}, {wanted - blocks:,} too "
        f"few.{more}",
    ), missing


def _neighbour(log: LogReading, _words: str) -> _Arithmetic:
    before, after = _gib(log, "free_at_start_gib"), _gib(log, "free_after_profile_gib")
    if before is None or after is None:
        return (), None
    return (
        f"Free before the model was loaded: {format_gib(before)}. Free with it: "
        f"{format_gib(after)}, {format_gib(after - before)} more, and what vLLM took.",
    ), None


def _nccl(_log: LogReading, words: str) -> _Arithmetic:
    """Return what NCCL says below its "Last error:"."""
    told = re.search(r"Last error:\s*(.+)", words)
    found = [] if told is None else [f"NCCL's last error: {told[1].strip()}"]
    if re.search(r"/dev/shm|shared memory segment", words):
        found.append(
            "The container's shared memory, /dev/shm, is full: docker gives 64 MiB."
        )
    return tuple(found), None


_OF_ALLOCATION = (Check.ALLOCATION, Check.WARM_UP, Check.GRAPHS, Check.CUDA)
_ARITHMETIC: Mapping[Check, Callable[[LogReading, str], _Arithmetic]] = {
    Check.FREE_MEMORY: _free_memory,
    Check.NO_KV: _account,
    Check.MAX_MODEL_LEN: _max_model_len,
    Check.MAMBA: _mamba,
    Check.NEIGHBOUR: _neighbour,
    Check.NCCL: _nccl,
}


def _others(log: LogReading, failed: Allocation | None) -> Iterator[str]:
    """Yield what else was on the GPU."""
    yield from _taken_meanwhile(log)
    total, free = _gib(log, "total_gpu_gib"), _gib(log, "free_at_start_gib")
    if total is not None and free is not None and total - free > _CONTEXT_BYTES:
        yield (
            f"{format_gib(total - free)} of {format_gib(total)} were taken when vLLM "
            "started: other programs, such as an earlier vLLM that still runs. "
            "`nvidia-smi` lists them."
        )
    if failed is None:
        return
    for process, size in failed.others:
        yield f"Process {process}, which is not this one, held {format_size(size)}."
    whole, left, own = failed.total_bytes, failed.free_bytes, failed.in_use_bytes
    if failed.others or whole is None or left is None or own is None:
        return
    if whole - left - own > _WORTH_NAMING_BYTES:
        yield f"Other programs held {format_size(whole - left - own)} of the GPU."


def _taken_meanwhile(log: LogReading) -> Iterator[str]:
    """Yield which figure shows that another program took or freed memory meanwhile."""
    (hint,) = check_table()[Check.NEIGHBOUR].hints
    consumed, weights = _gib(log, "consumed_gib"), _gib(log, "weights_gib")
    rest = _gib(log, "non_torch_gib")
    if rest is None and consumed is not None and weights is not None:
        rest = consumed - weights
    peak = _gib(log, "activation_gib")
    if rest is not None and rest > _MOST_NOT_TORCH_BYTES:
        yield (
            f"Non-torch memory of {format_gib(rest)} is more than CUDA and NCCL take: "
            f"another program took memory while vLLM profiled. {hint}"
        )
    for size, name in ((rest, "Non-torch memory"), (peak, "A peak activation")):
        if size is not None and size < -_WORTH_NAMING_BYTES:
            yield (
                f"{name} of {format_gib(size)} cannot be: another program freed memory "
                f"while vLLM profiled. {hint}"
            )


def _allocation_hints(failed: Allocation | None) -> Iterator[str]:
    if failed is None:
        return
    tried, reserved = failed.tried_bytes, failed.reserved_bytes
    if tried is not None and reserved is not None and reserved >= tried:
        yield (
            f"{format_size(reserved)} were reserved but unallocated, more than was "
            "asked for: fragments. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
            "lets PyTorch join them."
        )
    if failed.others:
        yield "End the other processes, or start vLLM on a GPU that is empty."


def _gib(log: LogReading, name: str) -> int | None:
    """Return a size of the log; of the peak, without the graphs that it may include."""
    derived = {
        "total_gpu_gib": log.total_gib,
        "activation_gib": log.peak_activation_gib,
    }
    gib = derived.get(name, log.figures.get(name))
    return None if gib is None else round(gib * GIB)
