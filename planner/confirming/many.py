"""Several plans, confirmed one by one or on a cluster; a sweep can be resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from planner.confirming.confirmation import confirmation_dict, question_dict
from planner.confirming.many_file import (
    ResultsFile,
    SweepRow,
    not_started,
    options_dict,
    write_log,
)
from planner.confirming.options import CLUSTER, ClusterOptions, Listener, RunOptions
from planner.confirming.run import Run
from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.planning.result import Plan
from planner.values import frozen

if TYPE_CHECKING:
    from pandas import DataFrame

    from planner.confirming.confirmation import Confirmation

_COLUMNS = (
    *("available_kv_cache_bytes", "num_gpu_blocks"),
    *("kv_cache_size_tokens", "max_concurrency"),
)


@frozen(kw_only=False)
class Sweep(Sequence[SweepRow]):
    """The rows of a sweep, in the order of its plans."""

    rows: tuple[SweepRow, ...]

    def __len__(self) -> int:
        """How many plans there were."""
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401 - a number or a slice
        return self.rows[place]

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each plan: arguments, estimated and measured figures."""
        return [_table_row(row) for row in self.rows]

    def to_frame(self) -> DataFrame:
        """Return the table as a pandas frame."""
        from pandas import DataFrame  # noqa: PLC0415 - optional and slow

        return DataFrame(self.table())

    def __str__(self) -> str:
        return "\n".join(_text(row) for row in self.rows)

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html())


@named_in_errors
def confirm_many(
    plans: Iterable[Plan],
    results: str | PathLike[str] | None = None,
    *,
    address: str | None = None,
    listener: Listener | None = None,
    logs: str | PathLike[str] | None = None,
    **options: Any,  # noqa: ANN401 - those of RunOptions and ClusterOptions
) -> Sweep:
    """Confirm plans here one by one, or all at once on a Ray cluster.

    A call continues where an earlier one with the same file was interrupted.

    Args:
        plans: the plans to start; on this machine in this order.
        results: file of JSON lines, one for each finished plan; plans that it already
            has, with the same options, are not started again. None: no file.
        address: of a Ray cluster: "auto" for the one that this machine is part of, its
            host:port there, "ray://host:port" from elsewhere, "local" for one that is
            started here and stopped again. None: without Ray, on this machine.
        listener: is called with the progress of each start; on a cluster with
            `ClusterEvent`s, which say whose it is.
        logs: folder for vLLM's logs, one file for each start; None: not kept.
        options: those of `confirm`, the same for all plans; with an address also
            retries, cpus, wait_seconds, node_types and runtime_env; see
            `ClusterOptions`.

    Raises:
        PlannerError: for a wrong option or a file that cannot be written; for a cluster
            that does not answer or disappears. A plan that cannot be started becomes a
            row of the result, and the others continue.
    """
    all_plans = tuple(plans)
    on_cluster = {name: options.pop(name) for name in CLUSTER if name in options}
    chosen = RunOptions(**options)
    if address is None and on_cluster:
        raise PlannerError(
            f"{', '.join(on_cluster)}: for starts on a Ray cluster; give its address=, "
            "or leave them out."
        )
    with ResultsFile(results) as file:
        if address is None:
            return Sweep(tuple(_one_by_one(all_plans, chosen, file, listener, logs)))
        where = ClusterOptions(address=address, **on_cluster)
        from planner.confirming.many_cluster import ClusterRuns  # noqa: PLC0415 - it starts vLLM

        runs = ClusterRuns(
            *(all_plans, chosen, where, file, listener, logs),
        )
        return Sweep(runs.execute())


def _one_by_one(
    plans: Sequence[Plan],
    options: RunOptions,
    file: ResultsFile,
    listener: Listener | None,
    logs: str | PathLike[str] | None,
) -> Iterator[SweepRow]:
    for number, plan in enumerate(plans):
        row = file.find(plan, options)
        if row is None:
            row, log_text = _confirm(plan, options, listener)
            file.write(row)
            write_log(logs, f"{number:03d}", log_text)
        yield row


def _confirm(
    plan: Plan, options: RunOptions, listener: Listener | None
) -> tuple[SweepRow, str]:
    try:
        confirmation: Confirmation = Run(plan, options, listener).execute()
    except PlannerError as error:
        return not_started(plan, options, str(error)), ""
    return (
        SweepRow(
            asked=question_dict(plan),
            options=options_dict(options),
            outcome=str(confirmation.outcome),
            figures=confirmation_dict(confirmation),
        ),
        confirmation.log_text,
    )


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
