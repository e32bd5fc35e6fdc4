"""What a start has that may run code or open a file, and the tick that allows it.

A plan on the page may come from a text that somebody pasted: whoever presses Run has to
see first what of it reaches beyond a measurement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as w

from planner.engine.foreign import questions
from planner.errors import PlannerError
from planner.show.html import tag

if TYPE_CHECKING:
    from planner.planning.inputs import Inputs

TICK = "Start vLLM with these settings"
_INTRO = (
    "This start may run code, or open files or connections, that its text or its "
    "settings name. vLLM runs with all of your rights:"
)
_REFUSAL = (
    "vLLM was not started: read what this start may do, listed above the button, and "
    f"tick “{TICK}”, or remove those settings."
)


class Consent(w.VBox):
    """Lists what has to be allowed for a start; hidden where nothing has."""

    def __init__(self) -> None:
        self.asked: tuple[str, ...] = ()
        """What the tick is for, a sentence each."""
        self.words = w.HTML()
        self.tick = w.Checkbox(description=TICK, indent=False)
        super().__init__([self.words, self.tick])
        self.layout.display = "none"
        self.add_class("planner-run-consent")

    def show(self, inputs: Inputs | None) -> None:
        """Ask for these inputs; another question takes the tick away."""
        asked = () if inputs is None else questions(inputs.engine_args, inputs.env)
        if asked == self.asked:
            return
        self.asked, self.tick.value = asked, False
        rows = [tag("li", tag("code", one)) for one in asked]
        self.words.value = tag("div", tag("p", _INTRO), tag("ul", *rows))
        self.layout.display = "" if asked else "none"

    def check(self) -> None:
        """Refuse a start that has not been allowed.

        Raises:
            PlannerError: says what to tick.
        """
        if self.asked and not self.tick.value:
            raise PlannerError(_REFUSAL)
