"""A room in browsers: phones vote, the screen names the slips, and all can read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.ui.run_pages import violations
from tests.ui.servers import PATIENCE_MS, served

pytest.importorskip("axe_playwright_python")
pytest.importorskip("voila")
pytestmark = [pytest.mark.browser, pytest.mark.server]

SCREENS = [(1280, "light"), (390, "dark")]
"""Of whoever leads: a projector, and a phone."""
PHONES = [(390, "light"), (390, "dark")]


@pytest.fixture(scope="module")
def room(tmp_path_factory) -> Iterator[tuple[str, str]]:
    """The addresses for phones and for the screen."""
    folder: Path = tmp_path_factory.mktemp("room")
    flags = ("--room", "--published", "--address=127.0.0.1", "--pool=1")
    with served(folder, *flags) as running:
        said = running.log.read_text(encoding="utf-8")
        address = re.findall(r"for phones: (\S+)", said)[0]
        kept = re.findall(r"only you can read: (\S+)", said)[-1]
        yield address, Path(kept).read_text(encoding="utf-8").strip()


def _page(browser, address: str, width: int, scheme: str):
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.faults = []
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.goto(address)
    return page


def _looked_at(pages) -> list[object]:
    """What axe-core finds, and which pages are too wide or failed."""
    found: list[object] = []
    for page in pages:
        found += violations(page, "html") + page.faults
        wide = page.evaluate(
            "document.documentElement.scrollWidth - innerWidth > 0 && location.href"
        )
        found += [wide] if wide else []
    return found


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_a_room_votes_discusses_and_votes_again(browser, room, width, scheme) -> None:
    """Every page in every phase passes axe-core and fits."""
    address, start = room
    screen = _page(browser, start, width, scheme)
    phones = [_page(browser, address, *one) for one in PHONES]
    pages = [screen, *phones]

    def press(name: str) -> None:
        screen.get_by_role("button", name=name, exact=True).click()

    def vote(*answers: str) -> None:
        for phone, answer in zip(phones, answers, strict=True):
            phone.get_by_role("textbox").fill(answer)
            phone.get_by_role("button", name="Vote").click()
            expect(phone.locator(".pr-says")).to_contain_text("counted")

    found = _looked_at(pages)
    press("Ask")
    vote("6.76 GiB", "3.6 GiB")
    expect(screen.locator(".pr-count")).to_contain_text("2 of")
    found += _looked_at(pages)
    press("Name the slips")
    slip = screen.get_by_role("row", name="the whole card minus the weights")
    expect(slip).to_contain_text("1 of 2")
    expect(phones[0].locator(".pr-says")).to_contain_text("You forgot the 8 %")
    found += _looked_at(pages)
    press("Vote again")
    expect(phones[0].locator(".pr-says")).to_contain_text("Vote again")
    vote("3.6 GiB", "3.6 GiB")
    press("Show the answer")
    expect(screen.locator(".pr-answer")).to_contain_text("3.62 GiB")
    rounds = screen.locator("caption").all_inner_texts()
    found += _looked_at(pages)
    token = screen.evaluate("location.search")
    for page in pages:
        page.context.close()

    assert ["Vote 1", "Vote 2"] == rounds
    assert "" == token
    assert [] == found


def test_choices_and_a_duel_are_played_on_phones(browser, room) -> None:
    """A letter by one press; a bar by numbers, for one side of the room."""
    address, start = room
    screen = _page(browser, start, 1280, "dark")
    phones = [_page(browser, address, *one) for one in PHONES]
    which = screen.get_by_role("combobox", name="Question")
    which.select_option(label="Exercise 3.2: Blocks")
    screen.get_by_role("button", name="Ask", exact=True).click()
    for phone in phones:
        phone.get_by_role("button", name="b: vLLM stores").click()
        expect(phone.locator(".pr-says")).to_contain_text("counted")
    found = _looked_at([screen, *phones])
    screen.get_by_role("button", name="Name the slips").click()
    slip = screen.get_by_role("row", name="Only with an offloading argument")
    expect(slip).to_contain_text("2 of 2")
    duel = screen.locator("option", has_text="Duel").first.get_attribute("value")
    which.select_option(value=duel)
    screen.get_by_role("button", name="Ask", exact=True).click()
    for phone in phones:
        weights = phone.get_by_role("spinbutton", name="weights")
        weights.fill("10")
        weights.press("Tab")
        phone.get_by_role("button", name="Vote").click()
        expect(phone.locator(".pr-says")).to_contain_text("counted")
    found += _looked_at(phones)
    screen.get_by_role("button", name="Show the answer").click()
    expect(phones[1].locator(".pr-says")).to_contain_text("of 100")
    points = screen.locator("tbody th").all_inner_texts()
    for page in (screen, *phones):
        page.context.close()

    assert all(re.match(r"Side [AB]: \d+ points of 100", one) for one in points)
    assert [] == found
