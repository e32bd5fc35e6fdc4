"""Debug this start: ten starts that failed, published with their errors.

A learner names the cause and a remedy. Then `planner.read` explains the same text: its
explanation, and what a change does, are computed when they are shown.

`planner/data/failed_starts.json` credits each start. `wording` says whether its error
is quoted, or vLLM's own message with the figures that were published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from string import ascii_lowercase
from typing import Any

from planner.data import DATA
from planner.errors import PlannerError
from planner.learn.display import ShownAsPage
from planner.learn.exercise import CheckedAnswer
from planner.learn.parts import Choice
from planner.models.catalogue import find
from planner.reading.recognising import read
from planner.show.document import wide_page
from planner.show.explanation import explanation_sheet
from planner.show.html import Html, fragment, tag
from planner.show.pieces import command_line, to_open
from planner.values import frozen

CAUSES: Mapping[str, tuple[str, str]] = {
    "free memory": (
        "Before loading, less memory was free than vLLM is to use.",
        'That message compares two sizes: "Free memory on device (...) is less".',
    ),
    "allocation": (
        "The GPU was full while PyTorch allocated, before the KV cache.",
        'That message is PyTorch\'s own: "Tried to allocate ...".',
    ),
    "no KV cache": (
        "After the profile run, nothing of the budget is left for the KV cache.",
        "That message is about cache blocks, and the available size is below zero.",
    ),
    "max_model_len": (
        "The KV cache is smaller than one request of max_model_len tokens.",
        "That message names the length, and the KV cache that one request needs.",
    ),
    "warm-up": (
        "With the KV cache in place, sampling for all requests had no room.",
        "That message names the sampler and its dummy requests.",
    ),
}
"""Each kind of failure by the name of its check: what happened, and how to tell."""
EXPLAINED = "0.33.0"
"""The release of an explanation, where the source names none: another may start."""


@frozen
class Remedy:
    """A change that may help."""

    text: str
    reply: str
    changes: Mapping[str, Any] | None = None
    """Of the plan's inputs; None for what is not an argument, or not planned."""
    is_right: bool = False


