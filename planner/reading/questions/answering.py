"""The answer to a question: that question first, with the figures of the one who asks.

At most eight lines; the plan, the changes and the figures behind them follow. Where
model or GPU are not known, what is open comes first and there is no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from planner.engine.releases import NEWEST, OLDEST, resolve_version
from planner.planning.defaults import gpu_memory_utilization
from planner.planning.load import Load
from planner.planning.result import Outcome, Plan
from planner.planning.serving import Serving, serving
from planner.planning.words import load_flags, served_length
from planner.reading.logs.fixing import Fix
from planner.reading.questions.question import releases_asked
from planner.reading.questions.searching import USUAL, cheapest, fewest, which_models
from planner.reading.reading import Reading
from planner.show import speed_forecast as speed_words
from planner.show import upgrade as upgrade_words
from planner.show.speed import rate_text
from planner.show.verdict import verdict
from planner.solve import longest_context, most_requests
from planner.solve.price_list import list_prices
from planner.solve.speed.forecast import speed_forecast
from planner.solve.upgrading import upgrade
from planner.units import counted, format_gib
from planner.values import frozen

MOST_LINES = 8
_MOST_CAUSES = 4
_MOST_FIXES = 3
_WORTH_SAYING = 4
"""A request that is cut to less than a quarter is another one."""
_SHARE = (
    "By design: at its start vLLM takes a share of the GPU's memory "
    "(gpu_memory_utilization, {share} by default), and what weights and activations "
    "leave of it becomes KV cache, however small the model is."
)
_LESS = "More KV cache is more requests at once; --gpu-memory-utilization takes less."


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


def answer(reading: Reading, plan: Plan | None, fixes: Sequence[Fix]) -> list[str]:
    """Return the lines that answer a question, the answer itself first."""
    if plan is None:
        found = [*_without_plan(reading)]
        is_general = reading.intent in ("why", "cheapest", "which_models")
        missing = [f"Open: {one}" for one in reading.open]
        lines = [*found, *missing] if found and is_general else [*missing, *found]
    else:
        asked = Asked(reading=reading, plan=plan, fixes=tuple(fixes))
        lines = [*_ANSWERS.get(reading.intent, _fits)(asked)]
    return lines[:MOST_LINES]


def not_planned(reading: Reading, why: str) -> list[str]:
    """Return the lines for a question whose start cannot be planned as it is asked."""
    if reading.intent != "upgrade":
        return []
    _, last = releases_asked(reading.given)
    return [
        why,
        f"From the oldest that is modelled: planner upgrade {reading.model} --from "
        f"{OLDEST} --to {last or NEWEST}",
    ]


def _without_plan(reading: Reading) -> Iterator[str]:
    if reading.intent == "why":
        yield _SHARE.format(share=_usual_share(reading.vllm_version))
        yield _LESS
    elif reading.intent == "which_models" and reading.gpu is not None:
        yield from which_models(reading)
    elif reading.model is not None and not reading.refused_gpu:
        yield from cheapest(reading)


def _usual_share(version: str | None) -> float:
    """Return the share of the GPU that a release takes by default."""
    return gpu_memory_utilization(resolve_version(version or NEWEST)[0])


def _fits(asked: Asked) -> Iterator[str]:
    """Answer whether it fits: the load's verdict counts where there is a load."""
    plan = asked.plan
    served = plan.serving
    is_short = served is not None and served.is_short
    error = plan.error
    if error is not None and error.kind in ("refused", "weights", "no_kv"):
        yield f"No: {_why_not(plan)}"
    elif served is not None and (is_short or plan.fits):
        yield from _of_load(plan, served)
    elif plan.outcome is Outcome.TOO_CLOSE:
        yield error.message if error else verdict(plan).headline
    else:
        yield f"{'Yes' if plan.fits else 'No'}: {_one_request(plan)}"
    if not plan.fits or (served is not None and not served.is_served):
        yield from _would_do(asked.fixes, *_shorter(plan, served))


def _why_not(plan: Plan) -> str:
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
    ) + (f"{format_gib(rank.requested_memory_bytes)} that vLLM takes of {_each(plan)}.")


def _each(plan: Plan) -> str:
    return f"{'each' if plan.gpus_total > 1 else 'the'} {plan.gpu.name}"


