"""The user's own measurements of speed, which correct the forecast of the same start.

They correct no other model on the same GPU: among published measurements that did not
make the forecast better.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from planner.errors import PlannerError
from planner.planning.calibrations import is_off
from planner.planning.calibrations.key import fingerprint
from planner.planning.calibrations.record import write_whole
from planner.planning.result import Plan
from planner.solve.speed.bench import MeasuredSpeed
from planner.surroundings import data_folder, is_in_browser
from planner.user_files import MOST_CONFIG_BYTES, read_file
from planner.values import frozen

_FILE = "speeds.json"
_MOST = 500
"""Measurements that are kept: the newest."""
_DECIDING = (
    *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
    *("enable_expert_parallel", "quantization", "kv_cache_dtype", "dtype"),
    *("enforce_eager", "speculative_config"),
)
"""Settings without which a start is another one."""
_INVERSE = {"next_token": "total", "total": "next_token"}
_Kept: TypeAlias = "tuple[Mapping[str, Any], ...]"


@frozen
class OwnSpeed:
    """How the user's own measurements of a start differ from its forecast."""

    measurements: int
    ratios: Mapping[str, float]
    """Measured over forecast, by figure: the median."""

    def ratio(self, name: str) -> float:
        """Return the ratio of a figure, from another where it was not measured."""
        if name in self.ratios:
            return self.ratios[name]
        other = self.ratios.get(_INVERSE.get(name, ""))
        return 1.0 if other is None else 1 / other


def start_of(plan: Plan) -> str:
    """Return what two starts have in common that share their measurements."""
    resolved, settings, model = plan.resolved, plan.settings, plan.model
    if resolved is None or model is None:
        raise PlannerError("vLLM refuses this plan, so it has no speed.")
    parts = [
        getattr(resolved, name, getattr(settings, name, None)) for name in _DECIDING
    ]
    names = [plan.gpu.device_name or plan.gpu.name, fingerprint(model)]
    return json.dumps([*names, *parts], default=str)


def own_of(plan: Plan) -> OwnSpeed | None:
    """Return the user's own measurements of a start; None: there are none."""
    kept = _kept()
    if not kept:
        return None
    start = start_of(plan)
    mine = [one["ratios"] for one in kept if one["start"] == start]
    if not mine:
        return None
    names = {name for ratios in mine for name in ratios}
    return OwnSpeed(
        measurements=len(mine),
        ratios={
            name: exp(median(log(one[name]) for one in mine if name in one))
            for name in names
        },
    )


def keep(plan: Plan, measured: MeasuredSpeed, forecast: Mapping[str, float]) -> Path:
    """Keep a measurement; one of the same start and load is replaced.

    Args:
        plan: the start that was measured.
        measured: times and rates.
        forecast: the same figures of the forecast without own measurements.

    Raises:
        PlannerError: where nothing is kept, or the file cannot be written.
    """
    path = speeds_path()
    if path is None:
        raise PlannerError("Measurements of speed cannot be kept here.")
    one = {
        "start": start_of(plan),
        "model": plan.name,
        "gpu": plan.gpu.name,
        "load": measured.load.to_dict(),
        "measured": measured.figures(),
        "ratios": {
            name: value / forecast[name] for name, value in measured.figures().items()
        },
        "date": datetime.now(UTC).date().isoformat(),
    }
    same = (one["start"], one["load"])
    others = [each for each in _kept() if (each["start"], each["load"]) != same]
    text = json.dumps({"speeds": [*others, one][-_MOST:]}, indent=1) + "\n"
    try:
        write_whole(path, text)
    except OSError as error:
        raise PlannerError(
            f"{path} cannot be written: {error.strerror or error}. PLANNER_DATA_DIR "
            "names another folder."
        ) from None
    return path


def speeds_path() -> Path | None:
    """Return the file of the user's measurements, which may not exist.

    None: a published app and a browser keep nothing, nor does PLANNER_CALIBRATION=off.
    """
    folder = None if is_off() or is_in_browser() else data_folder()
    return None if folder is None else Path(folder) / _FILE


def _kept() -> _Kept:
    path = speeds_path()
    if path is None:
        return ()
    try:
        changed_ns = os.stat(path).st_mtime_ns  # noqa: PTH116 - in every forecast
    except OSError:
        return ()
    return _read(str(path), changed_ns)


@lru_cache(maxsize=4)
def _read(path: str, _changed_ns: int) -> _Kept:
    """Return the measurements of a file, read again after it changed.

    Raises:
        PlannerError: for a file that is not what `keep` writes.
    """
    try:
        found = json.loads(read_file(Path(path), MOST_CONFIG_BYTES))["speeds"]
        return tuple(map(_checked, found))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlannerError(
            f"{path} cannot be read as measured speeds ({error}). Remove it to begin "
            "again."
        ) from None


def _checked(one: Any) -> Mapping[str, Any]:  # noqa: ANN401 - from a file
    """Return an entry whose ratios are positive numbers.

    Raises:
        ValueError: for another.
    """
    ratios = {str(name): float(value) for name, value in one["ratios"].items()}
    if not all(0 < value < float("inf") for value in ratios.values()):
        raise ValueError("a ratio is not a positive number")
    return {"start": str(one["start"]), "load": one["load"], **one, "ratios": ratios}
