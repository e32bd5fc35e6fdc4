"""Logs and texts of any size and shape: what they cost grows with their length."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import planner
from planner.confirming.log import read_log

LOG = (Path(__file__).parents[1] / "data/logs/cpu-0.32.0.log").read_text("utf-8")
REQUEST = (
    "INFO 04-22 01:47:55 [loggers.py:436] Engine 000: Avg prompt throughput: 123.4 "
    "tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.2%\n"
)
MOST_SECONDS = 60.0
"""Of the processor, on the busiest machine: what grows with a square takes hours."""
RUNS = (
    "1",
    "1,",
    "1.",
    "a",
    "a.",
    " ",
    "\n ",
    "(",
    "Error: ",
    "1 GiB ",
    "--a ",
    "\u2028",
)


@pytest.mark.parametrize("run", RUNS)
def test_long_runs_of_one_thing_take_no_time(run: str) -> None:
    """4,000 digits took four seconds, and a line of megabytes more than a minute."""
    before = time.process_time()
    for size in (4_000, 2_000_000):
        read_log(f"Available KV cache memory: 5.1 GiB\n{run * (size // len(run))}")
    with pytest.raises(planner.PlannerError):
        planner.read(run * (60_000 // len(run))).plan(gpu="not a GPU")

    assert time.process_time() - before < MOST_SECONDS


def test_a_log_of_fifty_megabytes_is_read_in_seconds() -> None:
    """Its start counts, and days of requests after it take no time."""
    text = LOG * 3 + REQUEST * (50_000_000 // len(REQUEST))
    before = time.process_time()
    reading = read_log(text)

    assert time.process_time() - before < MOST_SECONDS
    assert reading.figures == read_log(LOG).figures
    assert reading.started
    assert reading.setting == read_log(LOG).setting


def test_a_line_of_twenty_megabytes_is_no_obstacle() -> None:
    """A collector that lost the line breaks."""
    before = time.process_time()
    assert read_log("9" * 20_000_000).figures == {}
    assert time.process_time() - before < MOST_SECONDS
