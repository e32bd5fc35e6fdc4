"""The controls in a browser, by keyboard alone."""

from collections.abc import Iterator

import pytest

pytest.importorskip("axe_playwright_python")

from playwright.sync_api import expect

from tests.app_visits import in_the_end
from tests.hub_server import HubServer, Repo
from tests.ui import servers
from tests.ui.control_pages import (
    MODEL,
    active,
    field,
    open_arguments,
    open_page,
    wait_for_command,
)
from tests.ui.looks import LOOKS
from tests.ui.run_pages import violations

pytestmark = pytest.mark.browser


CUT = """width => [...document.querySelectorAll('.pc-root *')]
  .filter(one => one.offsetParent && one.getBoundingClientRect().right > width)
  .map(one => one.outerHTML)"""


@pytest.fixture
def page(browser, app) -> Iterator[object]:
    """A page of its own: each test changes it."""
    opened = open_page(browser, app)
    yield opened
    opened.context.close()


# The model box


def test_a_model_is_searched_and_chosen_by_key(page) -> None:
    """The focus stays in the entry; the active option is named, seen and selected."""
    box = page.get_by_role("combobox", name="Model", exact=True)
    box.focus()
    page.keyboard.type("qwen3 8b")
    page.keyboard.press("ArrowDown")
    option = page.locator(f"#{box.get_attribute('aria-activedescendant')}")
    chosen = option.inner_text(), option.get_attribute("aria-selected")
    is_open = box.get_attribute("aria-expanded")
    page.keyboard.press("ArrowUp")
    last = page.locator(f"#{box.get_attribute('aria-activedescendant')}").inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    wait_for_command(page, "vllm serve Qwen/Qwen3-8B")

    assert chosen[0].startswith("Qwen/Qwen3-8B")
    assert chosen[1] == is_open == "true"
    assert last != chosen[0]
    assert box.get_attribute("aria-expanded") == "false"
    expect(box).to_have_value("Qwen/Qwen3-8B")
    assert active(page, "return node.getAttribute('role')") == "combobox"


def test_escape_closes_the_list_and_then_restores_the_name(page) -> None:
    """Nothing was chosen."""
    box = page.get_by_role("combobox", name="Model", exact=True)
    box.focus()
    page.keyboard.type("mistral")
    page.locator(".pc-list [role=option]").first.wait_for()
    page.keyboard.press("Escape")
    after_one = box.get_attribute("aria-expanded"), box.input_value()
    page.keyboard.press("Escape")

    assert after_one == ("false", "mistral")
    expect(box).to_have_value(MODEL)
    assert page.sent == []


def test_a_part_of_a_name_is_forgotten_when_the_box_is_left(page) -> None:
    """A whole name would count."""
    box = page.get_by_role("combobox", name="Model", exact=True)
    box.focus()
    page.keyboard.type("mis")
    page.keyboard.press("Tab")

    expect(box).to_have_value(MODEL)
    assert not page.locator(".pc-list").is_visible()


def test_markup_in_a_model_s_name_stays_text(page) -> None:
    """Typed, refused and shown again."""
    box = page.get_by_role("combobox", name="Model", exact=True)
    box.focus()
    page.keyboard.type("<img src=x onerror=window.hit=1>/<b>x</b>")
    page.keyboard.press("Enter")
    page.locator("[role=alert]:visible").first.wait_for()

    assert page.evaluate("window.hit === undefined")
    assert page.locator(".planner-explorer img[src=x]").count() == 0


def test_names_of_the_hub_come_below_the_bundled_ones(browser, tmp_path) -> None:
    """From a server that speaks the Hub's interface; markup among them stays out."""
    with HubServer() as hub:
        hub.repos["nobody/llama-tiny"] = Repo(files={})
        hub.repos["nobody/<b>llama-tiny"] = Repo(files={})
        tags = ("base_model:quantized:nobody/llama-tiny",)
        hub.repos["other/tiny-FP8"] = Repo(files={}, tags=tags, downloads=1_200)
        setting = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub.url, "NO_PROXY": "*"}
        cells = [
            f"import os\nos.environ.update({setting!r})",
            "from planner.app.widgets.explorer import Explorer\nExplorer()",
        ]
        notebook = servers.write("app", tmp_path, cells)
        with servers.voila(notebook, pool=1) as address:
            page = open_page(browser, address)
            page.get_by_role("combobox", name="Model", exact=True).focus()
            page.keyboard.type("llama")
            group = page.get_by_role("group", name="On the Hugging Face Hub")
            group.wait_for()
            names = group.get_by_role("option").all_inner_texts()
            wrong = violations(page, ".pc-model")
            page.context.close()

    assert wrong == []
    assert names == ["nobody/llama-tiny", "other/tiny-FP8\nFP8, 1.2 k downloads"]
    assert len([path for path in hub.paths() if "search=llama" in path]) == 1


