"""The Voila app as a visitor uses it."""

import re

import pytest

from tests.app_visits import eventually, in_the_end
from tests.ui.servers import status

pytestmark = pytest.mark.browser


CUT = """width => [...document.querySelectorAll('.planner-explorer *')]
  .filter((node) => node.offsetParent || node.matches('.main-svg'))
  .filter((node) => !node.closest('.planner-chart, .ph-chips')
    || node.matches('.planner-chart .main-svg'))
  .filter((node) => node.getBoundingClientRect().right > width)
  .map((node) => node.outerHTML.slice(0, 80))"""
"""What reaches beyond the window; a chart draws a little over its own edge."""


def command(page) -> str:
    """The `vllm serve` line on the page."""
    return page.locator(".pl-command code").inner_text()


def shape(page) -> list[str]:
    """The outlines of all bars."""
    return page.eval_on_selector_all(
        ".planner-chart .barlayer .point path",
        "paths => paths.map(path => path.getAttribute('d'))",
    )


def control(page, name: str):
    """The visible field of an argument."""
    return page.locator(f".pc-field[data-name='{name}']:visible")


def reveal(page, name: str) -> None:
    """Open the folded group that holds the argument called `name`, if it is in one."""
    if page.locator(f".planner-controls .pc-field[data-name='{name}']").count():
        return
    finder = page.get_by_label("Find an argument")
    if not finder.count():
        page.get_by_role("button", name="All engine arguments").click()
    finder.fill(name)


def choose_model(page, name: str) -> None:
    """Type a model's name into its box."""
    entry = page.get_by_role("combobox", name="Model", exact=True)
    entry.fill(name)
    entry.press("Enter")


def enter(page, name: str, text: str) -> None:
    """Type into the entry called `name`."""
    reveal(page, name)
    entry = control(page, name).get_by_role("textbox")
    entry.fill(text)
    entry.press("Enter")


def expect_command(page, flag: str) -> None:
    """Wait until the command holds `flag`."""
    page.locator(".pl-command code", has_text=flag).wait_for()


def expect_default(page, number: str) -> None:
    """Wait until an empty entry shows `number` as vLLM's own choice."""
    page.locator(f".pc-entry[placeholder='{number}']").first.wait_for(state="attached")


def reset(page) -> None:
    """Take back what a test set, and wait for the first plan.

    The buttons come in a message of their own, after the command.
    """
    plain = re.compile(r"^vllm serve meta-llama/Llama-3.1-8B-Instruct\s*$")
    line = page.locator(".pl-command code", has_text=plain)

    def is_plain() -> bool:
        page.evaluate(
            "[...document.querySelectorAll('.pc-reset')].filter(one => !one.hidden)"
            ".forEach(one => one.click())"
        )
        return line.count() > 0

    assert eventually(is_plain)
    page.locator("[role=alert]").first.wait_for(state="detached")


def test_the_first_chart_shows_a_plan_that_fits(page) -> None:
    """Verdict, bars, figures, table and command of one plan."""
    assert "Fits" in page.locator(".planner-verdict").inner_text()
    assert len(shape(page)) >= 6
    page.get_by_role("tab", name="Memory").click()
    page.locator("table.pl-lines tr.pl-line").nth(5).wait_for()
    page.get_by_role("tab", name="Advice").click()
    assert command(page).startswith("vllm serve meta-llama/Llama-3.1-8B-Instruct")


def test_the_chart_is_read_aloud_and_the_verdict_announced(page) -> None:
    """aria-label on the picture, a live region for the verdict."""
    label = page.locator(".planner-chart").get_attribute("aria-label")
    live = page.locator(".planner-verdict[role=status]")

    assert re.search(r"weights \d+\.\d\d GiB", label)
    assert live.get_attribute("aria-live") == "polite"


@pytest.mark.parametrize(
    ("name", "text", "flag"),
    [
        ("max_model_len", "16K", "--max-model-len 16384"),
        ("max_num_seqs", "64", "--max-num-seqs 64"),
        ("max_num_batched_tokens", "32768", "--max-num-batched-tokens 32768"),
    ],
)
def test_an_entry_changes_the_plan(page, name, text, flag) -> None:
    """Typed exactly; the slider follows."""
    enter(page, name, text)
    expect_command(page, flag)
    reset(page)


