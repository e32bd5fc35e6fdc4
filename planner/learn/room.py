"""What a room votes on: predictions, exercises, and a bar to guess as a duel.

Votes are judged by the same checks that lessons use, so that a room's histogram names
the slips: how many of all subtracted the whole card. A vote is text that a phone sent;
nothing of it is kept here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from statistics import mean, median
from typing import Any, TypeAlias

from planner.learn.account import line_of
from planner.learn.catalogue import checkpoint, exercise, slips
from planner.learn.guessing import KV_CACHE, Round, described, guess_the_bar
from planner.learn.parts import AnswerState, Choice, Mistake, Number, Part, Size
from planner.learn.prediction import Prediction, Revealed
from planner.memory.account import Line
from planner.planning.load import Load
from planner.planning.serving import serving
from planner.units import GIB, KIB, MIB
from planner.values import frozen

LONGEST_ANSWER = 40
"""Characters of a vote."""
MOST_BARS = 10
_NEAR = 0.1
"""As near as a prediction should be, as a share of it."""
SIDES = ("A", "B")
Vote: TypeAlias = "tuple[str, str | dict[str, float]]"
"""The side of a phone, and what it sent."""


@frozen
class Group:
    """Votes that are alike."""

    label: str
    count: int
    kind: str = "votes"
    """right, slip or other; votes where they are not judged yet."""


@frozen
class Known:
    """The answer of a question, worked out by the planner."""

    calculated: float
    """Whole bytes as `int`, else a plain number; of a choice 0."""
    why: str
    slips: tuple[Mistake, ...] = ()
    part: Part | None = None
    """Of the exercise that checks it; a prediction has none."""


@frozen
class Poll:
    """A question that each phone answers for itself."""

    title: str
    asked: str
    known: Callable[[], Known]
    """Plans: call it where that may take a second."""
    options: Mapping[str, str] | None = None

    def described(self) -> dict[str, Any]:
        """Describe it for phones, without the answer."""
        return {
            "title": self.title,
            "asked": self.asked,
            "options": None if self.options is None else dict(self.options),
        }

    def read(self, answer: object) -> str | None:
        """Return what a phone sent as a vote; None where it is none."""
        if not isinstance(answer, str) or not 0 < len(answer.strip()) <= LONGEST_ANSWER:
            return None
        if self.options is not None and answer not in self.options:
            return None
        return answer.strip()

    def tally(self, votes: Sequence[Vote]) -> list[Group]:
        """Count the votes as they are, in the order of their sizes."""
        written = [str(answer) for _, answer in votes]
        if self.options is not None:
            counts = Counter(written)
            return [
                Group(label=f"{letter}: {text}", count=counts[letter])
                for letter, text in self.options.items()
            ]
        values = sorted(map(self._value, written))
        for digits in (3, 2, 1):
            found = Counter(self._label(value, digits) for value in values)
            if len(found) <= MOST_BARS:
                break
        return [Group(label=label, count=count) for label, count in found.items()]

    def named(self, votes: Sequence[Vote]) -> list[Group]:
        """Count the votes by what a check says: right, a slip, anything else."""
        judged = Counter(self.judged(str(answer)) for _, answer in votes)
        order = ("right", "slip", "other")
        return [
            Group(label=says, count=count, kind=kind)
            for (kind, says), count in sorted(
                judged.items(), key=lambda one: (order.index(one[0][0]), -one[1])
            )
        ]

    def judged(self, written: str) -> tuple[str, str]:
        """Return the kind of a vote, and what the check of the lesson says to it."""
        known = self.known()
        if known.part is None:
            revealed = self._revealed(written)
            ratio = revealed.ratio
            if ratio is not None and abs(ratio - 1) <= _NEAR:
                return "right", "within 10 % of it"
            return ("slip", revealed.slip) if revealed.slip else self._other(written)
        judgement = known.part.judge(written)
        if judgement.state is AnswerState.RIGHT:
            return "right", "right"
        if isinstance(known.part, Choice):
            text = known.part.options.get(written, written)
            return "slip", f"{written}: {text}. {judgement.remark}"
        is_slip = any(one.says == judgement.remark for one in known.slips)
        return ("slip", judgement.remark) if is_slip else self._other(written)

    def answer(self) -> str:
        """Return the answer and its arithmetic."""
        known = self.known()
        if isinstance(known.part, Choice):
            return f"{known.part.expected}: {known.part.options[known.part.expected]}."
        return f"{self._label(known.calculated, 3)}. {known.why}".strip()

    def _other(self, written: str) -> tuple[str, str]:
        is_read = self._value(written) < math.inf
        return "other", "another figure" if is_read else "not read as a figure"

    def _revealed(self, written: str) -> Revealed:
        known = self.known()
        guess = Prediction(name=self.title, written=written)
        return guess.reveal(known.calculated, slips=known.slips)

    def _value(self, written: str) -> float:
        """Return the figure of a vote; infinite where it is not read as one."""
        ratio = self._revealed(written).ratio
        return math.inf if ratio is None else ratio * self.known().calculated

    def _label(self, value: float, digits: int) -> str:
        if value == math.inf:
            return "not read as a figure"
        if not isinstance(self.known().calculated, int):
            return f"{float(f'{value:.{digits}g}'):,.10g}"
        units = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"), (1, "bytes"))
        size, unit = next(one for one in units if abs(value) >= one[0] or one[0] == 1)
        return f"{float(f'{value / size:.{digits}g}'):,.10g} {unit}"


@frozen
class Duel:
    """A bar that two sides of the room guess; each phone plays for one."""

    round: Round

    @property
    def title(self) -> str:
        """Its name in the list."""
        return f"Duel: {self.round.title}"

    def described(self) -> dict[str, Any]:
        """Describe it for phones, without the sizes."""
        return {
            "title": self.title,
            "asked": self.round.question,
            "options": None,
            "parts": [
                {"name": one["name"], "fill": one["fill"], "ink": one["ink"]}
                for one in described(self.round)["parts"]
            ],
            "total": self.round.total_bytes / GIB,
            "rest": KV_CACHE,
        }

    def read(self, answer: object) -> dict[str, float] | None:
        """Return what a phone sent as GiB by part; None where it is no bar."""
        names = {one.name for one in self.round.parts} - {KV_CACHE}
        if not isinstance(answer, dict) or set(answer) != names:
            return None
        sizes = {name: float(size) for name, size in answer.items() if _is_size(size)}
        total = self.round.total_bytes / GIB
        whole = len(sizes) == len(names) and sum(sizes.values()) <= total * 1.001
        return sizes if whole else None

    def tally(self, votes: Sequence[Vote]) -> list[Group]:
        """Count the guesses of each side."""
        counts = Counter(side for side, _ in votes)
        return [Group(label=f"Side {side}", count=counts[side]) for side in SIDES]

    def named(self, votes: Sequence[Vote]) -> list[Group]:
        """Return the points of each side: of the guess in the middle, and the best."""
        groups = []
        for side, guesses in self._sides(votes):
            scores = [self.round.score(one) for one in guesses]
            bar = ", ".join(
                f"{name} {mean(one[name] for one in guesses):.1f}"
                for name in guesses[0]
            )
            says = (
                f"Side {side}: {median(scores):.0f} points of 100, the best "
                f"{max(scores)}; on average {bar} GiB"
            )
            groups.append(Group(label=says, count=len(guesses), kind="other"))
        return groups

    def judged(self, written: dict[str, float]) -> tuple[str, str]:
        """Return what one guess scores."""
        return "other", f"{self.round.score(written)} of 100"

    def answer(self) -> str:
        """Return the planner's bar."""
        parts = (f"{one.name} {one.size_bytes / GIB:.2f}" for one in self.round.parts)
        return f"{', '.join(parts)} GiB"

    def _sides(
        self, votes: Sequence[Vote]
    ) -> Iterator[tuple[str, list[dict[str, float]]]]:
        for side in SIDES:
            found = [one for at, one in votes if at == side and isinstance(one, dict)]
            if found:
                yield side, found


