"""Sections of the page, and lists: further arguments, what can be asked of vLLM."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import traitlets

from planner.app.widgets.actions import ActionList, Row, action
from planner.app.widgets.callbacks import Later
from planner.app.widgets.page_widget import PageWidget
from planner.app.widgets.static_files import script
from planner.engine.settings import flags

if TYPE_CHECKING:
    from planner.app.widgets.form import Form
    from planner.planning.inputs import Inputs
    from planner.planning.result import Plan

ASK = "Ask vLLM (no GPU needed)"
"""The button that starts vLLM without a GPU."""
_ENV = "env:"


class Toggle(PageWidget):
    """A heading with a button; `value` is whether it is open."""

    _esm = script("toggle.js")
    set_by_page = frozenset({"value"})

    description = traitlets.Unicode().tag(sync=True)
    value = traitlets.Bool(False).tag(sync=True)


class Section(w.VBox):
    """What a tab shows: made when it is first opened, and computed only while open."""

    def __init__(self, title: str, name: str, pause_seconds: float = 0.0) -> None:
        super().__init__([])
        self.title = title
        self._plan: Plan | None = None
        self._later = Later(pause_seconds)
        self.is_open = False
        """Whether the contents are on the page."""
        self.add_class("planner-section")
        self.add_class(f"planner-{name}")

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the contents; called when it is opened."""
        return ()

    def show(self, plan: Plan) -> None:
        """Show what follows from a plan: once the user pauses, and only while open."""
        self._plan = plan
        if self.is_open:
            self._later.run(self.refresh)

    def refresh(self) -> None:
        """Update the contents; called when it is opened."""

    def turn(self, is_open: bool) -> None:
        """Open or close it."""
        self.is_open = is_open
        self.redraw()
        if is_open:
            self.refresh()

    def redraw(self) -> None:
        """Show what is inside now; a closed tab keeps it, hidden."""
        if self.is_open:
            self.children = self.inside()


class Fold(Section):
    """A section behind a button of its own; shown only while it is open."""

    def __init__(self, title: str, name: str, pause_seconds: float = 0.0) -> None:
        super().__init__(title, name, pause_seconds)
        self.toggle = Toggle(description=title)
        self.children = (self.toggle,)
        self.add_class("planner-fold")
        self.toggle.observe(lambda change: self.turn(change["new"]), names="value")

    def redraw(self) -> None:
        """Show the button, and what is inside while it is open."""
        self.children = (self.toggle, *(self.inside() if self.is_open else ()))


def tables_view() -> w.HTML:
    """Return a place for tables that follow from a plan."""
    view = w.HTML()
    view.add_class("pl-plan")
    return view


class ArgumentSection(Fold):
    """All engine arguments behind a button."""

    def __init__(self, form: Form, further: w.Widget) -> None:
        super().__init__("All engine arguments", "arguments")
        self._form, self._further = form, further

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the controls, created when first opened, and the further arguments."""
        return (self._form.more, self._further)


class Offer(ActionList):
    """What can be asked of vLLM itself where the planner has no plan; else hidden.

    Without `ask`, as in a published app, it says how to do so elsewhere.
    """

    def __init__(self, ask: Callable[[], None] | None) -> None:
        super().__init__("vLLM itself can be asked", self._press)
        self.add_class("planner-offer")
        self._ask = ask

    def show(self, inputs: Inputs | None) -> None:
        """Offer it for these inputs; None: there is a plan."""
        with self.hold_sync():
            self.note, self.rows = "", []
            if inputs is not None and self._ask is None:
                self.note = f"On a Linux machine with vLLM: {_dry_line(inputs)}"
            elif inputs is not None:
                self.rows = [_offer_row(inputs)]

    def _press(self, _action: str, _key: str) -> None:
        if self._ask is not None:
            self._ask()


def named(inputs: Inputs) -> tuple[str, str]:
    """Return the names of a model and its GPU."""
    model = inputs.model if isinstance(inputs.model, str) else inputs.model.name
    gpu = inputs.gpu if isinstance(inputs.gpu, str) else inputs.gpu.name
    return model, gpu


def _offer_row(inputs: Inputs) -> Row:
    return {
        "key": "ask",
        "title": " on ".join(named(inputs)),
        "detail": (
            "vLLM starts on a simulated GPU and reports what it would allocate. This "
            "takes a minute or two, under Run below."
        ),
        "actions": [action("ask", ASK)],
    }


def _dry_line(inputs: Inputs) -> str:
    model, gpu = map(shlex.quote, named(inputs))
    given = " ".join(map(shlex.quote, flags(inputs.engine_args)))
    return f"planner dry-run {model} --gpu {gpu} {given}".rstrip()


class FurtherArguments(ActionList):
    """Lists arguments and variables without a control; `dropped` gets what remains.

    Each can be removed, such as an environment variable of the opened plan.
    """

    def __init__(self, dropped: Callable[[dict[str, Any]], None]) -> None:
        super().__init__("Also given", self._press, shown=20)
        self.add_class("planner-further")
        self._dropped = dropped
        self._values: dict[str, Any] = {}

    def show(self, values: Mapping[str, Any]) -> None:
        """List engine arguments, and the environment variables under `env`."""
        self._values = dict(values)
        arguments = [
            _row(name, " ".join(flags({name: value})))
            for name, value in values.items()
            if name != "env"
        ]
        env = values.get("env") or {}
        self.rows = [
            *arguments,
            *(_row(_ENV + name, f"{name}={value}") for name, value in env.items()),
        ]

    def _press(self, _action: str, key: str) -> None:
        if key.startswith(_ENV):
            env = dict(self._values.get("env") or {})
            env.pop(key.removeprefix(_ENV), None)
            self._dropped(self._values | {"env": env})
        else:
            self._dropped({n: v for n, v in self._values.items() if n != key})


def _row(key: str, text: str) -> Row:
    return {"key": key, "title": text, "actions": [action("remove", "Remove")]}
