"""How often a published app asks the Hub."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import TooOften
from planner.models.sources import allowance
from planner.models.sources.allowance import Bucket, HubRequest, take
from planner.surroundings import PUBLISHED, RUNTIME

FILE = "hub-allowance"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A published process that has asked for nothing yet."""
    monkeypatch.setenv(PUBLISHED, "1")
    monkeypatch.setenv(RUNTIME, str(tmp_path))
    monkeypatch.setenv(allowance.PER_MINUTE, "6")
    allowance.forget()
    yield tmp_path
    allowance.forget()


def taken(question: HubRequest = HubRequest.MODEL, tries: int = 50) -> int:
    """How many questions are allowed at once, each from a new visitor."""
    for number in range(tries):
        with allowance._mutex:
            allowance._session.clear()
        try:
            take(question)
        except TooOften:
            return number
    return tries


def test_all_visitors_together_have_one_allowance() -> None:
    """Six a minute: the seventh visitor waits ten seconds for the next."""
    assert taken() == 6
    allowance._session.clear()
    with pytest.raises(TooOften) as refused:
        take(HubRequest.MODEL)

    assert str(refused.value) == (
        "This page may query the Hub at most 6 times a minute; wait 10 seconds, or "
        "pick a model from the list."
    )


def test_one_visitor_gets_half_of_it() -> None:
    """So that the others have the rest."""
    for _ in range(3):
        take(HubRequest.MODEL)
    with pytest.raises(TooOften, match=r"One visitor .* at most 3 times a minute"):
        take(HubRequest.MODEL)


def test_searches_are_counted_apart() -> None:
    """Twice as many, and none of them costs a model."""
    assert taken(HubRequest.SEARCH) == 12
    assert taken(HubRequest.MODEL) == 6


def test_other_processes_count_in_the_same_file() -> None:
    """Two processes at once take six together, not twelve."""
    code = (
        "from tests.models.test_allowance import taken; import sys; "
        "sys.stdout.write(str(taken()))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    counts = [int(one.communicate()[0]) for one in started]

    assert sum(counts) == 6


def test_a_killed_holder_of_the_lock_stops_nobody(folder) -> None:
    """While it lives the others are told to wait; its end frees the lock."""
    take(HubRequest.MODEL)
    code = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'r+');"
        "fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(folder / FILE)], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(TooOften, match="Too many visitors"):
        take(HubRequest.MODEL)
    holder.kill()
    holder.wait()
    holder.stdout.close()
    take(HubRequest.MODEL)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"x" * 5,
        struct.pack("<dd", float("nan"), float("nan")),
        struct.pack("<dd", float("inf"), 0.0),
        struct.pack("<dd", 1e300, -1e300),
        struct.pack("<dd", -5.0, float("inf")),
    ],
)
def test_a_damaged_file_never_allows_more(folder, content) -> None:
    """Nor does it raise anything else."""
    (folder / FILE).write_bytes(content)

    assert taken() <= 6
    assert taken() == 0


def test_a_count_of_before_the_machine_started_is_no_debt(folder) -> None:
    """The clock begins anew then: what was left counts, and refills from now on."""
    (folder / FILE).write_bytes(struct.pack("<dd", 2.0, time.monotonic() + 1e6))

    assert taken() == 2


@pytest.mark.parametrize("how", ["file", "full"])
def test_without_a_shared_file_a_process_takes_little(
    tmp_path, monkeypatch, how
) -> None:
    """A folder that cannot be made, a disk that takes nothing: a tenth, at least 1."""
    if how == "file":
        (tmp_path / "file").write_text("")
        monkeypatch.setenv(RUNTIME, str(tmp_path / "file"))
    else:

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "pwrite", full)
    monkeypatch.setenv(allowance.PER_MINUTE, "20")

    assert taken() == 2


@pytest.mark.parametrize(
    ("value", "expected"), [("7", 7), ("", 20), ("many", 20), ("-1", 20), ("0", 0)]
)
def test_the_publisher_sets_the_rate(monkeypatch, value, expected) -> None:
    """What is no number leaves it at 20."""
    monkeypatch.setenv(allowance.PER_MINUTE, value)

    assert allowance.per_minute() == expected


def test_zero_asks_for_nothing(monkeypatch) -> None:
    """And says so."""
    monkeypatch.setenv(allowance.PER_MINUTE, "0")
    with pytest.raises(TooOften, match="does not query the Hub"):
        take(HubRequest.MODEL)


@given(
    tokens=st.floats(),
    at=st.floats(),
    per_minute=st.integers(1, 1000),
    now=st.floats(0, 1e9),
)
def test_a_bucket_never_holds_more_than_a_minute(tokens, at, per_minute, now) -> None:
    """Nor less than nothing, whatever was written in the file."""
    refilled = Bucket(tokens=tokens, at=at).refilled(per_minute, now)

    assert 0 <= refilled.tokens <= per_minute
    assert refilled.at == now
    assert 0 <= refilled.wait_seconds(per_minute) <= 60