Question: TypeAlias = Poll | Duel


def _is_size(size: object) -> bool:
    is_number = isinstance(size, int | float) and not isinstance(size, bool)
    return is_number and 0 <= size < math.inf  # type: ignore[operator]


def _of_line(lesson: int, line: Line) -> Known:
    return Known(calculated=line.size_bytes, why=line.why, slips=slips(lesson))


def _tokens() -> Known:
    plan = checkpoint(3)
    group = plan.kv_groups[0]
    why = f"{plan.num_gpu_blocks:,} blocks of {group.block_size} tokens"
    return Known(calculated=float(plan.kv_cache_size_tokens), why=why, slips=slips(3))


def _visitors() -> Known:
    load = Load(prompt_tokens=3000, output_tokens=1000, requests=40)
    served = serving(checkpoint(6), load).requests_served
    return Known(calculated=float(served), why="", slips=slips(6))


_PREDICTIONS: tuple[tuple[int, str, Callable[[], Known]], ...] = (
    (
        1,
        "An L4 is sold as a card with 24 GB. The files of Qwen3-8B take up 16.4 GB. "
        "How much is left for the KV cache?",
        lambda: _of_line(1, line_of(checkpoint(1), "KV cache")),
    ),
    (
        2,
        "Qwen3-14B has 14.8 billion parameters, in bfloat16, a format of 16 bits. How "
        "much memory do its weights take?",
        lambda: _of_line(
            2, line_of(checkpoint(2).changed(model="Qwen/Qwen3-14B"), "weights")
        ),
    ),
    (
        3,
        "The desk has a KV cache of 3.62 GiB. How many tokens does it hold?",
        _tokens,
    ),
    (
        4,
        "vLLM requests about 20 GiB of the card; the weights take 15.27 GiB, the KV "
        "cache 3.62 GiB. How large is the largest of the lines between them?",
        lambda: _of_line(4, line_of(checkpoint(4), "CUDA graphs")),
    ),
    (
        6,
        "Weights and cache in fp8: the KV cache has 10.09 GiB. How many visitors with "
        "3,000 tokens and answers of 1,000 does one L4 serve at the same time?",
        _visitors,
    ),
)
_CHECKED = (
    (
        "1.2",
        "line",
        "max_model_len is raised from 8,192 to 12,000. What happens to the lines?",
    ),
    (
        "2.3",
        "copied",
        "Qwen3-14B on two cards: which part is stored in full on both of them?",
    ),
    (
        "3.1",
        "token",
        "36 layers, 32 attention heads, 8 KV heads of 128 numbers, in bfloat16. How "
        "many bytes of KV cache does one token take?",
    ),
    (
        "3.2",
        "start",
        "256 requests of 8,192 tokens would need 288 GiB. Why does vLLM start?",
    ),
    ("4.1", "meaning", "What does gpu_memory_utilization=0.92 mean?"),
    (
        "6.1",
        "kv_cache",
        "How much KV cache do forty visitors need, each with 3,000 tokens and an "
        "answer of 1,000? A token takes 144 KiB in 16 bits, and here it is in fp8.",
    ),
)


