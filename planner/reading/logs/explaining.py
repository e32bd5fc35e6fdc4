"""explain(): why a start failed, how it compares with its plan, and what would help.

Every change that is offered is planned, and given back as the user's own text with only
that changed. What the text alone tells (`failing`) is said for unknown models too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, field, replace
from typing import Any

from planner.confirming.confirmation import Confirmation, confirmation_dict
from planner.confirming.differences import confirmation_of
from planner.confirming.from_log import (
    hint_is_low,
    measurement_of,
    safe_kv_cache_bytes,
)
from planner.confirming.log import LogReading
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import serving
from planner.reading.logs.beside_plan import differences
from planner.reading.logs.checks import Check, Failure, StartStage
from planner.reading.logs.failing import failure_of
from planner.reading.logs.fixing import (
    Answer,
    Fix,
    answers,
    answers_of_refusal,
    answers_of_text,
    fix_of,
    is_no_length,
    one_checkpoint_each,
    ranked,
    unplanned,
)
from planner.reading.logs.logs import bytes_in, log_text
from planner.reading.logs.server_use import (
    is_in_use,
    logged_use,
    observed_load,
    size_of_server,
    use_of,
)
from planner.reading.questions.answering import answer, not_planned
from planner.reading.reading import Kind, Reading
from planner.reading.starts.sharing import left_for_training
from planner.show.verdict import verdict
from planner.solve.advice import advise
from planner.units import counted, format_gib
from planner.values import frozen
from planner.views import Viewed

_LOGS = (Kind.LOG, Kind.ERROR)
_SAME = 40
"""Characters that identify an error."""


@frozen
class Explanation(Viewed):
    """Why a start failed, or how it compares with its plan, and what would help."""

    reading: Reading = field(repr=False)
    headline: str
    answer: tuple[str, ...] = ()
    """To a question: the lines after the headline that answer it."""
    first: tuple[str, ...] = ()
    """Where text and plan differ in model, length or number of GPUs."""
    failure: Failure | None = None
    """Which check failed; None for a start that came up or was never made."""
    plan: Plan | None = field(default=None, repr=False)
    """None where the start cannot be planned."""
    not_planned: str = ""
    """Why there is no plan."""
    confirmation: Confirmation | None = field(default=None, repr=False)
    """Measured beside planned, line by line, for a log."""
    findings: tuple[str, ...] = ()
    """What the figures mean: unused memory, the load it has, what it could serve."""
    kv_cache_memory_bytes: int | None = None
    """A safe value of --kv-cache-memory-bytes; None if the text does not tell."""
    fixes: tuple[Fix, ...] = ()
    """Changes that help, the cheapest first."""

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values; sizes in whole bytes."""
        return {
            "headline": self.headline,
            "answer": list(self.answer),
            "first": list(self.first),
            "failure": None if self.failure is None else asdict(self.failure),
            "plan": None if self.plan is None else self.plan.to_dict(),
            "not_planned": self.not_planned,
            "confirmation": None
            if self.confirmation is None
            else confirmation_dict(self.confirmation),
            "findings": list(self.findings),
            "kv_cache_memory_bytes": self.kv_cache_memory_bytes,
            "fixes": [fix.to_dict() for fix in self.fixes],
            "reading": self.reading.to_dict(),
        }


def explain(
    reading: Reading,
    gpu: str | GPU | None = None,
    **changes: Any,  # noqa: ANN401 - vLLM's own types
) -> Explanation:
    """Return why the start in a text failed, or how it compares with its plan.

    Args:
        reading: what the text says.
        gpu: the GPU, where the text does not tell it or another is meant.
        changes: inputs of the plan that differ from the text's.

    Raises:
        PlannerError: for inputs that are not understood, where the text alone tells
            nothing.
    """
    if reading.kind is Kind.QUESTION:
        return _asked(reading, gpu, changes)
    failure = None
    if reading.log is not None and reading.kind is not Kind.SERVER:
        failure = failure_of(reading.log, log_text(reading))
    try:
        plan = reading.inputs(gpu, **changes).plan()
    except PlannerError as error:
        if reading.log is None:
            raise
        return _of_text_alone(reading, failure, str(error))
    case = _Case(reading=reading, plan=plan, gpu=gpu, changes=changes, failure=failure)
    if failure is not None:
        return case.failed()
    if reading.kind is Kind.SERVER:
        return case.running()
    return case.never_started() if reading.log is None else case.came_up()


