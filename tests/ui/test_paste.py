"""The box for a text, as people use it who bring what they have."""

import pytest

pytest.importorskip("axe_playwright_python")

from playwright.sync_api import expect

from tests.ui.control_pages import open_page, open_tab, wait_for_command
from tests.ui.looks import LOOKS
from tests.ui.run_pages import violations
from tests.ui.servers import ROOT

pytestmark = pytest.mark.browser

TEXTS = ROOT / "tests" / "data" / "texts"
_PASTE = """text => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  const box = document.activeElement;
  const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true,
    cancelable: true });
  if (!box.dispatchEvent(event)) return;
  box.setRangeText(text, 0, box.value.length, "end");
  box.dispatchEvent(new InputEvent("input", { inputType: "insertFromPaste",
    bubbles: true }));
}"""
COMMAND = "VLLM_LOGGING_LEVEL=DEBUG vllm serve Qwen/Qwen3-8B --max-model-len 16k"
DOCKER = """\
# what we run
docker run --gpus 2 -p 8000:8000 vllm/vllm-openai:v0.33.0 \\
  --model Qwen/Qwen3-14B --tensor-parallel-size 2 \\
  --max-model-len 16384 --enable-auto-tool-choice
"""
CODE = """\
from vllm import LLM, SamplingParams

llm = LLM(model="Qwen/Qwen3-4B", max_model_len=8192)
"""
COMPOSE = """\
services:
  chat:
    image: vllm/vllm-openai:v0.33.0
    command: --model Qwen/Qwen3-8B --max-model-len 4096
  small:
    image: vllm/vllm-openai:v0.33.0
    command: ["--model", "Qwen/Qwen3-0.6B"]
"""


@pytest.fixture
def page(browser, app):
    """The app on its default plan."""
    opened = open_page(browser, app)
    yield opened
    opened.context.close()


def paste(page, text: str) -> None:
    """Paste a text into the box."""
    page.get_by_label("Paste a model, a command").focus()
    page.evaluate(_PASTE, text)


def said(page, words: str) -> None:
    """Wait until the box says what it read."""
    page.locator(".planner-paste-said", has_text=words).wait_for()


def verdict(page, words: str) -> None:
    """Wait for the plan of what was read."""
    page.locator(".pl-subject", has_text=words).first.wait_for()


def on(page, gpu: str) -> None:
    """Choose the GPU that a text does not name, beside it."""
    page.locator(".planner-open select").select_option(gpu)


def bars(page) -> int:
    """How many segments are drawn."""
    return page.locator(".planner-chart .barlayer .point path").count()


@pytest.mark.parametrize(
    ("text", "words", "plan", "flag"),
    [
        (DOCKER, "A container command", "Qwen/Qwen3-14B", "--tensor-parallel-size 2"),
        (CODE, "A Python code", "Qwen/Qwen3-4B", "--max-model-len 8192"),
        (COMPOSE, "A compose file", "Qwen/Qwen3-8B", "--max-model-len 4096"),
    ],
    ids=["docker", "code", "compose"],
)
def test_a_text_is_pasted_and_its_bars_are_drawn(page, text, words, plan, flag) -> None:
    """What it was taken for, the plan, the command; the controls are marked."""
    paste(page, text)
    said(page, f"{words} for {plan}")
    on(page, "H100")
    verdict(page, f"{plan} on ")
    wait_for_command(page, flag)
    mark = page.locator("[data-name=model] .pc-mark")
    control = page.get_by_role("combobox", name="Model", exact=True)
    named = control.get_attribute("aria-describedby").split()

    assert bars(page) >= 6
    assert mark.inner_text() == "pasted"
    assert mark.get_attribute("id") in named


def test_a_question_is_answered(page) -> None:
    """For its load, with what its words were taken for, and marks on the load."""
    paste(page, "Will Qwen3 32B in FP8 run on two L40S, for 20 users at 8k?")
    said(page, "A question for Qwen/Qwen3-32B-FP8, 2 L40S")
    verdict(page, "Qwen/Qwen3-32B-FP8 on 2")
    wait_for_command(page, "--max-num-seqs 20")
    control = page.locator("[data-name=requests]").first
    users = control.locator("input:not([type=range])").first

    expect(users).to_have_value("20")
    expect(control.locator(".pc-mark").first).to_have_text("pasted")
    assert "Taken as" in page.locator(".planner-read").inner_text()
    assert '"Qwen3 32B" is taken for' in page.locator(".planner-read").inner_text()


def test_a_crash_of_a_container_is_explained_and_mended(page) -> None:
    """The log as it was copied: why, with its arithmetic; a fix by key; Undo."""
    paste(page, (TEXTS / "log-docker-too-long.txt").read_text(encoding="utf-8"))
    said(page, "A log of vLLM for Qwen/Qwen3-8B, vLLM 0.27.1")
    read = page.locator(".planner-read")
    read.get_by_text("vLLM did not start").first.wait_for()
    page.get_by_role("combobox", name="GPU", exact=True).first.select_option("L4")
    verdict(page, "Qwen/Qwen3-8B on L4")
    read.get_by_text("What would help").wait_for()
    told = read.inner_text()
    shorter = read.get_by_role("button", name="Apply: Allow requests")
    read.locator("summary", has_text="The other").click()  # after the first three
    shorter.wait_for()
    shorter.focus()
    page.keyboard.press("Enter")
    page.locator(".planner-verdict", has_text="Fits").wait_for()
    command = page.locator(".planner-command code", has_text="--max-model-len")
    command.wait_for()
    page.locator("button[data-press=undo]").click()
    verdict(page, "meta-llama/Llama-3.1-8B-Instruct on H100")

    assert "5.62 GiB" in told
    assert "What would help" in told
    assert page.locator(".pc-mark:visible").count() == 0


