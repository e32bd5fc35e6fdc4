"""Fewer bytes of weights: quantised online, a smaller checkpoint, or offloaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from math import ceil

from planner.memory.host.loading import PCIE_BYTES_PER_SECOND
from planner.models import catalogue
from planner.models.architecture import ModelArchitecture
from planner.planning.result import Plan
from planner.solve.advice.situation import Burden, Candidate, Situation
from planner.units import GIB

_ONLINE = (
    ("fp8", "8-bit floating point", Burden.ACCURACY),
    ("fp8_per_block", "8-bit floating point, in blocks", Burden.ACCURACY),
    ("mxfp8", "8-bit floating point, in small blocks", Burden.ACCURACY),
    ("int8_per_channel_weight_only", "8-bit whole numbers", Burden.ACCURACY),
    ("nvfp4_per_token", "4-bit floating point", Burden.ABILITY),
)
_FORMATS = (
    ("FP8", 8, r"fp8(?:[-_.](?:dynamic|static[-_]pertensor|kv))?"),
    ("INT8", 8, r"(?:quantized\.)?w8a8|w8a16|(?:gptq-)?int8"),
    ("NVFP4", 4, r"nvfp4"),
    ("MXFP4", 4, r"mxfp4"),
    ("AWQ", 4, r"awq(?:-int4)?"),
    ("INT4", 4, r"(?:quantized\.)?w4a16|(?:gptq-)?int4|gptq"),
    ("BF16", 16, r"bf16"),
)
_SUFFIX = {
    name: re.compile(rf"[-_.](?:{pattern})\Z", re.IGNORECASE)
    for name, _, pattern in _FORMATS
}
_BITS = {name: bits for name, bits, _ in _FORMATS}
_EIGHT = 8
_MOST_OFFLOADED_TRIES = 8


def quantised_online(situation: Situation) -> Iterator[Candidate]:
    """Quantise the weights while they are loaded."""
    model = situation.model
    if model is None or model.quantization is not None:
        return
    for method, words, burden in _ONLINE:
        yield Candidate(
            kind="quantization",
            title=f"Quantise the weights to {words} while loading",
            changes={"quantization": method},
            cost="Answers may change slightly; vLLM still downloads and reads the "
            "16-bit checkpoint.",
            burden=burden,
        )


def published(situation: Situation) -> Iterator[Candidate]:
    """Use a published checkpoint of the same model with smaller weights."""
    model = situation.model
    if model is None or situation.plan.settings.quantization is not None:
        return
    now = _BITS.get(_format_of(model.name), 16)
    for name in siblings(model.name):
        kind = _format_of(name)
        bits = _BITS.get(kind, 16)
        if bits > now or not _is_same(situation, name):
            continue
        is_coarse = bits < _EIGHT
        yield Candidate(
            kind="model",
            title=f"Use the {kind or 'published'} checkpoint {name}",
            changes={"model": name},
            cost="Another download, made by its publisher; answers may change "
            f"{'noticeably' if is_coarse else 'slightly'}.",
            burden=Burden.ABILITY if is_coarse else Burden.ACCURACY,
        )


def _is_same(situation: Situation, name: str) -> bool:
    """Whether a checkpoint with a similar name has the same layers."""
    plan = situation.again(model=name)
    other = None if plan is None else plan.model
    mine = situation.model
    return other is not None and mine is not None and _shape(other) == _shape(mine)


def _shape(model: ModelArchitecture) -> tuple[object, ...]:
    return (
        model.hidden_size,
        model.num_hidden_layers,
        model.num_attention_heads,
        model.num_kv_heads,
        model.head_size,
        model.num_experts,
        model.vocab_size,
    )


def siblings(name: str) -> tuple[str, ...]:
    """Return the bundled checkpoints of the same model, those with most bits first.

    >>> siblings("Qwen/Qwen3-8B")
    ('Qwen/Qwen3-8B-FP8',)
    """
    family = _families().get(_stem(name), ())
    return tuple(other for other in family if other.lower() != name.lower())


@cache
def _families() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for entry in catalogue.entries():
        found.setdefault(_stem(entry.name), []).append(entry.name)
    return {
        stem: tuple(sorted(names, key=_most_bits_first))
        for stem, names in found.items()
        if len(names) > 1
    }


def _most_bits_first(name: str) -> tuple[int, str]:
    return -_BITS.get(_format_of(name), 16), name


def _stem(name: str) -> str:
    """Return a model's name without its publisher and format."""
    stem = name.rstrip("/").rpartition("/")[2]
    pattern = _SUFFIX.get(_format_of(stem))
    if pattern is not None:
        stem = pattern.sub("", stem)
    return stem.lower().removeprefix("meta-").replace("_", ".")


def _format_of(name: str) -> str:
    return next((fmt for fmt, end in _SUFFIX.items() if end.search(name)), "")


def offloaded(situation: Situation) -> Iterator[Candidate]:
    """Offload as much of the weights to CPU memory as is missing on the GPU."""
    amount = _least_offloaded(situation)
    if amount is None:
        return
    yield Candidate(
        kind="cpu_offload_gb",
        title=f"Hold {amount:g} GiB of each GPU's weights in host memory",
        changes={"cpu_offload_gb": amount},
        cost=f"At every step {amount:g} GiB cross the bus to each GPU, "
        f"{_crossing(amount)} s at 25 GB/s (assumed), which makes every token much "
        "slower; the machine needs that much CPU memory, and up to twice as much where "
        "it is pinned in powers of two.",
        burden=Burden.NEARLY_ALL,
    )


def _crossing(gib: float) -> str:
    """Write the seconds that a transfer of `gib` takes.

    >>> _crossing(20)
    '0.86'
    """
    return f"{gib * GIB / PCIE_BYTES_PER_SECOND:.2g}"


def _least_offloaded(situation: Situation) -> float | None:
    """Return the least amount that starts, in steps of 0.1 GiB; None without any.

    vLLM moves whole parameters until they reach the amount, so slightly less than what
    is missing may suffice.
    """
    plan = situation.plan
    missing = _missing_bytes(plan)
    if plan.fits or missing is None or situation.again(cpu_offload_gb=0.1) is None:
        return None
    given = plan.settings.cpu_offload_gb or 0.0
    tenths = max(ceil(10 * (given + missing / GIB)), 1)
    for _ in range(_MOST_OFFLOADED_TRIES):
        changed = situation.again(cpu_offload_gb=tenths / 10)
        if changed is None:
            return None
        if changed.fits:
            return _lowered(situation, tenths) / 10
        missing = _missing_bytes(changed)
        if missing is None:
            return None
        tenths += max(ceil(10 * missing / GIB), 1)
    return None


def _lowered(situation: Situation, tenths: int) -> int:
    """Lower an amount that starts step by step, while it still starts."""
    while tenths > 1:
        less = situation.again(cpu_offload_gb=(tenths - 1) / 10)
        if less is None or not less.fits:
            break
        tenths -= 1
    return tenths


def _missing_bytes(plan: Plan) -> int | None:
    """Return what is missing at the low end of the range; None for other errors."""
    rank = plan.limiting_rank
    if rank is None or plan.error is None or plan.error.kind == "refused":
        return None
    if plan.error.kind in ("free_memory", "num_seqs", "host_memory"):
        return None
    needed = plan.needed_kv_cache_bytes + rank.set_aside_bytes
    return max(needed - rank.available_kv_cache_low_bytes, 1)