def _asked(
    reading: Reading, gpu: str | GPU | None, changes: Mapping[str, Any]
) -> Explanation:
    """Answer a question; without model or GPU with what is open, and no verdict."""
    model = changes.get("model", reading.model)
    known = replace(reading, model=model, gpu=gpu or reading.gpu)
    try:
        plan = reading.inputs(gpu, **changes).plan()
    except PlannerError as error:
        is_known = known.model is not None and known.gpu is not None
        found = not_planned(known, str(error)) if is_known else answer(known, None, ())
        if is_known and not found:
            raise
        headline, *lines = found or [str(error)]
        return Explanation(
            reading=reading,
            headline=headline,
            answer=tuple(lines),
            not_planned=str(error),
        )
    case = _Case(reading=reading, plan=plan, gpu=gpu, changes=changes, failure=None)
    explained = case.never_started()
    headline, *lines = answer(known, plan, explained.fixes)
    return replace(explained, headline=headline, answer=tuple(lines))


def _of_text_alone(
    reading: Reading, failure: Failure | None, refusal: str
) -> Explanation:
    is_server = reading.kind is Kind.SERVER
    found = use_of(reading.log) if is_server else logged_use(reading.log)
    fixes = (
        (
            unplanned(reading, answer)
            for answer in answers_of_text(failure, reading.log or LogReading())
        )
        if failure is not None
        else ()
    )
    return Explanation(
        reading=reading,
        headline=_headline(failure, reading),
        failure=failure,
        not_planned=refusal,
        findings=tuple(found),
        kv_cache_memory_bytes=_safe_bytes(reading),
        fixes=tuple(fixes),
    )


def _headline(failure: Failure | None, reading: Reading) -> str:
    if failure is None and reading.log is not None and is_in_use(reading.log):
        return size_of_server(reading.log)
    if failure is None:
        started = None if reading.log is None else reading.log.started
        return {True: "vLLM started", None: "The text ends before the outcome"}.get(
            started, "vLLM did not start"
        )
    name = (
        "ran, then stopped" if failure.stage is StartStage.SERVING else "did not start"
    )
    return f"vLLM {name}: {failure.check}, {failure.stage}"


