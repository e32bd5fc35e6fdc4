"""The KV cache in detail: groups, blocks, and what one request costs."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from planner.units import format_gib, format_size

if TYPE_CHECKING:
    from planner.result import Plan

_LENGTHS = (1_024, 8_192, 32_768, 131_072)
_HEAD = (
    "<thead><tr><th scope='col'>Kind</th><th scope='col' class='pl-number'>Groups</th>"
    "<th scope='col' class='pl-number'>Layers in each</th>"
    "<th scope='col' class='pl-number'>Tokens per block</th>"
    "<th scope='col' class='pl-number'>One layer's block</th></tr></thead>"
)


def kv_cache_title(plan: Plan) -> str:
    """Say in a few words how large the KV cache is."""
    if plan.resolved is None:
        return "none"
    tokens = max(plan.kv_cache_size_tokens, 0)
    return f"{max(plan.num_gpu_blocks, 0):,} blocks, {tokens:,} tokens"


def kv_cache_html(plan: Plan) -> str:
    """Show the groups of layers, the arithmetic of the blocks, and costs by length."""
    rank = plan.limiting_rank
    if rank is None or plan.resolved is None or not plan.kv_groups:
        return "<p>vLLM keeps no KV cache for this plan.</p>"
    rows = "".join(
        f"<tr><th scope='row'>{escape(group.kind)}</th>"
        f"<td class='pl-number'>{len(list(alike))}</td>"
        f"<td class='pl-number'>{group.num_layers}</td>"
        f"<td class='pl-number'>{group.block_size:,}</td>"
        f"<td class='pl-number'>{format_size(group.page_size_bytes)}</td></tr>"
        for group, alike in groupby(plan.kv_groups)
    )
    steps = "".join(f"<li>{escape(step)}</li>" for step in _steps(plan))
    return (
        "<table class='pl-lines'><caption>Layers that share a block table, under "
        f"vLLM's names</caption>{_HEAD}<tbody>{rows}</tbody></table>"
        f"<ul class='pl-steps'>{steps}</ul>{_costs_html(plan)}"
        "<p class='pl-source'>Source: vLLM 0.33.0 <code>v1/core/kv_cache_utils.py"
        "</code>, <code>v1/kv_cache_interface.py</code></p>"
    )


def _steps(plan: Plan) -> list[str]:
    """Write how blocks, tokens and requests follow from each other."""
    rank, resolved = plan.limiting_rank, plan.resolved
    if rank is None or resolved is None:
        return []
    length = f"{resolved.max_model_len:,} tokens"
    asked = plan.settings.num_gpu_blocks_override
    blocks = (
        f"num_gpu_blocks_override = {asked:,} blocks of "
        f"{format_size(rank.bytes_per_block)} on each {plan.gpu.kind}"
        if asked is not None
        else f"{format_gib(rank.available_kv_cache_bytes)} / "
        f"{format_size(rank.bytes_per_block)} per block = {plan.num_gpu_blocks:,} "
        "blocks"
    )
    needed = format_gib(plan.blocks_per_request * rank.bytes_per_block)
    return [
        blocks,
        f"one request of {length} takes {plan.blocks_per_request:,} blocks = {needed}",
        f"vLLM logs {plan.max_concurrency:,.2f} requests of {length} at once, "
        f"{plan.kv_cache_size_tokens:,} tokens in all",
    ]


def costs(plan: Plan) -> list[tuple[int, int]]:
    """Return what one request costs per GPU in bytes, by its length in tokens.

    Each length is planned again: windows and states make the cost no straight line.
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


def _costs_html(plan: Plan) -> str:
    rows = "".join(
        f"<tr><th scope='row'>{length:,} tokens</th>"
        f"<td class='pl-number'>{format_size(size)}</td></tr>"
        for length, size in costs(plan)
    )
    return (
        "<table class='pl-lines pl-costs'><caption>What one request takes on each "
        f"{plan.gpu.kind}</caption><thead><tr><th scope='col'>Prompt and answer</th>"
        "<th scope='col' class='pl-number'>KV cache</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )
