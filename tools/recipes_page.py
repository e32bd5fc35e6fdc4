"""What the planner says of the commands of vLLM's recipes: the page, and its table.

    python -m tools.recipes_page CASES.jsonl > docs/recipes.md

The table of what each command needs goes to docs/recipes/vram.csv.

A case has a `command`, the `env` set before it, the `model`, the `gpu` and the recipe's
`status`. The commands are those of the recipes of the vLLM project (Apache-2.0).
"""

from __future__ import annotations

import json
import math
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
from planner.units import GIB
from tools.recipes_vram import needed_gib, rule_gb

TABLE = Path(__file__).resolve().parents[1] / "docs" / "recipes" / "vram.csv"
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
VRAM = """
## The memory that a recipe states

A recipe states the memory of its GPUs together, `vram_minimum_gb`, as parameters x
bytes x 1.2, whatever the context, the layout and the GPU. What the planned start needs
is in [recipes/vram.csv](recipes/vram.csv) for {derived} commands and their hardware, in
the GiB that a GPU's name counts: weights after loading, buffers, activations, graphs
and the KV cache of one request of the whole context, by the share that vLLM may use.

The rule can be applied to {ruled} of them, those of one format:

| the rule states | commands | largest |
| --- | ---: | --- |
| less than the start needs | {less} | {smallest} |
| more | {more} | {largest} |
| enough, and the start does not fit the hardware | {passed} | {passed_names} |
| too much for hardware that starts it | {kept} | {kept_names} |

`python -m tools.recipes_vram models/ORG/MODEL.yaml --gpu H200` says of each variant
what is stated and what it needs, and fails where that is more:
[a workflow](upstream/recipes-memory.yml) does so for each changed recipe of a pull
request.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The memory of all GPUs that one command needs, and what the rule states."""

    answer: Answer
    needed: float
    rule: int | None

    @property
    def model(self) -> str:
        """The model's name."""
        return str(self.answer.case["model"])

    @property
    def plan(self) -> planner.Plan:
        """The plan of its start."""
        assert self.answer.plan is not None
        return self.answer.plan

    @property
    def gpus(self) -> int:
        """How many GPUs it runs on."""
        return self.plan.gpus_total

    @property
    def ratio(self) -> float:
        """What the rule states, as a share of what is needed."""
        return (self.rule or 0) / self.needed

    @property
    def is_let_in(self) -> bool:
        """Whether the hardware has what the rule states."""
        total = self.gpus * self.plan.gpu.total_memory_bytes / GIB
        return (self.rule or 0) <= total

    def __str__(self) -> str:
        """Return it in words."""
        return (
            f"{self.model} on {self.gpus} x {self.answer.case['gpu']}: {self.rule}, "
            f"{self.needed:.0f} needed"
        )


def main(cases: Path) -> None:
    """Plan every case, write the table and print the page."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    answers = [answer(json.loads(line)) for line in cases.read_text().splitlines()]
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(table(answers), encoding="utf-8")
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
    ) + "".join(
        [
            EXCEPTIONS.format(rows="\n".join(_exceptions(exceptions)) or "None."),
            vram(answers),
        ]
    )


def needs(answers: Sequence[Answer]) -> list[Need]:
    """Return what each planned command needs, and what the recipes' rule states."""
    found = []
    for one in answers:
        needed = None if one.plan is None else needed_gib(one.plan)
        if one.plan is not None and needed is not None:
            found.append(Need(answer=one, needed=needed, rule=rule_gb(one.plan)))
    return found


def vram(answers: Sequence[Answer]) -> str:
    """Return the section on the memory that recipes state."""
    derived = needs(answers)
    ruled = [one for one in derived if one.rule is not None]
    less = sorted((one for one in ruled if one.ratio < 1), key=lambda one: one.ratio)
    more = sorted((one for one in ruled if one.ratio >= 1), key=lambda one: -one.ratio)
    passed = [one for one in ruled if one.is_let_in and not is_good(one.answer)]
    kept = [one for one in ruled if not one.is_let_in and is_good(one.answer)]
    return VRAM.format(
        derived=len(derived),
        ruled=len(ruled),
        less=len(less),
        smallest=less[0],
        more=len(more),
        largest=more[0],
        passed=len(passed),
        passed_names=", ".join(dict.fromkeys(one.model for one in passed)) or "none",
        kept=len(kept),
        kept_names=", ".join(dict.fromkeys(one.model for one in kept)) or "none",
    )


def table(answers: Sequence[Answer]) -> str:
    """Return what each command needs, as the lines of a table."""
    rows = [
        f"{one.model},{one.answer.case['gpu']},{one.gpus},{math.ceil(one.needed)},"
        f"{'' if one.rule is None else one.rule},{_verdict(one.answer)}"
        for one in needs(answers)
    ]
    return "\n".join(["model,gpu,gpus,needed_gib,rule_gb,verdict", *rows]) + "\n"


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
