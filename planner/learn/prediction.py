"""A learner's guess, written down before the figure is shown, then compared with it."""

from __future__ import annotations

import math

from planner.learn.display import ShownAsText, folded, paragraphs
from planner.learn.parts import Mistake
from planner.learn.progress import keep_prediction, kept
from planner.learn.quantity import (
    Quantity,
    is_untouched,
    number_readings,
    size_readings,
)
from planner.show.document import whole
from planner.show.html import tag
from planner.units import format_size
from planner.values import frozen

_NEAR = 0.1
"""As near as a guess should be; the sentence says so."""
_SAME = 0.08
"""As near to what a slip gives as a guess in whole GB is, such as 7 or 8 for 7.6."""


@frozen(repr=False)
class Prediction(ShownAsText):
    """A learner's guess; it is not judged before the figure is revealed."""

    name: str
    written: str
    """The guess as it was written; empty where there is none."""

    def reveal(
        self, calculated: float, why: str = "", slips: tuple[Mistake, ...] = ()
    ) -> Revealed:
        """Compare the guess with the calculated figure.

        Args:
            calculated: whole bytes as `int`, or a plain number as `float`.
            why: its arithmetic, as the planner wrote it.
            slips: figures that a forgotten step would give, as `learn.slips(1)` has
                those of lesson 1; a guess near one is told which step it was.
        """
        return Revealed(prediction=self, calculated=calculated, why=why, slips=slips)

    def __str__(self) -> str:
        if not self.written:
            return f"{self.name}: replace the ... with your guess before you go on."
        return f"{self.name}: you expect {self.written}. Noted."

    def _repr_html_(self) -> str:
        return whole(tag("p", str(self)))


@frozen(repr=False)
class Revealed(ShownAsText):
    """A guess and the figure that was calculated."""

    prediction: Prediction
    calculated: float
    why: str
    slips: tuple[Mistake, ...] = ()

    @property
    def ratio(self) -> float | None:
        """The guess as a multiple of the figure; None where nothing was guessed."""
        if not self.prediction.written or not self.calculated:
            return None
        likeliest = self._likeliest()
        return None if likeliest is None else likeliest.value / self.calculated

    @property
    def slip(self) -> str:
        """What was forgotten, where that gives the guess; empty if nothing does.

        A guess within 10 % of the figure is not searched: it may be right by reasons.
        """
        if self.ratio is None or abs(self.ratio - 1) <= _NEAR:
            return ""
        found = [
            (abs(one.value / slip.value() - 1), slip.says)
            for one in self._readings()
            for slip in self.slips
            if slip.value() > 0
        ]
        off, says = min(found, default=(1.0, ""))
        return says if off <= _SAME else ""

    def _readings(self) -> list[Quantity]:
        """Return what the guess may mean: with other units too, where it is a size."""
        if isinstance(self.calculated, int):
            return list(size_readings(self.prediction.written))
        return list(number_readings(self.prediction.written))

    def _likeliest(self) -> Quantity | None:
        """Return the guess as written; without a unit, in the one that is nearest."""
        readings = self._readings()
        if not readings or not readings[0].is_guessed:
            return readings[0] if readings else None
        return min(readings, key=self._orders_away)

    def _orders_away(self, reading: Quantity) -> float:
        ratio = reading.value / self.calculated
        return abs(math.log(ratio)) if ratio > 0 else math.inf

    def __str__(self) -> str:
        return "\n".join([*self._said, *([f"How: {self.why}"] if self.why else [])])

    def _repr_html_(self) -> str:
        said = paragraphs("\n".join(self._said))
        return whole(said, folded("The arithmetic", self.why))

    @property
    def _said(self) -> list[str]:
        guess = self.prediction.written or "nothing yet"
        lines = [
            f"{self.prediction.name}: you expected {guess}; calculated: {self._figure}."
        ]
        likeliest = self._likeliest()
        if self.ratio is not None and likeliest is not None:
            lines.append(f"{likeliest.remark} {_compared(self.ratio)}".strip())
        if self.prediction.written and likeliest is None:
            lines.append('It was not read as a number: write one such as "5 GiB".')
        if self.slip:
            lines.append(f"A figure like that comes out this way: {self.slip}")
        return lines

    @property
    def _figure(self) -> str:
        if isinstance(self.calculated, int):
            return format_size(self.calculated)
        return f"{self.calculated:,.2f}".removesuffix(".00")


def predict(name: str, guess: object) -> Prediction:
    """Note a guess, which is kept across restarts of the kernel.

    Args:
        name: what is guessed, such as "KV cache".
        guess: a number or text; `...` while nothing is guessed.
    """
    if is_untouched(guess):
        return Prediction(name=name, written=kept().predictions.get(name, ""))
    written = str(guess).strip()
    keep_prediction(name, written)
    return Prediction(name=name, written=written)


def _compared(ratio: float) -> str:
    if abs(ratio - 1) <= _NEAR:
        return "Your guess is within 10 % of it."
    if ratio < 0:
        return "A size is never negative."
    if ratio > 1:
        return f"Your guess is {ratio:.1f} times as large."
    return f"Your guess is {ratio:.0%} of it."
