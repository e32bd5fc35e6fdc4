"""A page sends messages to the planner's widgets; it does not set their state."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import anywidget
import pytest

from planner.app import widgets
from planner.app.widgets import export_section, results
from planner.app.widgets.export_section import ExportSection, ExportView
from planner.app.widgets.page_widget import PageWidget
from planner.app.widgets.section import Toggle
from tests.plans import fitting

STATIC = Path(widgets.__file__).parent / "static"
TYPED = "typed by a visitor\nERROR a line of the log"


def own_widgets() -> list[type]:
    """Every widget that has a script of the planner's."""
    for module in iter_modules(widgets.__path__):
        import_module(f"{widgets.__name__}.{module.name}")
    found, waiting = [], [anywidget.AnyWidget]
    while waiting:
        waiting.extend(waiting.pop().__subclasses__())
        found.extend(one for one in waiting if one.__module__.startswith("planner."))
    return sorted(set(found), key=lambda one: one.__name__)


@pytest.mark.parametrize("kind", own_widgets(), ids=lambda kind: kind.__name__)
def test_no_widget_trusts_the_state_that_a_page_sends(kind) -> None:
    """Each is a `PageWidget`, and does not undo what that does."""
    assert issubclass(kind, PageWidget)
    assert kind.set_state is PageWidget.set_state


def test_scripts_send_what_their_widgets_take() -> None:
    """One does: the heading of a section, which is turned at once."""
    saving = {
        path.name for path in STATIC.glob("*.js") if "save_changes(" in path.read_text()
    }
    taking = {kind.__name__ for kind in own_widgets() if kind.set_by_page}
    sent = re.findall(r'model\.set\("(\w+)"', (STATIC / "toggle.js").read_text())

    assert saving == {"toggle.js"}
    assert taking == {"Toggle"}
    assert set(sent) == Toggle.set_by_page


def test_a_heading_takes_its_value_alone(caplog) -> None:
    """The rest of a state is left out, and is not logged."""
    toggle = Toggle(description="Run")
    toggle.set_state({"value": True, "description": TYPED})

    assert (toggle.value, toggle.description) == (True, "Run")
    assert "typed" not in caplog.text
    toggle.set_state({"value": False})
    assert not toggle.value
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("sent", [{"_esm": TYPED}, {}, None, [TYPED], TYPED])
def test_any_other_state_changes_nothing(sent, caplog) -> None:
    """Whatever its kind."""
    view = ExportView(lambda _name: None)
    script, formats = view._esm, view.formats
    view.set_state(sent)

    assert (script, formats) == (view._esm, view.formats)
    assert "typed" not in caplog.text


def test_a_format_that_a_page_makes_up_is_none(caplog) -> None:
    """It was chosen, failed, and stood in the log with its line ends."""
    section = ExportSection()
    section.turn(True)
    section.show(fitting())
    view = section.view
    assert view is not None
    view.set_state({"formats": [[TYPED, "x"]]})
    view._handle_custom_msg({"format": TYPED}, [])

    assert view.chosen == next(iter(export_section.FORMATS))
    assert "typed" not in caplog.text


def test_the_log_does_not_name_what_was_chosen(caplog) -> None:
    """When a plan cannot be written, whatever the reason."""
    section = ExportSection()
    section.turn(True)
    view = section.view
    assert view is not None
    view.chosen = TYPED
    section.show(fitting())

    assert "a visitor" not in caplog.messages[-1]
    assert "the plan was not written" in caplog.messages[-1]


def test_a_tab_that_a_page_makes_up_is_none() -> None:
    """It would have become the open one."""
    opened: list[bool] = []
    tabs = results.Tabs({"advice": "Advice"}, lambda: opened.append(True))
    tabs.set_state({"titles": [["x", TYPED]], "chosen": "x"})
    tabs._handle_custom_msg({"tab": "x"}, [])

    assert (tabs.chosen, opened) == ("advice", [])