def test_a_hub_that_is_not_reached_is_said_below_the_bundled_names(
    browser, tmp_path
) -> None:
    """Nobody listens on port 9 of this machine; the box can be used on."""
    setting = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:9"}
    cells = [
        f"import os\nos.environ.update({setting!r}, NO_PROXY='*')",
        "from planner.app.widgets.explorer import Explorer\nExplorer()",
    ]
    with servers.voila(servers.write("app", tmp_path, cells), pool=1) as address:
        page = open_page(browser, address)
        page.get_by_role("combobox", name="Model", exact=True).focus()
        page.keyboard.type("qwen3-8b")
        page.get_by_text("Hub not reachable").wait_for()
        names = page.get_by_role("option").all_inner_texts()
        page.context.close()

    assert any("Qwen/Qwen3-8B" in name for name in names)


# Values


def test_a_slider_moves_by_key_and_speaks_its_value(page) -> None:
    """The exact entry follows; Reset takes it back."""
    slider = page.get_by_role(
        "slider", name="Sequences at once max_num_seqs", exact=True
    )
    before = slider.get_attribute("aria-valuetext")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    wait_for_command(page, "--max-num-seqs 896")
    reset = page.get_by_role("button", name="Reset max_num_seqs to vLLM's choice")
    reset.wait_for()
    spoken = slider.get_attribute("aria-valuetext")
    entry = page.get_by_role(
        "textbox", name="Sequences at once max_num_seqs", exact=True
    ).input_value()
    reset.focus()
    page.keyboard.press("Enter")
    page.locator(".pl-command code", has_text="--max-num-seqs").wait_for(
        state="detached"
    )
    # The command's answer comes first, the controls' in a message of its own.
    last = in_the_end(lambda: slider.get_attribute("aria-valuetext"), before)

    assert before == "1,024, vLLM's choice"
    assert spoken == "896"
    assert entry == "896"
    assert last == before


def test_no_step_is_sent_before_the_one_before_was_answered(page) -> None:
    """A key held down does not queue up work; the last step counts."""
    slider = page.get_by_role("slider", name="Context length max_model_len", exact=True)
    slider.focus()
    for _ in range(24):
        page.keyboard.press("ArrowLeft", delay=0)
    typed = page.get_by_role(
        "textbox", name="Context length max_model_len", exact=True
    ).input_value()
    wait_for_command(page, f"--max-model-len {typed}")
    last = in_the_end(lambda: page.evaluate("1") and page.sent[-1], "answer")

    assert last == "answer"
    assert 1 <= page.sent.count("step") <= 24
    assert page.sent == ["step", "answer"] * page.sent.count("step")


def test_a_wrong_entry_says_why_beside_it(page) -> None:
    """Said once, described by it, and what was typed stays."""
    entry = page.get_by_role("textbox", name="Context length max_model_len", exact=True)
    entry.focus()
    page.keyboard.type("lots")
    page.keyboard.press("Enter")
    alert = field(page, "max_model_len").locator("[role=alert]")
    alert.wait_for()
    described = page.locator(f"#{entry.get_attribute('aria-describedby')}").inner_text()
    wrong = entry.get_attribute("aria-invalid"), entry.input_value()
    page.keyboard.press("Control+A")
    page.keyboard.type("32K")
    page.keyboard.press("Enter")
    wait_for_command(page, "--max-model-len 32768")
    alert.wait_for(state="detached")

    assert "was not understood: 'lots'" in described
    assert wrong == ("true", "lots")
    assert entry.get_attribute("aria-invalid") is None


def test_what_an_argument_changes_uncounted_stands_in_the_verdict(page) -> None:
    """The plan is made all the same."""
    open_arguments(page, "enable_dbo")
    box = page.get_by_role("combobox", name="enable_dbo", exact=True)
    box.focus()
    box.select_option(label="on")

    conditional = "Fits, if what is not counted fits too"
    page.locator(".pl-headline", has_text=conditional).wait_for()
    page.get_by_text("Not counted: enable_dbo=true").first.wait_for()


def test_neither_the_answer_nor_a_field_above_moves_when_one_is_wrong(page) -> None:
    """The message comes below its field; above the answer it has its place already."""
    others = [field(page, "gpu"), page.locator(".planner-bars")]
    before = [one.bounding_box()["y"] for one in others]
    entry = page.get_by_role(
        "textbox", name="Sequences at once max_num_seqs", exact=True
    )
    entry.focus()
    page.keyboard.type("0")
    page.keyboard.press("Enter")
    field(page, "max_num_seqs").locator("[role=alert]").wait_for()

    assert before == [one.bounding_box()["y"] for one in others]


# What a word means


