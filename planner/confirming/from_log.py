"""A measurement from a log alone, and the plan of the start that wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from planner.confirming.log import LogReading, read_log
from planner.confirming.measurement import EngineFigures, Measurement
from planner.engine.arguments import ARGUMENTS
from planner.engine.gpu import CPU, GPU
from planner.engine.releases import NEWEST, is_old, number_of
from planner.errors import PlannerError
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.units import GIB, MIB, format_gib

_NOT_TAKEN = frozenset({"model"})
_OWN_ADVICE = re.compile(r"--kv-cache-memory(?:-bytes)?=(-?\d+)")
_REDUNDANCY_BYTES = 150 * MIB
_ROUNDING_GIB = 0.005
"""How much less a size may be than the log's two decimals say."""
_OTHER_MODEL = 1.5
"""How often the planned weights: buffers and padding are far less."""
OTHER_GPU = 0.06
"""As a share of the memory: drivers report one kind of GPU up to 3 % apart."""


def measurement_of(text: str) -> Measurement:
    """Return the measurement of the start that wrote a log.

    Its sizes are rounded to 0.01 GiB and stay in `Measurement.log`; of the engine, only
    the settings that the log shows are known.
    """
    reading = read_log(text)
    setting = reading.setting
    return Measurement(
        vllm_version=reading.vllm_version,
        device_name=setting.device_name or "",
        engine=_engine_figures(reading),
        log=_account(reading),
        error=reading.error,
        is_started=reading.started,
        is_compile_cache_cold=reading.is_compile_cache_cold,
        is_dummy=setting.shown.get("load_format") == "dummy",
        seconds=reading.seconds,
    )


def _account(reading: LogReading) -> LogReading:
    """Subtract the graphs' estimate from the peak: in a plan it has its own line."""
    peak = reading.peak_activation_gib
    if peak is None:
        return reading
    return replace(reading, figures={**reading.figures, "activation_gib": peak})


def plan_of_log(reading: LogReading, given: Mapping[str, Any]) -> Plan | None:
    """Return the plan of a start that was logged; None if the model is unknown.

    Args:
        reading: what the log says.
        given: arguments of `planner.plan`, None for those to take from the log; an
            engine argument that is given replaces the log's.

    Raises:
        PlannerError: if the GPU is neither in the log nor given, or the log's start
            cannot be planned.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    model = chosen.pop("model", None) or reading.model
    if model is None:
        return None
    release = chosen.pop("vllm_version", None) or reading.vllm_version or NEWEST
    gpu = chosen.pop("gpu", None) or _gpu(reading)
    arguments: dict[str, Any] = {**plan_arguments(reading), **chosen}
    return plan(model, gpu=gpu, vllm_version=release, **arguments)


def plan_arguments(reading: LogReading) -> dict[str, object]:
    """Return a log's arguments that `planner.plan` accepts, without the model.

    Arguments of the server alone are left out as well: its port, its keys, the names
    under which it serves the model.
    """
    return {
        name: value
        for name, value in reading.arguments.items()
        if name not in _NOT_TAKEN and value is not None and name in ARGUMENTS
    }


def safe_kv_cache_bytes(log: LogReading, text: str) -> int | None:
    """Return a KV cache that fits into the budget of a start that came up.

    vLLM's own sentence has it to the byte, but where the peak activation contains the
    graphs' estimate it takes the graphs off twice: the estimate is given back. Without
    that sentence it is what the cache had, less the graphs that were not charged and
    vLLM's margin.

    Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` compile_or_warm_up_model; its issue
    57936.
    """
    if not log.started or log.later_error:
        return None
    figures = log.figures
    estimate = figures.get("cudagraph_estimated_gib", 0.0)
    is_charged = log.setting.is_estimate_charged is True
    told = _OWN_ADVICE.search(text)
    if told is not None:
        twice = estimate - _ROUNDING_GIB if hint_is_low(log, text) else 0.0
        safe = int(told[1]) + round(twice * GIB)
        return safe if safe > 0 else None
    if "available_kv_gib" not in figures:
        return None
    extra = figures.get("cudagraph_gib", 0.0) - (estimate if is_charged else 0.0)
    had = round((figures["available_kv_gib"] - max(extra, 0.0)) * GIB)
    safe = had - _REDUNDANCY_BYTES
    return safe // MIB * MIB if safe > 0 else None


def hint_is_low(log: LogReading, text: str) -> bool:
    """Return whether vLLM's own --kv-cache-memory takes the graphs off twice."""
    estimate = log.figures.get("cudagraph_estimated_gib", 0.0)
    is_twice = log.setting.is_estimate_in_peak and estimate > _ROUNDING_GIB
    return is_twice and _OWN_ADVICE.search(text) is not None


def contradictions(log: LogReading, made: Plan) -> Iterator[str]:
    """Yield why a log cannot be of the start that is planned, in sentences.

    Only what no rounding and no other driver explains is said.
    """
    total = made.gpu.total_memory_bytes
    logged, weights = log.total_gib, log.figures.get("weights_gib", 0.0)
    held = weights + max(log.figures.get("available_kv_gib", 0.0), 0.0)
    if logged and abs(logged * GIB / total - 1) > OTHER_GPU:
        yield (
            f"The log's GPU has {logged:.2f} GiB, the planned {made.gpu.name} "
            f"{format_gib(total)}: another GPU."
        )
    elif held * GIB > total:
        yield (
            f"The log's weights and KV cache take {held:.2f} GiB of a GPU; the planned "
            f"{made.gpu.name} has {format_gib(total)}: another GPU."
        )
    rank = made.limiting_rank
    planned = 0 if rank is None else rank.line("weights").size_bytes
    ratio = weights * GIB / planned if weights and planned else 1.0
    if max(ratio, 1 / ratio) > _OTHER_MODEL:
        yield (
            f"The log's weights take {weights:.2f} GiB of a GPU, the planned "
            f"{format_gib(planned)}: another model, format or number of GPUs."
        )
    version = log.vllm_version
    is_told = version is not None and not is_old(version)
    if is_told and number_of(str(version)) != number_of(made.vllm_version):
        yield f"The log is of vLLM {version}, the plan of {made.vllm_version}."


def _engine_figures(reading: LogReading) -> EngineFigures:
    """Return the settings that the log shows, of those that a plan resolves."""
    shown = reading.setting.shown
    length = reading.figures.get("max_concurrency_len")
    return EngineFigures(
        block_size=reading.setting.block_size,
        max_model_len=_whole(shown, "max_model_len") if length is None else int(length),
        max_num_seqs=_whole(shown, "max_num_seqs"),
        max_num_batched_tokens=_whole(shown, "max_num_batched_tokens"),
        gpu_memory_utilization=_number(shown, "gpu_memory_utilization"),
    )


def _whole(shown: Mapping[str, object], name: str) -> int | None:
    value = shown.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(shown: Mapping[str, object], name: str) -> float | None:
    value = shown.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]


def _gpu(reading: LogReading) -> str | GPU:
    """Return the GPU that a log names, or that has the memory it reports."""
    if reading.setting.device == "cpu":
        return CPU
    name = reading.setting.device_name
    total = reading.figures.get("total_gpu_gib")
    if name is not None:
        return GPU.named(name)
    if total is not None:
        return GPU.named(None, total_memory_bytes=round(total * GIB))
    raise PlannerError(
        "The log does not say on which GPU vLLM ran. Name it: --gpu H100."
    )
