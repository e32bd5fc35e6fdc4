"""Checks a user's settings of a Ray Data LLM pipeline as Ray does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import PlannerError
from planner.ray.amounts import (
    check_amount,
    check_fraction,
    check_mapping,
    check_text,
    is_count,
    shown,
)
from planner.ray.releases import RayRelease


def concurrency_of(
    value: Any,  # noqa: ANN401 - typed by a user
    release: RayRelease,
) -> tuple[int, int]:
    """Return the minimum and the maximum number of engines.

    A whole number is a fixed pool up to Ray 2.54, and 1 to that many since then.

    Raises:
        PlannerError: for invalid counts, or where the release does not accept them.
    """
    if value is None:
        return 1, 1
    if is_count(value):
        return (1 if release.is_autoscaling else value), value
    is_pair = isinstance(value, tuple | list) and len(value) == 2  # noqa: PLR2004
    if not is_pair or not all(is_count(part) for part in value):
        raise PlannerError(
            f"concurrency={shown(value)}: give a number of engines from 1, "
            "or a pair (min, max)."
        )
    least, most = value
    if least > most:
        raise PlannerError(
            f"concurrency={shown(value)}: the minimum, {least}, is above the maximum, "
            f"{most}. Swap them, or give one number."
        )
    if not release.takes_ranges:
        raise PlannerError(
            f"concurrency={shown(value)}: Ray {release.version} takes one number "
            "for the engine; (min, max) needs Ray 2.50 or later."
        )
    return least, most


def stage_concurrency(
    value: Any,  # noqa: ANN401 - typed by a user
    name: str,
) -> tuple[int, int]:
    """Return the minimum and maximum workers of a CPU stage; n means 1 to n.

    Source: Ray 2.60.0 `processor/utils.py` normalize_cpu_stage_concurrency.
    """
    if is_count(value):
        return 1, value
    is_pair = isinstance(value, tuple | list) and len(value) == 2  # noqa: PLR2004
    if not is_pair or not all(is_count(part) for part in value):
        raise PlannerError(
            f"{name}: concurrency={shown(value)} must be a number from 1 or (min, max)."
        )
    if value[0] > value[1]:
        raise PlannerError(
            f"{name}: concurrency={shown(value)} has its minimum above its maximum."
        )
    return value[0], value[1]


def count_of(name: str, value: Any, default: int) -> int:  # noqa: ANN401 - typed by a user
    """Return a whole number of at least 1, or the default.

    Raises:
        PlannerError: for any other value.
    """
    if value is None:
        return default
    if not is_count(value):
        raise PlannerError(f"{name}={shown(value)}: a whole number from 1 is needed.")
    return int(value)


def map_resources(
    name: str, given: Mapping[str, Any] | None, release: RayRelease
) -> tuple[dict[str, float], int | None]:
    """Return what a map task reserves, and how many run at once; None: no limit.

    Raises:
        PlannerError: for settings that Ray refuses for a function.

    Source: Ray 2.60.0 `data/dataset.py` Dataset.map, `data/_internal/util.py`
    get_compute_strategy, `_common/ray_option_utils.py`.
    """
    if given is not None and not release.has_map_kwargs:
        raise PlannerError(
            f"{name}: Ray {release.version} has no such argument; it came with 2.51."
        )
    check_mapping(name, given)
    given = dict(given or {})
    limit = given.get("concurrency")
    if isinstance(limit, tuple | list):
        raise PlannerError(
            f"{name}: concurrency={shown(limit)}. Ray says: ``concurrency`` is set as "
            "a tuple of integers, but ``fn`` is not a callable class. Give one number."
        )
    if limit is not None and not is_count(limit):
        raise PlannerError(
            f"{name}: concurrency={shown(limit)} must be a number from 1."
        )
    resources = given.get("resources") or {}
    check_mapping(f"{name}: resources", resources)
    amounts = {
        "CPU": given.get("num_cpus"),
        "GPU": given.get("num_gpus"),
        "memory": given.get("memory"),
        **resources,
    }
    amounts["CPU"] = 1 if amounts["CPU"] is None else amounts["CPU"]
    kind = given.get("accelerator_type")
    if kind:
        check_text(f"{name}: accelerator_type", kind)
        amounts[f"accelerator_type:{kind}"] = 0.001
    checked = {k: _amount(name, k, v) for k, v in amounts.items() if v is not None}
    return checked, limit


def _amount(owner: str, name: str, value: Any) -> float:  # noqa: ANN401 - typed by a user
    check_text(f"{owner}: a resource's name", name)
    check_amount(f"{owner}: {name}", value)
    check_fraction(owner, name, value)
    return float(value)
