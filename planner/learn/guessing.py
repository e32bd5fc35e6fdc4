"""Guess the bar: where does the memory of a model on a GPU go?

One pair a day, the same for everybody: the date (UTC) chooses it from the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

from planner.errors import PlannerError
from planner.learn.account import rank_of
from planner.learn.display import ShownAsPage, ShownAsText
from planner.models.catalogue import popular
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.show.charts.traces import NOTHING, OUTSIDE
from planner.show.document import wide_page
from planner.show.html import Html, fragment, tag
from planner.show.palette import swatch
from planner.show.pieces import table_html, to_open
from planner.show.verdict import subject
from planner.units import GIB, format_gib
from planner.values import frozen

_MODELS, _STRIDE, _OTHERS = 149, 53, 71
"""The most used published models; a prime, so that each has its turn before one comes
again, and neighbours of the list do not follow each other."""
_GPUS = ("L4", "RTX4090", "A100-40GB", "A100-80GB", "H100", "H200", "B200")
"""From the smallest to the largest."""
_LENGTH = 8192
_ROUNDS = 6
_MOST_ROUNDS = 60
KV_CACHE = "KV cache"
_LINES = {
    "weights": "weights",
    "peak activation": "activations and buffers",
    "non-torch": "non-torch",
    "CUDA graphs": "CUDA graphs",
    KV_CACHE: KV_CACHE,
}
"""Part of the bar by line of the account; other lines are buffers."""
_REST = _LINES["peak activation"]


@frozen
class Segment:
    """A segment of the bar, and the arithmetic of its lines."""

    name: str
    size_bytes: int
    why: tuple[str, ...]


@frozen(repr=False)
class Round(ShownAsText):
    """A model and a GPU whose bar is to be guessed."""

    plan: Plan
    title: str
    """Such as "Guess the bar of 24 November 2026"."""

    @property
    def parts(self) -> tuple[Segment, ...]:
        """The segments, from the left; together they are the whole GPU."""
        rank = rank_of(self.plan)
        lines: dict[str, list[Any]] = {name: [] for name in _LINES.values()}
        for line in rank.lines:
            lines[_LINES.get(line.name, _REST)].append(line)
        outside = self.total_bytes - rank.requested_memory_bytes
        share = self.plan.resolved.gpu_memory_utilization if self.plan.resolved else 0
        return (
            *(
                Segment(
                    name=name,
                    size_bytes=sum(one.size_bytes for one in found),
                    why=tuple(f"{one.name}: {one.why}" for one in found),
                )
                for name, found in lines.items()
            ),
            Segment(
                name=OUTSIDE,
                size_bytes=outside,
                why=(f"the total, without the {share:g} of it that vLLM may use",),
            ),
        )

    @property
    def total_bytes(self) -> int:
        """The GPU's memory."""
        return self.plan.gpu.total_memory_bytes

    @property
    def question(self) -> str:
        """What is to be guessed."""
        length = self.plan.resolved.max_model_len if self.plan.resolved else 0
        return (
            f"{subject(self.plan)} with {format_gib(self.total_bytes)}, "
            f"max_model_len {length:,}, the rest as vLLM {self.plan.vllm_version} "
            "has it by default: where does the memory go?"
        )

    def score(self, guess: Mapping[str, float]) -> int:
        """Return the points of a guess, 0 to 100.

        100, minus the GiB that the parts differ by, together, as a percentage of the
        GPU's memory: memory in the wrong part counts in both.

        Args:
            guess: GiB by name of a part; what is left out belongs to the KV cache.

        Raises:
            PlannerError: for a part that the bar does not have.
        """
        names = [part.name for part in self.parts]
        unknown = sorted(set(guess) - set(names))
        if unknown:
            raise PlannerError(
                f"The bar has no {', '.join(unknown)}. It has: {', '.join(names)}."
            )
        rest = self.total_bytes / GIB - sum(guess.values())
        whole = {KV_CACHE: rest, **guess}
        wrong = sum(
            abs(whole.get(part.name, 0) - part.size_bytes / GIB) for part in self.parts
        )
        return points(wrong, self.total_bytes / GIB)

    def __str__(self) -> str:
        return f"{self.title}. {self.question}"


def points(wrong: float, total: float) -> int:
    """Return the score of so many wrong GiB of a GPU with `total`.

    >>> points(0, 22), points(5.5, 22), points(30, 22)
    (100, 75, 0)
    """
    return max(0, round(100 - 100 * wrong / total))


