"""Ten questions that people come with, answered through the controls that they see.

Each takes at most six actions, and its answer stands on the screen of 1280 x 900 at the
end. An action is what a visitor does: fill in an entry, press a button, choose from a
list, paste a text, follow a link.
"""

import re

import pytest

pytest.importorskip("axe_playwright_python")

import planner
from planner.export import link
from tests.ui.control_pages import FIRST
from tests.ui.servers import ROOT

pytestmark = pytest.mark.browser

MOST_ACTIONS = 6
PATIENCE = 30_000
WIDTH, HEIGHT = 1280, 900
CRASHES = ROOT / "tests" / "data" / "texts"
COMMAND = "vllm serve Qwen/Qwen3-14B --tensor-parallel-size 2 --max-model-len 16384"


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
        entry.first.fill(text)
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
        self.page.locator("summary", has_text=group).first.click()

    def choose(self, label: str, option: str) -> None:
        """Choose from a list by the words of an option."""
        self.actions += 1
        chosen = self.page.get_by_label(re.compile(f"^{re.escape(label)}"))
        chosen = chosen.and_(self.page.locator("select")).first
        words = chosen.locator("option", has_text=re.compile(option)).first
        chosen.select_option(value=words.get_attribute("value"))

    def paste(self, text: str) -> None:
        """Paste a text into the box at the top, and let it be read."""
        self.actions += 1
        box = self.page.get_by_role("textbox", name="Paste a model, a command")
        box.fill(text)
        self.page.get_by_role("button", name="Read", exact=True).click()

    def sees(self, place: str, words: str | re.Pattern[str]):
        """Wait for words at a place, and require that they are on the screen."""
        found = self.page.locator(place, has_text=words).first
        found.wait_for(timeout=PATIENCE)
        self.page.wait_for_function(
            """([place, most]) => [...document.querySelectorAll(place)].some((node) => {
              const { top, bottom, height } = node.getBoundingClientRect();
              return height > 0 && top >= 0 && Math.min(bottom, top + 40) <= most;
            })""",
            arg=[place, HEIGHT],
            timeout=PATIENCE,
        )
        box = found.bounding_box()
        assert box is not None
        assert 0 <= box["y"], (place, box)
        assert box["y"] + min(box["height"], 40) <= HEIGHT, (place, box)
        assert self.actions <= MOST_ACTIONS
        return found


