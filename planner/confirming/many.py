"""Many plans, confirmed one after the other on one machine, to be taken up again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.confirming.as_dict import confirmation_dict, question_dict
from planner.confirming.events import Listener
from planner.confirming.options import RunOptions
from planner.confirming.run import Run
from planner.errors import PlannerError
from planner.result import Plan

if TYPE_CHECKING:
    from pandas import DataFrame

    from planner.confirming.confirmation import Confirmation

_COLUMNS = (
    *("available_kv_cache_bytes", "num_gpu_blocks"),
    *("kv_cache_size_tokens", "max_concurrency"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One plan of a sweep and what came of it, as plain values."""

    asked: Mapping[str, Any]
    """Model, GPU, release, arguments: what the plan was made from."""
    options: Mapping[str, Any]
    """How vLLM was started, such as with dummy weights."""
    outcome: str
    """A `Confirmed`, or "not started"."""
    problem: str = ""
    """Why nothing was started; empty where it was."""
    figures: Mapping[str, Any]
    """The whole confirmation but its log; empty where nothing was started."""

    def to_dict(self) -> dict[str, Any]:
        """Return one line of the file."""
        return {
            "asked": dict(self.asked),
            "options": dict(self.options),
            "outcome": self.outcome,
            "problem": self.problem,
            "figures": dict(self.figures),
        }


@dataclass(frozen=True, slots=True)
class Sweep(Sequence[SweepRow]):
    """The rows of a sweep, in the order of its plans."""

    rows: tuple[SweepRow, ...]

    def __len__(self) -> int:
        """How many plans there were."""
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401 - a number or a slice
        return self.rows[place]

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each plan: what was asked, estimated and measured."""
        return [_table_row(row) for row in self.rows]

    def to_frame(self) -> DataFrame:
        """Return the table as a pandas frame."""
        from pandas import DataFrame  # noqa: PLC0415 - optional and slow

        return DataFrame(self.table())

    def __str__(self) -> str:
        return "\n".join(_text(row) for row in self.rows)

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html())


def confirm_many(
    plans: Iterable[Plan],
    results: str | PathLike[str] | None = None,
    *,
    listener: Listener | None = None,
    logs: str | PathLike[str] | None = None,
    **options: Any,  # noqa: ANN401 - those of RunOptions
) -> Sweep:
    """Confirm plans one after the other; go on where an earlier call was interrupted.

    Args:
        plans: what to start, in this order.
        results: file of JSON lines, one for each finished plan; plans that it holds
            already, with the same options, are not started again. None: no file.
        listener: is told of the progress of each start.
        logs: folder for vLLM's logs, one file for each start; None: not kept.
        options: as `confirm` has them, the same for all.

    Raises:
        PlannerError: for a wrong option or a file that cannot be written. What cannot
            be started becomes a row of the result, and the next plan goes on.
    """
    chosen = RunOptions(**options)
    path = None if results is None else Path(results)
    known = {} if path is None else {_key(row): row for row in _read(path)}
    rows: list[SweepRow] = []
    for number, plan in enumerate(plans):
        row = known.get(_identity(question_dict(plan), _told(chosen)))
        if row is None:
            row, log_text = _confirm(plan, chosen, listener)
            _write(path, row)
            _write_log(logs, f"{number:03d}", log_text)
        rows.append(row)
    return Sweep(tuple(rows))


def _confirm(
    plan: Plan, options: RunOptions, listener: Listener | None
) -> tuple[SweepRow, str]:
    asked, told = question_dict(plan), _told(options)
    try:
        confirmation: Confirmation = Run(plan, options, listener).execute()
    except PlannerError as error:
        row = SweepRow(
            asked=asked,
            options=told,
            outcome="not started",
            problem=str(error),
            figures={},
        )
        return row, ""
    return (
        SweepRow(
            asked=asked,
            options=told,
            outcome=str(confirmation.outcome),
            figures=confirmation_dict(confirmation),
        ),
        confirmation.log_text,
    )


def _told(options: RunOptions) -> dict[str, Any]:
    """Return the options that change what is measured."""
    return {"weights": options.weights, "load_requests": options.load_requests}


def _key(row: SweepRow) -> str:
    return _identity(row.asked, row.options)


def _identity(asked: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    return json.dumps([asked, options], sort_keys=True, default=str)


def _read(path: Path) -> Iterator[SweepRow]:
    """Yield the rows of a file that stand for a start; a torn last line is none.

    What could not be started is tried again: a GPU may have become free.
    """
    if not path.is_file():
        return
    for line in _text_of(path).splitlines():
        try:
            row = SweepRow(**json.loads(line))
        except (ValueError, TypeError):
            continue
        if not row.problem:
            yield row


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlannerError(
            f"The results in {path} cannot be read ({error}). Give another file."
        ) from error


def _write(path: Path | None, row: SweepRow) -> None:
    if path is None:
        return
    line = json.dumps(row.to_dict(), default=str) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            # A line that was torn off earlier must not swallow this one.
            if file.tell() and not _ends_line(path):
                file.write(b"\n")
            file.write(line.encode())
    except OSError as error:
        raise PlannerError(
            f"The results cannot be written to {path} ({error}). Make room or give "
            "another file; what was measured before is in it."
        ) from error


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"


def _write_log(logs: str | PathLike[str] | None, name: str, text: str) -> None:
    if logs is None or not text:
        return
    folder = Path(logs)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.log").write_text(text, encoding="utf-8")
    except OSError as error:
        raise PlannerError(
            f"The log cannot be written to {folder} ({error}). Give another folder."
        ) from error


def _table_row(row: SweepRow) -> dict[str, Any]:
    measured = row.figures.get("measured", {})
    estimated = row.figures.get("plan", {})
    pairs = {
        f"{side} {name}": figures.get(name)
        for name in _COLUMNS
        for side, figures in (("estimated", estimated), ("measured", measured))
    }
    arguments = row.asked["arguments"]
    return {
        "model": row.asked["model"],
        **arguments,
        "outcome": row.outcome,
        **pairs,
        "seconds": measured.get("seconds"),
        "error": row.problem or measured.get("error"),
    }


def _text(row: SweepRow) -> str:
    arguments = " ".join(f"{k}={v}" for k, v in row.asked["arguments"].items())
    words = f"{row.asked['model']} {arguments}: {row.outcome}"
    return f"{words}. {row.problem}" if row.problem else words
