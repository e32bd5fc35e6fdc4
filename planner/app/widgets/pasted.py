"""What a pasted text says, read in a thread, and what it leaves to be asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from planner.engine.releases import MODELLED, NEWEST
from planner.errors import PlannerError
from planner.show.verdict import VerdictState, state_of
from planner.values import frozen

if TYPE_CHECKING:
    from planner.app.widgets.form import Form
    from planner.app.widgets.results import Results
    from planner.planning.inputs import Inputs
    from planner.reading import Reading
    from planner.reading.logs.explaining import Explanation

WHICH = {
    "model": "Which model? The text does not name one.",
    "gpu": "Which GPU? The text does not name one.",
}
LISTED = {"models": "model", "gpus": "gpu"}
"""What each list is of: the control that a question leaves to it."""
_MOST_STARTS = 12
_MOST_LINES = 3
PLACES = {
    "cheapest": "gpus",
    "speed": "speed",
    "upgrade": "upgrade",
    "why": "memory",
}
"""The tab that answers what a question asks for, where it is not the verdict."""
_ANSWERS = {
    VerdictState.FITS: "it fits",
    VerdictState.PARTLY: "it starts, and serves fewer than the load",
    VerdictState.TIGHT: "it is too close to call",
    VerdictState.SHORT: "it does not fit",
}
_COMPARED = MODELLED[4::6]
"""Releases before the newest, a few months apart: what a text without one may mean."""


class Host(Protocol):
    """What the section needs of the explorer around it."""

    form: Form
    named: set[str]
    results: Results

    def take(self, inputs: Inputs | None, **values: Any) -> None:  # noqa: ANN401
        """Set every control, or only these, and plan; None: it is asked for."""

    def hold(self, reason: str = "") -> None:
        """Show no plan until there is another, and say why."""

    def resume(self) -> None:
        """Plan what the controls ask for."""

    def remember(self) -> Any:  # noqa: ANN401 - what it brings back
        """Return the state of all controls."""

    def bring_back(self, before: Any) -> None:  # noqa: ANN401 - what it remembered
        """Return to a state, and plan."""

    def request(self) -> dict[str, Any]:
        """Return what the controls ask for."""


@frozen
class ReadText:
    """What the thread read."""

    reading: Reading
    starts: tuple[str, ...] = ()
    """What the text calls its starts, where it has several."""
    explanation: Explanation | None = None
    answer: tuple[str, ...] = ()
    """To a question: its first lines, until a control is moved."""
    refusal: str = ""
    """Why there is no explanation of a log or an error."""
    other_release: str = ""
    """What differs in another release; empty where the text names one, or none does."""


def found_in(text: str, start: int, asked: Mapping[str, Any]) -> ReadText:
    """Read a text; runs in a thread."""
    from planner.reading import Kind, read  # noqa: PLC0415 - slow

    reading = read(text, start=start)
    starts = _labels(text, reading)
    remark = other_release(reading, asked) if reading.log is None else ""
    if reading.kind is Kind.QUESTION:
        return ReadText(
            reading=reading,
            starts=starts,
            answer=_answer(reading, asked),
            other_release=remark,
        )
    if reading.log is None:
        return ReadText(reading=reading, starts=starts, other_release=remark)
    gpu = asked.get("gpu") if reading.gpu is None else None
    try:
        explanation = reading.explain(gpu, **_missing(reading, asked))
    except PlannerError as error:
        return ReadText(reading=reading, starts=starts, refusal=str(error))
    return ReadText(reading=reading, starts=starts, explanation=explanation)


def _answer(reading: Reading, asked: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the first lines of a question's answer; none where something is open."""
    gpu = reading.gpu or asked.get("gpu")
    is_list = bool(list_asked_for(reading))
    if not (is_list or (gpu and reading.model)):
        return ()
    try:
        found = reading.explain(None if is_list else gpu)
    except PlannerError:
        return ()  # the page says why at its place
    return (found.headline, *found.answer[: _MOST_LINES - 1])


def other_release(reading: Reading, asked: Mapping[str, Any]) -> str:
    """Say which release answers otherwise than the newest, where none is named.

    Empty where those compared answer alike, and where there is no plan yet.
    """
    if reading.vllm_version is not None or list_asked_for(reading):
        return ""
    given = {name: asked.get(name) for name in ("model", "gpu")}
    try:
        inputs = reading.inputs(
            reading.gpu or given["gpu"], model=reading.model or given["model"]
        )
        newest = state_of(inputs.plan())
        for release in _COMPARED:
            found = state_of(inputs.changed(vllm_version=release).plan())
            if found not in (newest, VerdictState.REFUSED):
                return (
                    f"The release of vLLM is not named, and {release} answers "
                    f"otherwise than {NEWEST}, which is planned: {_ANSWERS[found]}."
                )
    except PlannerError:
        return ""
    return ""


def _missing(reading: Reading, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the controls add: all they say to an error alone, else the model."""
    if tells_of_a_start(reading):
        return {} if reading.model else {"model": asked.get("model")}
    return {name: value for name, value in asked.items() if name != "gpu"}


def tells_of_a_start(reading: Reading) -> bool:
    """Return whether a text says more than a GPU, as an error alone does not."""
    return bool(reading.model or reading.engine_args or reading.start)


def list_asked_for(reading: Reading) -> str:
    """Return the tab of the list that a question asks for; empty for another question.

    Models of a GPU where it names no model, GPUs for a model where it names none.
    """
    if reading.intent == "which_models" and reading.model is None and reading.gpu:
        return "models"
    asks_for_gpus = reading.intent == "cheapest" and reading.gpu is None
    return "gpus" if asks_for_gpus and reading.model and not reading.refused_gpu else ""


def open_place(results: Results, reading: Reading) -> None:
    """Open the tab that answers what a question asks for."""
    place = PLACES.get(reading.intent)
    if place is not None:
        results.tabs.choose(place)
    if place == "upgrade":
        from planner.reading.questions.question import releases_asked  # noqa: PLC0415 - slow

        first, last = releases_asked(reading.given)
        known = [one for one in (first, last) if one in MODELLED]
        if first in known:
            results.upgrade.ask(first, last if last in known else NEWEST)


def _labels(text: str, reading: Reading) -> tuple[str, ...]:
    """Return a label for each start of a text; none for a single one."""
    if reading.num_starts < 2:  # noqa: PLR2004 - one start needs no choice
        return ()
    numbers = range(1, min(reading.num_starts, _MOST_STARTS) + 1)
    from planner.reading import read  # noqa: PLC0415 - slow

    starts = [read(text, start=number) for number in numbers]
    return tuple(
        f"{number}: {one.shown or one.model or 'start'}"
        for number, one in zip(numbers, starts, strict=True)
    )


def arguments_left_open(reading: Reading) -> tuple[str, ...]:
    """Return the arguments that the text gives by variables which it does not set."""
    sites = () if reading.start is None else reading.start.sites
    return tuple(dict.fromkeys(site.name for site in sites if site.variables))


def still_open(reading: Reading) -> dict[str, str]:
    """Return a question for each control that the text leaves open.

    A model or a GPU that is not told: the release, where it is not, is the newest.
    """
    told = {"model": reading.model, "gpu": reading.gpu}
    asked = {name: WHICH[name] for name, value in told.items() if value is None}
    if reading.refused_gpu:
        what = re.split(r"[:.] ", reading.refused_gpu, maxsplit=1)[0]
        asked["gpu"] = f"{what}. Which GPU instead?"
    return asked
