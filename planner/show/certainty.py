"""How certain a plan's figures are: their basis, and how accurate past plans were.

`planner/data/accuracy.json` has a row for each published start and each dry run that
was compared; `make accuracy` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any

from planner.data import DATA
from planner.show.figures import start_figures
from planner.show.html import Html, fragment, tag
from planner.show.pieces import NOTHING, listed, to_open
from planner.show.verdict import KV_CACHE, sources_of
from planner.units import counted, format_gib
from planner.values import frozen

if TYPE_CHECKING:
    from planner.models.architecture import ModelArchitecture
    from planner.planning.result import Plan

FEW = 3
"""With fewer starts, an error says little."""
_FLAGS = {
    "enable_lora": "adapters",
    "speculative_config": "a draft",
    "cpu_offload_gb": "offloaded weights",
    "kv_offloading_size": "offloaded KV blocks",
    "enable_expert_parallel": "expert parallel",
}
_OWN = "measured here"
_MEANINGS = {
    "exact": "follows from the model's files and vLLM's code",
    "dry run": "measured by vLLM itself, on a simulated GPU",
    "formula": "derived from vLLM's code",
    "measured": "fitted to published start-ups",
    _OWN: "by one of your own starts",
    "assumed": "an assumption, with a wide range",
}


def certainty_html(plan: Plan) -> Html:
    """Show the panel; empty where nothing is allocated."""
    look, key = "pl-rank pl-certainty", "certainty"
    return to_open("How sure is this?", certainty_body(plan), look, key)


def certainty_body(plan: Plan) -> Html:
    """List the basis of the figures; empty where nothing is allocated."""
    if plan.limiting_rank is None:
        return NOTHING
    bases = [
        (tag("b", basis), f" ({_MEANINGS[basis]}): {format_gib(size)}")
        for basis, size in sizes_by_basis(plan).items()
    ]
    return fragment(listed(bases, None), (tag("p", text) for text in sentences(plan)))


def sentences(plan: Plan) -> tuple[str, ...]:
    """Say the range, then what it rests on: an own start, or the record of others.

    Then where the configuration of the model comes from.
    """
    own = own_sentence(plan)
    rests = (own,) if own else record_sentences(plan)
    return (
        range_sentence(plan),
        *(f"{one.name}: {one.text} {one.detail}." for one in start_figures(plan)),
        *rests,
        *sources_of(plan),
        overall_sentence(),
    )


def sizes_by_basis(plan: Plan) -> dict[str, int]:
    """Return the bytes of the limiting rank's lines by basis, without the KV cache."""
    rank = plan.limiting_rank
    sizes = dict.fromkeys(_MEANINGS, 0)
    for line in rank.lines if rank else ():
        if line.name not in ("KV cache", "not planned"):
            basis = str(line.basis)
            sizes[_OWN if line.record and basis == "measured" else basis] += (
                line.size_bytes
            )
    return {basis: size for basis, size in sizes.items() if size}


def range_sentence(plan: Plan) -> str:
    """State the range in which the KV cache should be."""
    rank = plan.limiting_rank
    if rank is None:
        return ""
    low, high = rank.available_kv_cache_low_bytes, rank.available_kv_cache_high_bytes
    if low == high:
        return "The size of the KV cache is fixed, so it is not uncertain."
    what = f"The {KV_CACHE}" if rank.bytes_per_block else "What is left of the budget"
    return (
        f"{what} should come out between {format_gib(low)} and "
        f"{format_gib(high)}. {plan.outcome.capitalize()}."
    )


def own_sentence(plan: Plan) -> str:
    """State that the figures come from the user's own start; empty without one."""
    records = {line.record for rank in plan.ranks for line in rank.lines} - {""}
    if not records:
        return ""
    return (
        f"Figures of your own GPU are used (record {min(records)}); their range is "
        "that of repeated starts."
    )


def overall_sentence() -> str:
    """State the error of all past plans, and that of a flat reserve instead."""
    known = accuracy()
    return (
        f"All {known['starts']} published start-ups: off by "
        f"{known['kv_median_error_gib']:.2f} GiB in the median; "
        f"{known['inside_percent']:.0f} % lie in the stated range. Taking off a flat "
        f"2.5 GiB is off by {known['rival_median_error_gib']:.2f} GiB."
    )