def test_a_question_mark_opens_the_glossary_and_escape_closes_it(page) -> None:
    """By key; the focus comes back to the button."""
    button = page.get_by_role("button", name="What is max_num_seqs?")
    button.focus()
    page.keyboard.press("Enter")
    text = page.locator(f"#{button.get_attribute('aria-controls')}")
    text.wait_for()
    said, state = text.inner_text(), button.get_attribute("aria-expanded")
    page.keyboard.press("Escape")

    assert "The largest number of requests that vLLM processes at once" in said
    assert state == "true"
    assert not text.is_visible()
    assert button.get_attribute("aria-expanded") == "false"
    assert active(page, "return node.textContent") == "max_num_seqs"


# Order, size, themes


def test_the_order_of_tabs_is_the_order_on_the_page(page) -> None:
    """Every control of the first form is reached, from top to bottom."""
    field(page, "prompt_tokens").get_by_role("textbox").focus()
    names = []
    for _ in range(90):
        name = active(
            page,
            "const part = node.closest('.planner-controls .pc-field');"
            "const fold = node.closest('[data-title=\"By hand\"]');"
            "return part ? part.dataset.name : fold && '';",
        )
        if name is None:
            break
        if name:
            names.append(name)
        page.keyboard.press("Tab")
    downwards = page.locator(".planner-controls .pc-field:visible").evaluate_all(
        "all => all.filter(one => one.dataset.name !== 'load').map(one => {"
        " const { top, left } = one.getBoundingClientRect();"
        " return [Math.round(top), left, one.dataset.name]; })"
        ".sort((one, other) => one[0] - other[0] || one[1] - other[1])"
        ".map(one => one[2])"
    )

    assert {"prompt_tokens", "model", "gpu", "max_model_len"} < set(downwards)
    assert list(dict.fromkeys(names)) == downwards


def test_targets_are_large_enough_to_be_hit(page) -> None:
    """24 pixels each way at least, as WCAG 2.2 asks."""
    open_arguments(page, "lora")
    small = page.evaluate(
        "[...document.querySelectorAll('.pc-root :is(button, input, select, textarea,"
        " summary)')].filter(one => one.offsetParent && one.type !== 'checkbox')"
        ".filter(one => { const box = one.getBoundingClientRect();"
        " return box.width < 24 || box.height < 24; }).map(one => one.outerHTML)"
    )

    assert small == []


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_the_controls_are_accessible_and_fit(browser, app, scheme, width) -> None:
    """axe-core finds nothing with all of it open; 640 is 1280 at 200 % zoom.

    Colours do not depend on the width, nor what is cut off on the colours.
    """
    page = open_page(
        browser, app, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    open_arguments(page, "lora")
    entry = page.get_by_role("textbox", name="Context length max_model_len", exact=True)
    entry.fill("lots")
    entry.press("Enter")
    field(page, "max_model_len").locator("[role=alert]").wait_for()
    page.get_by_role("button", name="What is max_num_seqs?").click()
    page.locator(".pc-meaning:visible").wait_for()
    found = violations(page, ".pc-root")
    box = page.get_by_role("combobox", name="Model", exact=True)
    box.fill("qwen")
    box.press("ArrowDown")
    found += violations(page, ".pc-model")
    cut = {}
    for wide in (width, 640):
        page.set_viewport_size({"width": wide, "height": 900})
        cut[wide] = in_the_end(lambda at=wide: page.evaluate(CUT, at), [])
    page.context.close()

    assert found == []
    assert cut == {width: [], 640: []}


def test_the_focus_is_seen_in_forced_colours(browser, app) -> None:
    """Where the system replaces all colours, outlines stay."""
    page = open_page(browser, app, forced_colors="active")
    page.get_by_role("button", name="What is gpu?").focus()
    page.keyboard.press("Tab")
    width = active(page, "return getComputedStyle(node).outlineWidth")
    page.context.close()

    assert width == "3px"


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_a_private_model_is_given_by_hand(browser, app, scheme, width) -> None:
    """Its fold opens by key; each size changes the plan; the fold is accessible."""
    page = open_page(
        browser, app, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    fold = page.locator("details[data-title='By hand']").first
    fold.locator("summary").focus()
    page.keyboard.press("Enter")
    chosen = page.get_by_role("combobox", name="Architecture architectures")
    chosen.select_option("Qwen3MoeForCausalLM")
    wait_for_command(page, "vllm serve my-model")
    layers = page.get_by_role("textbox", name="Layers num_hidden_layers")
    layers.fill("24")
    layers.press("Enter")
    experts = page.get_by_role("textbox", name="Experts num_experts", exact=True)
    experts.wait_for()
    found = violations(page, ".planner-left")
    fits = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    subject = page.locator(".pl-subject").first.inner_text()
    page.context.close()

    assert [] == found
    assert fits
    assert subject.startswith("my-model on H100")
