"""speed_bound(): an upper bound on the speed of a plan's GPUs under a load."""

from __future__ import annotations

from dataclasses import replace

from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.memory.account import Basis
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.solve.speed import why
from planner.solve.speed.running import Running, Same, known_work, running
from planner.solve.speed.speed import BoundFigure, SpeedBound
from planner.solve.speed.step import (
    Peaks,
    Seen,
    Step,
    compute_limits_from,
    decode_step,
    end_of,
    least_latency,
    mean_of,
    missing_peaks,
    prompt_steps,
)
from planner.solve.speed.work import Work
from planner.units import counted
from planner.values import frozen


@frozen
class _Case:
    """The inputs of all figures."""

    plan: Plan
    load: Load
    work: Work
    """The least: all tokens of a step choose the same experts."""
    expected: Work
    """With the distinct experts that are expected."""
    peaks: Peaks
    running: Running
    most_batched_tokens: int
    cached_tokens: int = 0
    """Of each prompt, the beginning that all share and vLLM may find in the cache."""

    @property
    def requests(self) -> int:
        """Requests that run at once, at most."""
        return self.running.most

    def decode(self, seen: Seen) -> Step:
        """Return the step of the requests that are sure to run, in one batch."""
        least = self.running.least
        return decode_step(self.work, self.peaks, least, seen, self.cached_tokens)

    def latency(self, seen: Seen, requests: int) -> float:
        """Return the least time between two tokens of a request."""
        cached = self.cached_tokens
        return least_latency(self.work, self.peaks, requests, seen, cached)

    def prompt(self) -> Step:
        """Return all prefill steps of one prompt together."""
        return prompt_steps(
            self.work,
            self.peaks,
            self.load.mean_prompt,
            self.most_batched_tokens,
            self.cached_tokens,
        )

    def prompt_seconds(self) -> float:
        """Return the least time of one prompt; its steps may overlap between stages."""
        steps = self.prompt()
        computed = self.load.mean_prompt - self.cached_tokens
        is_one = computed <= self.most_batched_tokens
        return steps.seconds if is_one else steps.slowest_seconds

    @property
    def holds(self) -> int | None:
        """Requests of the load's length that the KV cache holds; None: no limit."""
        return self.running.served.requests_held

    @property
    def is_routed(self) -> bool:
        """Whether the model has routed experts."""
        return any(stage.experts for stage in self.expected.stages)


@named_in_errors
def speed_bound(plan: Plan, load: Load | None = None) -> SpeedBound:
    """Return an upper bound on a plan's speed: a bound, not a forecast.

    A step must read the weights and each request's KV cache, and compute 2 operations
    per active parameter and token. It takes at least the longer of bytes / bandwidth
    and operations / peak. `docs/speed.md` lists what that ignores.

    Args:
        plan: the plan.
        load: prompt and output tokens of a request, and the number of requests at once;
            by default the plan's own.

    Raises:
        PlannerError: without a load, for a plan or a length that vLLM refuses, or for a
            GPU of unknown bandwidth.
    """
    load = load or plan.load
    if load is None:
        raise PlannerError(
            "speed_bound() needs a load: give planner.Load(prompt_tokens=3000, "
            "output_tokens=1000, requests=16), or plan with load=."
        )
    case = _case(plan, load)
    mean = mean_of(load)
    missing = missing_peaks(case.work, case.peaks)
    ridge = compute_limits_from(case.expected, case.peaks, mean, case.cached_tokens)
    sure, most = case.running.least, case.requests
    token, slowest = case.latency(mean, sure), case.latency(mean, most)
    prompt = case.prompt_seconds()
    answer = max(load.mean_output - 1, 0) * token
    bound = SpeedBound(
        plan=plan,
        load=load,
        requests=most,
        decode_at_least_seconds=token,
        decode_at_full_length_at_least_seconds=case.latency(end_of(load), sure),
        prefill_at_least_seconds=prompt,
        request_at_least_seconds=prompt + answer,
        per_request_at_most_tokens_per_second=1 / token,
        total_at_most_tokens_per_second=most / slowest,
        memory_holds=case.holds,
        compute_limits_from=ridge,
        limited_first_by=_first(ridge, case.holds, is_known=not missing),
        figures=(),
        notes=_notes(case, missing),
    )
    return _with_figures(bound, case)


