"""Whether what a question asks for fits: of one start, and of each of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from planner.errors import PlannerError
from planner.memory.account import NOT_SERVED
from planner.planning.result import Outcome, Plan
from planner.planning.serving import Serving
from planner.planning.words import served_length
from planner.reading.logs.fixing import Fix
from planner.reading.questions.asking import questions_in
from planner.reading.questions.question import Question
from planner.reading.questions.searching import sizes, which_models
from planner.reading.reading import NOT_NAMED, Reading
from planner.show.verdict import verdict
from planner.solve import longest_context
from planner.units import counted, format_gib
from planner.values import frozen

_OF_A_START = ("fits", "other")
"""Questions that are answered by yes or no."""
_MOST_FIXES = 3
_WORTH_SAYING = 4
"""A request that is cut to less than a quarter is another one."""


@frozen
class Asked:
    """A question with its plan."""

    reading: Reading
    plan: Plan
    fixes: tuple[Fix, ...]
    """Changes that help, in the order in which people make them."""

    @property
    def is_length_told(self) -> bool:
        """Whether the question has a length, or a load."""
        has_length = "max_model_len" in self.reading.engine_args
        return has_length or self.reading.load is not None


def fits(asked: Asked) -> Iterator[str]:
    """Answer whether it fits: the load's verdict counts where there is a load."""
    plan = asked.plan
    served = plan.serving
    is_short = served is not None and served.is_short
    error = plan.error
    if error is not None and error.kind in ("refused", "weights", "no_kv"):
        yield f"No: {why_not(plan)}"
    elif served is not None and (is_short or plan.fits):
        yield from _of_load(plan, served)
    elif plan.outcome is Outcome.TOO_CLOSE:
        yield error.message if error else verdict(plan).headline
    else:
        yield f"{'Yes' if plan.fits else 'No'}: {_one_request(plan)}"
    if not plan.fits or (served is not None and not served.is_served):
        yield from would_do(asked.fixes, *_shorter(plan, served))


def why_not(plan: Plan) -> str:
    """Say why a plan does not start, with the size of its weights."""
    said = verdict(plan)
    error = plan.error
    rank = plan.limiting_rank
    if error is None or error.kind == "refused" or rank is None:
        return "" if error is None else error.message.partition("\n")[0]
    weights = next(line for line in rank.lines if "weights" in line.name)
    what = said.headline.rpartition(": ")[2]
    return (
        f"{what}. They take {format_gib(weights.size_bytes)} of the "
        if error.kind == "weights"
        else f"{what}. The weights take {format_gib(weights.size_bytes)} of the "
    ) + (
        f"{format_gib(rank.requested_memory_bytes)} that vLLM takes of {each_of(plan)}."
    )


def each_of(plan: Plan) -> str:
    """Name the GPU of a plan, or each of them."""
    return f"{'each' if plan.gpus_total > 1 else 'the'} {plan.gpu.name}"


def _of_load(plan: Plan, served: Serving) -> Iterator[str]:
    load, rank = served.load, plan.limiting_rank
    who = f"{counted(load.requests, 'requests')} of {served_length(served)}"
    who += " at once needs" if load.requests == 1 else " at once need"
    if rank is None or not served.blocks_per_request:
        yield f"{'Yes' if served.is_served else 'No'}: {served.words}."
        return
    needed = format_gib(served.needed_blocks * rank.bytes_per_block)
    there = format_gib(max(rank.available_kv_cache_low_bytes, 0))
    place = f" on {each_of(plan)}" if plan.gpus_total > 1 else ""
    if served.is_served:
        held = served.requests_held
        most = "" if held is None else f": it holds {held:,} of them"
        yield (f"Yes: {who} {needed} of KV cache{place}, {there} are there{most}.")
        return
    held = max(served.requests_held or 0, 0)
    yield (
        f"No: {who} {needed} of KV cache{place}, {there} are there: room "
        f"for {held:,} at once. The others would wait."
        if held
        else f"No: {who} {needed} of KV cache{place}, {there} are there."
    )


