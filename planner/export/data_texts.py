"""A plan as data: JSON of everything, CSV of the memory lines."""

from __future__ import annotations

import csv as csv_format
import json as json_format
import re
from io import StringIO
from typing import TYPE_CHECKING, Any

from planner.data import DATA
from planner.engine.flags import plain
from planner.engine.gpu import gpu_dict
from planner.engine.settings import given_arguments
from planner.export.needs import environment
from planner.given import named_in_errors

if TYPE_CHECKING:
    from planner.memory.account import Line
    from planner.memory.host.nodes import NodeLine
    from planner.planning.result import Plan

_COLUMNS = (
    *("model", "gpu", "vllm_version", "pp_rank", "place", "line"),
    *("bytes", "low_bytes", "high_bytes", "basis", "why"),
)
_FORMULA = ("=", "+", "-", "@")
"""Characters that start a formula in a spreadsheet, even after spaces."""


@named_in_errors
def json(plan: Plan) -> str:
    """Return the plan as JSON: `Plan.to_dict()`, and its inputs under "inputs".

    >>> import planner
    >>> plan = planner.plan("Qwen/Qwen3-8B", max_model_len=4096)
    >>> whole = json_format.loads(json(plan))
    >>> whole["fits"], whole["inputs"]["engine_args"]
    (True, {'max_model_len': 4096})
    """
    whole = plan.to_dict() | {"inputs": inputs_dict(plan)}
    return json_format.dumps(plain(whole), indent=2, default=str) + "\n"


def json_schema() -> str:
    """Return the JSON Schema (draft 7) of `Plan.to_dict()`, versioned.

    >>> json_format.loads(json_schema())["properties"]["schema_version"]["const"]
    '1.1'
    """
    return (DATA / "plan.schema.json").read_text(encoding="utf-8")


def inputs_dict(plan: Plan) -> dict[str, Any]:
    """Return the inputs of the plan, without tokens."""
    given = given_arguments(plan.settings)
    return {
        "model": plan.name,
        "gpu": gpu_dict(plan.gpu),
        "vllm_version": plan.vllm_version,
        "entrypoint": plan.entrypoint,
        "env": environment(plan),
        "engine_args": {
            name: value for name, value in given.items() if name != "hf_token"
        },
    }


@named_in_errors
def csv(plan: Plan) -> str:
    """Return the memory lines as CSV, one row each, sizes in whole bytes.

    A cell that a spreadsheet would run as a formula starts with an apostrophe.
    """
    table = StringIO()
    writer = csv_format.writer(table, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for rank in plan.ranks:
        for place, lines in (("budget", rank.lines), ("outside", rank.outside)):
            for line in lines:
                writer.writerow(_row(plan, rank.pp_rank, place, line))
    for account in plan.host:
        for host_line in account.lines if account.is_worth_showing else ():
            writer.writerow(_host_row(plan, account.nodes[0], host_line))
    return table.getvalue()


def _host_row(plan: Plan, node: int, line: NodeLine) -> list[object]:
    """Return a line of a machine's CPU memory; "place" has the machine's number."""
    return [
        *map(_harmless, (plan.name, plan.gpu.name, plan.vllm_version)),
        "",
        f"CPU memory of machine {node}",
        _harmless(line.name),
        *((line.size_bytes,) * 3),
        str(line.basis),
        _harmless(line.why),
    ]


def _row(plan: Plan, pp_rank: int, place: str, line: Line) -> list[object]:
    return [
        *map(_harmless, (plan.name, plan.gpu.name, plan.vllm_version)),
        pp_rank,
        place,
        _harmless(line.name),
        line.size_bytes,
        line.low_bytes,
        line.high_bytes,
        str(line.basis),
        _harmless(line.why),
    ]


def _harmless(text: str) -> str:
    line = re.sub(r"[\r\n\t]", " ", text)
    return f"'{line}" if line.lstrip().startswith(_FORMULA) else line
