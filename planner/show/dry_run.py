"""A dry run as text and as HTML: what vLLM said, rank by rank, beside the estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.confirmation import bars_html, comparison_html, meaning_html
from planner.show.confirmation_text import NOTHING as UNKNOWN
from planner.show.confirmation_text import comparison_lines, sized
from planner.show.html import Html, fragment, tag
from planner.show.page import whole
from planner.show.pieces import (
    NOTHING,
    listed,
    quoted,
    row,
    sentence,
    table,
    verdict_box,
)
from planner.show.terminal import legible
from planner.units import GIB, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.confirming.confirmation import Confirmation
    from planner.confirming.dry.result import DryRun
    from planner.confirming.measurement import MeasuredLine, WorkerFigures

_COLUMNS = ("Rank", "Weights", "Stays allocated", "Peak activation", "KV cache")
_NUMBERS = tuple((column, "pl-number") for column in _COLUMNS[1:])
_MOST_ALIVE = 30
_SAME_BYTES = GIB // 100
"""The digits of a log; a difference below them is not explained."""
_KV_CACHE = "KV cache"
_OF_DRIVER = ("non-torch", "CUDA graphs")
"""Lines in which the driver allocates memory, which a dry run only assumes."""
_ABOUT = (
    "vLLM itself measured this on a GPU that is not there, with random weights. What "
    "PyTorch allocates is exact to the byte; memory of the driver is assumed"
)


@legible
def dry_run_text(run: DryRun) -> str:
    """Write the run for a terminal."""
    _tone, symbol, words = _outcome(run)
    parts = [_title(run), f"{symbol} {words}: {_sentence(run)}"]
    if run.refused:
        parts.append(f"vLLM said: {run.refused}")
    parts += ["", _text_row(_COLUMNS), *map(_text_row, map(_cells, run.ranks))]
    if run.cold is not None:
        parts += ["With a cold compile cache:"]
        parts += [*map(_text_row, map(_cells, run.cold.workers))]
    parts += _alive_lines(run)
    parts += ["", about(run)]
    if run.confirmation is not None:
        parts += ["", "Beside the estimate:", *comparison_lines(run.confirmation)]
    elif run.unplanned:
        parts += ["", f"There is no estimate: {run.unplanned}"]
    parts += [f"Note: {note}" for note in run.notes]
    return "\n".join(parts)


def _alive_lines(run: DryRun) -> list[str]:
    """Return what is in use at the first rank's peak, the largest first."""
    if not run.alive:
        return []
    shown = run.alive[:_MOST_ALIVE]
    rest = sum(one.size_bytes for one in run.alive[_MOST_ALIVE:])
    lines = [
        f"  {format_size(one.size_bytes):>11} {one.count:>4} x {one.place}"
        for one in shown
    ]
    if rest:
        lines.append(f"  {format_size(rest):>11} in {len(run.alive) - len(shown)} more")
    return ["", "Alive at the first rank's peak:", *lines]


def dry_run_html(run: DryRun) -> Html:
    """Show the run in one self-contained piece; needs no script."""
    return whole(
        verdict_html(run),
        ranks_html(run),
        tag("p", about(run)),
        _beside_html(run),
    )


def verdict_html(run: DryRun) -> Html:
    """Show whether vLLM started, in words, and its error where there was one."""
    tone, symbol, words = _outcome(run)
    verdict = verdict_box(
        tone,
        sentence(_sentence(run)),
        subject=_title(run),
        symbol=symbol,
        headline=words,
    )
    return fragment(verdict, quoted("vLLM said", run.refused) if run.refused else None)


def headline(run: DryRun) -> str:
    """Say in two or three words whether vLLM started."""
    return _outcome(run)[2]


def apart_html(dry: Confirmation, confirmation: Confirmation) -> Html:
    """Show how a dry run differs from the measurement of the same plan, and why."""
    if not (dry.measurement.lines and confirmation.measurement.lines):
        return NOTHING
    differing = list(apart(dry, confirmation))
    agreed = tag("p", f"Each line that both have is the same to {sized(_SAME_BYTES)}.")
    return tag(
        "div",
        tag("h3", "Dry run and measurement"),
        listed(differing, "pl-reasons") if differing else agreed,
        class_="pl-meaning",
    )


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


def _title(run: DryRun) -> str:
    version = run.measurement.vllm_version
    return f"{run.model} on {run.gpu.name}: vLLM {version}'s own start without a GPU"


def _outcome(run: DryRun) -> tuple[str, str, str]:
    """Return a class of the style sheet, a symbol and a headline."""
    if run.started is None:
        return "tight", "?", "Not decided"
    return ("fits", "✔", "Starts") if run.started else ("short", "✘", "Does not start")


def _sentence(run: DryRun) -> str:
    measured = run.measurement
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
    return (str(worker.rank), *written)


def _text_row(texts: tuple[str, ...]) -> str:
    rank, *figures = texts
    return f"  {rank:<6}" + "".join(f"{text:>17}" for text in figures)


def ranks_html(run: DryRun) -> Html:
    """Show what vLLM measured on each rank; nothing where it did not come so far."""
    cold = () if run.cold is None else run.cold.workers
    return fragment(
        _rank_table("What vLLM measured, rank by rank", run.ranks),
        _rank_table("With a cold compile cache", cold),
    )


def _rank_table(caption: str, workers: Sequence[WorkerFigures]) -> Html:
    if not workers:
        return NOTHING
    rows = (
        row(f"Rank {name}", *map(_figure, _COLUMNS[1:], figures))
        for name, *figures in map(_cells, workers)
    )
    return table(caption, (_COLUMNS[0], *_NUMBERS), rows, "pl-lines pl-stacked")


def _figure(column: str, text: str) -> Html:
    return tag("td", text, class_="pl-number", data_label=column)


def _beside_html(run: DryRun) -> Html | None:
    if run.confirmation is None:
        return listed([f"There is no estimate: {run.unplanned}", *run.notes])
    return fragment(
        bars_html(run.confirmation),
        comparison_html(run.confirmation),
        meaning_html(run.confirmation),
    )