def _of_load(plan: Plan, served: Serving) -> Iterator[str]:
    load, rank = served.load, plan.limiting_rank
    who = f"{counted(load.requests, 'requests')} of {served_length(served)}"
    if rank is None or not served.blocks_per_request:
        yield f"{'Yes' if served.is_served else 'No'}: {served.words}."
        return
    needed = format_gib(served.needed_blocks * rank.bytes_per_block)
    there = format_gib(max(rank.available_kv_cache_low_bytes, 0))
    place = f" on {_each(plan)}" if plan.gpus_total > 1 else ""
    if served.is_served:
        held = served.requests_held
        most = "" if held is None else f": it holds {held:,} of them"
        yield (
            f"Yes: {who} at once need {needed} of KV cache{place}, {there} are "
            f"there{most}."
        )
        return
    held = max(served.requests_held or 0, 0)
    yield (
        f"No: {who} at once need {needed} of KV cache{place}, {there} are there: room "
        f"for {held:,} at once. The others would wait."
        if held
        else f"No: {who} at once need {needed} of KV cache{place}, {there} are there."
    )


def _one_request(plan: Plan) -> str:
    rank, resolved = plan.limiting_rank, plan.resolved
    if rank is None or resolved is None:
        return verdict(plan).headline
    needed = format_gib(plan.needed_kv_cache_bytes)
    there = format_gib(rank.available_kv_cache_bytes)
    place = f" on {_each(plan)}" if plan.gpus_total > 1 else ""
    if plan.error is not None and plan.error.kind not in ("max_model_len", "too_close"):
        return f"{verdict(plan).headline}: {plan.error.message}".partition("\n")[0]
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


def _would_do(fixes: Iterable[Fix], *first: str) -> Iterator[str]:
    titles = [*first, *(fix.title for fix in fixes if fix.starts)][:_MOST_FIXES]
    if titles:
        yield f"Would do: {'; '.join(titles)}."


