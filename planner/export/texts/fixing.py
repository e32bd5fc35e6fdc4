"""Changes that answer a failed check, each planned, in the user's own text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from planner.confirming.log import LogReading
from planner.engine.arguments import ARGUMENTS
from planner.engine.gpu import GPU
from planner.engine.server import SERVER_FLAGS
from planner.errors import PlannerError
from planner.export.texts.command import flag_words
from planner.export.texts.failing import Check, Failure, Stage
from planner.export.texts.logs import command_in
from planner.export.texts.reading import Reading
from planner.planning.result import Plan
from planner.show.verdict import verdict
from planner.units import MIB, format_gib

_NOT_FLAGS = ("gpu", "entrypoint", "env", "vllm_version", "model")
_SPARE_BYTES = 256 * MIB
"""Left over beside what was missing: memory outside of the budget varies."""
_NEARLY = 0.98
"""Of vLLM's own estimate: the next start may have a little less."""
_STEP = 256
_MOST_SHARE = 0.97
_FEWEST_TOKENS = 2048
Answer: TypeAlias = "tuple[str, dict[str, Any], str]"
"""A title, the changes, and what they cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    plan: Plan = field(repr=False)


def fix_of(
    reading: Reading,
    gpu: str | GPU | None,
    given: Mapping[str, Any],
    answer: Answer,
) -> Fix | None:
    """Return a change, planned; None where it cannot be planned."""
    title, changes, cost = answer
    together = {**given, **changes}
    device = together.pop("gpu", gpu)
    try:
        plan = reading.inputs(device, **together).plan()
    except PlannerError:
        return None
    return Fix(
        title=title,
        changes=dict(changes),
        cost=cost,
        result=_result(plan),
        starts=plan.fits,
        text=changed_text(reading, {**given, **changes}, plan),
        plan=plan,
    )


def _result(plan: Plan) -> str:
    said = verdict(plan)
    rank = plan.limiting_rank
    if not plan.fits or rank is None or plan.resolved is None:
        return f"{said.symbol} {said.headline}"
    return (
        f"{said.symbol} {said.headline}: KV cache "
        f"{format_gib(rank.available_kv_cache_bytes)}, {plan.max_concurrency:.2f} "
        f"requests of {plan.resolved.max_model_len:,} tokens"
    )


def changed_text(reading: Reading, changes: Mapping[str, Any], plan: Plan) -> str:
    """Return the user's text with changes; for a log, the command that starts it."""
    flags = {
        name: value
        for name, value in changes.items()
        if name not in _NOT_FLAGS or name == "model"
    }
    own = reading if reading.start is not None else command_in(reading.given)
    if own is not None:
        try:
            return own.text(**flags)
        except PlannerError:
            return plan.command()
    if reading.log is None:
        return plan.command()
    return _command(reading, flags, plan)


def _command(reading: Reading, changes: Mapping[str, Any], plan: Plan) -> str:
    """Return the command of a log's arguments, those of the server included."""
    log_model = None if reading.log is None else reading.log.model
    model = changes.get("model") or log_model or plan.name
    values = {**reading.engine_args, **reading.kept, **changes}
    words = [
        word
        for name, value in values.items()
        if value is not None
        and name not in _NOT_FLAGS
        and (name in ARGUMENTS or name in SERVER_FLAGS)
        for word in flag_words(name, value)
    ]
    variables = [f"{name}={shlex.quote(value)}" for name, value in reading.env.items()]
    return " ".join([*variables, shlex.join(["vllm", "serve", str(model), *words])])


