"""Write docs/recipes.md: what the planner says of the commands of vLLM's recipes.

    python tools/recipes_page.py CASES.jsonl > docs/recipes.md

A case has a `command`, the `env` set before it, the `model`, the `gpu` and the recipe's
`status`. The commands are those of the recipes of the vLLM project (Apache-2.0).
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import planner
from planner.planning.result import Outcome
from planner.units import GIB

GOOD = (Outcome.FITS, Outcome.TOO_CLOSE)
HEAD = """# The commands of vLLM's recipes

The [recipes](https://docs.vllm.ai/projects/recipes) of the vLLM project say how to
serve a model on a kind of hardware. `planner.read` reads and plans each of their
commands for NVIDIA GPUs. `tools/recipes_page.py` writes this page; the commands are of
2026-08-21, planned as vLLM {newest}.

Of {all} commands, {read} are read whole, every flag and variable of them. The model of
{planned} is in the catalogue:

| verdict | verified on that hardware | listed only |
| --- | ---: | ---: |
{verdicts}
"""
EXCEPTIONS = """
## Verified, and yet not "fits" or "too close to call"

Recipes do not name the release that they were verified with, and later ones may count
more. A dry run of vLLM 0.33.0, eager, refuses MiniMax-M3 on B200 as well.

{rows}
"""
TABLE = """
## Every other verified command

GiB of KV cache on each GPU; (?) is too close to call.

| command for | GPUs |
| --- | --- |
{rows}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the planner says of one command."""

    case: dict[str, Any]
    plan: planner.Plan | None
    refusal: str
    is_read: bool

    @property
    def is_verified(self) -> bool:
        """Whether the recipe says that the command was run on that hardware."""
        return bool(self.case["status"] == "verified")


def main(cases: Path) -> None:
    """Plan every case and print the page."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    answers = [answer(json.loads(line)) for line in cases.read_text().splitlines()]
    sys.stdout.write(page(answers))


def answer(case: dict[str, Any]) -> Answer:
    """Read and plan one command."""
    env = " ".join(f"{name}={value}" for name, value in case["env"].items())
    try:
        found = planner.read(f"{env} {case['command']}".strip())
    except planner.PlannerError as error:
        return Answer(case=case, plan=None, refusal=str(error), is_read=False)
    is_read = found.model == case["model"] and not found.unknown
    try:
        plan, refusal = found.plan(gpu=case["gpu"]), ""
    except (planner.ModelNotFound, planner.ModelUnavailable):
        plan, refusal = None, ""
    except planner.PlannerError as error:
        plan, refusal = None, str(error)
    return Answer(case=case, plan=plan, refusal=refusal, is_read=is_read)


def page(answers: Sequence[Answer]) -> str:
    """Return the page of all answers."""
    planned = [one for one in answers if one.plan is not None or one.refusal]
    verified = [one for one in planned if one.is_verified]
    exceptions = [one for one in verified if not is_good(one)]
    return (
        HEAD.format(
            newest=planner.Inputs(model="").vllm_version,
            all=len(answers),
            read=sum(one.is_read for one in answers),
            planned=len(planned),
            verdicts="\n".join(_verdicts(planned)),
        )
        + EXCEPTIONS.format(rows="\n".join(_exceptions(exceptions)) or "None.")
        + TABLE.format(rows="\n".join(_rows(filter(is_good, verified))))
    )


def is_good(one: Answer) -> bool:
    """Whether a command that somebody ran is said to start."""
    return one.plan is not None and one.plan.outcome in GOOD


def _verdicts(planned: Sequence[Answer]) -> Iterator[str]:
    counts = Counter((_verdict(one), one.is_verified) for one in planned)
    for verdict in dict.fromkeys([*map(str, Outcome), "not modelled"]):
        yes, no = counts[verdict, True], counts[verdict, False]
        if yes or no:
            yield f"| {verdict} | {yes} | {no} |"


def _verdict(one: Answer) -> str:
    return "not modelled" if one.plan is None else str(one.plan.outcome)


def _exceptions(answers: Iterable[Answer]) -> Iterator[str]:
    """Yield a line for each model and reason, with the hardware that it holds for."""
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for one in answers:
        found[one.case["model"], _verdict(one), _why(one)].append(_hardware(one))
    for (model, verdict, why), hardware in found.items():
        yield f"- **{model}** on {', '.join(hardware)}: {verdict}. {why}"


def _why(one: Answer) -> str:
    """Return vLLM's words, without its advice and what pydantic adds."""
    error = None if one.plan is None else one.plan.error
    text = " ".join((one.refusal if error is None else error.message).split())
    text = text.partition(". Based on")[0].partition(" [type=")[0]
    return text.replace("<", "&lt;").replace("*", "\\*")


def _hardware(one: Answer) -> str:
    gpus = 1 if one.plan is None else one.plan.gpus_total
    return f"{gpus} x {one.case['gpu']}"


def _rows(answers: Iterable[Answer]) -> Iterator[str]:
    found: dict[str, list[str]] = defaultdict(list)
    for one in answers:
        found[one.case["model"]].append(_held(one))
    for model, held in found.items():
        yield f"| {model} | {', '.join(held)} |"


def _held(one: Answer) -> str:
    rank = None if one.plan is None else one.plan.limiting_rank
    if one.plan is None or rank is None:
        return _hardware(one)
    mark = " (?)" if one.plan.outcome is Outcome.TOO_CLOSE else ""
    return f"{_hardware(one)}: {rank.available_kv_cache_bytes / GIB:.1f}{mark}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