def questions() -> tuple[Question, ...]:
    """Return what a room may be asked: by lesson, then the duels of the day."""
    asked: list[tuple[str, Question]] = [
        (f"{lesson}", _prediction(lesson, words, known))
        for lesson, words, known in _PREDICTIONS
    ]
    asked += [(name, _checked(name, part, words)) for name, part, words in _CHECKED]
    ordered = [one for _, one in sorted(asked, key=lambda pair: pair[0])]
    return (*ordered, *(Duel(round=one) for one in guess_the_bar(rounds=2).rounds))


def _prediction(lesson: int, words: str, known: Callable[[], Known]) -> Poll:
    return Poll(title=f"Lesson {lesson}, prediction", asked=words, known=cache(known))


def _checked(name: str, part: str, words: str) -> Poll:
    of = exercise(name)
    found = next(one for one in of.parts if one.name == part)
    assert isinstance(found, Size | Number | Choice)  # plans are made, not voted on
    is_choice = isinstance(found, Choice)

    def known() -> Known:
        return Known(
            calculated=0 if isinstance(found, Choice) else found.expected(),
            why="" if is_choice else of.solution().text.strip().partition("\n")[0],
            slips=() if isinstance(found, Choice) else found.mistakes,
            part=found,
        )

    return Poll(
        title=f"Exercise {name}: {of.title}",
        asked=words,
        known=cache(known),
        options=found.options if isinstance(found, Choice) else None,
    )
