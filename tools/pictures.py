"""Take the reference pictures of the app: every state, at four widths, in both themes.

    python tools/pictures.py [STATE ...]     writes docs/images/app/STATE-WIDTH.jpg

Voila serves the app on a free loopback port; headless Chromium opens each state as a
visitor would. Wide and narrow pictures take turns between the light and the dark theme,
so that each state is seen in both. docs/app.md shows them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import TimeoutError, sync_playwright  # noqa: A004, E402

from planner.engine.releases import NEWEST  # noqa: E402
from tests.ui import servers  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

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
_PATIENCE = 30_000


_IS_ADVISED = "() => !document.querySelector('.planner-advice[aria-busy=true]')"
_IS_AT_REST = """() => {
  const { search } = window.location;
  const model = new URLSearchParams(search).get('model') ?? '';
  const named = document.querySelector('.pl-subject')?.textContent ?? '';
  const busy = document.querySelector('.planner-advice[aria-busy=true]');
  return named.includes(model) && !busy;
}"""


def _ready(page: Page) -> None:
    """Wait until the plan of the address and its advice are on the page.

    On a busy machine a kernel may come too late for its page: it is opened once more.
    """
    advice = page.locator(".planner-advice .pl-row").first
    try:
        advice.wait_for(timeout=_PATIENCE)
    except TimeoutError:
        page.reload()
        advice.wait_for(timeout=_PATIENCE)
    page.wait_for_timeout(900)
    page.wait_for_function(_IS_AT_REST, timeout=_PATIENCE)
    page.wait_for_timeout(300)


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
    page.get_by_role("tab", name="Memory").click()
    page.get_by_role("button", name="peak activation").click()
    page.get_by_role("button", name="KV cache").first.click()
    page.locator(".pl-panel[data-key=kv-cache] summary").click()
    page.locator(".planner-more").scroll_into_view_if_needed()
    page.locator(".planner-more").evaluate("node => node.scrollIntoView()")


def _machine(page: Page) -> None:
    page.get_by_role("tab", name="Memory").click()
    page.locator(".pl-panel", has_text="CPU memory and disk").locator("summary").click()
    page.locator(".planner-bars").evaluate("node => node.scrollIntoView()")


def _arguments(page: Page) -> None:
    page.get_by_role("button", name="All engine arguments").click()
    section = page.locator(".planner-arguments")
    section.locator(".pc-group").first.wait_for(timeout=_PATIENCE)
    section.evaluate("node => node.scrollIntoView()")


def _group(page: Page, title: str) -> Locator:
    group = page.locator(f".planner-controls .pc-group[data-title='{title}']")
    group.locator("summary").click()
    return group


def _features(page: Page) -> None:
    page.locator(".pl-command code", has_text="--enable-lora").wait_for(
        timeout=_PATIENCE
    )
    _group(page, "Images, video and audio")
    group = _group(page, "LoRA")
    group.evaluate("node => node.scrollIntoView()")


def _drafted(page: Page) -> None:
    group = _group(page, "Speculative decoding")
    group.get_by_label("method", exact=True).select_option("draft_model")
    box = group.get_by_role("combobox", name="draft model")
    box.wait_for(timeout=_PATIENCE)
    box.fill("meta-llama/Llama-3.1-8B-Instruct")
    box.press("Enter")
    # The picture breaks a name over lines, so the answer's command tells it.
    command = page.locator(".pl-command code", has_text='"model": "meta-llama')
    command.wait_for(timeout=_PATIENCE)
    group.evaluate("node => node.scrollIntoView()")


def _compared(page: Page) -> None:
    page.get_by_role("tab", name="Compare").click()
    page.get_by_role("button", name="Pin this plan").click()
    page.get_by_role("tab", name="Advice").click()
    page.get_by_role("button", name="Apply:").first.click()
    page.get_by_role("tab", name="Compare").click()
    page.locator(".planner-pins ins").first.wait_for(timeout=_PATIENCE)
    page.locator(".planner-pins").evaluate("node => node.scrollIntoView()")


def _exported(page: Page) -> None:
    page.get_by_role("tab", name="Export").click()
    page.get_by_label("format").select_option(label="Kubernetes")
    page.locator(".planner-export code", has_text="apiVersion").wait_for(
        timeout=_PATIENCE
    )
    page.locator(".planner-export").evaluate("node => node.scrollIntoView()")


def _advice(page: Page) -> None:
    page.get_by_role("button", name="Show all").click()
    page.locator(".planner-advice").evaluate("node => node.scrollIntoView()")


_COMMAND = """\
docker run --gpus 2 -p 8000:8000 vllm/vllm-openai:v0.32.0 \\
  --model Qwen/Qwen3-32B --tensor-parallel-size 2 --max-model-len 32k \\
  --enable-auto-tool-choice --tool-call-parser hermes --max-num-seq 64
