"""Controls that each hold one engine argument under vLLM's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import ipywidgets as w
import traitlets

from planner.errors import PlannerError
from planner.widgets.guard import alert_html


class Field(w.VBox):
    """One control with its label, its value for vLLM and room for its own error.

    `value` changes once per user action.
    """

    value = traitlets.Any()

    def __init__(self, name: str, children: Sequence[w.Widget], value: object) -> None:
        self.name = name
        """The engine argument it holds, in vLLM's spelling."""
        self.default = value
        """What stands here before the user touches it; means vLLM's own choice."""
        self._alert = w.HTML()
        super().__init__([*children, self._alert])
        self.value = value
        self.add_class("planner-field")

    def show_error(self, message: str) -> None:
        """Show what is wrong with this field; an empty text clears it."""
        self._alert.value = alert_html(message) if message else ""

    def show_default(self, resolved: object) -> None:
        """Show what vLLM chooses while the value is None."""

    def read(self) -> object:
        """Return the value for vLLM, None where the user left it to vLLM.

        Raises:
            PlannerError: when what was typed cannot be a value.
        """
        return None if self.value == self.default else self.value

    def put(self, value: object) -> None:
        """Hold a value that `read` could return; None leaves it to vLLM."""
        self.value = self.default if value is None else value


def label(name: str, hint: str) -> str:
    """Write a field's visible label: vLLM's word and a plain-word hint."""
    return (
        f"<span class='pl-name'>{escape(name)}</span> "
        f"<span class='pl-hint'>{escape(hint)}</span>"
    )


class ChoiceField(Field):
    """One of a few values from a list."""

    def __init__(
        self, name: str, hint: str, tooltip: str, options: Sequence[tuple[str, object]]
    ) -> None:
        self.control = w.Dropdown(
            options=list(options),
            description=label(name, hint),
            description_allow_html=True,
            tooltip=tooltip,
        )
        super().__init__(name, [self.control], self.control.value)
        traitlets.link((self.control, "value"), (self, "value"))

    def put(self, value: object) -> None:
        """Hold a value; one that the list lacks is added to it."""
        known = [option for _, option in self.control.options]
        if value is not None and value not in known:
            self.control.options = (*self.control.options, (str(value), value))
        super().put(value)


class SwitchField(Field):
    """On or off."""

    def __init__(self, name: str, hint: str, tooltip: str) -> None:
        self.control = w.Checkbox(
            value=False,
            indent=False,
            description=label(name, hint),
            description_allow_html=True,
            tooltip=tooltip,
        )
        super().__init__(name, [self.control], value=False)
        self.add_class("planner-switch")
        traitlets.link((self.control, "value"), (self, "value"))


class ShareField(Field):
    """A share of the GPU between 0 and 1."""

    def __init__(self, name: str, hint: str, tooltip: str, value: float) -> None:
        self.control = w.FloatSlider(
            value=value,
            min=0.05,
            max=1.0,
            step=0.01,
            readout_format=".2f",
            description=label(name, hint),
            description_allow_html=True,
            tooltip=tooltip,
        )
        super().__init__(name, [self.control], value)
        self.add_class("planner-slider")
        self.control.observe(self._slid, names="value")
        self.observe(self._set, names="value")

    def _slid(self, change: dict[str, Any]) -> None:
        """Take a new share without the floating-point dust that a page adds."""
        self.value = _without_dust(change["new"])

    def _set(self, change: dict[str, Any]) -> None:
        if _without_dust(self.control.value) != change["new"]:
            self.control.value = change["new"]

    def show_default(self, resolved: object) -> None:
        """Move an untouched slider to the share that the release takes by itself."""
        if not isinstance(resolved, float) or self.read() is not None:
            return
        # The default goes first, so that the moved slider still counts as untouched.
        self.default = resolved
        self.value = resolved


def _without_dust(share: float) -> float:
    return round(float(share), 4)


class CountField(Field):
    """A whole number of at least one, typed or stepped."""

    def __init__(self, name: str, hint: str, tooltip: str) -> None:
        self.control = w.IntText(
            value=1,
            description=label(name, hint),
            description_allow_html=True,
            tooltip=tooltip,
        )
        super().__init__(name, [self.control], value=1)
        traitlets.link((self.control, "value"), (self, "value"))

    def read(self) -> object:
        """Return the count.

        Raises:
            PlannerError: when it is below one.
        """
        if self.value < 1:
            raise PlannerError(
                f"{self.name} is {self.value}. Give a whole number of at least 1."
            )
        return super().read()


class StepField(Field):
    """A length or a number: a slider in doubling steps beside an exact entry.

    An empty entry is None: vLLM's own choice, which the entry shows in grey.
    """

    def __init__(
        self,
        name: str,
        hint: str,
        tooltip: str,
        *,
        steps: Sequence[int],
        parse: Callable[[str, str], object],
    ) -> None:
        self._parse = parse
        self._is_following = False
        self.entry = w.Text(
            description=label(name, hint),
            description_allow_html=True,
            tooltip=tooltip,
            continuous_update=False,
        )
        self.slider = w.SelectionSlider(options=_options(steps), tooltip=tooltip)
        super().__init__(name, [self.entry, self.slider], value="")
        self.add_class("planner-step")
        self.entry.observe(self._typed, names="value")
        self.slider.observe(self._slid, names="value")
        self.observe(self._set, names="value")

    def read(self) -> object:
        """Return the number or word that was typed, None when nothing was.

        Raises:
            PlannerError: when the text is not understood.
        """
        text = str(self.value).strip()
        return None if not text else self._parse(self.name, text)

    def put(self, value: object) -> None:
        """Hold a number or a word; None leaves it to vLLM."""
        self.value = "" if value is None else str(value)

    def show_default(self, resolved: object) -> None:
        """Write vLLM's choice in grey, and put the slider there."""
        if str(self.value).strip() or not isinstance(resolved, int):
            return
        self.entry.placeholder = f"{resolved}"
        self._follow(resolved)

    def set_steps(self, steps: Sequence[int]) -> None:
        """Replace the slider's steps, keeping the value."""
        options = _options(steps)
        if options == self.slider.options:
            return
        self._is_following = True
        self.slider.options = options
        self._is_following = False

    def _typed(self, change: dict[str, Any]) -> None:
        self.value = change["new"]

    def _slid(self, change: dict[str, Any]) -> None:
        if not self._is_following and change["new"] is not None:
            self.value = str(change["new"])

    def _set(self, change: dict[str, Any]) -> None:
        """Keep entry and slider in step with the value, whoever set it."""
        text = str(change["new"])
        self.entry.value = text
        if text.strip().isdecimal():
            self._follow(int(text))

    def _follow(self, number: int) -> None:
        """Move the slider to the step nearest to `number` without setting the value."""
        steps = [step for _, step in self.slider.options]
        self._is_following = True
        self.slider.value = min(steps, key=lambda step: abs(step - number))
        self._is_following = False


def _options(steps: Sequence[int]) -> tuple[tuple[str, int], ...]:
    return tuple((f"{step:,}", step) for step in steps)


def doubling_steps(smallest: int, largest: int, per_doubling: int = 4) -> list[int]:
    """List round numbers from `smallest` to `largest`, a few to each doubling.

    >>> doubling_steps(1024, 4096)
    [1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096]
    """
    steps = []
    step = smallest
    while step < largest:
        steps += [step + step * part // per_doubling for part in range(per_doubling)]
        step *= 2
    return [*(step for step in dict.fromkeys(steps) if step < largest), largest]
