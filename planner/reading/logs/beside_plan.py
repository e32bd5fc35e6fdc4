"""Where a text and a plan are not of the same start."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.confirming.from_log import contradictions
from planner.planning.result import Plan
from planner.reading.reading import Reading
from planner.units import counted


def differences(reading: Reading, plan: Plan) -> tuple[str, ...]:
    """Return where a text and a plan are not of the same start, in sentences."""
    return tuple(_differences(reading, plan))


def _differences(reading: Reading, plan: Plan) -> Iterator[str]:
    if reading.model is not None and _bare(reading.model) != _bare(plan.name):
        yield f"The text is of {reading.model}, the plan of {plan.name}."
    if reading.log is not None:
        yield from contradictions(reading.log, plan)
    length, planned = _length(reading), plan.resolved
    if planned is not None and length not in (None, planned.max_model_len):
        yield (
            f"The text has max_model_len {length:,}, the plan "
            f"{planned.max_model_len:,}."
        )
    if reading.gpus is not None and reading.gpus != plan.gpus_total:
        yield (
            f"The text has {counted(reading.gpus, 'GPUs')}, the plan {plan.gpus_total}."
        )


def _bare(model: str) -> str:
    return re.split(r"[/\\]", model.rstrip("/\\"))[-1].lower()


def _length(reading: Reading) -> int | None:
    log = reading.log
    logged = None if log is None else log.figures.get("max_concurrency_len")
    given = reading.engine_args.get("max_model_len")
    length = logged or given
    return length if isinstance(length, int) and length > 0 else None
