"""The planner's errors in a notebook: one sentence first, and the traceback folded.

IPython asks an exception for what it shows (`_render_traceback_`). A notebook gets the
sentence and the reader's own line; what is inside the planner opens below.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from planner.show.html import Html, tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.errors import PlannerError

_OURS = str(Path(__file__).parents[1])
_INTERNALS = (f"{Path('IPython', 'core')}", f"{Path('concurrent', 'futures')}")
"""What runs a cell; its frames come before the reader's."""
_MORE = "Inside the planner"
_MARK = "_is_folded"


def shown_lines(error: PlannerError) -> list[str]:
    """Return what IPython shows of an error; a notebook gets the rest folded below."""
    from IPython import get_ipython  # noqa: PLC0415 - an error in a notebook only

    shell: Any = get_ipython()
    if not hasattr(shell, "kernel"):  # a terminal, or none
        return _whole(shell, error)
    if not getattr(error, _MARK, False):  # IPython may ask twice
        setattr(error, _MARK, True)
        _fold_below(shell, _folded(error))
    return [f"{type(error).__name__}: {error}", *_own_line(error.__traceback__)]


def _whole(shell: Any, error: PlannerError) -> list[str]:  # noqa: ANN401 - IPython's
    """Return the traceback as IPython, or Python, writes it."""
    given = (type(error), error, error.__traceback__)
    if shell is None:
        return traceback.format_exception(*given)
    written: list[str] = shell.InteractiveTB.structured_traceback(*given)
    return written


def _frames(found: TracebackType | None) -> Iterator[traceback.FrameSummary]:
    """Yield the frames from the reader's cell on."""
    for frame in traceback.extract_tb(found):
        if not any(part in frame.filename for part in _INTERNALS):
            yield frame


def _own_line(found: TracebackType | None) -> Iterator[str]:
    """Yield the last line of the reader's own before the planner's first."""
    own = ""
    for frame in _frames(found):
        if frame.filename.startswith(_OURS):
            break
        own = f"  line {frame.lineno}: {frame.line}" if frame.line else ""
    if own:
        yield own


def _folded(error: PlannerError) -> Html:
    lines = traceback.format_list(list(_frames(error.__traceback__)))
    inside = tag("pre", "".join(lines))
    return tag("details", tag("summary", _MORE), inside)


def _fold_below(shell: Any, html: Html) -> None:  # noqa: ANN401 - IPython's
    """Show HTML below the error, which IPython shows once this has returned."""

    def show(_result: object) -> None:
        from IPython.display import publish_display_data  # noqa: PLC0415 - as above

        shell.events.unregister("post_run_cell", show)
        shown = {"text/plain": _MORE, "text/html": str(html)}
        publish_display_data(shown)  # type: ignore[no-untyped-call]

    shell.events.register("post_run_cell", show)
