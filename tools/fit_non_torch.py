"""Fit memory that PyTorch does not allocate, and what is gone before vLLM starts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from planner.engine.generations import HOPPER, UNIFIED
from planner.engine.gpu import GPU
from planner.engine.releases.shared import SUBTRACTS_CONSUMED
from planner.memory.lines.outside import resident_threads
from planner.units import GIB
from tools.fitting import SOURCE, STRETCH, TWO, Sample, entry
from tools.starts import Start, gpu_of

# Less than nothing is left where a start ran something else than its record says: a
# FlashInfer that had been installed by hand samples with less memory, for one.
LEAST_LEFT_GIB = -0.2
# From this release on the whole drop in free memory is charged.
DROPS = (0, 27, 0)
# Contexts of other drivers differ by this much.
MARGIN = 1.2
UNIFIED_PARTS = ("unified memory, text only", "unified memory, with encoders")


def fit_non_torch(
    starts: Sequence[Start], records: Iterable[dict[str, Any]]
) -> dict[str, Any]:
    """Fit each part to the starts that have it and only parts fitted before."""
    parts: dict[str, Any] = {}
    found = [Sample(s, gib) for s in starts if (gib := left_gib(s)) is not None]
    left = [s for s in found if s.gib > LEAST_LEFT_GIB or is_unified(s.start)]
    for name, belongs in kinds():
        mine = [sample for sample in left if belongs(sample.start)]
        rest = [Sample(s.start, s.gib - known(s.start, parts, name)) for s in mine]
        if name == "start of NCCL, other":
            # Its buffers are in the host's memory, without peer access.
            rest = [Sample(s.start, max(0.0, s.gib)) for s in rest]
        parts[name] = entry(rest)
    spread_alike([parts[name] for name in UNIFIED_PARTS])
    gone = dict(gone_at_start(records))
    aside = {s.start.name: round(s.gib, 3) for s in found if s not in left}
    return {
        "parts": parts
        | {"CUDA context": context_of_h100(gone)}
        | fit_gone(starts, gone),
        "context": fit_context(gone),
        "set_aside": aside,
        "source": SOURCE,
    }


def kinds() -> list[tuple[str, Callable[[Start], bool]]]:
    """Name the parts in the order in which they are fitted."""

    def other(start: Start) -> bool:
        return is_bare(start) and start.capability != HOPPER

    return [
        ("modules, hopper", lambda s: is_bare(s) and s.capability == HOPPER),
        ("modules, other", lambda s: other(s) and s.number < DROPS),
        ("modules, other, 0.27 and later", lambda s: other(s) and s.number >= DROPS),
        ("graph profiling", is_profiled),
        *nccl_kinds(),
        ("start of NCCL, NVSwitch", lambda s: is_early(s) and has_switch(s)),
        ("start of NCCL, other", lambda s: is_early(s) and not has_switch(s)),
        (UNIFIED_PARTS[0], lambda s: is_unified(s) and not s.run.towers),
        (UNIFIED_PARTS[1], lambda s: is_unified(s) and bool(s.run.towers)),
    ]


def nccl_kinds() -> list[tuple[str, Callable[[Start], bool]]]:
    """Name what NCCL takes once it runs, by wires and number of ranks."""

    def runs(start: Start) -> bool:
        return start.ranks > 1 and not is_early(start) and not is_unified(start)

    return [
        (
            "NCCL, NVSwitch, two ranks",
            lambda s: runs(s) and has_switch(s) and s.ranks == TWO,
        ),
        (
            "NCCL, NVSwitch, more ranks",
            lambda s: runs(s) and has_switch(s) and s.ranks > TWO,
        ),
        ("NCCL, other", lambda s: runs(s) and not has_switch(s)),
    ]


def spread_alike(parts: Sequence[dict[str, Any]]) -> None:
    """Give parts that a machine's other programs decide one range, on either side.

    What those programs take and give back meanwhile belongs to neither kind of model:
    the few starts of one kind alone show less than what such machines do.
    """
    most = STRETCH * max(abs(gib) for part in parts for gib in part["starts"].values())
    for part in parts:
        part["low_gib"] = round(part["gib"] - most, 3)
        part["high_gib"] = round(part["gib"] + most, 3)


def known(start: Start, parts: dict[str, Any], name: str) -> float:
    """Return the parts of a start that were fitted before this one."""
    return sum(
        float(parts[part]["gib"])
        for part in start.part_names
        if part in parts and part != name
    )


def left_gib(start: Start) -> float | None:
    """Return what a start's log leaves for non-torch memory; None where it is silent.

    The log's own figure where it has one; else the budget less everything else. From
    0.27 on only where the log has the peak too: a warm compile cache makes it smaller.
    """
    if not start.is_usable:
        return None
    if start.logged("non_torch_gib") is not None:
        return float(start.measured["non_torch_gib"]) - start.fused_gib
    weights = start.logged("weights_gib") or start.line_gib("weights")
    kept = start.line_gib("persistent buffers") + start.fused_gib
    consumed = start.logged("consumed_weights_plus_nontorch_gib")
    if consumed is not None:
        return consumed - weights - kept
    kv = start.logged("available_kv_gib")
    if kv is None:
        return None
    peak = peak_and_graphs_gib(start)
    return None if peak is None else start.requested_gib - kv - weights - peak - kept


def peak_and_graphs_gib(start: Start) -> float | None:
    """Return what the peak and the estimate of graphs took; None where not known."""
    peak = start.logged("activation_gib")
    if start.run.release.has(SUBTRACTS_CONSUMED):
        # The logged peak holds the graphs.
        return peak if peak is not None or not is_unified(start) else planned(start)
    return planned(start)


def planned(start: Start) -> float:
    """Return the planned peak, with the graphs as logged or planned."""
    graphs = start.line_gib("CUDA graphs")
    if graphs:
        logged = start.logged("cudagraph_estimated_gib")
        graphs = graphs if logged is None else logged
    return start.line_gib("peak activation") + graphs


# Before vLLM's first look at the memory ----------------------------------------


def gone_at_start(
    records: Iterable[dict[str, Any]],
) -> Iterable[tuple[str, tuple[dict[str, Any], GPU, float]]]:
    """Yield the record, the GPU and total less free memory of those that tell both."""
    for record in records:
        total, free = (
            record.get("total_gpu_gib"),
            record["measured"].get("free_at_start_gib"),
        )
        gpu = gpu_of(record) if record["gpu"] else None
        if gpu is not None and total and free is not None:
            yield record["id"], (record, gpu, total - free)


def fit_context(gone: dict[str, tuple[dict[str, Any], GPU, float]]) -> dict[str, Any]:
    """Fit the context: so many bytes for each thread that the GPU can hold at once.

    Of each card the least counts: other programs only add to it.
    """
    found = {
        name: kept * GIB / resident_threads(gpu)
        for name, (record, gpu, kept) in gone.items()
        if not is_shared(gpu)
        and not record.get("is_under_wsl")
        and world_size(record) == 1
    }
    cards: dict[str, float] = {}
    for name, value in found.items():
        card = gone[name][1].name
        cards[card] = min(value, cards.get(card, value))
    middle = statistics.median(cards.values())
    return {
        "bytes_per_thread": round(middle),
        "low": round(min(cards.values()) / MARGIN),
        "high": round(max(cards.values()) * MARGIN),
        "cards": {card: round(value) for card, value in sorted(cards.items())},
        "starts": {name: round(value - middle) for name, value in found.items()},
    }


def context_of_h100(
    gone: dict[str, tuple[dict[str, Any], GPU, float]],
) -> dict[str, Any]:
    """Write the context of an H100, with the error of a card that is left out."""
    fit, threads = fit_context(gone), resident_threads(GPU.named("H100"))
    cards: dict[str, int] = fit["cards"]
    errors = []
    for card, each in cards.items():
        others = statistics.median(v for name, v in cards.items() if name != card)
        errors.append(abs(each - others) * resident_threads(GPU.named(card)) / GIB)
    return {
        "gib": round(fit["bytes_per_thread"] * threads / GIB, 3),
        "low_gib": round(fit["low"] * threads / GIB, 3),
        "high_gib": round(fit["high"] * threads / GIB, 3),
        "left_out_error_gib": round(statistics.fmean(errors), 3),
        "starts": fit["starts"],
    }


def fit_gone(
    starts: Sequence[Start], gone: dict[str, tuple[dict[str, Any], GPU, float]]
) -> dict[str, Any]:
    """Fit what is gone beside the context: NCCL's start, Windows, the system itself."""
    each = fit_context(gone)["bytes_per_thread"]
    beside = {
        name: kept - each * resident_threads(gpu) / GIB
        for name, (_record, gpu, kept) in gone.items()
    }
    spread = [s for s in starts if s.name in beside and s.start_is_beside_budget]
    switched = [s for s in spread if has_switch(s)]
    first = entry(
        [Sample(s, beside[s.name]) for s in switched if not s.run.model.is_moe]
    )
    return {
        "start of NCCL beside the budget": first,
        "start of NCCL beside the budget, other": of_machines(
            {s.name: beside[s.name] for s in spread if not has_switch(s)}
        ),
        "a further group of NCCL": of_machines(
            {
                s.name: beside[s.name] - first["gib"]
                for s in switched
                if s.run.model.is_moe
            }
        ),
        "Windows": of_machines(
            {n: beside[n] for n, (r, _g, _k) in gone.items() if r.get("is_under_wsl")}
        ),
        "other programs": of_programs(gone),
        "unified memory at start": of_machines(
            {n: kept for n, (_r, gpu, kept) in gone.items() if is_shared(gpu)}
        ),
    }


