"""Fields, one per engine argument: its value, vLLM's choice, and an error.

Fields are plain objects; `planner.app.widgets.controls` shows them on a page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from planner.app.widgets.parsing import Notation
from planner.errors import PlannerError

VLLMS_CHOICE = "vLLM's choice"
LONGEST_ENTRY = 4000
"""The most characters that a page may send for one field."""
Callback = Callable[["Field"], None]
Options = Sequence[tuple[str, object]]
Grouped = Callable[[object], str]


class Field:
    """An argument under vLLM's name; `value` is what the user chose.

    Callbacks of `on_change` are called once per change of the value.
    """

    kind = "text"
    """How a page shows it."""

    def __init__(self, name: str, hint: str = "", *, default: Any = None) -> None:  # noqa: ANN401 - any argument's
        self.name = name
        """The engine argument, in vLLM's spelling."""
        self.term = name
        """Its entry in the glossary."""
        self.label = ""
        """Its name on the page; empty: `name`."""
        self.title = ""
        """A title in plain words, beside which its name is shown; empty: none.
        The list of all arguments shows none."""
        self.hint = hint
        """What it is, in a few words."""
        self.default = default
        """The initial value, which means vLLM's own choice."""
        self.chosen = ""
        """What vLLM chooses while nothing is set, as text."""
        self.own = ""
        """Who chooses while nothing is set; empty: vLLM."""
        self.error = ""
        self.suggested: Sequence[str] = ()
        """Values that would be right, where the entry is wrong."""
        self.since = ""
        """The first release with the argument, where the planned one lacks it."""
        self.mark = ""
        """A word beside it, such as for what a pasted text set."""
        self._value = default
        self._changed: list[Callback] = []
        self._touched: list[Callback] = []

    @property
    def value(self) -> Any:  # noqa: ANN401 - any argument's
        """What the user chose, as it was entered."""
        return self._value

    @value.setter
    def value(self, value: object) -> None:
        if value == self._value and type(value) is type(self._value):
            return
        self._value = value
        self.touch()
        for callback in self._changed:
            callback(self)

    @property
    def is_set(self) -> bool:
        """Whether the value is anything but vLLM's choice."""
        return bool(self._value != self.default)

    @property
    def is_empty(self) -> bool:
        """Whether `read` returns None without a look at the entry."""
        return self._value is None or self._value == ""

    @property
    def has_choice(self) -> bool:
        """Whether the choice can be left to vLLM."""
        return True

    def on_change(self, callback: Callback) -> None:
        """Call `callback` after each change of the value."""
        self._changed.append(callback)

    def on_touch(self, callback: Callback) -> None:
        """Call `callback` after each change of anything that a page shows."""
        self._touched.append(callback)

    def touch(self) -> None:
        """Report that something a page shows has changed."""
        for callback in self._touched:
            callback(self)

    def show_error(self, message: str, suggested: Sequence[str] = ()) -> None:
        """Show an error at this field; an empty text clears it."""
        if message != self.error or suggested != self.suggested:
            self.error, self.suggested = message, suggested
            self.touch()

    def show_default(self, resolved: object) -> None:
        """Show what vLLM chooses while nothing is set; None: nothing."""
        if (resolved is not None or self.chosen) and not self.is_set:
            self.say(chosen=self.written(resolved))

    def say(self, **words: str) -> None:
        """Show other words: chosen, own, hint, since or mark; empty: none."""
        if any(getattr(self, name) != text for name, text in words.items()):
            vars(self).update(words)
            self.touch()

    def read(self) -> Any:  # noqa: ANN401 - any argument's
        """Return the value for vLLM; None where it is left to vLLM.

        Raises:
            PlannerError: when the entry is not a valid value.
        """
        return self._value if self.is_set else None

    def put(self, value: object) -> None:
        """Set a value that `read` could return; None leaves it to vLLM."""
        self.value = self.default if value is None else value

    def receive(self, sent: object) -> bool:
        """Set what a page sent; False where it cannot be a value of this field."""
        # Each kind of field has its own check, and every field has a kind.
        raise NotImplementedError

    def written(self, value: object) -> str:
        """Write a value as the page shows it."""
        return "" if value is None else str(value)

    def state(self) -> dict[str, object]:
        """Return what a page shows of it, without empty entries."""
        made = {
            "kind": self.kind,
            "label": self.label,
            "title": self.title,
            "hint": self.hint,
            "v": self.written(self._value),
            "set": self.is_set and self.has_choice,
            "plain": not self.has_choice,
            "c": self.chosen,
            "own": self.own,
            "e": self.error,
            "try": self.suggested,
            "since": self.since,
            "mark": self.mark,
        }
        return {key: value for key, value in made.items() if value}