def _users(asked: Asked) -> Iterator[str]:
    """Answer how many run at once: of the length that is told, else of a usual one."""
    reading, plan = asked.reading, asked.plan
    if reading.load is not None and reading.load.requests > 1:
        yield from _fits(asked)
        return
    given = reading.engine_args.get("max_model_len")
    load = reading.load or USUAL
    if reading.load is None and isinstance(given, int) and given > 1:
        load = Load(prompt_tokens=given - given // 4, output_tokens=given // 4)
    free = plan.changed(max_num_seqs=None, max_model_len=None, load=None)
    found = most_requests(free, load=load)
    assumed = "" if reading.load or given else ", which is assumed"
    length = f"{load.request_tokens:,} tokens{assumed}"
    if found.value is None:
        yield f"None: not one request of {length} is served. {found.why}"
        yield from _would_do(asked.fixes)
        return
    held = int(found.value)
    yield f"{counted(held, 'users')} of {length}, at once."
    if found.plan is not None:
        yield f"The start for it: {found.plan.command()}"
    yield "More may be connected: whoever has no room in the KV cache waits."


def _speed(asked: Asked) -> Iterator[str]:
    reading = asked.reading
    load = reading.load or USUAL
    assumed = "" if reading.load else " (assumed)"
    plan = _of_usual_length(asked, load)
    forecast = speed_forecast(plan, load)
    yield (
        f"{speed_words.headline(forecast)}, prompts of {load.prompt_tokens:,} and "
        f"answers of {load.output_tokens:,} tokens{assumed}."
    )
    yield forecast.near.words
    limit = rate_text(forecast.bound.total_at_most_tokens_per_second)
    yield (
        f"The bound is {limit}: no start is faster, by memory bandwidth and peak "
        "arithmetic; most are slower."
    )
    yield (
        f"Its figures: planner speed {plan.name} --gpu {plan.gpu.name} "
        f"{load_flags(load)}"
    )
    if not plan.fits:
        yield from _fits(asked)


def _of_usual_length(asked: Asked, load: Load) -> Plan:
    """Return the plan of a question without a length, for a length that is usual."""
    plan = asked.plan
    if asked.is_length_told or plan.resolved is None or plan.fits:
        return plan
    return plan.changed(max_model_len=load.request_tokens)


def _why(asked: Asked) -> Iterator[str]:
    plan = asked.plan
    rank = plan.limiting_rank
    if not plan.fits or (plan.serving is not None and not plan.serving.is_served):
        yield from _fits(asked)
    if rank is None or plan.resolved is None:
        return
    share = plan.resolved.gpu_memory_utilization
    cache = max(rank.available_kv_cache_bytes, 0)
    lines = ", ".join(
        f"{line.name} {format_gib(line.size_bytes)}"
        for line in rank.lines
        if line.size_bytes > 0 and "KV cache" not in line.name
    )
    yield (
        f"By design: vLLM takes {share:g} of {_each(plan)}, "
        f"{format_gib(rank.requested_memory_bytes)} of "
        f"{format_gib(plan.gpu.total_memory_bytes)}: {lines}; what is left of it, "
        f"{format_gib(cache)}, becomes KV cache."
    )
    one = serving(plan)
    if plan.fits and one.requests_held is not None:
        yield (
            f"It holds {one.requests_held:,} requests of {one.load.request_tokens:,} "
            "tokens; with more at once vLLM preempts the newest and computes them "
            "again later."
        )
    yield _LESS


def _cheapest(asked: Asked) -> Iterator[str]:
    """Answer what the named GPUs cost and whether they do, then what is cheapest."""
    price = list_prices().prices.get(asked.plan.gpu.name)
    if price is not None:
        per_hour = price.per_hour * asked.plan.gpus_total
        yield (
            f"{asked.plan.gpus_total} x {asked.plan.gpu.name}: {per_hour:.2f} "
            f"{list_prices().currency} per hour. {next(_fits(asked))}"
        )
    yield from cheapest(asked.reading)


def _upgrade(asked: Asked) -> Iterator[str]:
    reading, plan = asked.reading, asked.plan
    first, last = releases_asked(reading.given)
    last = last or NEWEST
    if first is None:
        yield (
            "Open: from which release. Then: planner upgrade "
            f"{plan.name} --gpu {plan.gpu.name} --from RELEASE --to {last}"
        )
        yield from _fits(asked)
        return
    found = upgrade(plan, to=last)
    yield upgrade_words.headline(found)
    for release, cause in found.causes[:_MOST_CAUSES]:
        yield f"{release}: {upgrade_words.effects(cause)}. {upgrade_words.why(cause)}"
    if len(found.causes) > _MOST_CAUSES:
        yield f"{len(found.causes) - _MOST_CAUSES} more:"
    yield (
        f"All of it: planner upgrade {plan.name} --gpu {plan.gpu.name} --from "
        f"{found.steps[0].release} --to {last}"
    )


def _other(asked: Asked) -> Iterator[str]:
    """Answer what has no place of its own: the longest context, the sizes, the fit."""
    reading, plan = asked.reading, asked.plan
    requests = None if reading.load is None else reading.load.requests
    free = plan.changed(max_model_len=None, max_num_seqs=None, load=None)
    longest = longest_context(free, requests=requests)
    at_once = f" for {counted(requests, 'requests')} at once" if requests else ""
    name = f"{plan.gpus_total} x {plan.gpu.name}"
    if longest.value is None and reading.gpus is None:
        yield fewest(reading, plan)
        yield f"On one: {_why_not(plan)}"
        return
    if longest.value is None:
        yield f"No context fits{at_once} on {name}. {longest.why}"
    else:
        length = f"{int(longest.value):,} tokens"
        yield f"The longest context{at_once} on {name} is {length}."
    rank = plan.limiting_rank
    if rank is not None:
        weights = next(line for line in rank.lines if "weights" in line.name)
        yield (
            f"Weights take {format_gib(weights.size_bytes)} of {_each(plan)}; KV cache "
            f"{format_gib(max(rank.available_kv_cache_bytes, 0))} is there, "
            f"{max(plan.kv_cache_size_tokens, 0):,} tokens."
        )
    if asked.is_length_told or longest.value is None:
        yield from _fits(asked)


_ANSWERS: Mapping[str, Callable[[Asked], Iterator[str]]] = {
    "fits": _fits,
    "users": _users,
    "cheapest": _cheapest,
    "which_models": lambda asked: which_models(asked.reading),
    "speed": _speed,
    "why": _why,
    "upgrade": _upgrade,
    "other": _other,
}
