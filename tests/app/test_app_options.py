"""`planner app`: what may be asked of it, before anything is served."""

from argparse import ArgumentParser

import pytest

from planner.app.cli import BAD_INPUT, main
from planner.app.cli import app as command
from planner.app.voila import log
from planner.app.voila.options import is_loopback
from planner.app.voila.screening import Allowance


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", "0"], "--port 0 is not between 1 and 65535."),
        (["--max-sessions", "0"], "--max-sessions 0 is not between 1 and 1000."),
        (["--pool", "-1"], "--pool -1 is not between 0 and 1000."),
        (["--per-network", "0"], "--per-network 0 is not between 1 and 1000."),
        (["--trusted-proxy", "proxy"], "'proxy' does not appear to be an IPv4"),
        (["--frame-ancestor", "https://a.b; x"], "is not an origin such as"),
        (["--share-at", "plan.example"], "is not the address of a page such as"),
    ],
)
def test_a_number_out_of_bounds_is_named(words, said, capsys) -> None:
    """With what is allowed."""
    pytest.importorskip("voila")

    assert main(["app", *words]) == BAD_INPUT
    assert said in capsys.readouterr().err


def test_without_voila_the_user_learns_what_to_install(monkeypatch, capsys) -> None:
    """One line, no traceback."""
    monkeypatch.setattr(command, "find_spec", {}.get)

    assert main(["app"]) == BAD_INPUT
    assert "pip install 'vllm-memory-planner[app]'" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_only(address) -> None:
    """The user's own app."""
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "", "10.0.0.1", "planner.test"])
def test_every_other_address_is_published(address) -> None:
    """Also one that cannot be read: the safe side."""
    assert not is_loopback(address)


@pytest.mark.parametrize(
    ("words", "address", "pool"),
    [
        (["--room"], "0.0.0.0", 2),
        (["--room", "--address=10.0.0.5", "--pool=4"], "10.0.0.5", 4),
        (["--published", "--address=0.0.0.0"], "0.0.0.0", 10),
        ([], "127.0.0.1", 2),
    ],
)
def test_a_room_listens_where_phones_reach_it(words, address, pool) -> None:
    """Published, with few pages drawn ahead: phones open the room's, not the app's."""
    parser = ArgumentParser()
    command.add(parser)
    options = command.options_of(vars(parser.parse_args(words)))

    assert [address, pool, "--room" in words] == [
        options.address,
        options.pool,
        options.room,
    ]
    assert options.published is not is_loopback(address)


def test_a_page_may_send_so_many_messages_at_once() -> None:
    """Three at once and none a second: the fourth is one too many."""
    allowance = Allowance(0, 3)

    assert [allowance.take() for _ in range(4)] == [True, True, True, False]


def test_an_error_is_logged_without_what_it_says() -> None:
    """Its class and its place stay."""
    import io
    import logging

    written = io.StringIO()
    logger = logging.Logger("planner.test")
    logger.addHandler(log.handler(written, published=True))
    try:
        int("secret/model")
    except ValueError:
        logger.exception("The visitor asked for %s.", "secret/model")

    assert "secret" not in written.getvalue()
    assert "ValueError" in written.getvalue()
    assert "test_app_options.py" in written.getvalue()


def test_what_is_written_again_and_again_is_dropped() -> None:
    """Five a minute from one place; a visitor could fill the disk otherwise."""
    import io
    import logging

    written = io.StringIO()
    logger = logging.Logger("planner.test")
    logger.addHandler(log.handler(written, published=False))
    for number in range(100):
        logger.warning("message %d", number)
    logger.warning("another")

    assert written.getvalue().count("message") == 5
    assert "another" in written.getvalue()


@pytest.mark.parametrize(
    ("was_connected", "alone_since", "is_lost"),
    [(False, 71, False), (False, 70, True), (True, 41, False), (True, 40, True)],
)
def test_a_vanished_page_is_given_up_after_a_while(
    was_connected, alone_since, is_lost
) -> None:
    """At 100 s: 30 s for a page that never connected, 60 s for one that did."""
    pytest.importorskip("voila")
    from planner.app.voila.sessions import Sessions
    from planner.app.voila.visits import Session

    sessions = Sessions(arrive_seconds=30, lost_seconds=60)
    session = Session(began=0, alone_since=alone_since, was_connected=was_connected)

    assert sessions.is_lost(session, 100) is is_lost


def test_a_connected_page_is_not_given_up() -> None:
    """However long it is open."""
    pytest.importorskip("voila")
    from planner.app.voila.sessions import Sessions
    from planner.app.voila.visits import Session

    session = Session(began=0, alone_since=None, was_connected=True)

    assert not Sessions().is_lost(session, 1e9)


def test_memory_is_given_back_once_after_a_visit_and_never_during_one(
    monkeypatch,
) -> None:
    """It takes a tenth of a second, in which nobody would be answered."""
    pytest.importorskip("voila")
    from planner.app.voila import sessions

    given = []
    monkeypatch.setattr(sessions, "give_back", lambda: given.append("memory"))
    server = sessions.Sessions()
    server._tidy()
    before_anybody = len(given)
    server.received("no kernel")
    server._tidy()
    while_one_moves = len(given)
    server._last_message -= 2 * server.settle_seconds
    server._tidied_at -= 4 * server.settle_seconds
    server._tidy()
    server._tidy()

    assert (before_anybody, while_one_moves, len(given)) == (0, 0, 1)
