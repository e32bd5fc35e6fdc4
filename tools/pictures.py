"""Take the reference pictures of the app: every state, at four widths, in both themes.

    python tools/pictures.py [STATE ...]     writes docs/images/app/STATE-WIDTH.jpg

Voila serves the app on a free loopback port; headless Chromium opens each state as a
visitor would. Wide and narrow pictures take turns between the light and the dark theme,
so that each state is seen in both. docs/app.md shows them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import sync_playwright  # noqa: E402

from tests.ui import servers  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PICTURES = ROOT / "docs" / "images" / "app"
WIDTHS: dict[int, Literal["dark", "light"]] = {
    390: "dark",
    768: "light",
    1280: "light",
    1920: "dark",
}
"""Width in CSS pixels, and the theme of its picture."""
HEIGHT = 1000
QUALITY = 72
_PATIENCE = 20_000


def _ready(page: Page) -> None:
    page.locator(".planner-advice .pl-row").first.wait_for(timeout=_PATIENCE)
    page.wait_for_timeout(900)


def _nothing(page: Page) -> None:
    """Leave the page as it opens."""


def _wrong(page: Page) -> None:
    entry = page.get_by_role("textbox", name="max_model_len")
    entry.fill("as long as it gets")
    entry.press("Enter")
    page.locator(".pc-error").first.wait_for(timeout=_PATIENCE)


def _search(page: Page) -> None:
    box = page.get_by_role("combobox", name="model")
    box.fill("qwen 8b")
    page.locator("[role=option]").first.wait_for(timeout=_PATIENCE)


def _meaning(page: Page) -> None:
    page.locator(".pc-field[data-name=gpu_memory_utilization] .pc-help").click()


def _line(page: Page) -> None:
    page.get_by_role("button", name="peak activation").click()
    page.get_by_role("button", name="KV cache").first.click()
    page.locator(".pl-panel[data-key=kv-cache] summary").click()
    page.locator(".planner-more").scroll_into_view_if_needed()
    page.locator(".planner-more").evaluate("node => node.scrollIntoView()")


def _arguments(page: Page) -> None:
    page.get_by_role("button", name="All engine arguments").click()
    section = page.locator(".planner-arguments")
    section.locator(".pc-group").first.wait_for(timeout=_PATIENCE)
    section.evaluate("node => node.scrollIntoView()")


def _compared(page: Page) -> None:
    page.get_by_role("button", name="Compare plans").click()
    page.get_by_role("button", name="Pin this plan").click()
    page.get_by_role("button", name="Apply:").first.click()
    page.locator(".planner-pins ins").first.wait_for(timeout=_PATIENCE)
    page.locator(".planner-pins").evaluate("node => node.scrollIntoView()")


def _exported(page: Page) -> None:
    page.get_by_role("button", name="Take it away").click()
    page.get_by_label("format").select_option(label="Kubernetes")
    page.locator(".planner-export code", has_text="apiVersion").wait_for(
        timeout=_PATIENCE
    )
    page.locator(".planner-export").evaluate("node => node.scrollIntoView()")


def _advice(page: Page) -> None:
    page.get_by_role("button", name="Show all").click()
    page.locator(".planner-advice").evaluate("node => node.scrollIntoView()")


def _cut_off(page: Page) -> None:
    page.context.set_offline(True)
    page.evaluate("window.plannerSockets?.forEach(socket => socket.close())")
    page.wait_for_timeout(1500)


_70B = "?model=meta-llama/Llama-3.1-70B-Instruct&gpu=H100"
STATES: dict[str, tuple[str, Callable[[Page], None]]] = {
    "fits": ("", _nothing),
    "does-not-fit": (f"{_70B}&tensor_parallel_size=2&max_model_len=131072", _nothing),
    "weights-too-large": (_70B, _nothing),
    "refused": ("?model=Qwen/Qwen3-8B&gpu=H100&tensor_parallel_size=3", _nothing),
    "many-gpus": (
        "?model=deepseek-ai/DeepSeek-V3&gpu=H200&tensor_parallel_size=8",
        _nothing,
    ),
    "link": ("?model=Qwen/Qwen3-8B&gpu=L4&colour=red", _nothing),
    "wrong-entry": ("", _wrong),
    "search": ("", _search),
    "meaning": ("", _meaning),
    "lines": ("", _line),
    "advice": (_70B, _advice),
    "arguments": ("", _arguments),
    "compared": (f"{_70B}&tensor_parallel_size=2", _compared),
    "exported": ("", _exported),
}
"""Query of the address, and what a visitor does then."""


def take(browser: Browser, address: str, state: str) -> None:
    """Take the pictures of one state."""
    query, act = STATES[state]
    for width, theme in WIDTHS.items():
        context = browser.new_context(
            viewport={"width": width, "height": HEIGHT}, color_scheme=theme
        )
        page = context.new_page()
        page.goto(address + query)
        _ready(page)
        act(page)
        page.wait_for_timeout(700)
        page.screenshot(
            path=str(PICTURES / f"{state}-{width}.jpg"), type="jpeg", quality=QUALITY
        )
        page.goto("about:blank")
        context.close()


def main(states: list[str]) -> None:
    """Take the pictures of these states, or of all."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        app = servers.notebook("app", Path(folder))
        with servers.voila(app) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=servers.chromium(), args=list(servers.CHROMIUM_FLAGS)
            )
            for state in states or STATES:
                take(browser, address, state)
            browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
