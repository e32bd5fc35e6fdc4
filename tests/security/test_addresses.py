"""Which addresses the server answers: the page, its files, and nothing else."""

from __future__ import annotations

import re
import socket
from importlib import metadata
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest

from tests.security.client import PATIENCE, Visitor, ask, finished, is_alive
from tests.security.server import served

pytestmark = pytest.mark.server

CLOSED = [
    "/api/contents",
    "/api/contents/secret.txt",
    "/api/kernels",
    "/api/kernels/",
    "/api/kernelspecs",
    "/api/sessions",
    "/api/terminals",
    "/api/status",
    "/api/me",
    "/api/config/x",
    "/api/nbconvert",
    "/api/spec.yaml",
    "/api/shutdown",
    "/api/kernels/00000000-0000-0000-0000-000000000000",
    "/api/kernels/00000000-0000-0000-0000-000000000000/restart",
    "/api/kernels/00000000-0000-0000-0000-000000000000/interrupt",
    "/files/secret.txt",
    "/files/server.log",
    "/voila/files/secret.txt",
    "/voila/files/server.log",
    "/voila/files/app.ipynb",
    "/voila/files/planner/app/voila/app.ipynb",
    "/voila/static/../../secret.txt",
    "/voila/templates/planner/static/x.css",
    "/voila/render/app.ipynb",
    "/voila/render/other.ipynb",
    "/voila/tree",
    "/voila/",
    "/tree",
    "/lab",
    "/lab/api/settings",
    "/notebooks/app.ipynb",
    "/edit/secret.txt",
    "/view/secret.txt",
    "/nbconvert/html/app.ipynb",
    "/terminals/1",
    "/terminals/websocket/1",
    "/login",
    "/logout",
    "/metrics",
    "/static/style.css",
    "/kernelspecs/python3/logo-64x64.png",
    "/nbextensions/x.js",
    "/app.ipynb",
    "/server.log",
    "/.env",
    "/healthz/x",
    "//etc/passwd",
    "/favicon.ico",
]
CLIMBS = [
    "../secret.txt",
    "../../secret.txt",
    "..%2fsecret.txt",
    "%2e%2e/secret.txt",
    "%2e%2e%2f%2e%2e%2fsecret.txt",
    "..%252fsecret.txt",
    "..%c0%afsecret.txt",
    "..\\secret.txt",
    "....//secret.txt",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "../../../../../../../../etc/passwd",
    "..;/secret.txt",
    "x%00.js",
]
_ASSET = re.compile(r'(?:src|href)="(/[^"]+\.(?:js|css))"')


def assets(visitor: Visitor) -> list[str]:
    """Addresses of the scripts and styles of the page."""
    return _ASSET.findall(visitor.html)


@pytest.mark.parametrize(
    "method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"]
)
def test_no_other_address_is_answered(app, method) -> None:
    """Files, contents, sessions, terminals, other notebooks: not found."""
    for path in CLOSED:
        body = b"{}" if method in ("POST", "PUT", "PATCH") else None
        answer = ask(app.address, path, method=method, body=body)
        assert answer.status in (403, 404, 405), path
        assert b"secret" not in answer.body
        assert answer.header("Location") is None


def test_the_pages_own_files_are_answered(visitor) -> None:
    """The control of what is closed."""
    found = assets(visitor)

    assert len(found) >= 3
    assert {ask(visitor.address, path).status for path in found} == {200}


def test_nobody_climbs_out_of_the_pages_files(visitor) -> None:
    """From any folder that is served, encoded in any way."""
    folders = {path.rpartition("/")[0] for path in assets(visitor)}
    for folder in folders | {"/assets", "/voila/static", "/static"}:
        for climb in CLIMBS:
            answer = ask(visitor.address, f"{folder}/{climb}")
            assert answer.status in (400, 403, 404), f"{folder}/{climb}"
            assert b"secret" not in answer.body
            assert b"root:" not in answer.body


@pytest.mark.parametrize(
    "query",
    [
        "?voila-template=lab&template=lab",
        "?voila-theme=dark&theme=../../x",
        "?voila-kernel=other&kernel_name=x",
        "?notebook=other.ipynb&path=/etc/passwd",
    ],
)
def test_no_other_template_theme_or_notebook_can_be_asked_for(visitor, app, query):
    """The page loads the same files whatever the query says."""
    other = Visitor.at(app.address, query)
    other.leave()

    assert assets(other) == assets(visitor)
    assert "/etc/passwd" not in other.html


def test_the_page_does_not_repeat_the_query(app) -> None:
    """What a link holds is read by the page's script, not written by the server."""
    mark = uuid4().hex
    visitor = Visitor.at(app.address, f"?model={mark}&x=<script>{mark}</script>")
    visitor.leave()

    assert mark not in visitor.html


def test_a_guessed_id_ends_nobodys_kernel(visitor) -> None:
    """And the addresses that would end or restart a known one do not exist."""
    for kernel_id in (str(uuid4()), "x", "*", "%2e%2e"):
        path = f"/voila/api/shutdown/{kernel_id}"
        assert ask(visitor.address, path, method="POST", body=b"").status < 500
    path = f"/api/kernels/{visitor.kernel_id}"
    for method, end in (
        ("DELETE", ""),
        ("PATCH", ""),
        ("POST", "/restart"),
        ("POST", "/interrupt"),
    ):
        answer = ask(visitor.address, path + end, method=method, body=b"{}")
        assert answer.status in (403, 404, 405)

    assert finished(is_alive(visitor))


