"""What a user chooses about a start of vLLM, as controls."""

from __future__ import annotations

from functools import partial

from planner.confirming.options import RunOptions
from planner.errors import PlannerError
from planner.widgets.controls import Controls, Group
from planner.widgets.fields import ChoiceField, EntryField, read_all
from planner.widgets.parsing import Entry

_WEIGHTS = (("dummy", "dummy"), ("real", "real"))
DEFAULT_MINUTES = 30
_LONGEST = 9
"""Digits of a number: more are none that a start could need."""


class OptionEntry(EntryField):
    """An entry that is no argument of vLLM's: what it begins with is the planner's."""

    def __init__(self, name: str, hint: str, entry: Entry, value: str) -> None:
        super().__init__(name, hint, entry)
        self.default = value
        self.value = value

    @property
    def has_choice(self) -> bool:
        """VLLM knows nothing of it."""
        return False


class OptionsForm(Controls):
    """The controls of a start; `read` gathers them."""

    def __init__(self) -> None:
        self.weights = ChoiceField(
            "weights", "dummy: right shapes, no download", _WEIGHTS
        )
        self.weights.term = "start weights"
        self.load_requests = OptionEntry(
            "load probe", "requests sent at once; 0: none", _whole(0), "0"
        )
        self.minutes = OptionEntry(
            "time limit", "in minutes", _whole(1), str(DEFAULT_MINUTES)
        )
        self.python = OptionEntry(
            "Python of vLLM",
            "empty: PLANNER_VLLM_PYTHON, else the Python of this page",
            Entry(kind="text", parse=lambda _name, text: text),
            "",
        )
        super().__init__(
            [Group("", [self.weights, self.load_requests, self.minutes, self.python])]
        )
        self.add_class("planner-run-options")

    def read(self) -> RunOptions:
        """Return what was chosen.

        Raises:
            FieldError: when a field holds something that cannot be; it shows it too.
        """
        read_all(self.fields)
        return RunOptions(
            weights=self.weights.value,
            python=self.python_path,
            time_limit_seconds=60.0 * (self.minutes.read() or DEFAULT_MINUTES),
            load_requests=self.load_requests.read() or None,
        )

    @property
    def python_path(self) -> str | None:
        """The Python that was typed, None where none was."""
        typed = self.python.read()
        return None if typed is None else str(typed)


def _whole(smallest: int) -> Entry:
    return Entry(kind="number", parse=partial(_at_least, smallest))


def _at_least(smallest: int, name: str, text: str) -> int:
    is_whole = text.isascii() and text.isdecimal() and len(text) <= _LONGEST
    if not is_whole or int(text) < smallest:
        raise PlannerError(
            f"{name} is {text[:40]}. Give a whole number of at least {smallest}."
        )
    return int(text)