@frozen(repr=False)
class DebugThisStart(ShownAsPage):
    """A start that failed: its command, its error, and what to choose from."""

    script = "debug.js"

    number: int
    title: str
    gpu: str
    vllm_version: str | None
    """None where the source does not name it."""
    command: str
    error: tuple[str, ...]
    wording: str
    source: str
    cause: str
    """The key of `CAUSES` that is right."""
    remedies: tuple[Remedy, ...]

    @property
    def given(self) -> str:
        """The text that `planner.read` gets.

        A command whose model is not bundled is left out: no exercise asks the network.
        """
        found = read(self.command)
        lines = "\n".join(self.error)
        is_bundled = found.model is not None and find(found.model) is not None
        return f"{self.command}\n\n{lines}" if is_bundled else lines

    def explain(self) -> Any:  # noqa: ANN401 - as `Reading.explain`
        """Return what `planner.read` says of this start."""
        version = self.vllm_version or EXPLAINED
        return read(self.given).explain(gpu=self.gpu, vllm_version=version)

    @property
    def parts(self) -> tuple[Choice, Choice]:
        """The two choices, by letters."""
        return (
            _choice("cause", _causes(self.cause)),
            _choice(
                "remedy", ((one.text, one.reply, one.is_right) for one in self._shown)
            ),
        )

    @property
    def _shown(self) -> tuple[Remedy, ...]:
        """The remedies, so that the right one is not always the first."""
        first = self.number % len(self.remedies)
        return self.remedies[first:] + self.remedies[:first]

    def check(self, cause: str = "...", remedy: str = "...") -> CheckedAnswer:
        """Judge the letters of a cause and a remedy."""
        given = {"cause": cause, "remedy": remedy}
        return CheckedAnswer(
            exercise=f"debug {self.number}",
            title=self.title,
            judgements={one.name: one.judge(given[one.name]) for one in self.parts},
            to_go_on=f"learn.debug_this_start({self.number}).explain()",
        )

    @property
    def page_title(self) -> str:
        """The title of its own page."""
        return "Debug this start"

    def __str__(self) -> str:
        lines = [self.heading, "", self.command, "", *self.error, ""]
        for part in self.parts:
            lines.append(f"Which {part.name}?")
            lines += [f"  {letter}) {text}" for letter, text in part.options.items()]
        lines.append(
            f'Check: learn.debug_this_start({self.number}).check(cause="a", remedy="a")'
        )
        return "\n".join(lines)

    @property
    def heading(self) -> str:
        """Number, title and GPU."""
        release = f", vLLM {self.vllm_version}" if self.vllm_version else ""
        return f"Start {self.number} of {count()}: {self.title} ({self.gpu}{release})"

    @property
    def credit(self) -> str:
        """Where the start was published, and how exactly it is quoted."""
        unnamed = f"; its release is not named, explained for vLLM {EXPLAINED}"
        release = "" if self.vllm_version else unnamed
        return f"Source: {self.source} (error {self.wording}{release})"

    def table(self) -> Html:
        """Show the start where no script runs, with the explanation folded."""
        return wide_page(
            tag("p", tag("strong", self.heading)),
            command_line("\n".join([self.command, "", *self.error]), "The start"),
            (_options(part) for part in self.parts),
            tag("p", self.credit),
            to_open("Show the explanation", _explained(self.number)),
        )

    def described(self) -> dict[str, Any]:
        """Describe the exercise for the page's script."""
        remedies = [[one.text, one.reply, one.is_right] for one in self._shown]
        return {
            "heading": self.heading,
            "command": self.command,
            "error": "\n".join(self.error),
            "credit": self.credit,
            "causes": [list(one) for one in _causes(self.cause)],
            "remedies": remedies,
            "explanation": _explained(self.number),
        }


def debug_this_start(number: int = 1) -> DebugThisStart:
    """Find out why a published start failed, and what helps, in two minutes.

    Args:
        number: of the start, 1 to 10.

    Raises:
        PlannerError: for a number without a start.

    >>> debug_this_start(2).check(cause="a").judgements["cause"].state.value
    'right'
    """
    starts = _starts()
    if not 1 <= number <= len(starts):
        raise PlannerError(f"There is no start {number}: 1 to {len(starts)}.")
    return starts[number - 1]


def count() -> int:
    """Return how many starts there are."""
    return len(_starts())


@cache
def _starts() -> tuple[DebugThisStart, ...]:
    records = json.loads((DATA / "failed_starts.json").read_text(encoding="utf-8"))
    return tuple(
        DebugThisStart(
            **record
            | {
                "number": number,
                "error": tuple(record["error"]),
                "remedies": tuple(Remedy(**one) for one in record["remedies"]),
            }
        )
        for number, record in enumerate(records, start=1)
    )


@cache
def _explained(number: int) -> Html:
    """Return the explanation of a start, which plans every change that it offers."""
    return explanation_sheet(debug_this_start(number).explain()).to_html()


def _causes(right: str) -> list[tuple[str, str, bool]]:
    """Return each cause, the reply to it, and whether it is right."""
    return [
        (text, "" if name == right else reply, name == right)
        for name, (text, reply) in CAUSES.items()
    ]


def _choice(name: str, options: Iterable[tuple[str, str, bool]]) -> Choice:
    lettered = dict(zip(ascii_lowercase, options, strict=False))
    return Choice(
        name=name,
        options={letter: text for letter, (text, _, _) in lettered.items()},
        expected=next(letter for letter, (_, _, right) in lettered.items() if right),
        says={letter: reply for letter, (_, reply, _) in lettered.items()},
    )


def _options(part: Choice) -> Html:
    items = [tag("li", text) for text in part.options.values()]
    asked = tag("p", f"Which {part.name}?")
    return fragment(asked, tag("ol", items, type="a"))
