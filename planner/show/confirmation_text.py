"""The texts of a confirmation: its verdict, its figures, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show.sheet import Answer
from planner.show.verdict import subject
from planner.units import GIB, format_gib, format_size

if TYPE_CHECKING:
    from planner.confirming.confirmation import ComparisonRow, Confirmation, GivenMemory
    from planner.confirming.measurement import LoadFigures

NOTHING = "-"
"""Shown where a figure is not known."""
MAX_TOKENS_SHOWN = 16
_FINEST_IN_GIB = GIB // 100


def answer(confirmation: Confirmation) -> Answer:
    """Return the outcome in words, and vLLM's error where there was one."""
    symbol, tone, headline, sentence = _SHOWN[str(confirmation.outcome)]
    return Answer(
        tone=tone,
        symbol=symbol,
        headline=headline,
        subject=title(confirmation),
        sentence=sentence(confirmation),
        said=confirmation.measurement.error or "",
        is_verdict=True,
    )


def _confirmed(confirmation: Confirmation) -> str:
    if confirmation.measurement.is_started is False:
        return "vLLM did not start, as planned."
    compared = [row for row in confirmation.rows if row.is_inside is not None]
    if not compared:
        return "vLLM started, as planned."
    return (
        f"vLLM started, as planned; all {len(compared)} figures that were measured "
        "are in their range."
    )


def _off(confirmation: Confirmation) -> str:
    if confirmation.measurement.is_started is False:
        return "vLLM did not start, as planned, but for another reason."
    compared = [row for row in confirmation.rows if row.is_inside is not None]
    outside = [row.name for row in compared if not row.is_inside]
    return (
        f"{len(outside)} of {len(compared)} figures are outside their range: "
        f"{', '.join(outside)}."
    )


def _contradicted(confirmation: Confirmation) -> str:
    if confirmation.measurement.is_started:
        return "vLLM started, although the plan said that it would not."
    return "vLLM did not start, although the plan said that it would."


def _open(confirmation: Confirmation) -> str:
    is_started = confirmation.measurement.is_started
    if is_started is None:
        return "The start ended before it was decided."
    happened = "started" if is_started else "did not start"
    return f"The plan was too close to call; vLLM {happened}."


_SHOWN = {
    "confirmed": ("✔", "fits", "Confirmed", _confirmed),
    "off": ("!", "tight", "Result as planned, but some figures differ", _off),
    "contradicted": ("✘", "short", "Contradicted", _contradicted),
    "open": ("?", "tight", "Not decided", _open),
}


def measured_word(confirmation: Confirmation) -> str:
    """Name the column of what vLLM said of itself."""
    return "Dry run" if confirmation.measurement.is_dry else "Measured"


def title(confirmation: Confirmation) -> str:
    """Name what was planned, and the release of the plan."""
    plan = confirmation.plan
    return f"{subject(plan)}, planned for vLLM {plan.vllm_version}"


def sized(size_bytes: int, *, signed: bool = False) -> str:
    """Write bytes as GiB, or in a finer unit where two decimals would be too coarse.

    >>> sized(3 * GIB), sized(65536), sized(-GIB, signed=True), sized(512, signed=True)
    ('3.00 GiB', '64.0 KiB', '-1.00 GiB', '+512 B')
    """
    if size_bytes == 0 or abs(size_bytes) >= _FINEST_IN_GIB:
        return format_gib(size_bytes, signed=signed)
    sign = "+" if signed and size_bytes > 0 else ""
    return f"{sign}{format_size(size_bytes)}"


def figure_text(value: float | int | None, unit: str, *, signed: bool = False) -> str:
    """Write one figure in its unit."""
    if value is None:
        return NOTHING
    if unit == "bytes":
        return sized(round(value), signed=signed)
    sign = "+" if signed else ""
    if isinstance(value, float):
        return f"{value:{sign},.2f}"
    return f"{value:{sign},}"


def name_text(row: ComparisonRow) -> str:
    """Name a row, with its unit where that is not bytes and not in the name."""
    has_unit = row.unit == "bytes" or row.unit in row.name.lower()
    return row.name if has_unit else f"{row.name} ({row.unit})"


def range_text(row: ComparisonRow) -> str:
    """Write the range of an estimate; empty where it has none."""
    if row.low is None or row.high is None or row.low == row.high:
        return ""
    low = figure_text(row.low, row.unit)
    return f"{low} to {figure_text(row.high, row.unit)}"


def difference_text(row: ComparisonRow) -> str:
    """Write measured minus estimated with its sign; zero is written as a word."""
    if row.difference is None:
        return NOTHING
    if row.difference == 0:
        return "none"
    if row.is_rounded and row.unit == "bytes" and abs(row.difference) <= GIB // 200:
        return "none, as logged"
    return figure_text(row.difference, row.unit, signed=True)


def inside_text(row: ComparisonRow) -> str:
    """State by symbol and word whether the measured figure is in the range."""
    if row.is_inside is None:
        return NOTHING
    has_range = bool(range_text(row))
    if row.is_inside:
        return "✔ inside" if has_range else "✔ equal"
    return "✘ outside" if has_range else "✘ differs"


