"""Changes that answer a failed check, each planned, in the user's own text."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from planner.confirming.log import LogReading
from planner.engine.arguments import ARGUMENTS, PLANNER_ONLY
from planner.engine.environment_names import assignments
from planner.engine.gpu import GPU
from planner.engine.server import SERVER_FLAGS
from planner.errors import PlannerError
from planner.planning.result import Outcome, Plan
from planner.reading.logs.checks import (
    Check,
    Failure,
    StartStage,
    answer_table,
    check_table,
)
from planner.reading.logs.command_before import command_in
from planner.reading.reading import Reading
from planner.reading.starts.command import flag_words
from planner.show.verdict import verdict
from planner.solve.advice.result import AdviceItem
from planner.solve.advice.situation import Burden
from planner.units import MIB, format_gib
from planner.values import frozen

_NOT_FLAGS = ("gpu", "entrypoint", "env", "vllm_version", "model")
_SPARE_BYTES = 256 * MIB
"""Left over beside what was missing: memory outside of the budget varies."""
_NEARLY = 0.98
"""Of vLLM's own estimate: the next start may have a little less."""
_STEP = 256
_MOST_FIXES = 8
_FIGURES = ("gpu_memory_utilization", "max_model_len", "max_num_seqs")
_MOST_SHARE = 0.97
_FEWEST_TOKENS = 2048
_FULL = (Check.WARM_UP, Check.GRAPHS, Check.ALLOCATION, Check.CUDA)
"""Checks that say that the GPU was full."""


@frozen
class Answer:
    """A change that may help, before it is planned."""

    title: str
    changes: Mapping[str, Any]
    cost: str
    burden: Burden


@frozen
class Fix:
    """One change, planned, with the user's own text changed."""

    title: str
    changes: Mapping[str, Any]
    """Engine arguments and inputs; None takes one out."""
    cost: str
    """What it costs, in one sentence."""
    result: str
    """What the plan with it says."""
    starts: bool
    text: str
    """The text with this change, everything else as it was."""
    by_hand: str = ""
    """Why the text could not be changed, and where to change it; `text` is then a
    command that starts the same."""
    burden: Burden
    """What it takes from its user: the cheapest comes first."""
    plan: Plan | None = field(repr=False)
    """None where the text does not tell enough for a plan."""

    @property
    def heading(self) -> str:
        """What is written over the text."""
        return "A command with it" if self.by_hand else "Your text with it"

    def to_dict(self) -> dict[str, Any]:
        """Return the change as plain values."""
        return {
            "title": self.title,
            "changes": dict(self.changes),
            "cost": self.cost,
            "burden": self.burden.name.lower(),
            "result": self.result,
            "starts": self.starts,
            "text": self.text,
            "by_hand": self.by_hand,
        }


def unplanned(reading: Reading, answer: Answer) -> Fix:
    """Return a change that vLLM's own figures answer, where nothing can be planned."""
    text, by_hand = changed_text(reading, answer.changes, None)
    return Fix(
        title=answer.title,
        changes=dict(answer.changes),
        cost=answer.cost,
        burden=answer.burden,
        result="? By vLLM's own figures in the text; not planned",
        starts=False,
        text=text,
        by_hand=by_hand,
        plan=None,
    )


def fix_of(
    reading: Reading,
    gpu: str | GPU | None,
    given: Mapping[str, Any],
    answer: Answer,
    shift_bytes: int | None = None,
) -> Fix | None:
    """Return a change, planned; None where it cannot be planned.

    Args:
        reading: the text to change.
        gpu: the GPU, where it is not the text's.
        given: changes that are made in any case.
        answer: the change.
        shift_bytes: how much more KV cache a start had than was planned for it; it is
            added to the plan of the change. None if no start was measured.
    """
    together = {**given, **answer.changes}
    device = together.pop("gpu", gpu)
    try:
        plan = reading.inputs(device, **together).plan()
    except PlannerError:
        return None
    text, by_hand = changed_text(reading, together, plan)
    starts = plan.fits if shift_bytes is None else _holds(plan, shift_bytes)
    return Fix(
        title=answer.title,
        changes=dict(answer.changes),
        cost=answer.cost,
        burden=answer.burden,
        result=_result(plan, starts=starts),
        starts=starts,
        text=text,
        by_hand=by_hand,
        plan=plan,
    )


