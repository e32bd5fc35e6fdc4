"""Write docs/memory-model.md and its picture: vLLM's memory account, with figures.

    python tools/memory_model.py

The text is tools/memory_model/page.md, Markdown with Jinja's braces. Every figure in
braces is computed by the planner, so that the page says what the planner says today; a
test compares the page with what this writes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2  # comes with Jupyter

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import planner  # noqa: E402
from planner.engine.releases import NEWEST  # noqa: E402
from planner.memory.account import Line  # noqa: E402
from planner.memory.estimate import RankMemory  # noqa: E402
from planner.models.caches import AttentionLayer  # noqa: E402
from planner.planning.result import Plan  # noqa: E402
from planner.units import format_gib, format_size  # noqa: E402
from tools.memory_picture import NOT_ASKED, picture  # noqa: E402

SOURCE = ROOT / "tools" / "memory_model" / "page.md"
PAGE = ROOT / "docs" / "memory-model.md"
PICTURE = ROOT / "docs" / "images" / "memory-model.svg"
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
_RELEASES = ("0.11.2", "0.16.0", "0.19.1", "0.20.2", "0.26.0", "0.28.0", NEWEST)
_REQUESTS = (1024, 512, 256, 64, 16)
_LENGTHS = (131_072, 32_768, 8192, 2048)
_RANKS = (1, 2, 4, 8)
_LONG = 32_768
_MODELS = (
    MODEL,
    "google/gemma-3-27b-it",
    "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V2-Lite-Chat",
    "Qwen/Qwen3.5-9B",
)
_KEPT = {
    "FullAttentionSpec": "every token",
    "SlidingWindowSpec": "a window of tokens",
    "MLAAttentionSpec": "one vector for each token",
    "MambaSpec": "a state",
}
_LINES = (
    *("weights", "persistent buffers", "peak activation"),
    *("non-torch", "CUDA graphs", "KV cache"),
)


def pages() -> dict[Path, str]:
    """Return each file that is written, with its text."""
    plan = planner.plan(MODEL, gpu="H100")
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # the text is ours, and Markdown is no HTML
        keep_trailing_newline=True,
    )
    text = environment.from_string(SOURCE.read_text(encoding="utf-8"))
    return {PAGE: text.render(_figures(plan)), PICTURE: picture(plan)}


def _figures(plan: Plan) -> dict[str, Any]:
    """Return what the text can name in braces."""
    rank, total = _rank(plan), plan.gpu.total_memory_bytes
    return {
        "plan": plan,
        "small": plan.changed(gpu="L4"),
        "total": total,
        "requested": rank.requested_memory_bytes,
        "rest": total - rank.requested_memory_bytes,
        "kv": rank.available_kv_cache_bytes,
        "long": _LONG,
        "gib": format_gib,
        "gb": lambda size_bytes: f"{size_bytes / 10**9:.0f}",
        "bare": _bare,
        "number": lambda value: f"{value:,}",
        "percent": lambda share: f"{share:.0%}".replace("%", " %"),
        "line": lambda plan, name: _rank(plan).line(name).size_bytes,
        "why": lambda plan, name: _rank(plan).line(name).why,
        "tokens_in": _tokens_in,
        "alt": _alt,
        "account": _account,
        "beside": _beside,
        "by_requests": _by_requests,
        "by_length": _by_length,
        "by_model": _by_model,
        "by_ranks": _by_ranks,
        "by_release": _by_release,
        "block_sum": _block_sum,
    }


def _rank(plan: Plan) -> RankMemory:
    rank = plan.limiting_rank
    if rank is None:
        raise ValueError(f"{plan.name} is refused: {plan.error}")
    return rank


def _bare(size_bytes: int) -> str:
    """Write GiB for a column whose head names the unit."""
    return format_gib(size_bytes).removesuffix(" GiB")


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _rows(rows: Iterable[Sequence[object]]) -> str:
    return "\n".join(map(_row, rows))


def _tokens_in(plan: Plan, size_bytes: int) -> int:
    """Return how many tokens a part of the KV cache holds."""
    return size_bytes // _rank(plan).bytes_per_block * plan.kv_groups[0].block_size


def _alt(plan: Plan) -> str:
    """Say what the picture shows; the table under it says the same."""
    lines = [f"{one.name} {format_gib(one.size_bytes)}" for one in _rank(plan).lines]
    rest = plan.gpu.total_memory_bytes - _rank(plan).requested_memory_bytes
    return (
        f"Bar of {format_gib(plan.gpu.total_memory_bytes)}: {', '.join(lines)}, "
        f"{NOT_ASKED} {format_gib(rest)}; below it the small parts, enlarged"
    )


def _account(plan: Plan) -> str:
    rank, total = _rank(plan), plan.gpu.total_memory_bytes
    rest = total - rank.requested_memory_bytes
    rows = [(one.name, one.size_bytes, _known(one)) for one in rank.lines]
    return _rows(
        (name, _bare(size), f"{100 * size / total:.1f} %", known)
        for name, size, known in [
            *rows,
            ("= requested", rank.requested_memory_bytes, ""),
            (NOT_ASKED, rest, ""),
            ("= the card", total, str(plan.gpu.total_basis)),
        ]
    )


def _beside(plan: Plan) -> str:
    """Return what lies beside the budget, and what stays free, as a list."""
    found = _rank(plan).outside
    rest = plan.gpu.total_memory_bytes - _rank(plan).requested_memory_bytes
    free = rest - sum(one.high_bytes for one in found)
    items = [f"- {one.name}: {_span(one)} ({one.basis})" for one in found]
    return "\n".join([*items, f"- what stays, at least: {format_gib(free)}"])


def _known(line: Line) -> str:
    """Write how a line is known, and its range where it has one."""
    is_exact = line.low_bytes == line.high_bytes
    return str(line.basis) if is_exact else f"{line.basis}, {_span(line)}"


def _span(line: Line) -> str:
    """Write a line's range, or its size where it has none."""
    if line.low_bytes == line.high_bytes:
        return format_size(line.size_bytes)
    return f"{format_gib(line.low_bytes)} to {format_gib(line.high_bytes)}"