def test_a_text_pasted_into_the_model_box_lands_in_the_box_for_texts(page) -> None:
    """With its lines, which the smaller box would lose."""
    page.get_by_role("combobox", name="Model", exact=True).focus()
    page.evaluate(_PASTE, DOCKER)
    on(page, "H100")
    verdict(page, "Qwen/Qwen3-14B on 2")

    expect(page.get_by_label("Paste a model, a command")).to_have_value(DOCKER)


def test_of_several_starts_one_is_chosen_by_key(page) -> None:
    """The pressed button says so."""
    paste(page, COMPOSE)
    on(page, "H100")
    other = page.get_by_role("button", name="2: small")
    other.wait_for()
    other.focus()
    page.keyboard.press("Enter")
    verdict(page, "Qwen/Qwen3-0.6B on H100")
    page.locator("[data-press='start 2'][aria-pressed=true]").wait_for()

    assert page.evaluate("document.activeElement.dataset.press") == "start 2"


def test_the_text_is_given_back_with_the_changes(page) -> None:
    """Copied, it is the new text: what is drawn struck through is no part of it."""
    paste(page, DOCKER)
    on(page, "H100")
    verdict(page, "Qwen/Qwen3-14B on 2")
    entry = page.get_by_role("textbox", name="Context length max_model_len", exact=True)
    entry.fill("8192")
    entry.press("Enter")
    open_tab(page, "Export")
    code = page.locator(".planner-export code")
    page.locator(".planner-export ins", has_text="8192").wait_for()

    assert code.evaluate("n => n.textContent") == DOCKER.replace("16384", "8192")


def test_a_name_is_read_when_it_is_entered_and_not_before(page) -> None:
    """As in the box for models: a few words find one."""
    box = page.get_by_label("Paste a model, a command")
    box.fill("qwen3 8b")
    box.press("Enter")
    on(page, "H100")
    verdict(page, "Qwen/Qwen3-8B on H100")
    said(page, "A model: Qwen/Qwen3-8B")


def test_what_no_plan_is_for_gets_a_question_and_no_verdict(page) -> None:
    """Why, and the field to fill; nothing is shown of another GPU or model."""
    paste(page, "Qwen3-8B on an MI300X")
    asked = page.locator(".planner-verdict", has_text="Which GPU instead?")
    asked.wait_for()
    results = page.locator(".planner-results").inner_text()
    assert "'MI300X' is an AMD GPU, and is not covered. Which GPU instead?" == (
        results.strip()
    )
    assert "planner models vLLM's CUDA" in page.locator(".planner-read").inner_text()
    on(page, "H200")
    verdict(page, "Qwen/Qwen3-8B on H200")


def test_what_is_not_understood_is_said_and_no_plan_is_shown(page) -> None:
    """An alert; markup in it is text; emptied, the box brings the plan back."""
    paste(page, "<img src=x onerror=window.hit=1>\nis not a command")
    page.locator(".planner-read [role=alert]").wait_for()

    assert page.evaluate("window.hit === undefined")
    assert "No start of vLLM" in page.locator(".planner-read [role=alert]").inner_text()
    assert page.locator(".pl-subject:visible").count() == 0
    page.get_by_label("Paste a model, a command").fill("")
    verdict(page, "meta-llama/Llama-3.1-8B-Instruct on H100")


def test_a_long_text_does_not_block_the_page(page) -> None:
    """200,000 characters: a frame is drawn at once, on a busy machine within seconds.

    Work that grows with the square of the length would take minutes.
    """
    line = "INFO 05-14 09:12:03 [loader.py:53] Loading the next shard of the model.\n"
    took = page.evaluate(
        """([paste, text]) => {
          document.querySelector(".pl-paste-text").focus();
          const start = performance.now();
          eval(paste)(text);
          return new Promise(done => requestAnimationFrame(() =>
            setTimeout(() => done(performance.now() - start))));
        }""",
        [f"({_PASTE})", DOCKER + line * (199_000 // len(line))],
    )
    said(page, "Qwen/Qwen3-14B")

    assert took < 30_000


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_what_was_read_is_accessible_and_not_cut_off(
    browser, app, scheme, width
) -> None:
    """axe-core finds nothing; no part reaches beyond the window."""
    size = {"width": width, "height": 900}
    page = open_page(browser, app, color_scheme=scheme, viewport=size)
    paste(page, (TEXTS / "log-docker-too-long.txt").read_text(encoding="utf-8"))
    page.get_by_text("vLLM did not start").first.wait_for()
    found = violations(page, "html")  # with a question in the verdict's place
    on(page, "L4")
    page.get_by_role("button", name="Apply: ").first.wait_for()
    page.get_by_text("Your text with it").first.click()
    open_tab(page, "Export")
    page.locator(".planner-export code").wait_for()
    found += violations(page, "html")
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.planner-explorer *')]"
        ".filter(node => node.offsetParent && !node.closest('.planner-chart, "
        ".ph-chips, .pl-scroll, pre')).map(node => node.getBoundingClientRect().right))"
    )
    page.context.close()

    assert [] == found
    assert right <= width