class ChoiceField(Field):
    """One of a list of values; None is vLLM's choice, where the list has it."""

    kind = "choice"

    def __init__(
        self, name: str, hint: str, options: Options, *, grouped: Grouped | None = None
    ) -> None:
        self._options: list[tuple[str, object]] = []
        self._listed: list[list[str]] = []
        self._grouped = grouped
        super().__init__(name, hint, default=options[0][1])
        self.options = options

    @property
    def has_choice(self) -> bool:
        """Whether the first option leaves it to vLLM."""
        return self._options[0][1] is None

    @property
    def options(self) -> Options:
        """Labels and values, in the order of the list."""
        return tuple(self._options)

    @options.setter
    def options(self, options: Options) -> None:
        self._options = list(options)
        self._listed = [
            [
                _key(value, place),
                label,
                *([self._grouped(value)] if self._grouped else []),
            ]
            for place, (label, value) in enumerate(self._options)
        ]
        self.touch()

    def put(self, value: object) -> None:
        """Set a value; add it to the list where it is missing."""
        if value is not None and value not in [known for _, known in self._options]:
            self.options = (*self._options, (str(value), value))
        super().put(value)

    def receive(self, sent: object) -> bool:
        """Set the option with the key that a page sent."""
        key = "" if sent is None else _key(sent, -1)
        for place, (_, value) in enumerate(self._options):
            if _key(value, place) == key:
                self.value = value
                return True
        return False

    def written(self, value: object) -> str:
        """Write a value as text; on or off for a switch."""
        if isinstance(value, bool):
            return "on" if value else "off"
        return super().written(value)

    def state(self) -> dict[str, object]:
        """Add the options and the key of the chosen one."""
        values = [value for _, value in self._options]
        place = next(
            (at for at, value in enumerate(values) if _is_same(value, self._value)), 0
        )
        return super().state() | {"options": self._listed, "v": self._listed[place][0]}


def _is_same(one: object, other: object) -> bool:
    return one is other or (one == other and type(one) is type(other))


def _key(value: object, place: int) -> str:
    """Return the text by which a page refers to a value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else f"#{place}"


class SwitchField(ChoiceField):
    """On, off, or vLLM's choice."""

    def __init__(self, name: str, hint: str = "") -> None:
        super().__init__(
            name, hint, [(VLLMS_CHOICE, None), ("on", True), ("off", False)]
        )


class EntryField(Field):
    """A text that is parsed as a number, a list, JSON, ...; empty is vLLM's choice.

    With steps it has a slider beside the text box.
    """

    def __init__(
        self, name: str, hint: str, entry: Notation, *, steps: Sequence[float] = ()
    ) -> None:
        super().__init__(name, hint, default="")
        self.entry = entry
        self.kind = entry.kind
        self.steps = tuple(steps)
        """The values of the slider, smallest first."""
        self.usual: Sequence[int] = ()
        """Values that have a button each."""

    def read(self) -> Any:  # noqa: ANN401 - any argument's
        """Return the entry as vLLM's value; None where it is empty.

        Raises:
            PlannerError: when the text cannot be parsed.
        """
        text = str(self._value).strip()
        return self.entry.parse(self.name, text) if text else None

    def put(self, value: object) -> None:
        """Set a value; None leaves it to vLLM."""
        self.value = "" if value is None else self.written(value)

    def receive(self, sent: object) -> bool:
        """Set a text or a number."""
        if sent is None:
            sent = ""
        if isinstance(sent, bool) or not isinstance(sent, str | int | float):
            return False
        text = self.written(sent)
        if len(text) > LONGEST_ENTRY:
            return False
        self.value = text
        return True

    def show_default(self, resolved: object) -> None:
        """Show what vLLM chooses, unless it is a switch in the place of a number."""
        if not isinstance(resolved, bool):
            super().show_default(resolved)

    def written(self, value: object) -> str:
        """Write a value so that `read` returns it."""
        return value if isinstance(value, str) else self.entry.write(value)

    def set_steps(self, steps: Sequence[float]) -> None:
        """Replace the slider's steps and keep the value."""
        if tuple(steps) != self.steps:
            self.steps = tuple(steps)
            self.touch()

    def state(self) -> dict[str, object]:
        """Add the steps, and the values with a button."""
        more = {"steps": self.steps, "usual": self.usual}
        return super().state() | {key: value for key, value in more.items() if value}


class OwnEntry(EntryField):
    """An entry that is no argument of vLLM, so that nothing is left to vLLM."""

    @property
    def has_choice(self) -> bool:
        """There is none."""
        return False


def read_all(fields: dict[str, Field]) -> dict[str, Any]:
    """Return the values of fields; each field shows its own error.

    Raises:
        FieldError: with the first error.
    """
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for name, field in fields.items():
        if field.is_empty and not field.error:  # most of them, at each step of a slider
            values[name] = None
            continue
        try:
            values[name] = field.read()
        except PlannerError as error:
            wrong.append(str(error))
            field.show_error(str(error))
        else:
            field.show_error("")
    if wrong:
        raise FieldError(wrong[0])
    return values


class FieldError(PlannerError):
    """A field cannot be read; the field itself shows the message."""


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