@pytest.fixture
def visitor(browser, app):
    """A visitor on the page as it opens."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(app)
    page.locator(".pl-command code").first.wait_for(timeout=FIRST)
    page.locator(".pc-field").first.wait_for(timeout=FIRST)
    yield Visitor(page)
    context.close()


def test_the_cheapest_set_up_for_twenty_users(visitor) -> None:
    """Qwen3-32B, 32k tokens, 20 users: named with its price, as the solver has it."""
    visitor.fill("Model", "Qwen/Qwen3-32B")
    visitor.fill("Prompt tokens", "32768")
    visitor.fill("Answer tokens", "1024")
    visitor.fill("Users at once", "20")
    visitor.open("GPUs")
    visitor.page.locator(".ps-root[aria-busy='false']").wait_for(timeout=PATIENCE)
    visitor.press("Cheapest")

    load = planner.Load(prompt_tokens=32768, output_tokens=1024, requests=20)
    best = planner.solve.set_ups("Qwen/Qwen3-32B", load).cheapest
    answer = visitor.sees(".ps-answer", best.gpu.name).inner_text()
    assert f"{best.plan.gpus_total} x {best.gpu.name}" in answer
    visitor.sees(".pl-bar-words", "serves 1 of 20 at once")


def test_seventy_billion_on_two_cards_of_forty(visitor) -> None:
    """Llama 3.3 70B in 16 bits: the weights alone are too large."""
    visitor.fill("Model", "meta-llama/Llama-3.3-70B-Instruct")
    visitor.choose("GPU", "^A100-40GB")
    visitor.press("tensor_parallel_size 2")

    visitor.sees(".pl-headline", "Does not fit: the weights are too large")
    visitor.open("Advice")
    visitor.sees(".planner-advice .pl-row", re.compile("starts"))


def test_gemma_with_images_on_an_l4(visitor) -> None:
    """The picture has the encoder's weights beside the model's."""
    visitor.press("Gemma 3 with images, L4")

    visitor.sees(".pl-headline", re.compile("Starts|Fits|Does not"))
    visitor.sees(".planner-bars", "encoder")
    words = ".planner-bars [role=img][aria-label*='encoder weights']"
    visitor.page.locator(words).first.wait_for(timeout=PATIENCE)


def test_tensor_parallel_against_data_and_expert_parallel(visitor) -> None:
    """DeepSeek-R1 on eight H200: tokens of all engines, side by side."""
    visitor.press("DeepSeek-R1, 8 x H200")
    visitor.open("Compare")
    visitor.press("Pin this plan: The plan on the screen")
    visitor.press("tensor_parallel_size 1")
    visitor.press("data_parallel_size 8")
    visitor.press("on")

    visitor.sees(".planner-compared-bars", re.compile("now"))
    page = visitor.page
    figures = page.locator(".planner-pins table", has_text="Engines")
    figures.wait_for(timeout=PATIENCE)
    table = figures.inner_text()
    counted = [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]{6,}", table)]
    assert counted
    assert max(counted) > 1_000_000  # all eight, not 222,416 of one


def test_eight_adapters(visitor) -> None:
    """Eight LoRA adapters of rank 64 have a segment of their own."""
    visitor.unfold("LoRA")
    visitor.choose("enable_lora", "^on$")
    visitor.fill("max_loras", "8")
    visitor.choose("max_lora_rank", "^64$")

    picture = visitor.page.locator(".planner-bars [role=img][aria-label*=LoRA]")
    picture.first.wait_for(timeout=PATIENCE)
    assert "8" in visitor.page.locator(".pl-command code").first.inner_text()
    # The controls of adapters are further down: the verdict is there as a line.
    line = visitor.page.locator(".planner-bar.pl-is-needed").count()
    visitor.sees(".pl-bar-words" if line else ".pl-headline", re.compile("Fits"))


def test_eight_bits_against_sixteen(visitor) -> None:
    """FP8 weights beside BF16: what is saved stands in both bars."""
    visitor.fill("Model", "Qwen/Qwen3-8B")
    visitor.open("Compare")
    visitor.press("Pin this plan: The plan on the screen")
    visitor.choose("Quantization", "^fp8_per_tensor$")

    visitor.sees(".planner-compared-bars", re.compile("now"))
    visitor.page.locator(".planner-pins table", has_text="fp8_per_tensor").wait_for()


def test_a_command_that_somebody_sent(visitor) -> None:
    """Pasted as it stands: two GPUs, and whether it starts."""
    visitor.paste(COMMAND)

    visitor.sees(".pl-subject", "Qwen/Qwen3-14B on 2 x")
    visitor.sees(".pl-headline", re.compile("Fits|Starts"))


def test_a_crash(visitor) -> None:
    """An error out of a log: why it failed, and what helps, each with Apply."""
    said = planner.plan("Qwen/Qwen3-32B", gpu="H100", max_model_len=40_960).error
    visitor.paste(f"$ vllm serve Qwen/Qwen3-32B\nValueError: {said.message}")

    visitor.sees(".planner-reading", "40,960")


def test_a_link(browser, app) -> None:
    """A colleague's link opens the same plan, load and all."""
    load = planner.Load(prompt_tokens=3000, output_tokens=1000, requests=16)
    sent = planner.plan("Qwen/Qwen3-8B", gpu="L40S", load=load)
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    page = context.new_page()
    page.goto(f"{app}{link(sent)}")
    visitor = Visitor(page)
    visitor.actions = 1

    visitor.sees(".pl-subject", "Qwen/Qwen3-8B on L40S")
    visitor.sees(".pl-headline", "serves 16 of 16 at once")
    assert page.locator(".planner-command code").inner_text() == sent.command()
    context.close()


def test_a_manifest_for_kubernetes(visitor) -> None:
    """Two actions to a manifest that can be copied."""
    visitor.open("Export")
    visitor.choose("format", "^Kubernetes$")

    visitor.sees(".planner-tab-export code", "kind: Deployment")
