"""The KV cache in detail, and the memory lines with optional weights shown apart.

The account has one line for all weights, as in vLLM's log. Adapters, a draft model and
encoders are optional, so a picture shows them beside the other weights.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from planner.show.html import Html, fragment, tag
from planner.show.sheet import Apart, Listing, Table, html_of
from planner.show.verdict import shown_lines, stores_nothing
from planner.units import counted, format_gib, format_size

if TYPE_CHECKING:
    from planner.memory.account import Line
    from planner.memory.estimate import RankMemory
    from planner.planning.result import Plan

_LENGTHS = (1_024, 8_192, 32_768, 131_072)
_FILES = fragment(
    tag("code", "v1/core/kv_cache_utils.py"),
    ", ",
    tag("code", "v1/kv_cache_interface.py"),
)
_GROUPS = "Layers that share a block table, under vLLM's names"
_COLUMNS = (
    "Kind",
    ("Groups", "pl-number"),
    ("Layers in each", "pl-number"),
    ("Tokens per block", "pl-number"),
    ("One layer's block", "pl-number"),
)
WEIGHTS = "weights"
MODEL_WEIGHTS = "model weights"
"""The weights without what is drawn apart of them."""
APART = frozenset({"encoder weights", "LoRA adapters", "draft model"})
"""Parts of the weights that are drawn apart."""


def kv_cache_title(plan: Plan) -> str:
    """State briefly how large the KV cache is."""
    if plan.resolved is None or stores_nothing(plan):
        return "none"
    whole = plan.all_engines
    blocks, tokens = whole.num_gpu_blocks, whole.kv_cache_size_tokens
    place = f" on {plan.engines} engines" if plan.engines > 1 else ""
    return (
        f"{counted(max(blocks, 0), 'blocks')}, "
        f"{counted(max(tokens, 0), 'tokens')}{place}"
    )


def kv_cache_html(plan: Plan) -> Html:
    """Show the groups of layers, the arithmetic of the blocks, and cost by length."""
    rank = plan.limiting_rank
    if rank is None or plan.resolved is None or not plan.kv_groups:
        return tag(
            "p",
            "No layer stores anything between steps, so vLLM allocates no KV cache.",
        )
    groups = [
        (
            group.kind,
            f"{len(list(alike))}",
            f"{group.num_layers}",
            f"{group.block_size:,}",
            format_size(group.page_size_bytes),
        )
        for group, alike in groupby(plan.kv_groups)
    ]
    sizes = [
        (counted(length, "tokens"), format_size(size)) for length, size in costs(plan)
    ]
    source = f"Source: vLLM {plan.vllm_version} "
    return html_of(
        (
            Table(_GROUPS, _COLUMNS, groups, look="pl-lines"),
            Listing(_steps(plan), look="pl-steps"),
            Table(
                f"What one request takes on each {plan.gpu.kind}",
                ("Prompt and answer", ("KV cache", "pl-number")),
                sizes,
                look="pl-lines pl-costs",
            ),
            Apart(html=tag("p", source, _FILES, class_="pl-source")),
        )
    )


def _steps(plan: Plan) -> list[str]:
    """Write how blocks, tokens and requests follow from each other."""
    rank, resolved = plan.limiting_rank, plan.resolved
    if rank is None or resolved is None:
        return []
    length = counted(resolved.max_model_len, "tokens")
    override = plan.settings.num_gpu_blocks_override
    blocks = (
        f"num_gpu_blocks_override = {counted(override, 'blocks')} of "
        f"{format_size(rank.bytes_per_block)} on each {plan.gpu.kind}"
        if override is not None
        else f"{format_gib(rank.available_kv_cache_bytes)} / "
        f"{format_size(rank.bytes_per_block)} per block = {plan.num_gpu_blocks:,} "
        "blocks"
    )
    needed = format_gib(plan.blocks_per_request * rank.bytes_per_block)
    whole = plan.all_engines
    together = [
        f"{plan.engines} engines hold {plan.engines} x {plan.max_concurrency:,.2f} = "
        f"{whole.max_concurrency:,.2f} of them, "
        f"{counted(whole.kv_cache_size_tokens, 'tokens')}"
    ]
    return [
        blocks,
        f"one request of {length} takes {counted(plan.blocks_per_request, 'blocks')} = "
        f"{needed}",
        f"vLLM logs {plan.max_concurrency:,.2f} requests of {length} at once, "
        f"{counted(plan.kv_cache_size_tokens, 'tokens')} in total",
        *(together if plan.engines > 1 else []),
    ]


def costs(plan: Plan) -> list[tuple[int, int]]:
    """Return the bytes of one request per GPU, by its length in tokens.

    Each length is planned separately: with windows and states the cost is not linear.
    """
    if plan.resolved is None:
        return []
    longest = plan.resolved.max_model_len
    lengths = [length for length in _LENGTHS if length < longest]
    shorter = [(length, plan.changed(max_model_len=length)) for length in lengths]
    return [
        (length, one.blocks_per_request * one.limiting_rank.bytes_per_block)
        for length, one in (*shorter, (longest, plan))
        if one.limiting_rank is not None
    ]


def parts_apart(rank: RankMemory) -> tuple[Line, ...]:
    """Return the weights as they are drawn; empty where they are one segment.

    The model's own weights come first, then each part that is drawn apart.
    """
    line = next((line for line in rank.lines if line.name == WEIGHTS), None)
    apart = [
        (part.name, part.size_bytes, "")
        for part in rank.weight_parts
        if part.name in APART and part.size_bytes > 0
    ]
    if line is None or not apart:
        return ()
    rest = line.size_bytes - sum(size for _, size, _ in apart)
    return tuple(
        replace(
            line,
            name=name,
            size_bytes=size,
            low_bytes=size,
            high_bytes=size,
            why=f"part of the weights, which are {format_gib(line.size_bytes)} in "
            f"total{detail}",
        )
        for name, size, detail in [(MODEL_WEIGHTS, rest, f": {line.why}"), *apart]
    )


def drawn_lines(rank: RankMemory) -> tuple[Line, ...]:
    """Return the lines of an account as they are drawn: the same sum, more segments."""
    apart = parts_apart(rank)
    lines = shown_lines(rank)
    if not apart:
        return lines
    return tuple(
        part for line in lines for part in (apart if line.name == WEIGHTS else (line,))
    )