@frozen
class _Case:
    """A text with its plan."""

    reading: Reading
    plan: Plan
    gpu: str | GPU | None
    changes: Mapping[str, Any]
    failure: Failure | None

    @property
    def log(self) -> LogReading:
        """The log, or an empty one."""
        return self.reading.log or LogReading()

    def failed(self) -> Explanation:
        """Explain a start that failed."""
        failure = self.failure
        fixes = [] if failure is None else [*self.own_fixes(failure)]
        is_sized = failure is not None and failure.check in _SIZED
        if self.plan.error is not None or is_sized or not fixes:
            fixes += self.advised(self.plan, only_starting=True)
        fixes.sort(key=lambda fix: fix.burden)
        if failure is not None and failure.check is Check.MAX_MODEL_LEN:
            fixes.sort(key=is_no_length)
        return self._explained(
            headline=_headline(failure, self.reading),
            failure=failure,
            findings=tuple(self._beside_plan()),
            fixes=ranked(fixes),
        )

    def never_started(self) -> Explanation:
        """Explain what vLLM would do with a command or a manifest."""
        said = verdict(self.plan)
        error = self.plan.error
        fixes = self.advised(self.plan, only_starting=not self.plan.fits)
        refused = () if error is None else answers_of_refusal(error.message)
        fixes += [fix for one in refused if (fix := self._fix(one)) and fix.starts]
        if error is not None and error.kind == "max_model_len":
            fixes.sort(key=is_no_length)
        expected = () if error is None else (f"vLLM would say: {error.message}",)
        return self._explained(
            headline=f"{said.symbol} {said.headline}",
            findings=(*expected, *left_for_training(self.reading, self.plan)),
            fixes=ranked(fixes),
        )

    def came_up(self) -> Explanation:
        """Explain a start that came up, or whose log ends before the outcome."""
        return self._explained(
            headline=_headline(None, self.reading),
            findings=(*logged_use(self.log, self.plan), *self._unused()),
            kv_cache_memory_bytes=_safe_bytes(self.reading),
            fixes=ranked(self.advised(self.plan, only_starting=not self.plan.fits)),
        )

    def running(self) -> Explanation:
        """Explain what a running server has, and what it uses."""
        load = observed_load(self.log)
        found = [*use_of(self.log)]
        if load is not None:
            held = serving(self.plan, load).requests_served
            found.append(
                f"Planned, {counted(held, 'requests')} of that length run at once."
            )
        return self._explained(
            headline=size_of_server(self.log),
            findings=tuple(found),
            fixes=ranked(self.advised(self.plan, load=load)),
        )

    def _explained(self, **found: Any) -> Explanation:  # noqa: ANN401
        is_log = self.reading.kind in _LOGS and self.reading.log is not None
        confirmation = None
        if is_log:
            measured = measurement_of(log_text(self.reading))
            confirmation = confirmation_of(self.plan, measured)
        return Explanation(
            reading=self.reading,
            first=differences(self.reading, self.plan),
            plan=self.plan,
            confirmation=confirmation,
            **found,
        )

    def _beside_plan(self) -> Iterator[str]:
        """Yield whether the plan expected the failure."""
        error = self.plan.error
        told = "" if self.log.error is None else self.log.error
        if error is not None and error.message[:_SAME] in told:
            yield "The plan expects the same refusal."
        elif error is not None:
            yield f"The plan expects a refusal too: {error.message}"
        elif self.failure is not None and self.failure.check in _OF_THE_ACCOUNT:
            yield (
                "The plan expects it to start: this start had less memory for the KV "
                "cache than planned, or other arguments. The changes below are counted "
                "from what it had."
            )

    def _unused(self) -> Iterator[str]:
        """Yield what memory a start left unused, and the cache that is safe."""
        total, wanted = (
            bytes_in(self.log, "total_gpu_gib"),
            bytes_in(self.log, "requested_gib"),
        )
        rank = self.plan.limiting_rank
        if total is None:
            total = self.plan.gpu.total_memory_bytes
        if wanted is None and rank is not None:
            wanted = rank.requested_memory_bytes
        if wanted is not None and total - wanted > 0:
            yield (
                f"Outside of vLLM's budget: {format_gib(total - wanted)} of "
                f"{format_gib(total)}. Graphs, the sampler and other programs take "
                "some of it."
            )
        safe = _safe_bytes(self.reading)
        if safe is not None:
            yield (
                f"--kv-cache-memory-bytes {safe} ({format_gib(safe)}) is safe: it "
                "keeps the same budget, and does not depend on what is measured."
            )
        if safe is not None and hint_is_low(self.log, log_text(self.reading)):
            yield (
                "vLLM's own hint in the log is smaller: it takes the graphs off twice "
                "(vllm-project/vllm issue 57936)."
            )

    def own_fixes(self, failure: Failure) -> Iterator[Fix]:
        """Yield what answers a failed check directly, planned."""
        is_sized = self.plan.error is None or self.plan.error.kind not in _NOT_SIZED
        for one in answers(failure, self.log, self.plan):
            fix = self._fix(one)
            if fix is not None and fix.starts:
                yield fix
            elif failure.check is Check.MAX_MODEL_LEN and not is_sized:
                yield unplanned(self.reading, one)  # vLLM came further than planned

    def advised(
        self, plan: Plan, load: Load | None = None, *, only_starting: bool = False
    ) -> list[Fix]:
        """Return the changes that `advise` finds, except for estimated checkpoints.

        A text that is given back names only what vLLM can load.
        """
        advice = advise(plan, load)
        made = (
            self._fix(
                Answer(
                    title=item.title,
                    changes=item.changes,
                    cost=item.cost,
                    burden=item.burden,
                )
            )
            for item in one_checkpoint_each(advice.offered)
        )
        return [fix for fix in made if fix and (fix.starts or not only_starting)]

    def _fix(self, answer: Answer) -> Fix | None:
        return fix_of(self.reading, self.gpu, self.changes, answer, self._shift_bytes())

    def _shift_bytes(self) -> int | None:
        """Return the KV cache of a start that failed for it, less the planned one."""
        if self.failure is None or self.failure.check not in _SIZED:
            return None
        rank, had = self.plan.limiting_rank, bytes_in(self.log, "available_kv_gib")
        if rank is None or had is None:
            return None
        return had - rank.available_kv_cache_bytes


_SIZED = (Check.NO_KV, Check.MAX_MODEL_LEN)
_NOT_SIZED = ("weights", "no_kv")
_OF_THE_ACCOUNT = (*_SIZED, Check.FREE_MEMORY)


def _safe_bytes(reading: Reading) -> int | None:
    """Return a KV cache that fits into the budget of the start that was logged."""
    if reading.log is None or reading.kind is Kind.SERVER:
        return None
    return safe_kv_cache_bytes(reading.log, log_text(reading))