@pytest.mark.parametrize(
    "name", ["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"]
)
def test_each_parallel_size_adds_a_gpu(page, name) -> None:
    """Two that are alike share a bar; two stages have one each."""
    enter(page, name, "2")
    expect_command(page, f"--{name.replace('_', '-')} 2")
    title = "stage 1: H100" if name.startswith("pipeline") else "2 x H100"
    page.locator(".pm-title", has_text=title).wait_for()
    enter(page, name, "")
    reset(page)


@pytest.mark.parametrize(
    ("name", "choice", "default", "flag"),
    [
        ("dtype", "float16", "", "--dtype float16"),
        ("kv_cache_dtype", "fp8", "", "--kv-cache-dtype fp8"),
    ],
)
def test_a_list_changes_the_plan(page, name, choice, default, flag) -> None:
    """The command shows what was chosen."""
    reveal(page, name)
    box = control(page, name).get_by_role("combobox")
    box.select_option(label=choice)
    expect_command(page, flag)
    box.select_option(value=default)
    reset(page)


def test_the_gpu_changes_the_chart_and_the_verdict(page) -> None:
    """On an L4 the same request needs more than there is: the bar still shows."""
    before = shape(page)
    box = page.get_by_role("combobox", name="GPU", exact=True)
    options = box.locator("option").all_inner_texts()
    box.select_option(label=next(text for text in options if text.startswith("L4,")))
    page.locator(".planner-verdict", has_text="Does not fit").wait_for()

    assert "GiB" in page.locator(".pl-margin").inner_text()
    assert "of KV cache missing" in page.locator(".pl-sentence").inner_text()
    assert (
        "To serve at least one request" in page.locator(".planner-error").inner_text()
    )
    page.locator(".planner-marks text", has_text="missing").wait_for()
    assert shape(page) != before
    box.select_option(label=next(text for text in options if text.startswith("H100,")))
    reset(page)


def test_the_model_is_found_as_one_types(page) -> None:
    """The list offers it; choosing it plans it."""
    entry = page.get_by_role("combobox", name="Model", exact=True)
    entry.fill("qwen3 8b")
    names = page.locator(".pc-list [role=option]").all_inner_texts()
    entry.press("ArrowDown")
    entry.press("Enter")
    expect_command(page, "vllm serve Qwen/Qwen3-8B")

    assert names[0].startswith("Qwen/Qwen3-8B")
    assert all("qwen3" in name.lower() for name in names)
    choose_model(page, "meta-llama/Llama-3.1-8B-Instruct")
    reset(page)


@pytest.mark.parametrize("name", ["enforce_eager", "enable_sleep_mode"])
def test_a_switch_changes_the_plan(page, name) -> None:
    """And back."""
    reveal(page, name)
    box = control(page, name).get_by_role("combobox")
    box.select_option(label="on")
    expect_command(page, f"--{name.replace('_', '-')}")
    box.select_option(value="")
    reset(page)


def test_buttons_and_steps_set_the_parallel_sizes(page) -> None:
    """TP 4, one more, and back; experts are switched by a button."""
    page.get_by_role("button", name="tensor_parallel_size 4").click()
    expect_command(page, "--tensor-parallel-size 4")
    pressed = page.get_by_role("button", name="tensor_parallel_size 4", pressed=True)
    pressed.wait_for()
    page.get_by_role("button", name="One more: pipeline_parallel_size").click()
    expect_command(page, "--pipeline-parallel-size 2")
    switch = control(page, "enable_expert_parallel")
    switch.get_by_role("button", name="on", exact=True).click()
    expect_command(page, "--enable-expert-parallel")
    reset(page)

    assert 0 == page.get_by_role("button", pressed=True).count()


def test_a_preset_sets_the_load_and_the_verdict_has_two_parts(page) -> None:
    """It starts, and serves so many; length and sequences follow."""
    page.get_by_role("button", name="Chat", exact=True).click()
    page.locator(".pl-headline", has_text="Starts, and serves 20 of 20").wait_for()
    expect_command(page, "--max-model-len 4096 --max-num-seqs 20")
    followed = control(page, "max_model_len")
    followed.get_by_text("follows what I need").wait_for()
    enter(page, "requests", "2000")
    page.locator(".pl-partly").first.wait_for()
    headline = page.locator(".pl-headline").inner_text()
    page.get_by_role("button", name="Chat", exact=True).click()
    page.get_by_role("button", name="Chat", exact=True).click()
    reset(page)

    assert re.search(r"Starts, but serves \d+ of 2,000 at once", headline)