def _case(plan: Plan, load: Load) -> _Case:
    expected, resolved = known_work(Same(plan)), plan.resolved
    if resolved is None:  # work_of has raised already
        raise PlannerError("A plan that vLLM refuses has no speed.")
    return _Case(
        plan=plan,
        load=load,
        work=expected.least(),
        expected=expected,
        peaks=Peaks.of(plan.gpu, resolved.dtype),
        running=running(plan, load),
        most_batched_tokens=resolved.max_num_batched_tokens,
        cached_tokens=load.reused_tokens if resolved.enable_prefix_caching else 0,
    )


def _first(ridge: int | None, holds: int | None, *, is_known: bool) -> str:
    """Return which limit more requests reach first."""
    if not is_known:
        return "unknown"
    if holds is None:
        return "unknown" if ridge is None else "compute"
    return "memory" if ridge is None or holds < ridge else "compute"


def _notes(case: _Case, missing: tuple[str, ...]) -> tuple[str, ...]:
    notes = []
    given, running = case.load.requests, case.running
    if not case.plan.fits:
        notes.append(f"The plan itself does not start: {case.plan.outcome}.")
    if case.requests < given:
        holds = (
            ""
            if running.held_at_most is None
            else f"the KV cache holds at most {running.held_at_most:,} on average, and "
        )
        notes.append(
            f"Only {case.requests:,} of {counted(given, 'requests')} run at once: "
            f"{holds}"
            f"max_num_seqs allows {running.allowed:,}. The others wait."
        )
    if missing:
        notes.append(
            f"{case.plan.gpu.name} has no dense_flops for {', '.join(missing)}: the "
            "bound covers reading, not computing. Give the figure: planner.GPU.named("
            f"{case.plan.gpu.name!r}, dense_flops={{{missing[0]!r}: 100 * 10**12}})."
        )
    if case.is_routed:
        notes.append(
            "The bound reads the experts of one token, as if all tokens chose the "
            "same. Most batches choose more, and take longer."
        )
    return tuple(notes)


def _with_figures(bound: SpeedBound, case: _Case) -> SpeedBound:
    """Return the bound with all figures and their arithmetic."""
    mean, end = mean_of(case.load), end_of(case.load)
    decode, last = case.decode(mean), case.decode(end)
    times = Basis.FORMULA
    rows = [
        (
            "active_parameters",
            case.work.active_parameters,
            "parameters",
            Basis.FORMULA,
            why.active(case.work),
        ),
        (
            "weight_bytes_per_step",
            why.weights(case.work, case.requests),
            "bytes",
            times,
            why.weights_why(case.work, case.expected),
        ),
        (
            "kv_bytes_per_request",
            why.kv(case.work, mean),
            "bytes",
            Basis.FORMULA,
            why.kv_why(case.work, case.load, mean),
        ),
        (
            "decode_at_least_seconds",
            bound.decode_at_least_seconds,
            "seconds",
            times,
            why.step_why(decode, case.plan, case.running.least),
        ),
        (
            "decode_at_full_length_at_least_seconds",
            bound.decode_at_full_length_at_least_seconds,
            "seconds",
            times,
            why.step_why(last, case.plan, case.running.least),
        ),
        (
            "prefill_at_least_seconds",
            bound.prefill_at_least_seconds,
            "seconds",
            times,
            why.prefill_why(case.prompt(), case.plan, case.load, case.cached_tokens),
        ),
        (
            "request_at_least_seconds",
            bound.request_at_least_seconds,
            "seconds",
            times,
            why.request_why(bound),
        ),
        (
            "per_request_at_most_tokens_per_second",
            bound.per_request_at_most_tokens_per_second,
            "tokens per second",
            times,
            why.rate_why(bound),
        ),
        (
            "total_at_most_tokens_per_second",
            bound.total_at_most_tokens_per_second,
            "tokens per second",
            times,
            why.total_why(bound),
        ),
        (
            "memory_holds",
            bound.memory_holds,
            "requests",
            Basis.FORMULA,
            why.holds_why(case.running.served),
        ),
        (
            "compute_limits_from",
            bound.compute_limits_from,
            "requests",
            Basis.ASSUMED if case.is_routed else Basis.FORMULA,
            why.ridge_why(case.expected, case.peaks, bound, mean, case.cached_tokens),
        ),
    ]
    figures = tuple(
        BoundFigure(name=name, value=value, unit=unit, basis=basis, why=text)
        for name, value, unit, basis, text in rows
    )
    return replace(bound, figures=figures)
