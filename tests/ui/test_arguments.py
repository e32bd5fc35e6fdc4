"""The panel of all engine arguments in a browser, by keyboard alone."""

from collections.abc import Iterator

import pytest

from tests.ui.control_pages import (
    field,
    open_arguments,
    open_page,
    wait_for_command,
)

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser, app) -> Iterator[object]:
    """A page of its own: each test changes it."""
    opened = open_page(browser, app)
    yield opened
    opened.context.close()


def test_an_argument_is_found_set_and_marked(page) -> None:
    """The group says how many are set; "only those set" shows it alone."""
    open_arguments(page, "block size")
    field(page, "block_size").wait_for()
    page.get_by_role("textbox", name="block_size", exact=True).focus()
    page.keyboard.type("32")
    page.keyboard.press("Enter")
    wait_for_command(page, "--block-size 32")
    finder = page.get_by_label("Find an argument")
    finder.focus()
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.get_by_label("only those set").focus()
    page.keyboard.press("Space")
    shown = page.locator(".pc-more .pc-field:visible").evaluate_all(
        "all => all.map(one => one.dataset.name)"
    )

    assert shown == ["block_size"]
    marks = page.locator(".pc-group[data-title=Cache] .pc-marks")
    assert marks.inner_text() == "1 set"


def test_groups_open_and_close_by_key(page) -> None:
    """As disclosure boxes do."""
    open_arguments(page, "")
    group = page.locator(".pc-more .pc-group[data-title=LoRA]")
    group.locator("summary").focus()
    page.keyboard.press("Enter")
    field(page, "max_loras").wait_for()
    page.keyboard.press("Enter")

    assert not field(page, "max_loras").is_visible()


def test_json_is_checked_where_it_is_typed(page) -> None:
    """With line and column; right JSON is in the command."""
    open_arguments(page, "limit_mm")
    entry = page.get_by_role("textbox", name="limit_mm_per_prompt", exact=True)
    entry.focus()
    page.keyboard.type("{'image': 0}")
    page.keyboard.press("Tab")
    alert = field(page, "limit_mm_per_prompt").locator("[role=alert]")
    alert.wait_for()
    said = alert.inner_text()
    entry.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type('{"image": 0}')
    page.keyboard.press("Tab")
    wait_for_command(page, "--limit-mm-per-prompt")
    alert.wait_for(state="detached")

    assert "is not valid JSON (line 1, column 2" in said


def test_arguments_of_later_releases_are_marked(page) -> None:
    """With the release they came with."""
    open_arguments(page, "start")
    box = page.get_by_role("combobox", name="vllm_version", exact=True)
    box.focus()
    box.select_option(label="0.10.2")
    finder = page.get_by_label("Find an argument")
    finder.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("queued reqs")
    later = field(page, "max_num_queued_reqs").locator(".pc-hint")
    later.wait_for()

    assert later.inner_text().startswith("came with vLLM 0.")
