"""The arithmetic of each figure of a bound, in words."""

from __future__ import annotations

from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import NULL_BLOCKS, Serving
from planner.solve.speed.speed import SpeedBound
from planner.solve.speed.step import Peaks, Seen, Step, decode_step, kv_bytes
from planner.solve.speed.work import Work
from planner.units import counted, format_gib, format_size

_TERA = 10**12
_BILLION = 10**9


def seconds_text(seconds: float) -> str:
    """Write a time with three significant digits, and whole seconds.

    >>> seconds_text(0.00689), seconds_text(2.5), seconds_text(1234.5)
    ('6.89 ms', '2.50 s', '1,234 s')
    """
    return f"{_digits(seconds)} s" if seconds >= 10 else _below_ten(seconds)  # noqa: PLR2004


def _digits(number: float) -> str:
    """Write a number with three significant digits, and never with an exponent.

    >>> _digits(0.1314), _digits(2910.4)
    ('0.131', '2,910')
    """
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"  # noqa: PLR2004


def _below_ten(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def active(work: Work) -> str:
    """Explain the active parameters."""
    return (
        f"{work.active_parameters / _BILLION:,.2f} billion in the matrix products of "
        "the layers and the LM head; of routed experts those that a token is sent to, "
        "of embeddings none"
    )


def weights(work: Work, requests: int) -> int:
    """Return the weight bytes that a rank of the largest stage reads in a step."""
    return int(max(stage.weight_bytes(requests) for stage in work.stages))


def weights_why(work: Work, expected: Work) -> str:
    """Explain which weights a step reads on one rank, at least."""
    at = max(range(len(work.stages)), key=lambda at: work.stages[at].dense_bytes)
    stage = expected.stages[at]
    parts = [f"{format_gib(stage.dense_bytes)} that every step reads"]
    parts += [
        f"{format_gib(int(e.touched_bytes(1)))} of {format_gib(e.size_bytes)} experts: "
        f"{e.top_k} of {e.num_experts}, as if all tokens chose the same"
        for e in stage.experts
    ]
    return " + ".join(parts)


def kv(work: Work, seen: Seen) -> int:
    """Return the KV cache and states read for a request on the fullest rank."""
    return int(max(kv_bytes(stage, seen) for stage in work.stages))


def kv_why(work: Work, load: Load, seen: Seen) -> str:
    """Explain the KV cache read for one request, averaged over its answer."""
    stage = max(work.stages, key=lambda stage: kv_bytes(stage, seen))
    parts = [
        f"{counted(round(seen(layers.reach)), 'tokens')} x "
        f"{format_size(int(layers.token_bytes))}"
        + (f" (at most {layers.reach.limit:,} back)" if layers.reach.limit else "")
        for layers in stage.attention
        if layers.token_bytes
    ]
    state = sum(layers.state_bytes for layers in stage.attention)
    parts += [f"{format_size(state)} of states read and written"] if state else []
    return (
        f"{' + '.join(parts) or 'nothing is kept'}; mean of {load.mean_prompt:,} to "
        f"{counted(load.mean_prompt + load.mean_output, 'tokens')}"
    )


def step_why(step: Step, plan: Plan, requests: int) -> str:
    """Explain the time of a decode step."""
    stages = f", {len(step.moved)} stages" if len(step.moved) > 1 else ""
    return f"a step of {counted(requests, 'requests')}{stages}: {_both(step, plan)}"


def _both(step: Step, plan: Plan) -> str:
    moved = sum(step.moved)
    reading = (
        f"{format_gib(int(moved))} / {step.peaks.bandwidth / _BILLION:,.0f} GB/s = "
        f"{seconds_text(step.memory_seconds)}"
    )
    computing = step.compute_seconds
    if computing is None:
        return f"{reading}; computing: no peak of {plan.gpu.name} is known"
    total = sum(count for flops in step.flops for count in flops.values())
    dtypes = dict.fromkeys(name for flops in step.flops for name in flops)
    peaks = " and ".join(
        f"{(step.peaks.peak(name) or 0) / _TERA:,.0f} TFLOP/s ({name})"
        for name in dtypes
    )
    return (
        f"{reading}; {_digits(total / _TERA)} TFLOP at {peaks} = "
        f"{seconds_text(computing)}; the longer counts"
    )


def prefill_why(step: Step, plan: Plan, load: Load, cached_tokens: int) -> str:
    """Explain the time of a prompt."""
    found = f", of which {cached_tokens:,} are in the cache" if cached_tokens else ""
    return (
        f"a prompt of {counted(load.mean_prompt, 'tokens')} alone{found}: "
        f"{_both(step, plan)}"
    )


def request_why(bound: SpeedBound) -> str:
    """Explain the time of a request."""
    more = max(bound.load.mean_output - 1, 0)
    return (
        f"{seconds_text(bound.prefill_at_least_seconds)} + "
        f"{counted(more, 'more tokens')} x "
        f"{seconds_text(bound.decode_at_least_seconds)}"
    )


def rate_why(bound: SpeedBound) -> str:
    """Explain the tokens per second of a request."""
    return f"1 / {seconds_text(bound.decode_at_least_seconds)}"


def total_why(bound: SpeedBound) -> str:
    """Explain the tokens per second of all requests."""
    return (
        f"{counted(bound.requests, 'requests')} / "
        f"{seconds_text(bound.requests / bound.total_at_most_tokens_per_second)}"
    )


def holds_why(served: Serving) -> str:
    """Explain the number of requests that the KV cache holds."""
    if served.held is None:
        return "nothing of a request is stored between steps"
    shared = served.shared_blocks
    if not served.blocks_per_request:
        return "there is no KV cache"
    once = f" - {shared:,} shared" if shared else ""
    text = (
        f"({counted(served.num_blocks, 'blocks')} at the low end of the estimate - "
        f"{NULL_BLOCKS} that stays empty{once}) / {served.blocks_held - shared:,} per "
        "request, rounded down"
    )
    replicas = served.plan.engines
    return text if replicas == 1 else f"{text}, x {counted(replicas, 'replicas')}"


def ridge_why(
    work: Work, peaks: Peaks, bound: SpeedBound, seen: Seen, shared_tokens: int
) -> str:
    """Explain from where on computing takes longer than reading."""
    ridge = bound.compute_limits_from
    if bound.limited_first_by == "unknown":
        return "not known without the GPU's peak"
    if ridge is None:
        return (
            "never: for every extra request, reading its KV cache takes longer than "
            "computing"
        )
    step = decode_step(work, peaks, ridge, seen, shared_tokens)
    return (
        f"at {counted(ridge, 'requests')} computing takes "
        f"{seconds_text(step.compute_seconds or 0.0)}, reading "
        f"{seconds_text(step.memory_seconds)}"
    )
