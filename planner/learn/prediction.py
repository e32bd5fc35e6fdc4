"""A learner's guess, written down before the figure is shown, then compared with it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.learn.display import ShownAsText, paragraphs
from planner.learn.progress import keep_prediction, kept
from planner.learn.quantity import is_untouched, number_reading, size_readings
from planner.show.html import tag
from planner.show.page import whole
from planner.units import format_size


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Prediction(ShownAsText):
    """A learner's guess; it is not judged before the figure is revealed."""

    name: str
    written: str
    """The guess as it was written; empty where there is none."""

    def reveal(self, calculated: float, why: str = "") -> Revealed:
        """Compare the guess with the calculated figure.

        Args:
            calculated: whole bytes as `int`, or a plain number as `float`.
            why: its arithmetic, as the planner wrote it.
        """
        return Revealed(prediction=self, calculated=calculated, why=why)

    def __str__(self) -> str:
        if not self.written:
            return f"{self.name}: replace the ... with your guess before you go on."
        return f"{self.name}: you expect {self.written}. Noted."

    def _repr_html_(self) -> str:
        return whole(tag("p", str(self)))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Revealed(ShownAsText):
    """A guess and the figure that was calculated."""

    prediction: Prediction
    calculated: float
    why: str

    @property
    def ratio(self) -> float | None:
        """The guess as a multiple of the figure; None where nothing was guessed."""
        if not self.prediction.written or not self.calculated:
            return None
        if isinstance(self.calculated, int):
            values = [one.value for one in size_readings(self.prediction.written)]
            if any(letter.isalpha() for letter in self.prediction.written):
                # Only a number without a unit takes the nearest reading.
                values = values[:1]
        else:
            reading = number_reading(self.prediction.written)
            values = [] if reading is None else [reading.value]
        ratios = [value / self.calculated for value in values]
        return min(ratios, key=lambda ratio: abs(ratio - 1), default=None)

    def __str__(self) -> str:
        guess = self.prediction.written or "nothing yet"
        lines = [
            f"{self.prediction.name}: you expected {guess}; calculated: {self._figure}."
        ]
        if self.ratio is not None:
            lines.append(_compared(self.ratio))
        if self.why:
            lines.append(f"How: {self.why}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return whole(paragraphs(str(self)))

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
    if abs(ratio - 1) <= 0.1:  # noqa: PLR2004 - as the sentence says
        return "Your guess is within 10 % of it."
    if ratio < 0:
        return "A size is never negative."
    if ratio > 1:
        return f"Your guess is {ratio:.1f} times as large."
    return f"Your guess is {ratio:.0%} of it."
