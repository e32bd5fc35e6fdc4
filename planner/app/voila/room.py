"""Room mode: phones vote, the projector shows what the room thinks; nothing is kept.

A room has an address with a code that nobody guesses, so that strangers do not vote. A
phone gets a place, a random name that only its cookie has; a place has one vote in each
round. Votes are in memory until the next question.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from dataclasses import dataclass, field
from typing import Any

from jupyter_server.utils import url_path_join

from planner.app.voila.access import TOKEN, Owner
from planner.app.voila.api import Rate
from planner.app.voila.notices import CROWDED, FULL, Notice
from planner.app.voila.options import Options
from planner.learn.room import SIDES, Question, Vote, questions

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Without those that look alike."""
_CODE_LETTERS = 6
_WAIT_SECONDS = 15.0
"""As long as a request waits for news."""
_LEFT_SECONDS = 300.0
"""A place whose phone was not heard of so long is given to another one."""
ASKED = "asked"
_SHOWN, _NAMED, _ANSWERED = "votes", "slips", "answer"


@dataclass(slots=True, kw_only=True)
class Place:
    """A phone."""

    side: str
    network: str
    seen: float
    """When it was last heard of."""
    vote: str | dict[str, float] | None = None


class News:
    """A number that grows with each change, and a wait for the next one."""

    def __init__(self) -> None:
        self.version = 0
        self._changed = asyncio.Event()

    def tell(self) -> None:
        """Wake whoever waits."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def later_than(self, seen: int) -> None:
        """Wait until something is newer, or for a while."""
        if seen != self.version:
            return
        try:
            await asyncio.wait_for(self._changed.wait(), _WAIT_SECONDS)
        except TimeoutError:
            return


@dataclass(kw_only=True)
class Room:
    """The question, its votes, and the places of one room."""

    address: str
    """For phones."""
    owner: Owner
    most_places: int
    per_network: int
    code: str
    places: dict[str, Place] = field(default_factory=dict)
    question: Question | None = None
    phase: str = ""
    round: int = 0
    before: tuple[Vote, ...] = ()
    """The votes of the round before."""
    phones: News = field(default_factory=News)
    screen: News = field(default_factory=News)
    joins: Rate = field(default_factory=lambda: Rate(per_minute=120, at_once=120))
    polls: Rate = field(default_factory=lambda: Rate(per_minute=120, at_once=12))
    asked: tuple[Question, ...] = field(default_factory=questions)

    @property
    def screen_address(self) -> str:
        """For the projector, and whoever leads the room: it holds the token."""
        return f"{self.address}/screen?{TOKEN}={self.owner.token}"

    @property
    def votes(self) -> tuple[Vote, ...]:
        """The votes of this round."""
        return tuple(
            (one.side, one.vote) for one in self.places.values() if one.vote is not None
        )

    def place_for(self, network: str, now: float) -> str | Notice:
        """Return a new place, or why there is none."""
        self.places = {
            name: one
            for name, one in self.places.items()
            if now - one.seen < _LEFT_SECONDS
        }
        if len(self.places) >= self.most_places:
            return FULL
        same = sum(one.network == network for one in self.places.values())
        if same >= self.per_network:
            return CROWDED
        name = secrets.token_urlsafe(16)
        side = SIDES[len(self.places) % len(SIDES)]
        self.places[name] = Place(side=side, network=network, seen=now)
        self.screen.tell()
        return name

    def do(self, action: str, number: int) -> bool:
        """Go on as the leader says; return whether that is an action."""
        if action == "ask":
            self.question = self.asked[number]
            self.before, self.round = (), 1
            self._open()
        elif action == "again" and self.question is not None:
            self.before, self.round = self.votes, self.round + 1
            self._open()
        elif action in (_SHOWN, _NAMED, _ANSWERED) and self.question is not None:
            self.phase = action
        else:
            return False
        self.phones.tell()
        self.screen.tell()
        return True

    def _open(self) -> None:
        self.phase = ASKED
        for one in self.places.values():
            one.vote = None

    def for_phone(self, place: Place) -> dict[str, Any]:
        """Return what a phone shows."""
        question, says = self.question, ""
        if question and place.vote is not None and self.phase in (_NAMED, _ANSWERED):
            says = question.judged(place.vote)[1]  # type: ignore[arg-type]
        return {
            "version": self.phones.version,
            "phase": self.phase,
            "round": self.round,
            "question": question and question.described(),
            "side": place.side,
            "vote": place.vote,
            "says": says,
            "answer": self._answer(),
        }

    def for_screen(self) -> dict[str, Any]:
        """Return what the projector shows."""
        question, votes = self.question, self.votes
        shown: list[list[dict[str, Any]]] = []
        if question and self.phase not in ("", ASKED):
            is_named = self.phase in (_NAMED, _ANSWERED)
            count = question.named if is_named else question.tally
            rounds = (self.before, votes) if self.before else (votes,)
            shown = [
                [
                    {"label": one.label, "count": one.count, "kind": one.kind}
                    for one in count(cast)
                ]
                for cast in rounds
            ]
        return {
            "version": self.screen.version,
            "phase": self.phase,
            "round": self.round,
            "places": len(self.places),
            "votes": len(votes),
            "question": question and question.described(),
            "groups": shown,
            "answer": self._answer(),
        }

    def _answer(self) -> str:
        is_told = self.question is not None and self.phase == _ANSWERED
        return self.question.answer() if self.question and is_told else ""


def room_of(options: Options) -> Room:
    """Return the room of an app, with a code of its own."""
    code = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LETTERS))
    base = url_path_join("/", options.base_url, "room", code)
    start = options.share_at or f"http://{_host(options)}:{options.port}/"
    path = url_path_join("room", code) if options.share_at else base
    return Room(
        address=url_path_join(start, path),
        owner=Owner(port=options.port, path=base, name="planner-screen"),
        most_places=options.max_sessions,
        per_network=options.per_network or options.max_sessions,
        code=code,
    )


def _host(options: Options) -> str:
    """Return this machine's address in its network, for phones; no packet is sent."""
    address = options.address
    if address not in ("0.0.0.0", "::", ""):
        return f"[{address}]" if ":" in address else address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        try:
            found.connect(("192.0.2.1", 9))  # an address for documentation: RFC 5737
            return str(found.getsockname()[0])
        except OSError:
            return "127.0.0.1"