def given_text(given: GivenMemory, confirmation: Confirmation) -> str:
    """State what the plan computes from the memory that vLLM measured."""
    planned = (
        f"Given the {sized(given.available_kv_cache_bytes)} that vLLM measured for the "
        f"KV cache, the plan says {given.num_gpu_blocks:,} blocks, "
        f"{given.kv_cache_size_tokens:,} tokens and {given.max_concurrency:,.2f}x "
        "concurrency"
    )
    if given.error is not None:
        planned = f"{planned}, too little to start ({given.error})"
    if given.is_exact:
        return f"{planned}: exactly what vLLM says."
    measurement = confirmation.measurement
    measured = ", ".join(
        f"{figure_text(value, '')} {name}"
        for value, name in (
            (measurement.num_gpu_blocks, "blocks"),
            (measurement.kv_cache_size_tokens, "tokens"),
            (measurement.max_concurrency, "x concurrency"),
        )
        if value is not None
    ).replace(" x ", "x ")
    return f"{planned}; vLLM says {measured or 'nothing of them'}. They differ."


def served_text(confirmation: Confirmation) -> str:
    """State vLLM's answer to one prompt; empty when no prompt was sent."""
    tokens = confirmation.measurement.generated_tokens
    if not tokens:
        return ""
    shown = " ".join(str(token) for token in tokens[:MAX_TOKENS_SHOWN])
    more = " …" if len(tokens) > MAX_TOKENS_SHOWN else ""
    dummy = (
        " Dummy weights answer without sense."
        if confirmation.measurement.is_dummy
        else ""
    )
    count = "1 token" if len(tokens) == 1 else f"{len(tokens)} tokens"
    return f"It serves: one prompt was answered with {count} ({shown}{more}).{dummy}"


def load_text(load: LoadFigures, predicted: float) -> str:
    """Compare a load probe with the concurrency that the plan predicts."""
    length = load.prompt_tokens + load.output_tokens
    took = f" in {load.seconds:,.1f} s" if load.seconds else ""
    sent = (
        f"Load probe: {load.num_requests:,} requests of {load.prompt_tokens:,} + "
        f"{load.output_tokens:,} = {length:,} tokens at once; {load.num_finished:,} "
        f"finished{took}."
    )
    if not load.num_readings:
        return f"{sent} vLLM's metrics gave no figures: how many ran is not known."
    return (
        f"{sent} At most {load.peak_running:,} ran and "
        f"{load.peak_waiting:,} waited at the same time; the KV cache was "
        f"{load.peak_kv_cache_usage:.1%} full at its fullest; "
        f"{load.preemptions:,} preemptions. {_against(load, predicted)}"
    )


def _against(load: LoadFigures, predicted: float) -> str:
    plan = f"The plan has room for {predicted:,.2f} requests of max_model_len"
    was_full = load.preemptions > 0 or load.peak_waiting > 0
    if load.num_requests <= predicted:
        if load.preemptions:
            return f"{plan}, so no preemption was expected: it has less room."
        return f"{plan}, so no preemption was expected, and none came."
    if was_full:
        return f"{plan}, so not all could run at once, and not all did."
    return f"{plan}; these were shorter or ended sooner, so all ran at once."


def facts(confirmation: Confirmation) -> tuple[tuple[str, str], ...]:
    """List what was run, where and when, without unknown facts."""
    measurement = confirmation.measurement
    real = "real" if measurement.device_name else ""
    cache = {True: "cold: the model was compiled", False: "warm", None: ""}
    listed = (
        ("vLLM", measurement.vllm_version or ""),
        (
            "Stands for" if measurement.is_dry else "Device",
            " ".join(
                filter(None, (measurement.device_name, measurement.driver_version))
            ),
        ),
        ("Weights", "dummy" if measurement.is_dummy else real),
        ("Compile cache", cache[measurement.is_compile_cache_cold]),
        (
            "Ready after" if measurement.is_started else "Ended after",
            f"{measurement.seconds:,.0f} s" if measurement.seconds else "",
        ),
        ("Date", measurement.date),
    )
    return tuple((name, text) for name, text in listed if text)


def spoken(confirmation: Confirmation, dry: Confirmation | None = None) -> str:
    """Describe the picture for a screen reader: each bar, segment by segment.

    Args:
        confirmation: whose estimate and measurement are shown.
        dry: a dry run of the same plan, shown between the two.
    """
    rank = confirmation.plan.limiting_rank
    estimated = ", ".join(
        f"{line.name} {sized(line.size_bytes)}" for line in (rank.lines if rank else ())
    )
    shown = [f"Estimated: {estimated or 'nothing is allocated'}."]
    for one in (dry, confirmation):
        if one is not None:
            shown.append(f"{measured_word(one)}: {_spoken_lines(one)}.")
    return " ".join(shown)


def _spoken_lines(confirmation: Confirmation) -> str:
    lines = confirmation.measurement.lines
    return (
        ", ".join(f"{line.name} {sized(line.size_bytes)}" for line in lines)
        or "nothing"
    )


def cells(row: ComparisonRow) -> tuple[str, ...]:
    """Write a row of the comparison, in the order of the table's columns."""
    return (
        name_text(row),
        figure_text(row.estimated, row.unit),
        range_text(row),
        figure_text(row.measured, row.unit),
        difference_text(row),
        inside_text(row),
        row.basis,
    )