def _one_request(plan: Plan) -> str:
    rank, resolved = plan.limiting_rank, plan.resolved
    if rank is None or resolved is None:
        return verdict(plan).headline
    needed = format_gib(plan.needed_kv_cache_bytes)
    there = format_gib(rank.available_kv_cache_bytes)
    place = f" on {each_of(plan)}" if plan.gpus_total > 1 else ""
    error = plan.error
    if error is not None and error.kind == NOT_SERVED:
        return error.message
    if error is not None and error.kind not in ("max_model_len", "too_close"):
        return f"{verdict(plan).headline}: {error.message}".partition("\n")[0]
    longest = plan.max_model_len_that_fits
    more = f"; at most {longest:,} tokens fit" if longest and not plan.fits else ""
    room = (
        f"; {plan.all_engines.max_concurrency:,.1f} such requests at once"
        if plan.fits
        else more
    )
    return (
        f"one request of {resolved.max_model_len:,} tokens needs {needed} of KV cache"
        f"{place}, {there} are there{room}."
    )


def _shorter(plan: Plan, served: Serving | None) -> Iterator[str]:
    """Yield the length at which a load is served that is short of KV cache."""
    if served is None or served.is_served:
        return
    free = plan.changed(max_model_len=None, max_num_seqs=None, load=None)
    longest = longest_context(free, requests=served.load.requests).value
    wanted = served.load.request_tokens
    if longest is not None and wanted / _WORTH_SAYING <= longest < wanted:
        yield f"Give each request {int(longest):,} tokens at most"


def would_do(fixes: Iterable[Fix], *first: str) -> Iterator[str]:
    """Yield the changes that do, the first first; nothing where there are none."""
    titles = [*first, *(fix.title for fix in fixes if fix.starts)][:_MOST_FIXES]
    if titles:
        yield f"Would do: {'; '.join(titles)}."


def of_each(
    reading: Reading, question: Question, first: Callable[[Asked], str]
) -> Iterator[str]:
    """Answer for each of the starts that a question asks for, the first first.

    Args:
        reading: the first of them.
        question: what is asked.
        first: the first line of the answer to it, of one start.
    """
    lines, fit, left, is_told = [], 0, 0, False
    most: tuple[float, str] = (0, "")
    for one in questions_in(reading.given):
        here = replace(one, gpu=one.gpu or reading.gpu)
        if here.model is None:
            said, is_known = _without_model(here)
            lines.append(said)
            left += not is_known
            continue
        if here.gpu is None:
            lines += [f"{one.shown}: {said}" for said in sizes(here)]
            continue
        try:
            plan = here.plan()
        except PlannerError as error:
            lines.append(f"{one.shown}: {str(error).partition(chr(10))[0]}")
            continue
        said = first(Asked(reading=here, plan=plan, fixes=()))
        fit += said.startswith("Yes")
        is_told |= said.startswith(("Yes", "No")) and reading.intent in _OF_A_START
        lines.append(f"{one.shown}: {said}")
        most = max(
            most, (plan.all_engines.max_concurrency if plan.fits else 0, one.shown)
        )
    if question.is_together:
        verdict = "Yes" if fit == len(lines) else "No"
        share = "each with its own --gpu-memory-utilization, started one by one"
        yield f"{verdict}: {fit} of {len(lines)} fit together, {share}."
    elif reading.gpu is not None and len(lines) > left:
        planned = len(lines) - left
        best = f" Most requests at once: {most[1]}." if fit > 1 else ""
        is_open = f" {left} not planned." if left else ""
        yield (
            f"{fit} of {planned} serve it, each planned alone.{best}{is_open}"
            if is_told
            else f"{counted(planned, 'starts')} are asked for, each planned alone:"
        )
    yield from lines


def _without_model(reading: Reading) -> tuple[str, bool]:
    """Return the line of a start without a model: those of its GPU, else what is open.

    And whether it answers.
    """
    if reading.intent == "which_models" and reading.gpu is not None:
        return next(iter(which_models(reading))), True
    missing = reading.open[0] if reading.open else NOT_NAMED["model"]
    return f"{reading.shown}: {missing}" if reading.shown else missing, False