def test_no_other_site_may_read_an_answer(visitor) -> None:
    """Neither simple requests nor preflights are allowed to other origins."""
    evil = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for method in ("GET", "OPTIONS", "POST"):
        for path in ("/", "/healthz", f"/api/kernels/{visitor.kernel_id}"):
            body = b"{}" if method == "POST" else None
            answer = ask(visitor.address, path, method=method, headers=evil, body=body)
            assert answer.header("Access-Control-Allow-Origin") is None
            _leave_if_page(visitor.address, answer.body)

    assert finished(is_alive(visitor))


def _leave_if_page(address: str, body: bytes) -> None:
    """A page that was opened on the way takes a place: give it back."""
    found = re.search(rb'"kernelId": ?"([0-9a-f-]+)"', body)
    if found:
        ended = f"/voila/api/shutdown/{found[1].decode()}"
        ask(address, ended, method="POST", body=b"")


def test_headers_forbid_what_the_page_does_not_need(visitor) -> None:
    """On every kind of answer; nothing tells which programs answer."""
    for path in ("/healthz", assets(visitor)[0], "/nowhere", "/voila/static/x"):
        answer = ask(visitor.address, path)
        policy = answer.header("Content-Security-Policy") or ""
        assert "default-src 'none'" in policy, path
        assert "frame-ancestors 'self'" in policy
        assert "'unsafe-eval'" not in policy
        assert "script-src 'self' blob:" in policy
        assert answer.header("X-Content-Type-Options") == "nosniff"
        assert answer.header("Referrer-Policy") == "no-referrer"
        assert answer.header("X-Frame-Options") == "SAMEORIGIN"
        assert answer.header("Cross-Origin-Resource-Policy") == "same-origin"
        assert answer.header("Cross-Origin-Opener-Policy") == "same-origin"
        assert answer.header("Set-Cookie") is None
        assert answer.header("X-Powered-By") is None
        server = answer.header("Server") or ""
        assert not re.search(r"\d|[Tt]ornado|[Jj]upyter|[Pp]ython", server), server


def test_the_page_names_no_version_of_a_program(visitor) -> None:
    """Neither in its configuration nor in its text."""
    versions = {metadata.version(name) for name in ("voila", "tornado", "ipykernel")}

    assert visitor.config["appVersion"] == ""
    assert [one for one in versions if one in visitor.html] == []


def test_a_site_may_show_the_app_in_a_frame_where_that_is_allowed(tmp_path) -> None:
    """By the policy; the older header knows no sites, and is left out."""
    frame = {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "cross-site"}
    wiki = "https://wiki.example.org"
    with served(tmp_path, "--pool=1", f"--frame-ancestor={wiki}") as running:
        answer = ask(running.address, "/", headers=frame)
    policy = answer.header("Content-Security-Policy") or ""

    assert answer.status == 200
    assert f"frame-ancestors 'self' {wiki}" in policy
    assert answer.header("X-Frame-Options") is None


def test_an_error_tells_nothing_of_the_server(app) -> None:
    """No trace, no path, no program."""
    for path in ("/nowhere", "/api/kernels/x/channels", "/%ff", "/" + "a" * 3_000):
        body = ask(app.address, path).body.decode(errors="replace")
        assert "Traceback" not in body
        assert str(app.folder) not in body
        assert "ornado" not in body
        assert len(body) < 300


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        ("/healthz?" + "q" * 100_000, {}, None),
        ("/" + "p" * 100_000, {}, None),
        ("/healthz", {"X-Large": "h" * 1_000_000}, None),
        ("/healthz", {f"X-{n}": "h" * 100 for n in range(2_000)}, None),
        (f"/voila/api/shutdown/{UUID(int=7)}", {}, b"b" * 5_000_000),
    ],
)
def test_an_oversized_request_is_cut_off(app, path, headers, body) -> None:
    """The server goes on answering the others."""
    method = "GET" if body is None else "POST"
    try:
        answer = ask(app.address, path, method=method, headers=headers, body=body)
        assert 400 <= answer.status < 500 or answer.status == 200
        assert len(answer.body) < 1_000
    except OSError:
        pass  # closed while it was still being sent

    assert ask(app.address, "/healthz").status == 200


def test_half_a_request_holds_nobody_up(app) -> None:
    """Forty connections that never finish; the next visitor is served."""
    place = urlsplit(app.address)
    open_ones = []
    for _ in range(40):
        one = socket.create_connection((place.hostname, place.port), timeout=PATIENCE)
        one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        open_ones.append(one)
    status = ask(app.address, "/healthz").status
    for one in open_ones:
        one.close()

    assert status == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET http://169.254.169.254/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n",
        b"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"\x00" * 1000,
    ],
)
def test_a_malformed_request_is_answered_with_no(app, raw) -> None:
    """Or not at all; never passed on, never a page."""
    place = urlsplit(app.address)
    with socket.create_connection(
        (place.hostname, place.port), timeout=PATIENCE
    ) as one:
        one.sendall(raw)
        one.shutdown(socket.SHUT_WR)
        said = b""
        while chunk := one.recv(65_536):
            said += chunk

    assert b"kernelId" not in said
    assert b"ami-id" not in said
    assert ask(app.address, "/healthz").status == 200


def test_the_log_knows_no_visitor(app) -> None:
    """No query, no kernel's id, no address, nothing that was typed."""
    mark = uuid4().hex
    visitor = Visitor.at(app.address, f"?model={mark}")
    ask(app.address, f"/nowhere/{mark}")
    ask(app.address, f"/api/kernels/{mark}/channels?token={mark}")
    ask(app.address, "/voila/api/shutdown/x", headers={"User-Agent": mark})
    visitor.leave()
    written = app.written()

    assert mark not in written
    assert visitor.kernel_id not in written
    assert "127.0.0.1" not in written.replace(app.address, "")
