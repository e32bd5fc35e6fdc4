"""An app on one's own machine: other users of the machine reach it, and get nothing."""

from __future__ import annotations

import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.app.voila.access import Owner
from planner.app.voila.app import _greeting, _kept_address, _open_in_browser
from planner.app.voila.options import Options
from tests.security.client import Visitor, ask
from tests.ui import servers
from tests.ui.servers import Served, cookie, health, served, start_address

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An app that its owner started, without a flag."""
    with served(tmp_path_factory.mktemp("own"), "--pool=1") as running:
        yield running


def test_the_output_has_no_token_where_it_is_no_terminal(own) -> None:
    """`planner app > log` leaves a file that others can read: it names one of yours."""
    said = own.log.read_text(encoding="utf-8")
    token = start_address(own.address).partition("=")[2]
    kept = Path(said.rpartition("only you can read: ")[2].strip())

    assert token
    assert token not in said
    assert kept.read_text(encoding="utf-8").strip() == start_address(own.address)
    assert 0o600 == stat.S_IMODE(kept.stat().st_mode)
    assert 0o700 == stat.S_IMODE(kept.parent.stat().st_mode)


def test_a_terminal_shows_the_start_address(monkeypatch, tmp_path) -> None:
    """So does a published app anywhere: there is no token in it."""
    owner = Owner(port=1, path="/")
    assert _kept_address("x", None, tmp_path) is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)

    assert _kept_address("x", owner, tmp_path) is None
    assert not [*tmp_path.iterdir()]
    start = f"http://127.0.0.1:1/?token={owner.token}"
    assert start in _greeting(start, Options(port=1), None)


@pytest.fixture(scope="module")
def kernel(own: Served) -> Iterator[str]:
    """The kernel of the owner's page."""
    answer = ask(own.address, "/", headers={"Cookie": cookie(own.address)})
    found = re.search(rb'"kernelId": "([0-9a-f-]+)"', answer.body)
    assert answer.status == 200
    assert found is not None
    yield found[1].decode()
    end = f"/voila/api/shutdown/{found[1].decode()}"
    ask(
        own.address,
        end,
        method="POST",
        body=b"",
        headers={"Cookie": cookie(own.address)},
    )


def test_without_the_token_nothing_opens(own, kernel) -> None:
    """Neither a page nor a kernel, its socket or its end; a guess opens none."""
    token = start_address(own.address).partition("=")[2]
    before = health(own.address)["sessions"]
    name = cookie(own.address).partition("=")[0]
    for headers in ({}, {"Cookie": f"{name}=x"}, {"Cookie": f"{name}={token[:-1]}"}):
        for path in ("/", "/?token=", f"/?token={token[1:]}", f"/api/kernels/{kernel}"):
            answer = ask(own.address, path, headers=headers)
            assert answer.status == 403, path
            assert b"kernelId" not in answer.body
            assert answer.header("Set-Cookie") is None
        end = f"/voila/api/shutdown/{kernel}"
        assert 403 == ask(own.address, end, method="POST", headers=headers).status
        visitor = Visitor(own.address, {"kernelId": kernel})
        assert 403 == visitor.handshake(headers=headers)

    assert b"start address" in ask(own.address, "/").body
    assert before == health(own.address)["sessions"]
    state = ask(
        own.address, f"/api/kernels/{kernel}", headers={"Cookie": cookie(own.address)}
    )
    assert state.status == 200


def test_a_question_of_a_program_needs_the_token(own) -> None:
    """In the header for it, or as the page's cookie; its description too."""
    token = start_address(own.address).partition("=")[2]
    question, kind = b'{"model": "Qwen/Qwen3-8B"}', {"Content-Type": "application/json"}

    def post(headers: dict[str, str]) -> int:
        sent = {**kind, **headers}
        path = "/api/plan"
        return ask(own.address, path, method="POST", headers=sent, body=question).status

    bearer = {"Authorization": f"Bearer {token}"}
    for wrong in ({}, {"Authorization": f"Bearer {token}x"}, {"Authorization": token}):
        assert 403 == post(wrong)
        assert 403 == ask(own.address, "/api", headers=wrong).status
    assert 200 == post(bearer)
    assert 200 == post({"Cookie": cookie(own.address)})
    assert 200 == ask(own.address, "/api/openapi.json", headers=bearer).status


def test_the_owners_cookie_opens_the_kernels_socket(own, kernel) -> None:
    """The control of the test before."""
    visitor = Visitor(own.address, {"kernelId": kernel})

    assert 101 == visitor.handshake(headers={"Cookie": cookie(own.address)})


def test_no_argument_or_environment_of_the_server_shows_the_token(own) -> None:
    """Every user of a machine can read the arguments of its processes."""
    token = start_address(own.address).partition("=")[2].encode()
    place = Path(f"/proc/{own.pid}")

    assert len(token) == 32
    assert token not in (place / "cmdline").read_bytes()
    assert token not in (place / "environ").read_bytes()


def test_the_browser_is_opened_by_a_file_of_the_owners(tmp_path, monkeypatch) -> None:
    """Its name says nothing, and nobody else can read it."""
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    thread = _open_in_browser("http://127.0.0.1:1/?token=t", tmp_path)
    thread.join()
    page = tmp_path / "open.html"

    assert opened == [page.as_uri()]
    assert page.stat().st_mode & 0o077 == 0
    assert "url=http://127.0.0.1:1/?token=t" in page.read_text()


@pytest.mark.browser
def test_the_start_address_lets_a_browser_in(browser, own) -> None:
    """The token leaves the address at once; a link to a plan is opened without it."""
    context = browser.new_context()
    context.clear_cookies()
    page = context.new_page()
    refused = page.goto(own.address)
    heading = page.get_by_role("heading", level=1).inner_text()
    page.goto(f"{start_address(own.address)}&model=Qwen%2FQwen3-8B")
    first = page.evaluate("window.location.search")
    page.get_by_text("vllm serve Qwen/Qwen3-8B").first.wait_for()
    (kept,) = context.cookies()
    again = page.reload()
    page.wait_for_selector("input[type=range]")
    context.close()

    assert refused.status == 403
    assert re.match("This planner belongs to", heading)
    assert "token" not in first
    assert again.status == 200
    assert (kept["httpOnly"], kept["sameSite"]) == (True, "Strict")
    assert kept["name"] == cookie(own.address).partition("=")[0]


def test_the_tests_own_helper_knows_this_app_only(own, app) -> None:
    """A published app has no token, and gets no cookie."""
    assert cookie(own.address)
    assert cookie(app.address) == ""
    assert servers.status(own.address + "api/none") == 404
