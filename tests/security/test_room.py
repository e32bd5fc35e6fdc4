"""What strangers, other sites and learners can do to a room that votes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.security.client import Answer, ask
from tests.security.server import Served, served

pytest.importorskip("voila")
pytestmark = pytest.mark.server

JSON = {"Content-Type": "application/json"}


@dataclass
class Room:
    """A room, and what its terminal said."""

    app: Served
    path: str
    screen: str
    """The screen's address, with its token."""

    def get(self, more: str = "", cookie: str = "") -> Answer:
        """Ask for a page, as a browser with a cookie does."""
        return ask(self.app.address, self.path + more, headers={"Cookie": cookie})

    def post(self, more: str, value: object, **headers: str) -> Answer:
        """Send JSON."""
        body = json.dumps(value).encode()
        sent = JSON | {name.replace("_", "-"): one for name, one in headers.items()}
        return ask(
            self.app.address, self.path + more, method="POST", headers=sent, body=body
        )

    def lead(self) -> str:
        """Return the cookie of whoever leads."""
        at = urlsplit(self.screen)
        answer = ask(self.app.address, f"{at.path}?{at.query}")
        assert answer.status == 302
        return _cookie(answer)

    def join(self) -> str:
        """Return the cookie of a phone with a place."""
        answer = self.get()
        assert answer.status == 200
        return _cookie(answer)

    def act(self, leader: str, word: str, question: int = 0) -> int:
        """Go on."""
        asked = {"do": word, "question": question}
        return self.post("/screen/act", asked, Cookie=leader).status

    def votes(self, leader: str) -> int:
        """Return how many are counted."""
        return int(json.loads(self.get("/screen/news", leader).body)["votes"])


def _cookie(answer: Answer) -> str:
    return (answer.header("Set-Cookie") or "").partition(";")[0]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A room with forty places, thirty of them for one network."""
    folder: Path = tmp_path_factory.mktemp("room")
    flags = ("--room", "--address=127.0.0.1", "--max-sessions=40", "--per-network=30")
    with served(folder, *flags) as running:
        said = running.written()
        address = re.search(r"for phones: (\S+)", said)
        kept = re.search(r"only you can read: (\S+)", said)
        assert address is not None
        assert kept is not None
        screen = Path(kept[1]).read_text(encoding="utf-8").strip()
        assert Path(kept[1]).stat().st_mode & 0o077 == 0
        assert screen.partition("token=")[2] not in said
        yield Room(running, urlsplit(address[1]).path, screen)


def test_a_stranger_without_the_code_finds_nothing(room) -> None:
    """Another code, and a phone's news without a place."""
    wrong = ask(room.app.address, "/room/AAAAAA")

    assert 404 == wrong.status
    assert 403 == room.get("/news").status
    assert 403 == room.get("/news", "planner-place=guessed").status
    assert 403 == room.post("/vote", {"answer": "7"}).status


def test_only_the_leader_leads(room) -> None:
    """By the token, which the address loses: it is on the projector."""
    leader, phone = room.lead(), room.join()
    at = urlsplit(room.screen)

    assert 403 == room.get("/screen").status
    assert 403 == room.get("/screen?token=wrong").status
    assert 403 == room.get("/screen/news", phone).status
    assert 403 == room.act(phone, "ask")
    assert 204 == room.act(leader, "ask")
    page = room.get("/screen", leader)
    assert at.query.partition("=")[2].encode() not in page.body


def test_another_site_can_neither_join_nor_vote_nor_lead(room) -> None:
    """Its origin, its forms, its pictures and prefetches."""
    leader, phone = room.lead(), room.join()
    room.act(leader, "ask")
    vote = {"answer": "7 GiB"}
    evil = "https://evil.example"

    assert 403 == room.post("/vote", vote, Cookie=phone, Origin=evil).status
    assert (
        403
        == room.post("/screen/act", {"do": "answer"}, Cookie=leader, Origin=evil).status
    )
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        sent = room.post("/vote", vote, Cookie=phone, Content_Type=kind)
        assert 415 == sent.status
    seen = {"Sec-Fetch-Dest": "image"}
    assert 403 == ask(room.app.address, room.path, headers=seen).status
    assert 0 == room.votes(leader)


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ({"answer": "x" * 2000}, 413),
        ({"answer": "x" * 41}, 400),
        ({"answer": {"weights": 1}}, 400),
        ({"answer": None}, 400),
        ([], 400),
        ("7", 400),
    ],
)
def test_what_is_no_vote_is_refused(room, value, status) -> None:
    """By its size, its length and its kind."""
    leader, phone = room.lead(), room.join()
    room.act(leader, "ask")

    assert status == room.post("/vote", value, Cookie=phone).status
    assert 0 == room.votes(leader)


def test_a_place_has_one_vote_while_it_is_asked(room) -> None:
    """A second one takes its place; none is counted once votes are shown."""
    leader, phone = room.lead(), room.join()
    room.act(leader, "ask")
    sent = [room.post("/vote", {"answer": a}, Cookie=phone).status for a in "78"]
    counted = room.votes(leader)
    room.act(leader, "votes")
    late = room.post("/vote", {"answer": "9"}, Cookie=phone).status

    assert [204, 204, 1, 409] == [*sent, counted, late]


def test_a_vote_is_text_in_every_page(room) -> None:
    """Markup that is sent is neither markup nor script anywhere."""
    leader, phone = room.lead(), room.join()
    room.act(leader, "ask")
    room.post("/vote", {"answer": "<img src=x onerror=alert(1)>"}, Cookie=phone)
    room.act(leader, "slips")
    answer = room.get("/screen/news", leader)

    assert b"not read as a figure" in answer.body
    assert b"<img" not in answer.body
    assert "application/json" == answer.header("Content-Type")


def test_pages_allow_their_own_script_alone(room) -> None:
    """And no frame of another site; nothing is stored by a browser."""
    for page in (room.get("", room.join()), room.get("/screen", room.lead())):
        policy = page.header("Content-Security-Policy") or ""
        assert "default-src 'none'; script-src 'sha256-" in policy
        assert "connect-src 'self'" in policy
        assert "unsafe-eval" not in policy
        assert "frame-ancestors 'self'" in policy
        assert "no-store" == page.header("Cache-Control")
        assert "nosniff" == page.header("X-Content-Type-Options")


def test_a_phone_that_asks_without_pause_has_to_wait(room) -> None:
    """Twelve at once; the others are told when to come."""
    phone = room.join()
    answers = [room.get("/news", phone) for _ in range(14)]

    assert 200 == answers[0].status
    assert 429 == answers[-1].status
    assert answers[-1].header("Retry-After")


def test_one_network_has_its_share_of_places(room) -> None:
    """Whoever is too many sees why; nothing was written, and no vote is logged."""
    answers = [room.get() for _ in range(31)]

    assert 429 == answers[-1].status
    assert b"Your network has all of its places" in answers[-1].body
    assert {"secret.txt", "server.log"} == {
        one.name for one in room.app.folder.iterdir() if one.name != "run"
    }
    assert "7 GiB" not in room.app.written()
    assert "127.0.0.1 -" not in room.app.written()