def answers(failure: Failure, log: LogReading, plan: Plan) -> Iterator[Answer]:
    """Yield the changes that answer a failed check directly, the cheapest first."""
    total = plan.gpu.total_memory_bytes
    missing = failure.missing_bytes or 0
    if failure.check is Check.FREE_MEMORY:
        free = log.figures.get("free_at_start_gib")
        whole = log.figures.get("total_gpu_gib")
        if free and whole:
            yield _share(int(free / whole * 100) / 100, "what is free")
    elif failure.check is Check.MAX_MODEL_LEN:
        yield from _shorter(log)
        yield from _more_share(plan, missing, total)
    elif failure.check is Check.NO_KV:
        yield from _more_share(plan, missing, total)
    elif failure.check is Check.TOO_LONG:
        yield from _derived(log)
    elif failure.check is Check.GPUS:
        yield from _fewer_gpus(log)
    elif failure.check in (Check.WARM_UP, Check.ALLOCATION, Check.CUDA):
        yield from _after_full(failure, plan, missing + _SPARE_BYTES, total)


def _share(share: float, of_what: str) -> Answer:
    return (
        f"Set gpu_memory_utilization to {share:.2f}: {of_what}",
        {"gpu_memory_utilization": round(share, 2)},
        "A smaller KV cache.",
    )


def _of(plan: Plan) -> float:
    share = plan.resolved.gpu_memory_utilization if plan.resolved else None
    return 0.9 if share is None else share


def _more_share(plan: Plan, missing: int, total: int) -> Iterator[Answer]:
    """Yield a larger share of the GPU, if that much is free."""
    free = plan.gpu.free_memory_bytes or total
    wanted = -int(-(_of(plan) + (missing + _SPARE_BYTES) / total) * 100 // 1) / 100
    if missing and wanted <= min(_MOST_SHARE, free / total):
        yield (
            f"Set gpu_memory_utilization to {wanted:.2f}",
            {"gpu_memory_utilization": wanted},
            "Less memory outside of the budget: for the sampler, NCCL, other programs.",
        )


def _shorter(log: LogReading) -> Iterator[Answer]:
    most = log.figures.get("estimated_max_len")
    length = int(most * _NEARLY) // _STEP * _STEP if most else 0
    if length:
        yield (
            f"Serve at most {length:,} tokens a request",
            {"max_model_len": length},
            f"Longer requests are refused. vLLM's own estimate was {most:,} tokens.",
        )


def _derived(log: LogReading) -> Iterator[Answer]:
    match = re.search(r"derived max_model_len \([^)=]*=(\d+)", log.error or "")
    if match is not None:
        yield (
            f"Serve {int(match[1]):,} tokens, what the model is made for",
            {"max_model_len": int(match[1])},
            "Longer requests are refused.",
        )


def _fewer_gpus(log: LogReading) -> Iterator[Answer]:
    match = re.search(r"number of available GPUs \((\d+)\)", log.error or "")
    if match is not None and int(match[1]):
        yield (
            f"Use the {match[1]} GPUs that are there",
            {"tensor_parallel_size": int(match[1])},
            "Each GPU holds a larger part of the weights.",
        )


def _after_full(
    failure: Failure, plan: Plan, missing: int, total: int
) -> Iterator[Answer]:
    """Yield what leaves memory outside of the budget, or needs less of it."""
    resolved = plan.resolved
    if resolved is None or failure.stage is Stage.LOADING:
        return
    if failure.stage is Stage.PROFILE:
        tokens = resolved.max_num_batched_tokens // 2
        if tokens >= _FEWEST_TOKENS:
            yield (
                f"Process at most {tokens:,} tokens in a step",
                {"max_num_batched_tokens": tokens},
                "Prompts are processed in more steps.",
            )
        return
    lower = int((_of(plan) - missing / total) * 100) / 100
    if lower > 0:
        yield _share(lower, "leaves what was missing outside of vLLM's budget")
    if failure.check is Check.WARM_UP or failure.stage is Stage.CAPTURE:
        requests = resolved.max_num_seqs // 2
        if requests:
            yield (
                f"Run at most {requests:,} requests at once",
                {"max_num_seqs": requests},
                "More requests wait; the sampler and the graphs need less.",
            )
    if failure.stage is Stage.CAPTURE and not resolved.enforce_eager:
        yield (
            "Capture no CUDA graphs",
            {"enforce_eager": True},
            "Slower answers, most of all for small models and few requests.",
        )