def test_a_slider_step_changes_the_bars(page) -> None:
    """By key: the handle has a name, and speaks its value."""
    handle = page.get_by_role("slider", name="gpu_memory_utilization")
    before = shape(page)
    handle.focus()
    handle.press("ArrowLeft")
    expect_command(page, "--gpu-memory-utilization 0.91")

    assert handle.get_attribute("aria-valuetext") == "0.91"
    assert shape(page) != before
    page.get_by_role("button", name="Reset gpu_memory_utilization").click()
    reset(page)


def test_the_length_slider_speaks_tokens(page) -> None:
    """Not its index."""
    handle = page.get_by_role("slider", name="max_model_len")
    handle.focus()
    assert handle.get_attribute("aria-valuetext") == "131,072, vLLM's choice"
    handle.press("ArrowLeft")
    expect_command(page, "--max-model-len 114688")

    assert handle.get_attribute("aria-valuetext") == "114,688"
    reset(page)


def test_the_entry_point_changes_vllms_defaults(page) -> None:
    """LLM batches more tokens on this card: 16,384."""
    reveal(page, "max_num_batched_tokens")
    reveal(page, "entrypoint")
    box = page.get_by_role("combobox", name="entrypoint", exact=True)
    box.select_option(label="LLM class")
    expect_default(page, "16,384")
    box.select_option(label="vllm serve")
    expect_default(page, "8192")


def test_a_wrong_entry_keeps_the_last_plan_and_says_why(page) -> None:
    """An alert names the field; the chart and the command stay."""
    before = shape(page), command(page)
    enter(page, "max_model_len", "lots")
    alert = page.locator("[role=alert]:visible")
    alert.wait_for()

    assert "max_model_len was not understood" in alert.inner_text()
    assert before == (shape(page), command(page))
    reset(page)
    assert page.locator("[role=alert]:visible").count() == 0


def test_what_is_not_modelled_yet_is_said(page) -> None:
    """The catalogue holds more than the planner knows."""
    choose_model(page, "deepseek-ai/DeepSeek-V4.1-Flash")
    page.locator("[role=alert]:visible", has_text="DeepseekV41").wait_for()
    assert command(page).startswith("vllm serve meta-llama/Llama-3.1-8B-Instruct")
    choose_model(page, "meta-llama/Llama-3.1-8B-Instruct")
    page.locator("[role=alert]:visible").wait_for(state="detached")


def test_a_model_that_is_nowhere_keeps_the_last_plan(page) -> None:
    """Read apart; the page goes on."""
    choose_model(page, "no-such-org/no-such-model")
    page.locator("[role=alert]:visible").wait_for()

    assert command(page).startswith("vllm serve meta-llama/Llama-3.1-8B-Instruct")
    choose_model(page, "meta-llama/Llama-3.1-8B-Instruct")
    page.locator("[role=alert]:visible").wait_for(state="detached")


def test_no_request_leaves_the_host(page, app) -> None:
    """Everything the page asked for since it was opened."""
    assert len(page.asked) > 10
    outside = [
        address
        for address in page.asked
        if not address.startswith((app, "data:", f"blob:{app}"))
    ]
    assert outside == []


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_nothing_is_cut_off_at_any_width(page, width) -> None:
    """No part reaches beyond the window."""
    page.set_viewport_size({"width": width, "height": 900})
    cut = in_the_end(lambda: page.evaluate(CUT, width), [])
    page.set_viewport_size({"width": 1280, "height": 900})

    assert [] == cut


def test_the_kernel_goes_away_with_the_page(browser, app) -> None:
    """Voila leaves it running unless its page may end it."""
    context = browser.new_context()
    page = context.new_page()
    sockets = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.goto(app)
    page.wait_for_selector(".pc-field")
    kernel = re.search(r"kernels/([0-9a-f-]+)/", sockets[0])[1]
    state = f"{app}api/kernels/{kernel}"
    before = status(state)
    page.close(run_before_unload=True)
    after = in_the_end(lambda: status(state), 404)

    context.close()
    assert before == 200
    assert after == 404


def test_sources_and_files_are_not_served(app) -> None:
    """Neither the notebook nor what lies beside it."""
    for name in ("app.ipynb", "server.log"):
        assert status(f"{app}voila/files/{name}") == 404
