"""`planner app`: what its server answers, and what it keeps to itself."""

import base64
import hashlib
import json
import re

import pytest

from planner.app.voila.notices import RETRY_SECONDS
from tests.app_visits import ask, eventually, kernel_of, leave, visit
from tests.ui.servers import Served, health, served

pytest.importorskip("voila")
pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def app(tmp_path_factory) -> Served:
    """A published app with two places and one page drawn ahead."""
    folder = tmp_path_factory.mktemp("app")
    flags = ("--published", "--pool=1", "--max-sessions=2", "--per-network=2")
    with served(folder, *flags) as running:
        yield running


def is_empty(app: Served) -> bool:
    """Whether nobody is there, and the next page is drawn."""
    now = health(app.address)
    return now["sessions"] == 0 and now["pool"] == now["pool_size"]


@pytest.fixture
def address(app) -> str:
    """The app's address, with nobody there."""
    assert eventually(lambda: is_empty(app)), health(app.address)
    return app.address


def test_a_page_holds_a_plan_and_comes_compressed(address) -> None:
    """The picture of the first plan stands in it; browsers keep no copy."""
    page = ask(address, Accept_Encoding="gzip")
    leave(address, kernel_of(page.text))

    assert page.status == 200
    assert page.headers["Content-Encoding"] == "gzip"
    assert page.headers["Cache-Control"] == "no-store"
    assert "planner-snapshot planner-explorer" in page.text


def test_a_browser_that_cannot_unpack_gets_the_page_as_it_is(address) -> None:
    """Without Accept-Encoding."""
    page = ask(address)
    leave(address, kernel_of(page.text))

    assert "Content-Encoding" not in page.headers
    assert b"<title>vLLM memory planner</title>" in page.body


def test_no_script_stands_in_a_page_and_none_comes_from_elsewhere(address) -> None:
    """So its policy can forbid both; data in scripts is not run."""
    page = ask(address)
    leave(address, kernel_of(page.text))
    policy = page.headers["Content-Security-Policy"]
    scripts = re.findall(r"<script([^>]*)>", page.text)
    run = [script for script in scripts if "type=" not in script]

    assert run
    assert all(re.search(r'src="/assets/', script) for script in run)
    assert "script-src 'self' blob:;" in policy
    assert "default-src 'none'" in policy
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", page.text)
    assert not re.search(r"<[^>]+\son\w+=", page.text)


def test_every_script_and_style_of_a_page_is_there_for_good(address) -> None:
    """Compressed, with an address that changes with the content."""
    page = ask(address)
    leave(address, kernel_of(page.text))
    names = re.findall(r'/(assets/[^" ]+\.(?:js|css))', page.text)

    assert len(names) >= 6
    for name in names:
        answer = ask(address, name, Accept_Encoding="gzip")
        assert answer.status == 200, name
        assert answer.headers["Content-Encoding"] == "gzip", name
        assert "immutable" in answer.headers["Cache-Control"], name
        again = ask(address, name, If_None_Match=answer.headers["Etag"])
        assert (again.status, again.body) == (304, b""), name
        assert ask(address, name).text == answer.text, name


def test_a_full_app_says_so_and_starts_no_kernel(address) -> None:
    """Two places: the third visitor gets a page that asks again by itself."""
    taken = [visit(address), visit(address)]
    full = ask(address)
    now = health(address)
    for kernel in taken:
        leave(address, kernel)

    assert full.status == 503
    assert full.headers["Retry-After"] == str(RETRY_SECONDS)
    assert "Every place is taken" in full.text
    assert f"http-equiv='refresh' content='{RETRY_SECONDS}'" in full.text
    assert "$" not in full.text
    assert (now["status"], now["sessions"]) == ("full", 2)
    assert leave(address, visit(address)) == 204


def test_a_monitor_learns_numbers_only(address) -> None:
    """No kernel is started for it."""
    answer = ask(address, "healthz")

    assert answer.status == 200
    assert json.loads(answer.body) == {
        "status": "ok",
        "sessions": 0,
        "max_sessions": 2,
        "pool": 1,
        "pool_size": 1,
    }


@pytest.mark.parametrize("query", ["?theme=dark", "?template=lab", "?x=" + "y" * 2000])
def test_nothing_in_an_address_chooses_the_page(address, query) -> None:
    """The drawn page is given out, whatever is asked for."""
    page = ask(address, query)
    leave(address, kernel_of(page.text))

    assert page.status == 200
    assert 'data-jp-theme-name="JupyterLab Light"' in page.text


@pytest.mark.parametrize(
    "path",
    [
        "api/kernels",
        "api/contents",
        "api/terminals",
        "api/sessions",
        "api/kernelspecs",
        "voila/files/app.ipynb",
        "voila/tree",
        "voila/render/app.ipynb",
        "voila/static/voila.js",
        "voila/templates/lab/static/index.css",
        "login",
        "app.ipynb",
        "assets/none/page/start.js",
    ],
)
def test_jupyters_own_addresses_are_not_there(address, path) -> None:
    """And no kernel is started by asking."""
    assert ask(address, path).status == 404
    assert health(address)["sessions"] == 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_kernel_is_ended_or_changed_by_no_other_method(address, method) -> None:
    """Its address is for asking whether it lives."""
    kernel = visit(address)
    answer = ask(address, f"api/kernels/{kernel}", method)
    state = ask(address, f"api/kernels/{kernel}").status
    leave(address, kernel)

    assert answer.status in (403, 405)
    assert state == 200


def test_a_kernel_ends_with_its_page(address) -> None:
    """The page's last request ends it; a second one changes nothing."""
    kernel = visit(address)
    before = ask(address, f"api/kernels/{kernel}").status

    assert before == 200
    assert leave(address, kernel) == 204
    assert ask(address, f"api/kernels/{kernel}").status == 404
    assert leave(address, kernel) == 204


def test_asking_for_the_head_takes_no_place(address) -> None:
    """As monitors do."""
    assert ask(address, method="HEAD").status == 200
    assert health(address)["sessions"] == 0


def test_the_log_holds_nothing_of_a_visitor(address, app) -> None:
    """Neither address nor query nor kernel, whatever goes wrong."""
    kernel = kernel_of(ask(address, "?model=secret/name&gpu=H100").text)
    ask(address, "api/none?model=secret/name")
    leave(address, kernel)
    log = app.log.read_text().partition("\n")[2]  # the first line is the greeting

    assert "127.0.0.1" not in log
    assert "secret" not in log
    assert kernel not in log


def test_no_cookie_is_set(address) -> None:
    """There is nobody to remember."""
    page = ask(address)
    leave(address, kernel_of(page.text))

    assert "Set-Cookie" not in page.headers


def test_the_bar_of_the_day_comes_without_a_kernel(address) -> None:
    """Its policy allows the page's one script by its hash."""
    page = ask(address, "guess")
    script = re.findall("<script>(.*?)</script>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script[-1].encode()).digest()).decode()

    assert 200 == page.status
    assert "Guess the bar of " in page.text
    assert 1 == len(script)
    assert f"script-src 'sha256-{digest}';" in page.headers["Content-Security-Policy"]
    assert 0 == health(address)["sessions"]
