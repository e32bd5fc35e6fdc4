"""A load and whether it is served, in words, from the figures of its plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.memory.estimate import RankMemory
from planner.planning.load import Load
from planner.planning.result import Alternative, Plan
from planner.planning.serving import NULL_BLOCKS, Serving
from planner.units import counted, format_gib

_OF_LENGTH = ("max_model_len", "too_close", "no_kv")


def holds(serving: Serving) -> str:
    """Write the figures with which a plan serves its load."""
    if not serving.blocks_per_request:
        return "vLLM starts, and stores nothing between steps that could fill up"
    return f"{_taken(serving)} blocks; {_blocks(serving)}"


def fails(serving: Serving) -> str:
    """Write what prevents a plan from serving its load."""
    plan, error = serving.plan, serving.plan.error
    if error is None and not serving.admits:
        return _not_admitted(serving)
    if error is not None and error.kind == "no_kv" and not serving.num_blocks:
        return _nothing_left(plan)
    is_short = serving.held is not None and serving.held < serving.share
    if is_short and (error is None or error.kind in _OF_LENGTH):
        close = error is not None and error.kind == "too_close"
        ending = ": too close to call" if close else ""
        return f"{_taken(serving)} blocks, but only {_blocks(serving)}{ending}"
    if error is None:
        return "it is served"
    if error.kind == "weights":
        message = error.message.rstrip(".)")
        return f"vLLM says: {message}{')' if '(' in message else ''}"
    return f"vLLM says: {first_sentence(error.message)}"


def _not_admitted(serving: Serving) -> str:
    resolved = serving.plan.resolved
    length = 0 if resolved is None else resolved.max_model_len
    seqs = 0 if resolved is None else resolved.max_num_seqs
    if length < serving.load.request_tokens:
        return (
            f"max_model_len={length:,} is shorter than a request of "
            f"{counted(serving.load.request_tokens, 'tokens')}"
        )
    return (
        f"max_num_seqs={seqs:,} lets vLLM work on {counted(seqs, 'requests')} at once, "
        f"not on {serving.share:,}{_each(serving)}"
    )


def first_sentence(message: str) -> str:
    """Return the first sentence of a message, without its full stop."""
    first, _, _ = message.partition(". ")
    return first.rstrip(".")


def load_text(load: Load) -> str:
    """Write a load.

    >>> load_text(Load(prompt_tokens=3000, output_tokens=1096, requests=16))
    '16 requests of 4,096 tokens'
    """
    return f"{counted(load.requests, 'requests')} of {length_text(load)}"


def load_flags(load: Load) -> str:
    """Write a load as flags of the planner's commands.

    >>> load_flags(Load(prompt_tokens=3000, output_tokens=96))
    '--prompt-tokens 3000 --output-tokens 96 --requests 1'
    """
    parts = load.to_dict().items()
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in parts)


def length_text(load: Load) -> str:
    """Write the length of a load's requests, and what they share.

    >>> load = Load(prompt_tokens=3000, output_tokens=96, shared_prefix_tokens=2000)
    >>> length_text(load)
    '3,096 tokens, 2,000 of them shared'
    """
    parts = [counted(load.request_tokens, "tokens")]
    if load.has_mean:
        parts.append(f"{load.held_tokens:,} held on average")
    if load.shared_prefix_tokens:
        parts.append(f"{load.shared_prefix_tokens:,} of them shared")
    return ", ".join(parts)


def served_length(serving: Serving) -> str:
    """Write the length of a load's requests, and why nothing of them is shared."""
    load, plan = serving.load, serving.plan
    if serving.shared_blocks or not load.shared_prefix_tokens:
        return length_text(load)
    if plan.resolved is not None and not plan.resolved.enable_prefix_caching:
        why = "prefix caching is off"
    elif plan.shared_prefix is None:
        why = "vLLM may evict the windows or states of a prefix"
    else:
        why = f"a block has {plan.shared_prefix.unit_tokens:,} tokens"
    alone = replace(load, shared_prefix_tokens=0)
    return f"{length_text(alone)}, nothing shared ({why})"


def either(parts: Sequence[str]) -> str:
    """Join alternatives: "a, b or c"."""
    *others, last = parts
    return f"{', '.join(others)} or {last}" if others else last


def _blocks(serving: Serving) -> str:
    """Write the blocks of a KV cache, and how they are computed."""
    plan = serving.plan
    rank = low_rank(plan)
    number = f"{serving.num_blocks:,} are available"
    if rank is None or plan.settings.num_gpu_blocks_override is not None:
        return number
    left = rank.available_kv_cache_low_bytes
    end = ""
    if left != rank.available_kv_cache_high_bytes:
        end = " at the low end of the estimate"
    return (
        f"{number} ({left:,} bytes = {format_gib(left)}{end} / "
        f"{rank.bytes_per_block:,} per block)"
    )


def _taken(serving: Serving) -> str:
    share, shared = serving.share, serving.shared_blocks
    once = f"{shared:,} (shared) + " if shared else ""
    return (
        f"{counted(share, 'requests')} of {served_length(serving)}"
        f"{_each(serving)} {'needs' if share == 1 else 'need'} {once}{share:,} x "
        f"{serving.blocks_held - shared:,} + {NULL_BLOCKS} (stays empty) = "
        f"{serving.needed_blocks:,}"
    )


def _each(serving: Serving) -> str:
    number = serving.plan.engines
    return f" on each of {number} copies" if number > 1 else ""


def _nothing_left(plan: Plan) -> str:
    rank = low_rank(plan)
    left = 0 if rank is None else rank.available_kv_cache_low_bytes
    if left < 0:
        return (
            f"{format_gib(-left)} are missing before the KV cache gets anything, at "
            "the "
            "low end of the estimate"
        )
    return (
        f"{format_gib(left)} would be left for the KV cache at the low end of the "
        "estimate"
    )


def low_rank(plan: Plan) -> RankMemory | None:
    """Return the rank with the fewest blocks at the low end of the range."""
    holders = [rank for rank in plan.ranks if rank.bytes_per_block]
    return min(
        holders,
        key=lambda rank: rank.available_kv_cache_low_bytes // rank.bytes_per_block,
        default=None,
    )


def where(plan: Plan) -> str:
    """Name the model, the GPUs and the release of a plan."""
    number = f"{plan.gpus_total} x " if plan.gpus_total > 1 else ""
    return f"{plan.name} on {number}{plan.gpu.name} (vLLM {plan.vllm_version})"


def wanted_text(load: Load | None) -> str:
    """Write the requested load; without one, what vLLM needs to start."""
    return "one request of max_model_len tokens" if load is None else load_text(load)


_OTHERWISE = {
    ("compile_cache", "cold"): ("First start", "while it compiles the model"),
    ("compile_cache", "warm"): ("Later starts", "with the model compiled"),
    ("sampler", "flashinfer"): ("With FlashInfer", "where it is installed"),
    ("sampler", "pytorch"): ("Without FlashInfer", "where it is not installed"),
}


def otherwise(one: Alternative) -> dict[str, str]:
    """Return an alternative's name, its KV cache as text, and what that holds."""
    name, when = _OTHERWISE[one.argument, one.value]
    tokens = f"{max(one.kv_cache_size_tokens, 0):,} tokens"
    planned = ", as planned here" if one.is_planned else ""
    short = "" if one.starts else ": too little for one request"
    return {
        "name": name,
        "text": format_gib(one.available_kv_cache_bytes),
        "detail": f"of KV cache, {tokens}, {when}{planned}{short}",
    }
