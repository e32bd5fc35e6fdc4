"""keep_speed(): an own measurement corrects later forecasts of the same start."""

from __future__ import annotations

from pathlib import Path

from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.planning.result import Plan
from planner.solve.speed.bench import MeasuredSpeed, read_bench
from planner.solve.speed.forecast import plain_figures
from planner.solve.speed.own import keep
from planner.user_files import MOST_CONFIG_BYTES, read_file


@named_in_errors
def keep_speed(plan: Plan, measured: str | Path | MeasuredSpeed) -> MeasuredSpeed:
    """Keep what `vllm bench serve` measured of a start, for later forecasts of it.

    A start is the same on the same GPU, with the same model, layout and formats.

    Args:
        plan: the start that was measured.
        measured: the file of --result-filename, its text, or what was printed.

    Raises:
        PlannerError: for anything else, for a start without a forecast, or where
            nothing is kept, such as in a published app.
    """
    found = measured_of(measured)
    keep(plan, found, plain_figures(plan, found.load))
    return found


def measured_of(given: str | Path | MeasuredSpeed) -> MeasuredSpeed:
    """Return what was measured: given, in a text or in a file.

    Raises:
        PlannerError: for a file that cannot be read, or another text.
    """
    if isinstance(given, MeasuredSpeed):
        return given
    is_text = isinstance(given, str) and ("\n" in given or given.lstrip()[:1] == "{")
    if is_text:
        return read_bench(str(given))
    raw = read_file(Path(given), MOST_CONFIG_BYTES, what="The result ")
    try:
        return read_bench(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise PlannerError(f"{given} is not a text.") from None
