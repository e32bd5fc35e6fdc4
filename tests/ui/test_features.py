"""The groups for what users switch on, in a browser, by keyboard alone."""

import pytest

pytest.importorskip("axe_playwright_python")

from tests.ui.control_pages import (
    field,
    open_arguments,
    open_page,
    wait_for_command,
)
from tests.ui.looks import LOOKS
from tests.ui.run_pages import violations

pytestmark = pytest.mark.browser

TALLEST = 48
"""Pixels of a field with a title; with a hint below it one was 94 pixels high."""
QWEN_VL = "?model=Qwen/Qwen2.5-VL-7B-Instruct&gpu=H100"


def opened_group(page, title: str):
    """Open a folded group by key."""
    group = page.locator(f".planner-controls .pc-group[data-title='{title}']")
    group.locator("summary").focus()
    page.keyboard.press("Enter")
    return group


def test_a_switch_brings_its_fields_and_takes_them_away(browser, app) -> None:
    """By key; the group of images is there for models that take some."""
    page = open_page(browser, app)
    groups = page.locator(".planner-controls details.pc-group:visible")
    text_only = groups.evaluate_all("all => all.map(one => one.dataset.title)")
    group = opened_group(page, "LoRA")
    box = page.get_by_role("combobox", name="LoRA adapters enable_lora", exact=True)
    box.focus()
    before = group.locator(".pc-field:visible").count()
    box.select_option(label="on")
    field(page, "max_lora_rank").wait_for()
    rank = page.get_by_role("combobox", name="Largest rank max_lora_rank", exact=True)
    rank.select_option("64")
    wait_for_command(page, "--max-lora-rank 64")
    marks = group.locator(".pc-marks", has_text="2 set")
    marks.wait_for()
    page.get_by_role("button", name="Reset max_lora_rank to vLLM's choice").click()
    box.select_option(label="off")
    field(page, "max_lora_rank").wait_for(state="hidden")
    page.context.close()

    assert text_only == [
        *(
            "By hand",
            "LoRA",
            "Speculative decoding",
            "Offloading and host memory",
            "CUDA graphs",
        )
    ]
    assert before == 1


def test_parts_and_tables_show_the_same_in_both_places(browser, app) -> None:
    """A method makes the table; what is typed into the table comes to the part."""
    page = open_page(browser, app)
    group = opened_group(page, "Speculative decoding")
    page.get_by_role("combobox", name="Method", exact=True).select_option("ngram")
    wait_for_command(page, '"num_speculative_tokens": 5')
    tokens = group.get_by_role("textbox", name="Draft tokens a step")
    first = tokens.input_value()
    open_arguments(page, "speculative_config")
    table = page.locator(".pc-more").get_by_role(
        "textbox", name="speculative_config", exact=True
    )
    typed = '{"method": "ngram", "num_speculative_tokens": 7, "disable_logprobs": true}'
    table.fill(typed)
    page.keyboard.press("Tab")
    wait_for_command(page, '"num_speculative_tokens": 7')
    # The fields' answer comes after the command's, all of it at once.
    hint_of = field(page, "speculative_config").first.locator(".pc-hint")
    hint_of.filter(has_text="also holds").wait_for()
    second = tokens.input_value()
    same = group.get_by_role("textbox", name="All settings as JSON").input_value()
    hint = hint_of.inner_text()
    page.context.close()

    assert (first, second) == ("5", "7")
    assert same == typed
    assert "also holds disable_logprobs" in hint


def test_fields_have_plain_words_beside_vllms_names_and_half_the_height(
    browser, app
) -> None:
    """As on the face of the page; the list of all arguments has vLLM's names alone."""
    page = open_page(browser, f"{app}?enable_lora=true")
    for title in ("LoRA", "Speculative decoding", "CUDA graphs"):
        opened_group(page, title)
    groups = page.locator(".planner-controls details.pc-group[open]")
    shown = groups.locator(".pc-field:visible:not(.pc-json)")
    heights = shown.evaluate_all(
        "all => all.map(one => [one.dataset.name, one.getBoundingClientRect().height])"
    )
    named = {
        name: field(page, name).first.locator(".pc-head").inner_text().split("\n")[:2]
        for name in (
            "max_lora_rank",
            "enforce_eager",
            "compilation_config.cudagraph_mode",
        )
    }
    open_arguments(page, "max_lora_rank")
    all_arguments = page.locator(".pc-more [data-name=max_lora_rank] .pl-name")
    listed = all_arguments.inner_text()
    page.context.close()

    assert len(heights) > 8
    assert [one for one in heights if one[1] > TALLEST] == []
    assert named == {
        "max_lora_rank": ["Largest rank", "max_lora_rank"],
        "enforce_eager": ["No CUDA graphs", "enforce_eager"],
        "compilation_config.cudagraph_mode": ["What graphs capture", "cudagraph_mode"],
    }
    assert listed == "max_lora_rank"


def test_an_error_opens_the_group_that_it_stands_in(browser, app) -> None:
    """A folded group hides nothing that is wrong: older releases take no sizes."""
    sized = '&limit_mm_per_prompt={"image":{"width":512}}'
    page = open_page(browser, app + QWEN_VL + sized)
    wait_for_command(page, "--limit-mm-per-prompt")
    open_arguments(page, "vllm_version")
    release = page.get_by_role("combobox", name="vllm_version", exact=True)
    release.select_option("0.10.2")
    group = page.locator(".planner-controls .pc-group[data-title^=Images]")
    alert = group.locator("[data-name=limit_mm_per_prompt] [role=alert]")
    alert.wait_for()
    said = alert.inner_text()
    page.context.close()

    assert "sizes of image came with 0.11.1" in said


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_the_groups_are_accessible_and_fit(browser, app, scheme, width) -> None:
    """axe-core finds nothing with all of them open, and nothing is cut off."""
    page = open_page(
        browser,
        app + QWEN_VL + "&enable_lora=true",
        color_scheme=scheme,
        viewport={"width": width, "height": 900},
    )
    page.locator(".pc-group[data-title^=Images]").first.wait_for()
    for group in page.locator(".planner-controls details.pc-group:visible").all():
        group.locator("summary").click()
    field(page, "limit_mm_per_prompt.image.width").wait_for()
    found = violations(page, ".planner-controls")
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.planner-controls *')]"
        ".filter(one => one.offsetParent)"
        ".map(one => one.getBoundingClientRect().right))"
    )
    page.context.close()

    assert found == []
    assert right <= width
