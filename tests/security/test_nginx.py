"""The app behind nginx with deploy/nginx.conf."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from planner.planning.as_dict import SCHEMA_VERSION
from tests.security.client import Visitor, ask, finished, is_alive
from tests.security.proxy import Proxy, nginx, proxied
from tests.ui.servers import free_port

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(
        nginx() is None or shutil.which("openssl") is None,
        reason="no nginx on this machine: install it, or set NGINX to its path",
    ),
]

SAID = b"every place is taken"


class _Mirror(BaseHTTPRequestHandler):
    """An app that is full, and remembers what it was told."""

    told: list[dict[str, str]]

    def do_GET(self) -> None:
        self.told.append(dict(self.headers.items()))
        self.send_response(503)
        self.send_header("Content-Length", str(len(SAID)))
        self.send_header("Retry-After", "7")
        self.end_headers()
        self.wfile.write(SAID)

    def log_message(self, *args: object) -> None:
        """Keep the tests' output clean."""


class _Welcome(BaseHTTPRequestHandler):
    """An app that answers every page at once, however busy this machine is."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Keep the tests' output clean."""


@contextmanager
def before(app: type[BaseHTTPRequestHandler], folder: Path) -> Iterator[Proxy]:
    """Nginx before such an app, both its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), app)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        with proxied(folder, f"http://127.0.0.1:{server.server_port}/") as running:
            yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def proxy(app, tmp_path_factory) -> Iterator[Proxy]:
    """Nginx before the app."""
    with proxied(tmp_path_factory.mktemp("nginx"), app.address) as running:
        yield running


def test_a_page_comes_through_and_is_compressed_once(proxy) -> None:
    """The app's gzip, untouched."""
    answer = ask(proxy.address, "/", headers={"Accept-Encoding": "gzip"})
    html = gzip.decompress(answer.body).decode()
    found = re.search(r'"kernelId": "([0-9a-f-]+)"', html)
    assert found is not None
    left = f"/voila/api/shutdown/{found[1]}"

    assert answer.header("Content-Encoding") == "gzip"
    assert ask(proxy.address, left, method="POST", body=b"").status == 204


def test_every_header_comes_once(proxy) -> None:
    """Those of the app, those of nginx, none of them twice."""
    visitor = Visitor.at(proxy.address)
    asset = re.findall(r'src="(/assets/[^"]+)"', visitor.html)[0]
    for path in (asset, "/healthz", f"/api/kernels/{uuid4()}"):
        answer = ask(proxy.address, path)
        counts = Counter(name.lower() for name, _ in answer.headers)
        assert max(counts.values()) == 1, counts
        assert {
            "content-security-policy",
            "x-content-type-options",
            "referrer-policy",
            "strict-transport-security",
        } <= counts.keys()
        assert answer.header("Server") == "nginx"
    visitor.leave()


def test_the_socket_comes_through(proxy) -> None:
    """From the page's own origin, and from no other."""
    visitor = Visitor.at(proxy.address)
    own, evil = proxy.address.rstrip("/"), "https://evil.example"

    assert finished(is_alive(visitor))
    assert visitor.handshake(headers={"Origin": own}) == 101
    assert visitor.handshake(headers={"Origin": evil}) == 403
    assert visitor.leave() == 204
    assert visitor.handshake() == 404


@pytest.mark.browser
def test_a_browser_has_the_page_alive(browser, proxy) -> None:
    """Over HTTP/2, with a socket of its own; a change of the model is answered."""
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(proxy.address)
    model = page.get_by_role("combobox", name="Model", exact=True)
    model.wait_for()
    model.fill("Qwen/Qwen3-8B")
    model.press("Enter")
    page.get_by_text("vllm serve Qwen/Qwen3-8B").first.wait_for()
    protocol = page.evaluate(
        "performance.getEntriesByType('navigation')[0].nextHopProtocol"
    )
    page.goto("about:blank")
    context.close()

    assert protocol == "h2"


def test_what_stands_beside_the_page_comes_through(proxy) -> None:
    """The bar of the day, which the page links to, and the questions in JSON."""
    for path in ("/guess", "/api", "/api/openapi.json"):
        assert ask(proxy.address, path).status == 200

    asked = b'{"model": "Qwen/Qwen3-8B", "gpu": "L4"}'
    headers = {"Content-Type": "application/json"}
    answer = ask(proxy.address, "/api/plan", method="POST", body=asked, headers=headers)
    assert answer.status == 200
    assert json.loads(answer.body)["schema_version"] == SCHEMA_VERSION


