"""Somebody at the page: what a visitor does is counted, what stands there is seen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import TimeoutError  # noqa: A004 - Playwright's name for it

MOST_ACTIONS = 6
WIDTH, HEIGHT = 1280, 900
VERDICT = ".planner-answer .pl-headline, .pl-bar-words"
"""At its place, or further down the page as a line."""


_SAID = """(node) => [
    node.innerText, node.querySelector("[role=img]")?.getAttribute("aria-label"),
  ].join(" ").replace(/\\s+/g, " ")"""
_IS_THERE = f"""([place, words]) =>
  [...document.querySelectorAll(place)].some((node) => {{
    const said = ({_SAID})(node);
    return words.every((one) => said.includes(one));
  }})"""
_IS_SEEN = f"""([place, words, most]) =>
  [...document.querySelectorAll(place)].some((node) => {{
    const {{ top, bottom, height }} = node.getBoundingClientRect();
    const said = ({_SAID})(node);
    return height > 0 && top >= 0 && Math.min(bottom, top + 40) <= most
      && words.every((one) => said.includes(one));
  }})"""
"""The first 40 pixels of a long place are enough: its beginning answers."""


class Visitor:
    """Somebody at the page, whose actions are counted."""

    def __init__(self, page) -> None:
        self.page = page
        self.actions = 0

    def fill(self, label: str, text: str) -> None:
        """Fill in an entry by its words."""
        self.actions += 1
        entry = self.page.get_by_label(re.compile(f"^{re.escape(label)}"))
        entry = entry.and_(self.page.locator("input:not([type=range]), textarea"))
        reach(entry.first).fill(text)
        entry.first.press("Enter")

    def press(self, name: str) -> None:
        """Press a button by its name."""
        self.actions += 1
        self.page.get_by_role("button", name=name, exact=True).first.click()

    def open(self, tab: str) -> None:
        """Open a tab."""
        self.actions += 1
        self.page.get_by_role("tab", name=tab, exact=True).click()

    def unfold(self, group: str) -> None:
        """Open a folded group of controls."""
        self.actions += 1
        reach(self.page.locator("summary", has_text=group).first).click()

    def choose(self, label: str, option: str) -> None:
        """Choose from a list by the words of an option."""
        self.actions += 1
        chosen = self.page.get_by_label(re.compile(f"^{re.escape(label)}"))
        chosen = reach(chosen.and_(self.page.locator("select")).first)
        words = chosen.locator("option", has_text=re.compile(option)).first
        chosen.select_option(value=words.get_attribute("value"))

    def paste(self, text: str) -> None:
        """Paste a text into the box at the top, and let it be read."""
        self.actions += 1
        box = self.page.get_by_role("textbox", name="Paste a model, a command")
        box.fill(text)
        self.page.get_by_role("button", name="Read", exact=True).click()

    def sees(self, place: str, *words: str) -> None:
        """Wait until all of the words are at one place that is on the screen."""
        self._wait(_IS_SEEN, place, words)
        assert self.actions <= MOST_ACTIONS

    def reads(self, place: str, *words: str) -> None:
        """Wait until the words are at a place, or in what a screen reader says of it.

        For the figures of a picture, whose labels are cut and broken over lines.
        """
        self._wait(_IS_THERE, place, words)
        assert self.actions <= MOST_ACTIONS

    def _wait(self, state: str, place: str, words: tuple[str, ...]) -> None:
        try:
            asked = [place, words, HEIGHT]
            self.page.wait_for_function(state, arg=asked)
        except TimeoutError:
            said = self.page.locator(place).all_inner_texts()
            pytest.fail(f"{words} not at {place}, which says {said}")


def reach(control):
    """Scroll to a control as a wheel over it does: no further than needed.

    Playwright alone would put it into the middle of the page, and the answer out of it.
    """
    control.wait_for()
    control.evaluate("node => node.scrollIntoView({ block: 'nearest' })")
    return control


@contextmanager
def visit(browser, address: str) -> Iterator[Visitor]:
    """Open the page as somebody new, and close it."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(address)
    page.locator(".pl-command code").first.wait_for()
    page.locator(".pc-field").first.wait_for()
    yield Visitor(page)
    context.close()
