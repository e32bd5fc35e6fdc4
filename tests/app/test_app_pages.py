"""What the app's server computes for a page that needs no kernel."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest

pytest.importorskip("voila")

from planner.app.voila import pages
from planner.learn import guessing

CLIENTS = 8


class _Game:
    def to_html(self) -> str:
        return "the bar of the day"


def test_the_page_waits_a_minute_for_its_widgets() -> None:
    """Jupyter's own four seconds left it without controls on a busy machine."""
    bundle = pages.gather([]).texts["page/bundle.js"]

    assert [b"60000"] == re.findall(rb'respond in time"\)+,(\w+)\)', bundle)


def test_the_bar_of_the_day_is_drawn_once(monkeypatch) -> None:
    """Also for those who ask while it is drawn."""
    drawn: list[date] = []
    asking = threading.Barrier(CLIENTS)
    second = threading.Event()

    def draw(day: date) -> _Game:
        drawn.append(day)
        if len(drawn) > 1:
            second.set()
        second.wait(0.2)  # longer only where nobody else draws
        return _Game()

    def ask(day: date) -> str:
        asking.wait(20)
        return pages._guess_page(day)

    monkeypatch.setattr(guessing, "guess_the_bar", draw)
    day = date(1999, 12, 31)  # not one that another test asks for
    try:
        with ThreadPoolExecutor(CLIENTS) as pool:
            answers = {*pool.map(ask, [day] * CLIENTS)}
    finally:
        pages._draw_guess.cache_clear()

    assert answers == {"the bar of the day"}
    assert drawn == [day]
