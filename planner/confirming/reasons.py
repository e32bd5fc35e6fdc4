"""Why a measurement may differ from its estimate, told from what is known of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.confirming.confirmation import ComparisonRow
from planner.confirming.measurement import Measurement
from planner.result import Outcome, Plan
from planner.units import MIB, format_gib, format_size

_SAME_TOTAL_BYTES = 64 * MIB
_COLD = (
    "vLLM compiled the model anew in this start: what the compiler leaves behind "
    "counts as used. Start again with the warm cache to see the difference."
)
# By the first line that a measured figure covers.
_BY_LINE = {
    "weights": (
        "vLLM stored the weights in another way than planned: a kernel that repacks "
        "them, tied or padded tensors, or a quantization chosen while loading."
    ),
    "persistent buffers": (
        "it holds what depends on the machine: kernels that are loaded, buffers of "
        "NCCL, packages such as FlashInfer that are installed or not, and memory that "
        "other programs took meanwhile."
    ),
    "non-torch": (
        "it holds what PyTorch does not know of: kernels, buffers of NCCL, and memory "
        "that other programs took meanwhile."
    ),
    "peak activation": (
        "the peak depends on the kernels that vLLM chose: the sampler (FlashInfer or "
        "not), the experts' kernel, and on what the compiler fused."
    ),
    "CUDA graphs": (
        "the trial capture measures a part of the graphs only and scales it, and the "
        "driver rounds what they take."
    ),
}


def reasons(
    plan: Plan, measurement: Measurement, rows: Sequence[ComparisonRow]
) -> tuple[str, ...]:
    """Return sentences, the likeliest reason first; none where all is as planned."""
    return tuple(
        dict.fromkeys(
            (
                *_outcome_reasons(plan, measurement),
                *_release_reasons(plan, measurement),
                *_setting_reasons(rows),
                *_device_reasons(plan, measurement),
                *_line_reasons(rows),
                *_silent_reasons(rows),
                *_cache_reasons(measurement, rows),
            )
        )
    )


def _outcome_reasons(plan: Plan, measurement: Measurement) -> Iterator[str]:
    if measurement.is_started is None or plan.outcome is Outcome.TOO_CLOSE:
        return
    if measurement.is_started and plan.error is not None:
        yield f"The plan expected vLLM to refuse: {plan.error.message}"
    elif not measurement.is_started and plan.error is None:
        yield f"vLLM did not start: {measurement.error or 'its log names no error'}"


def _release_reasons(plan: Plan, measurement: Measurement) -> Iterator[str]:
    if measurement.vllm_version not in (None, plan.vllm_version):
        yield (
            f"Another release: measured with vLLM {measurement.vllm_version}, planned "
            f"for {plan.vllm_version}. Plan with "
            f'vllm_version="{measurement.vllm_version}".'
        )


def _setting_reasons(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    for row in rows:
        if row.basis == "exact" and row.unit != "bytes" and row.is_inside is False:
            yield (
                f"Another setting: vLLM resolved {row.name} to {row.measured:,}, the "
                f"plan to {row.estimated:,}; memory follows it."
            )


def _device_reasons(plan: Plan, measurement: Measurement) -> Iterator[str]:
    for worker in measurement.workers:
        total, free = worker.total_memory_bytes, worker.free_at_start_bytes
        if total is None:
            continue
        apart = total - plan.gpu.total_memory_bytes
        if abs(apart) > _SAME_TOTAL_BYTES:
            yield (
                f"Another total: this GPU has {format_gib(total)}, the planned one "
                f"{format_gib(plan.gpu.total_memory_bytes)}. Plan with "
                'gpu="attached".'
            )
        rank = plan.limiting_rank
        held = sum(line.high_bytes for line in rank.outside) if rank else 0
        if free is not None and total - free > held + _SAME_TOTAL_BYTES:
            yield (
                f"Other programs held {format_gib(total - free - held)} or more of "
                f"the GPU when vLLM started; what they took or gave back while it "
                "measured counts as its own."
            )


def _line_reasons(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    """Explain the account's lines that lie outside their range, the largest first."""
    outside = [
        row
        for row in rows
        if row.unit == "bytes" and row.is_inside is False and row.name != "KV cache"
    ]
    for row in sorted(outside, key=lambda row: -abs(row.difference or 0)):
        difference = int(row.difference or 0)
        more = "more" if difference > 0 else "less"
        why = _BY_LINE.get(row.name.split(" + ")[0], "")
        size = format_size(abs(difference))
        yield f"{row.name}: {size} {more} than estimated{': ' * bool(why)}{why}"


def _silent_reasons(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    """Say where a log tells too little to name the line that differs."""
    told = [row for row in rows if row.unit == "bytes" and row.measured is not None]
    if [row.name for row in told] == ["KV cache"] and told[0].is_inside is False:
        yield (
            "The log tells the KV cache alone, not the lines that leave it, nor "
            "perhaps the arguments: give those that were typed. With "
            "VLLM_LOGGING_LEVEL=DEBUG vLLM logs its whole account."
        )


def _cache_reasons(
    measurement: Measurement, rows: Sequence[ComparisonRow]
) -> Iterator[str]:
    is_off = any(row.unit == "bytes" and row.is_inside is False for row in rows)
    if measurement.is_compile_cache_cold and is_off:
        yield _COLD
