"""A room without its server: places, votes, rounds, and the code on the wall."""

from __future__ import annotations

import pytest

pytest.importorskip("voila")

from planner.app.voila.notices import CROWDED, FULL
from planner.app.voila.options import Options
from planner.app.voila.room import Room, room_of
from planner.app.voila.room_pages import qr_path


def _room(**options) -> Room:
    return room_of(Options(room=True, max_sessions=4, per_network=3, **options))


def _asked(room: Room, count: int = 2) -> list[str]:
    names = [str(room.place_for("here", 0.0)) for _ in range(count)]
    room.do("ask", 0)
    return names


def test_a_room_has_a_code_that_nobody_guesses() -> None:
    """Six of 32 letters, in the address for phones and in the cookie's path."""
    first, second = _room(address="10.0.0.5"), _room()

    assert first.code != second.code
    assert 6 == len(first.code)
    assert f"http://10.0.0.5:8866/room/{first.code}" == first.address
    assert f"/room/{first.code}" == first.owner.path
    assert first.owner.token in first.screen_address
    assert first.owner.token not in first.address


def test_behind_a_proxy_the_address_is_that_of_share_at() -> None:
    """With its scheme and its path."""
    room = _room(share_at="https://plan.example.org/app/", base_url="/app/")

    assert f"https://plan.example.org/app/room/{room.code}" == room.address
    assert f"/app/room/{room.code}" == room.owner.path


def test_places_are_limited_and_so_is_each_network() -> None:
    """A place whose phone has gone is given to another."""
    room = _room()
    first = [room.place_for("one", 0.0) for _ in range(3)]
    crowded = room.place_for("one", 0.0)
    room.place_for("two", 200.0)
    full = room.place_for("two", 200.0)
    later = room.place_for("one", 400.0)

    assert [CROWDED, FULL] == [crowded, full]
    assert isinstance(later, str)
    assert 2 == len(room.places)
    assert not set(map(str, first)) & set(room.places)


def test_places_have_sides_by_turns_and_no_names() -> None:
    """What is kept of a phone: its side, its network's hash, when it was there."""
    room = _room()
    _asked(room)

    assert ["A", "B"] == [one.side for one in room.places.values()]
    assert {"side", "network", "seen", "vote"} == set(
        next(iter(room.places.values())).__slots__
    )


def test_a_vote_is_shown_named_cast_again_and_answered() -> None:
    """The answer stays with the leader until the end; a new question forgets all."""
    room = _room()
    first, second = _asked(room)
    room.places[first].vote, room.places[second].vote = "6.76 GiB", "3.6 GiB"
    phone = room.places[first]
    hidden = (room.for_screen(), room.for_phone(phone))
    room.do("votes", 0)
    bars = room.for_screen()["groups"]
    room.do("slips", 0)
    says = room.for_phone(phone)["says"]
    room.do("again", 0)
    emptied = room.votes
    phone.vote = "3.6 GiB"
    room.do("answer", 0)
    told = room.for_screen()
    room.do("ask", 1)

    assert [[], ""] == [hidden[0]["groups"], hidden[0]["answer"]]
    assert ["", "6.76 GiB"] == [hidden[1]["says"], hidden[1]["vote"]]
    assert [["3.6 GiB", "6.76 GiB"]] == [[one["label"] for one in row] for row in bars]
    assert says.startswith("the whole card minus the weights")
    assert () == emptied
    assert 2 == told["round"] == len(told["groups"])
    assert told["answer"].startswith("3.62 GiB")
    assert ((), ()) == (room.before, room.votes)


def test_nothing_is_led_before_a_question_is_asked() -> None:
    """Nor by a word that is no action."""
    room = _room()

    assert [False] * 4 == [
        room.do(word, 0) for word in ("votes", "again", "answer", "drop")
    ]


def test_a_qr_code_has_a_margin_and_three_finders() -> None:
    """21 modules and four at each side; the first dark one is a finder's corner."""
    size, path = qr_path("x")
    row = [f"M{x} 4h1v1h-1z" for x in (*range(4, 11), *range(18, 25))]

    assert 29 == size
    assert all(square in path for square in row)
    assert path.startswith(row[0])
    assert qr_path("http://192.168.1.20:8866/room/K7QPXA")[0] > size
