"""A measurement from a log alone: one's own of yesterday, or somebody else's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.confirming.measurement import EngineFigures, Measurement
from planner.engine import settings_from
from planner.errors import PlannerError
from planner.log import LogReading, read_log

_MODELS_OWN = frozenset({"model"})


def measurement_of(text: str) -> Measurement:
    """Return what a log of vLLM tells of its start.

    Its sizes are rounded to 0.01 GiB and stay in `Measurement.log`; of the engine only
    the settings are taken over that the log shows.
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
    """Take the graphs' estimate out of the peak: it has a line of its own in a plan."""
    peak = reading.peak_activation_gib
    if peak is None:
        return reading
    return replace(reading, figures={**reading.figures, "activation_gib": peak})


def plan_arguments(reading: LogReading) -> dict[str, object]:
    """Return the arguments of a log that `planner.plan` takes, its model left out.

    What belongs to the server alone is left out as well: its port, its keys, the names
    it serves under.
    """
    return {
        name: value
        for name, value in reading.arguments.items()
        if name not in _MODELS_OWN and value is not None and _is_taken(name, value)
    }


def _is_taken(name: str, value: object) -> bool:
    try:
        settings_from({name: value})
    except PlannerError as refusal:
        return "is not an engine argument" not in str(refusal)
    return True


def _engine_figures(reading: LogReading) -> EngineFigures:
    """Return the settings that the log shows, of those a plan resolves."""
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
