"""The table of set-ups: rows that apply, prices that can be typed over, progress."""

from __future__ import annotations

import math

import traitlets

from planner.app.widgets.search_section import SearchTable
from planner.app.widgets.static_files import script, sheet
from planner.errors import PlannerError
from planner.solve.advice.situation import CostClass
from planner.solve.price_list import list_prices

_LONGEST_PRICE = 12


class SetUpTable(SearchTable):
    """The table: the page sorts, edits prices, applies, and shows progress."""

    _esm = script("set_ups.js")
    _css = sheet("actions.css", "set_ups.css")
    called = "set-ups"
    look = "planner-set-ups"

    best = traitlets.Int(0).tag(sync=True)
    """How many of the first rows no other beats."""
    order = traitlets.Unicode("fewest").tag(sync=True)
    quality = traitlets.Unicode(str(CostClass.NO_LOSS)).tag(sync=True)
    """What formats may cost in answers, of `planner.solve.formats.QUALITIES`."""
    most = traitlets.Unicode("8").tag(sync=True)
    """GPUs at most."""
    currency = traitlets.Unicode().tag(sync=True)
    rate = traitlets.Unicode("1").tag(sync=True)
    """What one unit of the list's currency is in this one."""
    listed_in = traitlets.Unicode(list_prices().currency).tag(sync=True)
    is_kept_by_page = traitlets.Bool(False).tag(sync=True)
    """Whether the page keeps the user's prices, as no server does it."""
    mapped = traitlets.Unicode().tag(sync=True)
    """Key of the row whose loads are drawn."""


def read_price(text: str) -> float | None:
    """Read a price as people type it; None for an empty text.

    >>> read_price("2,50"), read_price(" $3.99 "), read_price("")
    (2.5, 3.99, None)

    Raises:
        PlannerError: for anything but a number from 0.
    """
    plain = text.strip().strip("$€£ ").replace(",", ".")
    if not plain:
        return None
    try:
        price = float(plain) if len(plain) <= _LONGEST_PRICE else math.nan
    except ValueError:
        price = math.nan
    if not price >= 0 or math.isinf(price):
        raise PlannerError(
            f"{text[:20]!r} is no price of a GPU for an hour: type a number such as "
            "2.50, or nothing to use the list price."
        )
    return price
