"""What a user gives a Ray Data LLM pipeline, checked as Ray checks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import PlannerError
from planner.ray.bundles import SCALE
from planner.ray.releases import RayRelease


def concurrency_of(
    asked: Any,  # noqa: ANN401 - typed by a user
    release: RayRelease,
) -> tuple[int, int]:
    """Return the fewest and the most engines.

    A whole number is a fixed pool up to Ray 2.54, and 1 to that many since.

    Raises:
        PlannerError: for counts that cannot be, or that the release does not take.
    """
    if asked is None:
        return 1, 1
    if _is_count(asked):
        return (1 if release.is_autoscaling else asked), asked
    is_pair = isinstance(asked, tuple | list) and len(asked) == 2  # noqa: PLR2004
    if not is_pair or not all(_is_count(part) for part in asked):
        raise PlannerError(
            f"concurrency={asked!r}: a number of engines from 1, or (min, max) of such."
        )
    least, most = asked
    if least > most:
        raise PlannerError(
            f"concurrency={asked!r}: the minimum, {least}, is above the maximum, "
            f"{most}. Swap them, or give one number."
        )
    if not release.takes_ranges:
        raise PlannerError(
            f"concurrency={asked!r}: Ray {release.version} takes one number for the "
            "engine; (min, max) needs Ray 2.50 or later."
        )
    return least, most


def stage_concurrency(
    asked: Any,  # noqa: ANN401 - typed by a user
    name: str,
) -> tuple[int, int]:
    """Return the fewest and the most workers of a stage on CPUs: n is 1 to n.

    Source: Ray 2.60.0 `processor/utils.py` normalize_cpu_stage_concurrency.
    """
    if _is_count(asked):
        return 1, asked
    is_pair = isinstance(asked, tuple | list) and len(asked) == 2  # noqa: PLR2004
    if not is_pair or not all(_is_count(part) for part in asked):
        raise PlannerError(
            f"{name}: concurrency={asked!r} must be a number from 1 or (min, max)."
        )
    if asked[0] > asked[1]:
        raise PlannerError(
            f"{name}: concurrency={asked!r} has its minimum above its maximum."
        )
    return asked[0], asked[1]


def count_of(name: str, value: Any, default: int) -> int:  # noqa: ANN401 - typed by a user
    """Return a number from 1, or the default.

    Raises:
        PlannerError: for anything else.
    """
    if value is None:
        return default
    if not _is_count(value):
        raise PlannerError(f"{name}={value!r}: a whole number from 1 is needed.")
    return int(value)


def check_mapping(name: str, value: object) -> None:
    """Refuse what names no values.

    Raises:
        PlannerError: for anything but a table or None.
    """
    if value is not None and not isinstance(value, Mapping):
        raise PlannerError(f"{name}={value!r}: a table such as {{'GPU': 1}} is needed.")


def map_resources(
    name: str, given: Mapping[str, Any] | None, release: RayRelease
) -> tuple[dict[str, float], int | None]:
    """Return what a map task reserves, and how many run at once; None: no limit.

    Raises:
        PlannerError: for what Ray refuses of a function.

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
            f"{name}: concurrency={limit!r}. Ray says: ``concurrency`` is set as a "
            "tuple of integers, but ``fn`` is not a callable class. Give one number."
        )
    if limit is not None and not _is_count(limit):
        raise PlannerError(f"{name}: concurrency={limit!r} must be a number from 1.")
    amounts = {
        "CPU": given.get("num_cpus"),
        "GPU": given.get("num_gpus"),
        "memory": given.get("memory"),
        **(given.get("resources") or {}),
    }
    amounts["CPU"] = 1 if amounts["CPU"] is None else amounts["CPU"]
    kind = given.get("accelerator_type")
    if kind:
        amounts[f"accelerator_type:{kind}"] = 0.001
    checked = {k: _amount(name, k, v) for k, v in amounts.items() if v is not None}
    return checked, limit


def _amount(owner: str, name: str, value: Any) -> float:  # noqa: ANN401 - typed by a user
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value < 0:
        raise PlannerError(f"{owner}: {name}={value!r} must be 0 or more.")
    if value and int(value * SCALE) == 0:
        raise PlannerError(
            f"{owner}: {name}={value!r}. Ray says: The precision of the fractional "
            f"quantity of resource {name} cannot go beyond 0.0001."
        )
    return float(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
