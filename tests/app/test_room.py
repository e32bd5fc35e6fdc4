"""A room without its server: places, votes, rounds, and the code on the wall."""

from __future__ import annotations

import pytest

from planner.errors import PlannerError

pytest.importorskip("voila")

from planner.app.voila.notices import CROWDED, FULL
from planner.app.voila.options import Options
from planner.app.voila.qr import MOST_BYTES, qr_modules, qr_path, remainder
from planner.app.voila.room import Room, room_of

RECORDED = """
1fc9d37f 10477641 175dd55d 174ee15d 1744435d 1048a641 1fd5557f 1dea00 1df66ec4 3167069
2f899f7 c822cea 2710a6b 1723bc6d aff4d03 14a5ea9a 1d4a4843 61a70e5 1154898b f961cea
125509f0 138117 1fdb4b5b 105dcf1a 175679fb 174a739b 175c829d 105e1f8a 1fd53dcb
"""
"""Rows of an address's code, as the package qrcode 8 draws it with the same mask."""


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


def test_a_qr_code_is_drawn_as_others_draw_it() -> None:
    """Module by module; longer addresses take larger codes."""
    rows = qr_modules("http://192.168.1.20:8866/room/K7QPXA")
    widths = [len(qr_modules("x" * count)) for count in (17, 18, 53, MOST_BYTES)]
    size, path = qr_path("x")

    assert RECORDED.split() == [
        f"{int(''.join('01'[one] for one in row), 2):x}" for row in rows
    ]
    assert [21, 25, 29, 37] == widths
    assert 29 == size
    assert path.startswith("M4 4h1v1h-1z")


def test_the_correction_of_a_block_is_reed_solomons() -> None:
    """The example of the standard's annex I, 01234567 at level M."""
    data = bytes.fromhex("10200c5661 80 ec11ec11ec11ec11ec11".replace(" ", ""))

    assert "a524d4c1ed36c787 2c55".replace(" ", "") == remainder(data, 10).hex()


def test_a_longer_address_is_refused() -> None:
    """Nothing is left out silently."""
    with pytest.raises(PlannerError, match="at most 106 bytes"):
        qr_modules("x" * 107)
