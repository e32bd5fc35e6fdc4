"""Fewer bytes of weights on a GPU: quantised while loading, or offloaded."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from planner.engine.releases import resolve_version
from planner.memory.host.loading import PCIE_BYTES_PER_SECOND
from planner.models.quantization.methods import online_names
from planner.planning.result import Plan
from planner.solve.advice.situation import Burden, Candidate, Situation
from planner.units import GIB, format_gib

_ONLINE = (
    ("fp8_per_tensor", "8-bit floating point", Burden.ACCURACY),
    ("fp8_per_block", "8-bit floating point, in blocks", Burden.ACCURACY),
    ("mxfp8", "8-bit floating point, in small blocks", Burden.ACCURACY),
    ("int8_per_channel_weight_only", "8-bit whole numbers", Burden.ACCURACY),
    ("nvfp4_per_token", "4-bit floating point", Burden.ABILITY),
)
_MOST_OFFLOADED_TRIES = 8


def quantised_online(situation: Situation) -> Iterator[Candidate]:
    """Quantise the weights while they are loaded."""
    model = situation.model
    if model is None or model.quantization is not None:
        return
    release, _ = resolve_version(situation.plan.vllm_version)
    names = online_names(release)
    loading = situation.plan.loading
    read = None if loading is None else loading.checkpoint_bytes
    size = f" of {format_gib(read)}" if read else ""
    for method, words, burden in _ONLINE:
        if method not in names:
            continue
        name = names[method]
        yield Candidate(
            title=f"Quantise the weights to {words} while loading ({name})",
            changes={"quantization": name},
            cost="Answers may change "
            f"{'slightly' if burden is Burden.ACCURACY else 'noticeably'}; vLLM still "
            f"downloads and reads the 16-bit checkpoint{size}.",
            burden=burden,
        )


def offloaded(situation: Situation) -> Iterator[Candidate]:
    """Offload as much of the weights to CPU memory as is missing on the GPU."""
    amount = _least_offloaded(situation)
    if amount is None:
        return
    yield Candidate(
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
    if plan.is_share_too_large or plan.error.kind in ("num_seqs", "host_memory"):
        return None
    needed = plan.needed_kv_cache_bytes + rank.set_aside_bytes
    return max(needed - rank.available_kv_cache_low_bytes, 1)
