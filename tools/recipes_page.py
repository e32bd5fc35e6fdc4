"""Write docs/recipes.md: what the planner says of the commands of vLLM's recipes.

    python tools/recipes_page.py CASES.jsonl > docs/recipes.md

A case has a `command`, the `env` set before it, the `model`, the `gpu` and the recipe's
`status`. The commands are those of the recipes of the vLLM project (Apache-2.0).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import planner
from planner.planning.result import Outcome

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
## Verified, and yet not "fits"

Recipes do not name the release that they were verified with, and later ones may count
more. A dry run of vLLM 0.33.0, eager, refuses MiniMax-M3 on B200 as well.

Llama-3.3-70B on one B200 likewise: 30.12 GiB of KV cache, and 30.13 in the plan of that
start. DeepSeek-V4-Flash-0731 on GB300 ends in the words of its plan: the flag is gone,
and `indexer_kv_dtype` is in its place.

{rows}
"""

_REQUEST = re.compile(
    r"To serve at least one .* max seq len \((\d+)\), \(([\d.]+ GiB) .* "
    r"memory \(([\d.]+ GiB)\)"
)
"""vLLM's refusal of a KV cache that does not hold one request."""


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
    exceptions = [one for one in planned if one.is_verified and not _fits(one)]
    return HEAD.format(
        newest=planner.Inputs(model="").vllm_version,
        all=len(answers),
        read=sum(one.is_read for one in answers),
        planned=len(planned),
        verdicts="\n".join(_verdicts(planned)),
    ) + EXCEPTIONS.format(rows="\n".join(_exceptions(exceptions)) or "None.")


def is_good(one: Answer) -> bool:
    """Whether a command that somebody ran is said to start."""
    return one.plan is not None and one.plan.outcome in GOOD


def _fits(one: Answer) -> bool:
    return one.plan is not None and one.plan.outcome is Outcome.FITS


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
        yield f"- **{model}** on {', '.join(hardware)}: {verdict}. {why}".rstrip()


def _why(one: Answer) -> str:
    """Return vLLM's words, without its advice and what pydantic adds."""
    if one.plan is not None and one.plan.outcome is Outcome.TOO_CLOSE:
        return ""
    error = None if one.plan is None else one.plan.error
    text = " ".join((one.refusal if error is None else error.message).split())
    text = text.partition(" [type=")[0].partition(". Based on")[0]
    text = _REQUEST.sub(r"For \1 tokens \2 are needed, \3 available.", text)
    return text.replace("<", "&lt;").replace("*", "\\*")


def _hardware(one: Answer) -> str:
    gpus = 1 if one.plan is None else one.plan.gpus_total
    return f"{gpus} x {one.case['gpu']}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
