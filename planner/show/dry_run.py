"""A dry run: what vLLM said, rank by rank, beside the estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.confirmation import bars_html, compared, meaning
from planner.show.confirmation_text import NOTHING as UNKNOWN
from planner.show.confirmation_text import sized
from planner.show.sheet import Answer, Apart, Group, Listing, Part, Sheet, Table
from planner.units import GIB, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.confirming.confirmation import Confirmation
    from planner.confirming.dry.result import DryRun
    from planner.confirming.measurement import MeasuredLine, WorkerFigures

_COLUMNS = (
    "Rank",
    ("Weights", "pl-number"),
    ("Stays allocated", "pl-number"),
    ("Peak activation", "pl-number"),
    ("KV cache", "pl-number"),
)
_OUTCOMES = {
    True: ("fits", "✔", "Starts"),
    False: ("short", "✘", "Does not start"),
    None: ("tight", "?", "Not decided"),
}
"""Classes of the style sheet, symbols and headlines."""
_MOST_ALIVE = 30
_SAME_BYTES = GIB // 100
"""The digits of a log; a difference below them is not explained."""
_KV_CACHE = "KV cache"
_OF_DRIVER = ("non-torch", "CUDA graphs")
"""Lines in which the driver allocates memory, which a dry run only assumes."""
_ABOUT = (
    "vLLM itself measured this on a simulated GPU, with random weights. Memory that "
    "PyTorch allocates is exact to the byte; memory of the driver is assumed"
)


def sheet(run: DryRun) -> Sheet:
    """Say whether vLLM started, what it measured, and what was estimated."""
    return Sheet(
        (answer(run), *ranks(run), _alive(run), about(run), *_beside(run)),
    )


def answer(run: DryRun) -> Answer:
    """Say whether vLLM started, and its error where there was one."""
    tone, symbol, words = _OUTCOMES[run.started]
    release = f"vLLM {run.measurement.vllm_version}"
    return Answer(
        tone=tone,
        symbol=symbol,
        headline=words,
        subject=f"{run.model} on {run.gpu.name}: {release}'s own start without a GPU",
        sentence=_sentence(run),
        said=run.refused or "",
        is_verdict=True,
    )


def _alive(run: DryRun) -> Table:
    """Say what is in use at the first rank's peak, the largest first."""
    rest = run.alive[_MOST_ALIVE:]
    rows = [
        (one.place, f"{one.count:,}", format_size(one.size_bytes))
        for one in run.alive[:_MOST_ALIVE]
    ]
    if rest:
        size = format_size(sum(one.size_bytes for one in rest))
        rows.append((f"{len(rest):,} more lines", "", size))
    columns = ("Allocated by", ("Blocks", "pl-number"), ("Size", "pl-number"))
    return Table("Alive at the first rank's peak", columns, rows, is_folded=True)


def apart_part(dry: Confirmation, confirmation: Confirmation) -> Part:
    """Say how a dry run differs from the measurement of the same plan, and why."""
    if not (dry.measurement.lines and confirmation.measurement.lines):
        return None
    agreed = f"Each line that both have is the same to {sized(_SAME_BYTES)}."
    differing = list(apart(dry, confirmation)) or [agreed]
    parts = (Listing(differing, "Dry run and measurement", look="pl-reasons"),)
    return Group(parts, look="pl-meaning")


def apart(dry: Confirmation, confirmation: Confirmation) -> Iterator[str]:
    """Yield a sentence for each line of memory that differs, before the KV cache."""
    found = {line.name: line for line in dry.measurement.lines}
    for line in confirmation.measurement.lines:
        other = found.get(line.name)
        if other is None or line.name == _KV_CACHE:
            continue
        difference = line.size_bytes - other.size_bytes
        if abs(difference) >= _SAME_BYTES:
            more = "more" if difference > 0 else "less"
            yield (
                f"{line.name}: {sized(abs(difference))} {more} on the device than in "
                f"the dry run{_why_apart(line, dry, confirmation)}."
            )


def _why_apart(
    line: MeasuredLine, dry: Confirmation, confirmation: Confirmation
) -> str:
    if any(name in _OF_DRIVER for name in line.covers):
        return ", which only assumes the driver's memory"
    caches = {one.measurement.is_compile_cache_cold: one for one in (dry, confirmation)}
    if line.name == "peak activation" and caches.keys() == {True, False}:
        cold = "the dry run" if caches[True] is dry else "the other start"
        return f"; {cold} had a cold compile cache"
    return ""


def about(run: DryRun) -> str:
    """State what is vLLM's own, and what was assumed."""
    if not run.driver:
        return f"{_ABOUT} to be nothing."
    first = run.driver[0]
    return (
        f"{_ABOUT}: {sized(first.non_torch_bytes)} non-torch, "
        f"{sized(first.cudagraph_bytes)} CUDA graphs."
    )


def _sentence(run: DryRun) -> str:
    measured = run.measurement
    if run.fault is not None:
        return (
            f"the dry run itself failed, which is no answer of vLLM: {run.fault}. "
            "Please report it, with its log."
        )
    if run.started is None:
        return "the run ended before vLLM did."
    if not run.started:
        return f"vLLM ended after {measured.seconds:,.0f} s."
    if measured.num_gpu_blocks is None or not measured.kv_cache_size_tokens:
        return f"ready after {measured.seconds:,.0f} s."
    length = measured.engine.max_model_len
    of_length = f" of {length:,} tokens" if length else ""
    return (
        f"{measured.num_gpu_blocks:,} KV cache blocks, "
        f"{measured.kv_cache_size_tokens:,} tokens, "
        f"{measured.max_concurrency or 0:,.2f}x{of_length}, after "
        f"{measured.seconds:,.0f} s."
    )


def _cells(worker: WorkerFigures) -> tuple[str, ...]:
    weights, consumed = worker.weights_bytes, worker.consumed_bytes
    has_rest = weights is not None and consumed is not None
    figures = (
        weights,
        (consumed or 0) - (weights or 0) if has_rest else worker.non_torch_bytes,
        worker.peak_activation_bytes,
        worker.available_kv_cache_bytes,
    )
    written = (UNKNOWN if one is None else sized(one) for one in figures)
    return (f"Rank {worker.rank}", *written)


def ranks(run: DryRun) -> tuple[Table, Table]:
    """Say what vLLM measured on each rank; nothing where it did not come so far."""
    cold = () if run.cold is None else run.cold.workers
    return (
        _rank_table("What vLLM measured, rank by rank", run.ranks),
        _rank_table("With a cold compile cache", cold),
    )


def _rank_table(caption: str, workers: Sequence[WorkerFigures]) -> Table:
    return Table(
        caption, _COLUMNS, list(map(_cells, workers)), look="pl-lines pl-stacked"
    )


def unplanned(run: DryRun) -> Listing:
    """Say why there is no estimate."""
    return Listing((f"There is no estimate: {run.unplanned}", *run.notes))


def _beside(run: DryRun) -> tuple[Part, ...]:
    found = run.confirmation
    if found is None:
        return (unplanned(run),)
    return (Apart(html=bars_html(found)), compared(found), meaning(found))