def test_what_the_app_has_not_is_not_asked_of_it(proxy) -> None:
    """Nginx knows the app's addresses."""
    for path in ("/api/contents", "/voila/files/x", "/files/x", "/lab", "/tree", "/x"):
        assert ask(proxy.address, path).status == 404


def test_without_tls_everything_points_to_tls(proxy) -> None:
    """With the plan that the link holds."""
    answer = ask(proxy.plain, "/?model=a%2Fb")

    assert answer.status == 301
    assert answer.header("Location") == "https://planner.example.org/?model=a%2Fb"


def test_a_flood_of_pages_is_turned_away(tmp_path) -> None:
    """From one address, after the first forty; other addresses of the app answer."""
    with before(_Welcome, tmp_path) as running:
        answers = [ask(running.address, "/") for _ in range(70)]
        other = ask(running.address, "/healthz")
    first = next(n for n, answer in enumerate(answers) if answer.status != 200)
    turned_away = answers[first]

    # Forty at once, and one more every two seconds.
    assert first >= 41
    assert other.status == 200
    assert turned_away.status == 429
    assert b"Too many requests from your network" in turned_away.body
    assert turned_away.header("Retry-After") == "20"


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/healthz?" + "q" * 17_000, {}, None, 414),
        ("/healthz", {"X-Large": "h" * 17_000}, None, 400),
        (f"/voila/api/shutdown/{UUID(int=7)}", {}, b"b" * 70_000, 413),
    ],
)
def test_what_is_too_large_is_turned_away(proxy, path, headers, body, status) -> None:
    """Before the app sees it."""
    method = "GET" if body is None else "POST"
    answer = ask(proxy.address, path, method=method, headers=headers, body=body)

    assert answer.status == status
    assert "nginx/" not in answer.body.decode()


def test_the_log_knows_no_visitor(proxy) -> None:
    """Kind of place, status, size and time: no address, query, id or browser."""
    mark = uuid4().hex
    ask(proxy.address, f"/assets/{mark}?x={mark}", headers={"User-Agent": mark})
    ask(proxy.address, f"/api/kernels/{uuid4()}/channels?session_id={mark}")
    written = proxy.written()

    assert re.search(r"^\S+ GET file 404 \d+ bytes [\d.]+ s$", written, re.M)
    assert re.search(r"^\S+ GET socket 404 ", written, re.M)
    assert mark not in written
    assert "127.0.0.1" not in written
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}", written)


def test_the_app_is_told_only_the_visitors_address(tmp_path) -> None:
    """Not what a visitor claims to be; the app's page for a full house arrives."""
    told: list[dict[str, str]] = []
    mirror = type("Mirror", (_Mirror,), {"told": told})
    personal = {
        "Cookie": "a=b",
        "Authorization": "Basic x",
        "User-Agent": "somebody",
        "Referer": "https://example.org/from",
        "X-Forwarded-For": "192.0.2.1",
        "X-Real-IP": "192.0.2.1",
    }
    with before(mirror, tmp_path) as running:
        answers = [
            ask(running.address, path, headers=personal)
            for path in ("/", f"/api/kernels/{uuid4()}/channels")
        ]

    assert {(one.status, one.body) for one in answers} == {(503, SAID)}
    assert answers[0].header("Retry-After") == "7"
    assert len(told) == 2
    for headers in told:
        assert personal.keys() & headers.keys() == {"X-Real-IP"}
        assert headers["X-Real-IP"] == "127.0.0.1"
        assert "192.0.2.1" not in str(headers)
        assert headers["Host"] == running.address.split("/")[2]


def test_while_the_app_is_down_a_page_says_so(tmp_path) -> None:
    """With a policy and a time to come back."""
    with proxied(tmp_path, f"http://127.0.0.1:{free_port()}/") as running:
        answer = ask(running.address, "/")

    assert answer.status == 502
    assert b"The planner is away for a moment" in answer.body
    assert answer.header("Retry-After") == "20"
    assert "default-src 'none'" in (answer.header("Content-Security-Policy") or "")
    assert "https://" not in answer.body.decode()