def _holds(plan: Plan, shift_bytes: int) -> bool:
    """Return whether one request fits, counted from what a start measured."""
    margin = plan.margin_bytes
    is_sized = plan.outcome in (Outcome.FITS, Outcome.TOO_CLOSE)
    return is_sized and margin is not None and margin + shift_bytes >= 0


def _result(plan: Plan, *, starts: bool) -> str:
    """Say whether it starts; and what the estimate says, where a log says otherwise.

    Whoever makes the change sees the estimate's verdict next, without the log.
    """
    said = verdict(plan)
    rank = plan.limiting_rank
    is_told_otherwise = starts != plan.fits
    alone = ""
    if is_told_otherwise:
        alone = f"; Apply shows the estimate without the log: {said.headline}"
    if not starts and is_told_otherwise:
        return f"\u2718 Does not fit, counted from what the log measured{alone}"
    if not starts or rank is None or plan.resolved is None:
        return f"{said.symbol} {said.headline}"
    measured = ", counted from what the log measured" if is_told_otherwise else ""
    return (
        f"\u2714 Fits{measured}{alone}. KV cache "
        f"{format_gib(rank.available_kv_cache_bytes)} planned, "
        f"{plan.all_engines.max_concurrency:.2f} requests of "
        f"{plan.resolved.max_model_len:,} tokens"
    )


def changed_text(
    reading: Reading, changes: Mapping[str, Any], plan: Plan | None
) -> tuple[str, str]:
    """Return the user's text with changes; for a log, the command that starts it.

    The second is why the text cannot be changed: the first is then a command.
    """
    otherwise = "" if plan is None else plan.command()
    flags = {
        name: value
        for name, value in changes.items()
        if name not in (*_NOT_FLAGS, *PLANNER_ONLY) or name == "model"
    }
    own = reading if reading.start is not None else command_in(reading.given)
    if own is not None:
        try:
            return own.text(**flags), ""
        except PlannerError as error:
            return otherwise, str(error)
    if reading.log is None:
        return otherwise, ""
    return _command(reading, flags, plan), ""


def _command(reading: Reading, changes: Mapping[str, Any], plan: Plan | None) -> str:
    """Return the command of a log's arguments, those of the server included."""
    log_model = None if reading.log is None else reading.log.model
    named = None if plan is None else plan.name
    model = changes.get("model") or log_model or named or reading.model or "MODEL"
    values = {**reading.engine_args, **reading.kept, **changes}
    words = [
        word
        for name, value in values.items()
        if value is not None
        and name not in _NOT_FLAGS
        and (name in ARGUMENTS or name in SERVER_FLAGS)
        for word in flag_words(name, value)
    ]
    start = shlex.join(["vllm", "serve", str(model), *words])
    return " ".join([*assignments(reading.env.items()), start])


def _answer(name: str, number: float, *figures: float) -> Answer:
    """Return a change to a number, as a row of `planner/data/failed_checks.json`."""
    row = answer_table()[name]
    return Answer(
        title=row["title"].format(number, *figures),
        changes={row["argument"]: number},
        cost=row["cost"].format(number, *figures),
        burden=Burden[row["burden"].upper()],
    )