def of_machines(found: dict[str, float]) -> dict[str, Any]:
    """Write a part that is a machine's, not a model's: lower median and bounds."""
    middle = statistics.median_low(found.values())
    below = STRETCH * (middle - min(found.values()))
    above = STRETCH * (max(found.values()) - middle)
    return {
        "gib": round(middle, 3),
        "low_gib": round(max(0.0, middle - below), 3),
        "high_gib": round(middle + above, 3),
        "left_out_error_gib": None,
        "starts": {name: round(gib - middle, 3) for name, gib in found.items()},
    }


def of_programs(
    gone: dict[str, tuple[dict[str, Any], GPU, float]],
) -> dict[str, Any]:
    """Write what other programs held on cards that draw a desktop: none, or as found.

    It is what a card had in use beyond the least that such a card had.
    """
    found = {
        name: (gpu.name, kept)
        for name, (record, gpu, kept) in gone.items()
        if "GeForce" in gpu.device_name
        and not record.get("is_under_wsl")
        and world_size(record) == 1
    }
    least: dict[str, float] = {}
    for card, kept in found.values():
        least[card] = min(kept, least.get(card, kept))
    held = {name: kept - least[card] for name, (card, kept) in found.items()}
    return {
        "gib": 0.0,
        "low_gib": 0.0,
        "high_gib": round(max(held.values()), 3),
        "left_out_error_gib": None,
        "starts": {name: round(gib, 3) for name, gib in held.items()},
    }


def world_size(record: dict[str, Any]) -> int:
    """Return how many GPUs a replica has."""
    arguments = record["args"]
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    total = 1
    for name in sizes:
        total *= int(arguments.get(name) or 1)
    return total


# Kinds of starts ---------------------------------------------------------------


def is_bare(start: Start) -> bool:
    """One rank, and no estimate of graphs that leaves something behind."""
    return start.ranks == 1 and not is_profiled(start) and not is_unified(start)


def is_profiled(start: Start) -> bool:
    """One rank, where the estimate of graphs leaves something behind."""
    return "graph profiling" in start.part_names and not is_unified(start)


def is_early(start: Start) -> bool:
    """Several ranks, whose start is counted."""
    return start.ranks > 1 and start.number < (0, 11, 0)


def has_switch(start: Start) -> bool:
    """A GPU whose servers have NVSwitch."""
    return start.capability[0] in (9, 10)


def is_unified(start: Start) -> bool:
    """A GPU that shares the memory of the processor."""
    return start.capability in UNIFIED


def is_shared(gpu: GPU) -> bool:
    """A GPU that shares the memory of the processor."""
    return gpu.compute_capability in UNIFIED
