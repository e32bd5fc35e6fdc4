"""What a user chooses about a start of vLLM, as controls."""

from __future__ import annotations

import ipywidgets as w
import traitlets

from planner.confirming.options import RunOptions
from planner.errors import PlannerError
from planner.widgets.fields import ChoiceField, Field, label
from planner.widgets.form import read_all

_WEIGHTS = (("dummy", "dummy"), ("real", "real"))
DEFAULT_MINUTES = 30


class TextField(Field):
    """Free text; empty means not given."""

    def __init__(self, name: str, hint: str, tooltip: str, placeholder: str) -> None:
        self.control = w.Text(
            description=label(name, hint),
            description_allow_html=True,
            tooltip=tooltip,
            placeholder=placeholder,
            continuous_update=False,
        )
        super().__init__(name, [self.control], value="")
        self.add_class("planner-text")
        traitlets.link((self.control, "value"), (self, "value"))

    def read(self) -> object:
        """Return the text, None where there is none."""
        return str(self.value).strip() or None


class WholeField(Field):
    """A whole number from a smallest one on."""

    def __init__(
        self, name: str, hint: str, tooltip: str, *, value: int, smallest: int
    ) -> None:
        self.smallest = smallest
        self.control = w.IntText(
            value=value,
            description=label(name, hint),
            description_allow_html=True,
            tooltip=tooltip,
        )
        super().__init__(name, [self.control], value=value)
        traitlets.link((self.control, "value"), (self, "value"))

    def read(self) -> object:
        """Return the number.

        Raises:
            PlannerError: when it is too small.
        """
        if self.value < self.smallest:
            raise PlannerError(
                f"{self.name} is {self.value}. Give a whole number of at least "
                f"{self.smallest}."
            )
        return self.value


class OptionsForm(w.Box):
    """The controls of a start; `read` gathers them."""

    def __init__(self) -> None:
        self.weights = ChoiceField(
            "weights",
            "dummy: right shapes, no download",
            "Dummy weights have the right shapes, which is enough for memory, and need "
            "no download. Real ones come from the Hub or the model's folder.",
            _WEIGHTS,
        )
        self.load_requests = WholeField(
            "load probe",
            "requests sent at once; 0: none",
            "So many requests of the planned length are sent at once when vLLM is "
            "ready, to compare what fits with the predicted concurrency.",
            value=0,
            smallest=0,
        )
        self.minutes = WholeField(
            "time limit",
            "in minutes",
            "After this long vLLM is ended, ready or not.",
            value=DEFAULT_MINUTES,
            smallest=1,
        )
        self.python = TextField(
            "Python of vLLM",
            "empty: PLANNER_VLLM_PYTHON, else the Python of this page",
            "Path of a Python that can import vLLM.",
            "/path/to/env/bin/python",
        )
        self.fields = (self.weights, self.load_requests, self.minutes, self.python)
        super().__init__(list(self.fields))
        self.add_class("planner-run-options")

    def read(self) -> RunOptions:
        """Return what was chosen.

        Raises:
            FieldError: when a field holds something that cannot be; it shows it too.
        """
        read_all({field.name: field for field in self.fields})
        return RunOptions(
            weights=self.weights.value,
            python=self.python_path,
            time_limit_seconds=60.0 * self.minutes.value,
            load_requests=self.load_requests.value or None,
        )

    @property
    def python_path(self) -> str | None:
        """The Python that was typed, None where none was."""
        typed = self.python.read()
        return None if typed is None else str(typed)

    def set_disabled(self, is_disabled: bool) -> None:
        """Lock the controls while a run goes on."""
        for field in self.fields:
            field.control.disabled = is_disabled
