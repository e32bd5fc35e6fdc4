"""What a visitor types or follows is shown as text, whatever it looks like."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest

pytestmark = pytest.mark.browser

MARKUP = [
    "<img src=x data-hit=1 onerror='window.hit=1'>",
    "\"'><svg data-hit=1 onload=window.hit=1>",
    "</script><script>window.hit=1</script><i data-hit=1>",
    "</style></textarea></title><b data-hit=1>x</b>",
    "<a data-hit=1 href='javascript:window.hit=1'>x</a>",
    "{{constructor.constructor('window.hit=1')()}}",
    "<iframe data-hit=1 srcdoc='<script>parent.hit=1</script>'>",
    "%3Cimg%20src=x%20data-hit=1%20onerror=window.hit=1%3E",
]
QUERIES = [
    "?model={0}",
    "?model=Qwen/Qwen3-8B&gpu={0}&max_model_len={0}&kv_cache_dtype={0}",
    "?model=Qwen/Qwen3-8B&vllm_version={0}&entrypoint={0}&VLLM_USE_V1={0}",
    "?model=Qwen/Qwen3-8B&{0}={0}#{0}",
    "?{0}",
]


@pytest.fixture(scope="module")
def window(browser, app) -> Iterator[object]:
    """A browser that notes dialogs and requests to elsewhere."""
    context = browser.new_context()
    page = context.new_page()
    page.elsewhere = []
    page.dialogs = []
    page.on("dialog", lambda box: (page.dialogs.append(box.message), box.dismiss()))
    page.on("request", lambda asked: _note(page, asked.url, app.address))
    yield page
    page.goto("about:blank")
    context.close()


def _note(page, url: str, address: str) -> None:
    own = (address, address.replace("http", "ws", 1), "data:", "blob:", "about:")
    if not url.startswith(own):
        page.elsewhere.append(url)


def opened(page, app, query: str = "") -> None:
    """Open the app and wait until its controls are alive."""
    page.goto("about:blank")
    page.goto(f"{app.address}{query}")
    page.wait_for_selector(".pc-field")
    page.wait_for_selector(".planner-chart .barlayer .point path")


def expect_untouched(page) -> None:
    """No script of the text ran, no element of it stands in the page."""
    # The kernel answers one message after another: this one after the link's.
    page.get_by_role("button", name="What is gpu?").first.click()
    page.locator(".pc-meaning:visible").first.wait_for()
    assert page.evaluate("window.hit") is None
    assert page.locator("[data-hit]").count() == 0
    assert page.locator("iframe").count() == 0
    assert page.dialogs == []
    assert page.elsewhere == []


def test_a_script_could_be_seen(window, app) -> None:
    """The control: an element and a value like those are found by these tests."""
    opened(window, app)
    window.evaluate(
        "() => { document.body.insertAdjacentHTML('beforeend', '<i data-hit=1>');"
        "window.hit = 1; }"
    )

    assert window.locator("[data-hit]").count() == 1
    assert window.evaluate("window.hit") == 1


@pytest.mark.parametrize("query", QUERIES)
def test_a_link_holds_no_markup(window, app, query) -> None:
    """All of it in one value after another."""
    opened(window, app, query.format(quote("".join(MARKUP), safe="")))
    expect_untouched(window)


def test_what_a_link_asks_for_is_shown_as_text(window, app) -> None:
    """The control of the test before: it does reach the page."""
    opened(window, app, "?model=Qwen/Qwen3-8B&gpu=" + quote("<b>no</b>"))
    window.get_by_text("<b>no</b>").first.wait_for()
    expect_untouched(window)


def test_no_field_takes_markup(window, app) -> None:
    """Every text that can be typed into the page, those in closed panels too."""
    opened(window, app)
    toggles = ".planner-toggle[aria-expanded=false]"
    window.eval_on_selector_all(toggles, "all => all.forEach(one => one.click())")
    window.wait_for_selector("input[type=search]:visible")
    window.eval_on_selector_all(
        "details", "all => all.forEach(one => { one.open = true; })"
    )
    window.wait_for_function(
        "[...document.querySelectorAll('input[type=text]')]"
        ".filter((one) => one.checkVisibility()).length >= 20"
    )
    text = "".join(MARKUP)
    typed = 0
    # The box that finds arguments comes last: it hides the others.
    for kind in ("input[type=text]", "input[type=search]"):
        for entry in window.locator(kind).all():
            if entry.is_visible() and entry.is_editable():
                entry.fill(text)
                entry.press("Enter")
                typed += 1
    expect_untouched(window)

    assert typed >= 20


class _Canary(BaseHTTPRequestHandler):
    """Somebody inside who must not be asked."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_error(404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *args: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def canary() -> Iterator[ThreadingHTTPServer]:
    """A server on this machine, which notes who asks it."""
    handler = type("Canary", (_Canary,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_model_that_is_an_address_is_not_fetched(window, app, canary) -> None:
    """Nor one that is a file: the page says what to give instead."""
    opened(window, app)
    place = f"127.0.0.1:{canary.server_port}"
    entry = window.get_by_role("combobox", name="model")
    for name in (
        f"http://{place}/owner/name",
        f"//{place}/owner",
        f"{place}/owner",
        "http://169.254.169.254/latest/meta-data",
        "/etc/passwd",
        str(app.folder),
        "~/.ssh",
        "../secret.txt",
    ):
        entry.fill(name)
        entry.press("Enter")
        refusal = window.get_by_text(f"model={name!r} is not taken here")
        refusal.locator("visible=true").first.wait_for()

    assert canary.RequestHandlerClass.asked == []
    for secret in ("the secret", "root:x:"):
        assert secret not in window.content()


def test_there_is_no_run_panel(window, app) -> None:
    """And no GPU or processor of the server among those to choose."""
    opened(window, app)
    html = window.content()
    options = window.locator("select option").all_inner_texts()

    assert 0 == window.locator("[data-tab=run]").count()
    assert "Ask vLLM" not in html
    assert window.locator(".planner-run").count() == 0
    assert len(options) > 20
    assert not [one for one in options if "this machine" in one.lower()]


def test_nothing_breaks_the_pages_policy(browser, app) -> None:
    """The page works under it: no violation is reported while it starts."""
    context = browser.new_context()
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda line: said.append(line.text))
    opened(page, app)
    inline = page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent ="
        " 'window.inline = 1'; document.body.append(s); return window.inline || 0; }"
    )
    context.close()
    early = [line for line in said if "Content Security Policy" in line]

    assert inline == 0
    assert len(early) == 1, json.dumps(early)