@frozen(repr=False)
class GuessTheBar(ShownAsPage):
    """The pair of a day, and others to go on with."""

    script = "guess.js"

    rounds: tuple[Round, ...]

    def score(self, guess: Mapping[str, float]) -> int:
        """Return the points of a guess of the first pair, 0 to 100; see `Round.score`.

        Raises:
            PlannerError: for a part that the bar does not have.
        """
        return self.rounds[0].score(guess)

    @property
    def page_title(self) -> str:
        """The title of its own page."""
        return "Guess the bar"

    def __str__(self) -> str:
        names = ", ".join(part.name for part in self.rounds[0].parts)
        return f"{self.rounds[0]}\nThe parts: {names}."

    def table(self) -> Html:
        """Ask for the first bar, where no script runs, with the answer folded."""
        first = self.rounds[0]
        rows = (
            (part.name, format_gib(part.size_bytes), " ".join(part.why))
            for part in first.parts
        )
        answer = table_html(
            f"The bar of {subject(first.plan)}",
            ("Part", "Size", ("Arithmetic", "pl-text")),
            rows,
        )
        asked = tag("p", str(first))
        return wide_page(fragment(asked, to_open("Show the answer", answer)))

    def described(self) -> dict[str, Any]:
        """Describe the rounds for the page's script."""
        return {"rounds": [described(one) for one in self.rounds]}


def guess_the_bar(day: date | str | None = None, rounds: int = _ROUNDS) -> GuessTheBar:
    """Guess how a GPU's memory is divided, and compare with the planner's bar.

    The pair of a day is one of the 149 most used models of the catalogue whose
    config.json is published, on the smallest of seven GPUs where it starts with 8,192
    tokens, or on the next larger one.

    Args:
        day: whose pair it is, such as "2026-11-24"; today's (UTC) without it.
        rounds: how many pairs to have, with those behind "Next".

    Raises:
        PlannerError: for what is no date, or too many rounds.

    >>> game = guess_the_bar("2026-11-24", rounds=1)
    >>> right = {one.name: one.size_bytes / 2**30 for one in game.rounds[0].parts}
    >>> game.score(right)
    100
    """
    if not 1 <= rounds <= _MOST_ROUNDS:
        raise PlannerError(f"Guess the bar has 1 to {_MOST_ROUNDS} rounds.")
    chosen = _day(day)
    named = f"Guess the bar of {chosen.day} {chosen:%B %Y}"
    start = chosen.toordinal() * _STRIDE
    titles = (named, *(f"Guess the bar, another: {n}" for n in range(1, rounds)))
    return GuessTheBar(
        rounds=tuple(
            Round(plan=_plan(start + _OTHERS * number, number), title=title)
            for number, title in enumerate(titles)
        )
    )


def _day(day: date | str | None) -> date:
    if day is None:
        return datetime.now(UTC).date()
    if isinstance(day, date):
        return day
    try:
        return date.fromisoformat(day)
    except ValueError as error:
        raise PlannerError(f"{day!r} is not a date such as '2026-11-24'.") from error


def _plan(number: int, more: int) -> Plan:
    """Return the pair of a number: the first that fits, from that place of the list."""
    names = _names()
    for step in range(len(names)):
        name = names[(number + step) % len(names)]
        found = list(_fitting(name))[:2]
        if found:
            return found[(number + more) % len(found)]
    raise PlannerError("No model of the catalogue fits one of the GPUs.")


def _names() -> list[str]:
    names = [
        entry.name for entry in popular() if entry.is_certain and entry.num_parameters
    ]
    return names[:_MODELS]


def _fitting(name: str) -> Iterator[Plan]:
    """Yield the plans that start, the smallest GPU first."""
    for gpu in _GPUS:
        try:
            one = plan(name, gpu, max_model_len=_LENGTH)
        except PlannerError:
            return
        rank = one.limiting_rank
        if one.fits and rank is not None and rank.bytes_per_block:
            yield one


def described(one: Round) -> dict[str, Any]:
    """Describe a round for a page's script, with the sizes in GiB."""
    return {
        "title": one.title,
        "question": one.question,
        "subject": f"{subject(one.plan)}, vLLM {one.plan.vllm_version}",
        "total": one.total_bytes / GIB,
        "parts": [
            {
                "name": part.name,
                "size": part.size_bytes / GIB,
                "why": list(part.why),
                "fill": _fill(part.name),
                "ink": ("" if part.name == OUTSIDE else swatch(_line(part.name)).label),
            }
            for part in one.parts
        ],
        "command": one.plan.command(),
    }


def _fill(name: str) -> str:
    return str(NOTHING["color"]) if name == OUTSIDE else swatch(_line(name)).fill


def _line(name: str) -> str:
    return next(line for line, part in _LINES.items() if part == name)
