"""What a visitor sees when the kernel goes away, and when there is no room."""

import os
import re
import signal

import pytest
from playwright.sync_api import expect

from tests.app_visits import eventually, kernels, leave, visit
from tests.ui import servers

pytestmark = pytest.mark.browser

PATIENCE = servers.PATIENCE_MS


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """A published app with two places."""
    folder = tmp_path_factory.mktemp("app")
    flags = ("--published", "--pool=1", "--max-sessions=2", "--per-network=2")
    with servers.served(folder, *flags) as running:
        yield running


@pytest.fixture
def page(browser, app):
    """The app in a browser, its controls alive; nobody else is there."""
    assert eventually(lambda: servers.health(app.address)["sessions"] == 0)
    context = browser.new_context()
    opened = context.new_page()
    opened.wrong = []
    opened.on("pageerror", lambda error: opened.wrong.append(str(error)))
    opened.on(
        "console",
        lambda said: (
            opened.wrong.append(said.text) if "Content Security" in said.text else None
        ),
    )
    opened.goto(app.address)
    opened.wait_for_selector("input[type=range]")
    yield opened
    context.close()


def test_the_page_keeps_to_its_policy(page) -> None:
    """No script was refused, none failed."""
    assert page.wrong == []


def test_scripts_come_in_few_requests_and_only_once(page) -> None:
    """The second visit of a browser loads the page and its socket only."""
    count = (
        "performance.getEntriesByType('resource').filter(each =>"
        " each.transferSize > 0 && each.name.includes('/assets/')).length"
    )
    first = page.evaluate(count)
    page.reload()
    page.wait_for_selector("input[type=range]")

    assert 5 < first < 25
    assert page.evaluate(count) == 0


def test_a_page_whose_kernel_ended_says_so_and_offers_to_load_again(page, app) -> None:
    """With the plan, which is in its address."""
    page.goto(f"{app.address}?model=Qwen%2FQwen3-8B&gpu=L4")
    # The kernel was made beforehand, with another plan: it has to hear of this one.
    model = page.locator(".pc-field[data-name=model] input").first
    expect(model).to_have_value("Qwen/Qwen3-8B", timeout=PATIENCE)
    expect(page).to_have_url(re.compile("Qwen"), timeout=PATIENCE)
    for kernel in kernels(app.pid):
        os.kill(kernel, signal.SIGKILL)
    bar = page.get_by_role("alert").filter(has_text="session has ended")
    bar.wait_for()
    bar.get_by_role("link").click()
    page.wait_for_selector("input[type=range]")
    page.get_by_text("Qwen/Qwen3-8B on L4").first.wait_for()

    expect(page).to_have_url(re.compile("Qwen"), timeout=PATIENCE)
    assert page.locator("#planner-connection").count() == 0


@pytest.mark.usefixtures("page")
def test_a_visitor_too_many_waits_on_a_page_that_fits(app, browser) -> None:
    """On a phone as well; a place that becomes free is taken by asking again."""
    other = visit(app.address)
    context = browser.new_context(viewport={"width": 390, "height": 800})
    waiting = context.new_page()
    answer = waiting.goto(app.address)
    heading = waiting.get_by_role("heading", level=1).inner_text()
    right = waiting.evaluate("document.documentElement.scrollWidth")
    leave(app.address, other)
    waiting.get_by_role("link").click()
    waiting.wait_for_selector("input[type=range]")
    context.close()

    assert answer.status == 503
    assert re.match("Every place is taken", heading)
    assert right <= 390