"""
_CRASH = f"""\
INFO 05-14 09:12:09 [utils.py:297] version {NEWEST}
INFO 05-14 09:12:09 [utils.py:297] model   Qwen/Qwen3-8B
INFO 05-14 09:12:51 [gpu_worker.py:466] Available KV cache memory: 4.92 GiB
ValueError: To serve at least one request with the models's max seq len (40960), \
(5.62 GiB KV cache is needed, which is larger than the available KV cache memory \
(4.92 GiB). Based on the available memory, the estimated maximum model length is 35824.
"""


def _paste(page: Page, text: str, gpu: str = "") -> None:
    box = page.get_by_label("Paste a model, a command")
    box.fill(text)
    page.get_by_role("button", name="Read", exact=True).click()
    if gpu:  # which the text does not name
        page.locator(".planner-open select").select_option(gpu)
    page.locator(".planner-read dl.pl-read").wait_for(timeout=_PATIENCE)
    page.locator(".pl-subject", has_text="Qwen3").last.wait_for(timeout=_PATIENCE)


def _pasted(page: Page) -> None:
    _paste(page, _COMMAND, "H100")


def _crashed(page: Page) -> None:
    _paste(page, _CRASH)


def _ended(page: Page) -> None:
    page.evaluate(
        "() => { const { baseUrl, kernelId } = JSON.parse("
        "document.getElementById('jupyter-config-data').textContent);"
        "navigator.sendBeacon(`${baseUrl}voila/api/shutdown/${kernelId}`); }"
    )
    page.wait_for_timeout(1000)
    page.get_by_role("textbox", name="max_num_seqs").fill("64")
    page.keyboard.press("Enter")
    page.locator("#planner-connection", has_text="ended").wait_for(timeout=_PATIENCE)


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
    "machine": (
        "?model=Qwen/Qwen3-8B&gpu=L4&cpu_offload_gb=4&node_memory_gib=64",
        _machine,
    ),
    "advice": (_70B, _advice),
    "arguments": ("", _arguments),
    "features": (
        "?model=Qwen/Qwen2.5-VL-7B-Instruct&gpu=L40S&enable_lora=true&max_loras=4"
        "&max_lora_rank=64&limit_mm_per_prompt=%7B%22image%22:2,%22video%22:0%7D",
        _features,
    ),
    "drafted": (f"{_70B}&tensor_parallel_size=4&max_model_len=32768", _drafted),
    "compared": (f"{_70B}&tensor_parallel_size=2", _compared),
    "exported": ("", _exported),
    "pasted": ("", _pasted),
    "crashed": ("?gpu=L4", _crashed),
    "ended": ("", _ended),
}
"""Query of the address, and what a visitor does then."""


FULL = "full"
"""The state of a server, not of a page: no session is left."""


def pages(browser: Browser, address: str, name: str) -> Iterator[Page]:
    """Open a page at each width; once it is as it should be, its picture is taken."""
    for width, theme in WIDTHS.items():
        context = browser.new_context(
            viewport={"width": width, "height": HEIGHT}, color_scheme=theme
        )
        servers.let_in(context)
        page = context.new_page()
        page.goto(address)
        yield page
        path = PICTURES / f"{name}-{width}.jpg"
        page.screenshot(path=str(path), type="jpeg", quality=QUALITY)
        page.goto("about:blank")
        context.close()


def take(browser: Browser, address: str, state: str) -> None:
    """Take the pictures of one state."""
    query, act = STATES[state]
    for page in pages(browser, address + query, state):
        _ready(page)
        act(page)
        page.wait_for_timeout(2300)  # the ghost of the plan before is gone then
        page.wait_for_function(_IS_ADVISED, timeout=_PATIENCE)
        page.wait_for_timeout(300)


def take_full(browser: Browser, folder: Path) -> None:
    """Take the pictures of the page that a visitor sees when all sessions are taken."""
    app = servers.notebook("app", folder)
    with servers.voila(app, 1, "--max-sessions=1") as address:
        alone = browser.new_context()
        servers.let_in(alone)
        first = alone.new_page()
        first.goto(address)
        _ready(first)
        for page in pages(browser, address, FULL):
            page.wait_for_timeout(300)
        first.close()


def main(states: list[str]) -> None:
    """Take the pictures of these states, or of all."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    wanted = states or [*STATES, FULL]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=servers.chromium(), args=list(servers.CHROMIUM_FLAGS)
        )
        with servers.voila(servers.notebook("app", Path(folder))) as address:
            for state in wanted:
                if state != FULL:
                    take(browser, address, state)
        if FULL in wanted:
            take_full(browser, Path(folder))
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