def _sizes(plan: Plan, names: Sequence[str]) -> list[str]:
    return [_bare(_rank(plan).line(name).size_bytes) for name in names]


def _by_requests(plan: Plan) -> str:
    names = ("persistent buffers", "peak activation", "CUDA graphs", "KV cache")
    return _rows(
        [f"{count:,}", *_sizes(plan.changed(max_num_seqs=count), names)]
        for count in _REQUESTS
    )


def _by_length(plan: Plan) -> str:
    return _rows(
        (f"{length:,}", f"{plan.changed(max_model_len=length).max_concurrency:,.1f}")
        for length in _LENGTHS
    )


def _by_model() -> str:
    rows = []
    for model in _MODELS:
        plan = planner.plan(model, gpu="H100", max_model_len=_LONG)
        taken = plan.blocks_per_request * _rank(plan).bytes_per_block
        rows.append((model, _kept(plan), _bare(taken)))
    return _rows(rows)


def _kept(plan: Plan) -> str:
    """Say what the layers keep, such as "every token (12), a window of tokens (12)"."""
    counts: Counter[str] = Counter()
    for group in plan.kv_groups:
        counts[_KEPT[group.kind]] += group.num_layers
    return ", ".join(f"{kept} ({count})" for kept, count in sorted(counts.items()))


def _by_ranks(plan: Plan) -> str:
    names = ("weights", "persistent buffers", "peak activation", "non-torch",
             "KV cache")  # fmt: skip
    rows = []
    for ranks in _RANKS:
        cut = plan.changed(tensor_parallel_size=ranks)
        rows.append([ranks, *_sizes(cut, names), f"{cut.kv_cache_size_tokens:,}"])
    return _rows(rows)


def _by_release(plan: Plan) -> str:
    """Return the whole account of each release, so that every row adds up."""
    rows = []
    for release in _RELEASES:
        then = plan.changed(vllm_version=release)
        asked = _bare(_rank(then).requested_memory_bytes)
        rows.append([release, asked, *_sizes(then, _LINES)])
    return _rows(rows)


def _block_sum(plan: Plan) -> str:
    """Work out a block, the number of blocks and of tokens.

    Raises:
        TypeError: for a model that keeps anything but keys and values.
        ValueError: where the sum is not what the planner counts.
    """
    rank, (group,) = _rank(plan), plan.kv_groups
    (cache,) = plan.model.cache_layers if plan.model else ()
    if not isinstance(cache, AttentionLayer):
        raise TypeError("the page says keys and values")
    one = group.block_size * 2 * cache.num_kv_heads * cache.head_size * 2
    if one * group.num_layers != rank.bytes_per_block:
        raise ValueError("a block is not what the page says")
    return (
        f"{group.num_layers} layers x {group.block_size} tokens x 2 (key and value) x "
        f"{cache.num_kv_heads} KV heads x {cache.head_size} values x 2 bytes = "
        f"{rank.bytes_per_block:,} bytes a block; {rank.available_kv_cache_bytes:,} / "
        f"{rank.bytes_per_block:,} = {rank.num_blocks:,} blocks, or "
        f"{rank.num_blocks * group.block_size:,} tokens"
    )


def main() -> int:
    """Write the page and its picture; the result is the exit status."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
