"""Pages of others against the app of this machine's owner, in a real browser.

The owner has the app open in the same browser, and the page of the other knows its
address and even its kernel.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from tests.ui import servers

pytestmark = pytest.mark.browser
REFUSED = 400
"""Statuses from here on are no answers."""
OTHER_SITE, OTHER_PORT = "evil.localhost", "127.0.0.1"
"""Browsers resolve any name below localhost to this machine: a site of its own. The
same host with another port is the same site to cookies, and another origin."""
ASKS = """async address => {
    const settled = await Promise.allSettled([
        fetch(address, {credentials: 'include'}),
        fetch(address + 'api/plan', {
            method: 'POST', credentials: 'include', body: '{"model": "Qwen/Qwen3-8B"}',
            headers: {'Content-Type': 'application/json'},
        }),
        fetch(address + 'api/plan', {
            method: 'POST', credentials: 'include', mode: 'no-cors',
            body: '{"model": "Qwen/Qwen3-8B", "gpu": "L4"}',
        }).then(answer => { if (answer.type !== 'opaque') return answer; throw 0; }),
    ]);
    return settled.map(one => one.status);
}"""
CONNECTS = """address => new Promise(settle => {
    const socket = new WebSocket(address);
    socket.onopen = () => settle('open');
    socket.onerror = () => settle('refused');
})"""
LOADS = """address => new Promise(settle => {
    const script = document.createElement('script');
    script.onload = () => settle('ran');
    script.onerror = () => settle('refused');
    script.src = address;
    document.head.append(script);
})"""
FRAMES = """address => new Promise(settle => {
    const frame = document.createElement('iframe');
    frame.onload = () => {
        let seen = 'hidden';
        try { seen = frame.contentDocument?.body.innerText || 'hidden'; } catch {}
        settle(seen);
    };
    frame.src = address;
    document.body.append(frame);
})"""
POSTS = """address => {
    const form = document.createElement('form');
    form.method = 'post';
    form.action = address;
    document.body.append(form);
    form.submit();
}"""


class Plain(BaseHTTPRequestHandler):
    """A page with nothing on it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>other</title><body>other")

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def other_port() -> Iterator[int]:
    """The port of somebody else's page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Plain) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture(scope="module")
def owned(
    browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Any, str]]:
    """The address of an owner's app, the browser that has it open, and its kernel."""
    folder: Path = tmp_path_factory.mktemp("owned")
    with servers.served(folder, "--pool=1") as running:
        context = browser.new_context()
        page = context.new_page()
        sockets: list[str] = []
        page.on("websocket", lambda socket: sockets.append(socket.url))
        page.goto(servers.start_address(running.address))
        page.wait_for_selector(".planner-chart .barlayer .point path")
        page.wait_for_selector(".pc-field")
        yield running.address, context, sockets[0]
        with urlopen(f"{running.address}healthz") as answer:
            assert 1 == json.load(answer)["sessions"]  # no other page took a place
        context.close()


@pytest.fixture(params=[OTHER_SITE, OTHER_PORT])
def attack(
    request: pytest.FixtureRequest, owned: tuple[str, Any, str], other_port: int
) -> Iterator[tuple[Any, list[int | str]]]:
    """A page of another origin, and the statuses or failures of what it asks."""
    address, context, _socket = owned
    page = context.new_page()
    answers: list[int | str] = []

    def answered(response: Any) -> None:
        if response.url.startswith(address):
            answers.append(response.status)

    def failed(request: Any) -> None:
        if request.url.startswith(address):
            answers.append(request.failure)

    page.on("response", answered)
    page.on("requestfailed", failed)
    page.goto(f"http://{request.param}:{other_port}/")
    yield page, answers
    page.close()


def are_refused(answers: list[int | str]) -> bool:
    """Whether the server or the browser refused each of them."""
    return all(isinstance(one, str) or one >= REFUSED for one in answers)


def test_no_request_of_another_page_is_answered(owned, attack) -> None:
    """Neither read, nor sent without being read, whatever cookies come along."""
    page, answers = attack

    assert ["rejected"] * 3 == page.evaluate(ASKS, owned[0])
    assert 3 == sum(isinstance(one, str) for one in answers)
    assert are_refused(answers)


def test_no_other_page_reaches_the_kernel(owned, attack) -> None:
    """Though it knows the address of the owner's own socket."""
    page, _answers = attack

    assert "refused" == page.evaluate(CONNECTS, owned[2])


def test_no_other_page_runs_or_frames_the_app(owned, attack) -> None:
    """Its scripts are its own, and it draws in no frame of another."""
    page, answers = attack
    script = f"{owned[0]}assets/page/bundle.js"

    assert "refused" == page.evaluate(LOADS, script)
    assert "hidden" == page.evaluate(FRAMES, owned[0])
    assert 3 == len(answers)  # of the frame, the server's and the browser's
    assert are_refused(answers)


def test_a_form_of_another_page_does_nothing(owned, attack) -> None:
    """The app takes no form at all."""
    page, answers = attack
    with page.expect_navigation():
        page.evaluate(POSTS, f"{owned[0]}api/plan")

    assert answers
    assert are_refused(answers)
    assert page.locator(".planner-chart").count() == 0


def test_a_name_that_leads_here_opens_nothing(owned) -> None:
    """DNS rebinding: the page's own name comes to mean this machine."""
    address, context, _socket = owned
    page = context.new_page()
    port = urlsplit(address).port
    answer = page.goto(f"http://{OTHER_SITE}:{port}/")

    assert answer.status >= REFUSED
    for path in ("api", "api/plan", "guess"):
        there = f"http://{OTHER_SITE}:{port}/{path}"
        status = page.evaluate("there => fetch(there).then(one => one.status)", there)
        assert status >= REFUSED, path
    page.close()
