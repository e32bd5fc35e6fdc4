"""Write docs/recipes.md: what the planner says of the commands of vLLM's recipes.

    python tools/recipes_page.py CASES.jsonl > docs/recipes.md

A case has a `command`, the `env` set before it, the `model`, the `gpu` and the recipe's
`status`. The commands are those of the recipes of the vLLM project (Apache-2.0).
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import planner
from planner.planning.result import Outcome
from planner.units import format_gib

GOOD = (Outcome.FITS, Outcome.TOO_CLOSE)
HEAD = """# The commands of vLLM's recipes

The [recipes](https://docs.vllm.ai/projects/recipes) of the vLLM project say how to
serve a model on a kind of hardware. `planner.read` reads each of their commands for
NVIDIA GPUs as it stands, and plans it. This page is written by `tools/recipes_page.py`;
the commands are of 2026-08-21, planned as vLLM {newest}.

Of {all} commands, {read} are read whole, every flag and variable of them. The model of
{planned} is in the catalogue; their verdicts:

| verdict | verified on that hardware | listed only |
| --- | ---: | ---: |
{verdicts}
"""
EXCEPTIONS = """
## Verified, and yet not "fits" or "too close to call"

Recipes do not name the release that they were verified with, and later ones may count
more. MiniMax-M3 on B200 was looked into: a dry run of vLLM 0.33.0, eager, refuses it as
well, with 40.24 GiB of KV cache where the plan of that start has 40.33. Its profile run
encodes a video of 768,000 patches.

Llama-3.3-70B on one B200 likewise: 30.12 GiB of KV cache, and 30.13 in the plan of that
start. DeepSeek-V4-Flash-0731 on GB300 ends in the words of its plan: the flag is gone,
and `indexer_kv_dtype` is in its place.

{rows}
"""
TABLE = """
## Every verified command of a model in the catalogue

The smallest GPU decides; KV cache is for each GPU.

| command for | GPUs | verdict | KV cache | tokens |
| --- | --- | --- | ---: | ---: |
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
        + EXCEPTIONS.format(rows="\n".join(map(_exception, exceptions)) or "None.")
        + TABLE.format(rows="\n".join(_row(one) for one in verified if one.plan))
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


def _exception(one: Answer) -> str:
    error = None if one.plan is None else one.plan.error
    why = one.refusal if error is None else error.message
    text = " ".join(why.split()).replace("<", "&lt;").replace("*", "\\*")
    return f"- **{one.case['model']}** on {_hardware(one)}: {_verdict(one)}. {text}"


def _hardware(one: Answer) -> str:
    gpus = 1 if one.plan is None else one.plan.gpus_total
    return f"{gpus} x {one.case['gpu']}"


def _row(one: Answer) -> str:
    plan = one.plan
    rank = None if plan is None else plan.limiting_rank
    if plan is None or rank is None:
        return f"| {one.case['model']} | {_hardware(one)} | {_verdict(one)} | | |"
    return (
        f"| {one.case['model']} | {_hardware(one)} | {plan.outcome} | "
        f"{format_gib(rank.available_kv_cache_bytes)} | "
        f"{plan.kv_cache_size_tokens:,} |"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