@frozen(kw_only=False)
class Compared:
    """A published start, or a dry run, beside its plan, in the order of the file."""

    release: str
    """Such as 0.19."""
    gpu: str
    architecture: str
    features: Sequence[str]
    error_gib: float
    """Of the KV cache; of a dry run, of the peak."""
    is_inside: bool
    """In the stated range; a dry run: weights within a percent."""


@cache
def accuracy() -> dict[str, Any]:
    """Return the figures of the accuracy report, which `make accuracy` writes."""
    path = DATA / "accuracy.json"
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table


@cache
def compared(kind: str) -> tuple[Compared, ...]:
    """Return the rows of `published` starts or of `dry` runs."""
    return tuple(Compared(*row) for row in accuracy()[kind])


def features_of(plan: Plan) -> tuple[str, ...]:
    """Name what a plan has beside one GPU and a dense model in 16 bits."""
    settings, model, resolved = plan.settings, plan.model, plan.resolved
    others = dict(settings.others)
    asked = [
        name
        for key, name in _FLAGS.items()
        if getattr(settings, key, None) or others.get(key)
    ]
    layout = {
        "tensor parallel": settings.tensor_parallel_size,
        "pipeline parallel": settings.pipeline_parallel_size,
        "data parallel": settings.data_parallel_size,
    }
    found = [name for name, size in layout.items() if (size or 1) > 1]
    found += asked
    if model is not None:
        found += _of_model(model)
    if resolved is not None and resolved.kv_cache_dtype.startswith(("fp8", "nvfp4")):
        found.append("a quantised KV cache")
    return tuple(found)


def _of_model(model: ModelArchitecture) -> Iterator[str]:
    if model.is_moe:
        yield "experts"
    if model.is_multimodal:
        yield "encoders"
    if model.quantization:
        yield "quantised weights"


def record_sentences(plan: Plan) -> tuple[str, ...]:
    """Say what is not known of this plan's kind first, then how far others were off."""
    if plan.model is None:
        return ()
    minor = ".".join(plan.vllm_version.split(".")[:2])
    architecture = plan.model.architecture
    kinds: dict[str, Callable[[Compared], bool]] = {
        f"vLLM {minor}": lambda row: row.release == minor,
        plan.gpu.name: lambda row: row.gpu == plan.gpu.name,
        architecture: lambda row: row.architecture == architecture,
    }
    parts = {feature: _has(feature) for feature in features_of(plan)}
    starts, runs = compared("published"), compared("dry")
    groups = {
        kind: [row for row in starts if is_of(row)]
        for kind, is_of in (kinds | parts).items()
    }
    mine = [row for row in starts if all(is_of(row) for is_of in kinds.values())]
    dry = [r for r in runs if r.release == minor and r.architecture == architecture]
    known = {kind: groups[kind] for kind in kinds if len(groups[kind]) >= FEW}
    return (
        _unknown(groups),
        *([_of_starts("This model, GPU and release", mine)] if mine else []),
        *(_of_starts(kind, rows) for kind, rows in known.items()),
        *([_of_dry_runs(f"{architecture} with vLLM {minor}", dry)] if dry else []),
    )


def _has(feature: str) -> Callable[[Compared], bool]:
    return lambda row: feature in row.features


def _unknown(groups: dict[str, list[Compared]]) -> str:
    """Name the kinds without published starts, and those with few."""
    none = [kind for kind, rows in groups.items() if not rows]
    few = [kind for kind, rows in groups.items() if 0 < len(rows) < FEW]
    words = []
    if none:
        words.append(f"Not compared with any published start: {', '.join(none)}.")
    if few:
        words.append(f"Compared with one or two: {', '.join(few)}.")
    return (
        " ".join(words) or "Each part of this plan was compared with published starts."
    )


def _of_starts(kind: str, rows: Sequence[Compared]) -> str:
    errors = [abs(row.error_gib) for row in rows]
    inside = sum(row.is_inside for row in rows)
    return (
        f"{kind}: {counted(len(rows), 'published starts')}, KV cache "
        f"off by {median(errors):.2f} GiB in the median and {max(errors):.2f} at most; "
        f"{inside} in the stated range."
    )


def _of_dry_runs(kind: str, rows: Sequence[Compared]) -> str:
    errors = [abs(row.error_gib) for row in rows]
    equal = sum(row.is_inside for row in rows)
    return (
        f"{kind}: {counted(len(rows), 'dry runs')}, weights within 1 % in {equal}, "
        f"peak off by {median(errors):.2f} GiB in the median."
    )