def answers_of_text(failure: Failure, log: LogReading) -> Iterator[Answer]:
    """Yield the changes that vLLM's own figures of a failed check answer."""
    numbers = check_table()[failure.check].numbers_in(log.error or "")
    free = log.figures.get("free_at_start_gib")
    whole = log.figures.get("total_gpu_gib")
    most = log.figures.get("estimated_max_len", 0)
    length = int(most * _NEARLY) // _STEP * _STEP
    blocks = int(log.figures.get("mamba_blocks", 0))
    if failure.check is Check.FREE_MEMORY and free and whole:
        yield _answer("free share", int(free / whole * 100) / 100)
    elif failure.check is Check.MAX_MODEL_LEN and length:
        yield _answer("shorter", length, most)
    elif failure.check is Check.MAMBA and blocks:
        yield _answer("sequence for each block", blocks)
    elif failure.check is Check.TOO_LONG:
        yield from answers_of_refusal(log.error or "")
    elif failure.check is Check.GPUS and numbers.get("there"):
        yield _answer("GPUs that are there", numbers["there"])


def answers_of_refusal(message: str) -> Iterator[Answer]:
    """Yield the length that vLLM would take, where it refuses a longer one."""
    numbers = check_table()[Check.TOO_LONG].numbers_in(message)
    if numbers:
        yield _answer("derived length", numbers["derived"])


def answers(failure: Failure, log: LogReading, plan: Plan) -> Iterator[Answer]:
    """Yield the changes that answer a failed check directly, the cheapest first."""
    yield from answers_of_text(failure, log)
    missing = failure.missing_bytes or 0
    if failure.check in (Check.MAX_MODEL_LEN, Check.NO_KV, Check.MAMBA):
        yield from _more_share(plan, missing)
    elif failure.check in _FULL:
        yield from _after_full(failure, plan, missing + _SPARE_BYTES)


def _of(plan: Plan) -> float:
    share = plan.resolved.gpu_memory_utilization if plan.resolved else None
    return 0.9 if share is None else share


def _more_share(plan: Plan, missing: int) -> Iterator[Answer]:
    """Yield a larger share of the GPU, if that much is free."""
    total = plan.gpu.total_memory_bytes
    free = plan.gpu.free_memory_bytes or total
    wanted = -int(-(_of(plan) + (missing + _SPARE_BYTES) / total) * 100 // 1) / 100
    if missing and wanted <= min(_MOST_SHARE, free / total):
        yield _answer("larger share", wanted)


def _after_full(failure: Failure, plan: Plan, missing: int) -> Iterator[Answer]:
    """Yield what leaves memory outside of the budget, or needs less of it."""
    resolved = plan.resolved
    if resolved is None or failure.stage is StartStage.LOADING:
        return
    if failure.stage is StartStage.PROFILE:
        tokens = resolved.max_num_batched_tokens // 2
        if tokens >= _FEWEST_TOKENS:
            yield _answer("half of the tokens", tokens)
        return
    lower = int((_of(plan) - missing / plan.gpu.total_memory_bytes) * 100) / 100
    is_captured = failure.stage is StartStage.CAPTURE
    requests = resolved.max_num_seqs // 2
    if lower > 0:
        yield _answer("smaller share", lower)
    if requests and (failure.check is Check.WARM_UP or is_captured):
        yield _answer("half of the requests", requests)
    if is_captured and not resolved.enforce_eager:
        yield _answer("no graphs", True)


def one_checkpoint_each(offered: Iterable[AdviceItem]) -> Iterator[AdviceItem]:
    """Yield advice without estimated checkpoints, and of others one for each cost.

    A list of checkpoints would leave no room for settings.
    """
    seen = set()
    for item in offered:
        if item.is_estimated:
            continue
        if "model" in item.changes:
            if item.cost_class in seen:
                continue
            seen.add(item.cost_class)
        yield item


def is_no_length(fix: Fix) -> bool:
    """Return whether a change is another than the first that people make: a length."""
    return set(fix.changes) != {"max_model_len"}


def ranked(fixes: Iterable[Fix]) -> tuple[Fix, ...]:
    """Return the first changes, in their order; of one figure only the first value."""
    found: dict[object, Fix] = {}
    for fix in fixes:
        named = ((n, "" if n in _FIGURES else repr(v)) for n, v in fix.changes.items())
        found.setdefault(tuple(sorted(named)), fix)
    return tuple(found.values())[:_MOST_FIXES]
