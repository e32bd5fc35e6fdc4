"""The load probe: requests sent to a server at once, and its metrics meanwhile."""

import threading
from typing import Any

import pytest

from planner.confirming.server import send_load
from tests.starts import PATIENCE

ASKED = {
    "num_requests": 3,
    "prompt_tokens": 8,
    "output_tokens": 4,
    "vocab_size": 100,
}


class Busy:
    """A server whose metrics do not answer the first `misses` times while it works.

    Each round of requests lasts until the metrics were asked for three times.
    """

    def __init__(self, misses: int) -> None:
        self.misses = misses
        self.prompts: list[list[int]] = []
        self._asked = threading.Condition()
        self._num_asked = 0
        self._at_work = 0

    def metrics(self) -> dict[str, float]:
        with self._asked:
            self._num_asked += 1
            self._asked.notify_all()
            if self._at_work and self.misses:
                self.misses -= 1
                raise TimeoutError("timed out")
            return {
                "vllm:num_requests_running": float(min(2, self._at_work)),
                "vllm:num_requests_waiting": float(max(0, self._at_work - 2)),
                "vllm:kv_cache_usage_perc": 0.5 * (self._at_work > 0),
                "vllm:num_preemptions": 7.0,
            }

    def complete(self, prompt: list[int], _max_tokens: int, **_more: object) -> Any:
        with self._asked:
            self.prompts.append(prompt)
            self._at_work += 1
            until = self._num_asked + 3
            self._asked.wait_for(lambda: self._num_asked >= until, timeout=PATIENCE)
            self._at_work -= 1


@pytest.fixture
def busy(monkeypatch) -> Busy:
    """A server that tells its figures, read without a pause."""
    server = Busy(misses=0)
    monkeypatch.setattr("planner.confirming.server._STEP_SECONDS", 0.01)
    return server


def test_the_peaks_are_the_highest_readings(busy) -> None:
    """Two at work, one waiting; preemptions count from the number before: 7 - 7."""
    load = send_load(busy, ASKED, lambda: False)

    assert load.num_finished == 3
    assert (load.peak_running, load.peak_waiting) == (2, 1)
    assert load.peak_kv_cache_usage == 0.5
    assert load.preemptions == 0
    assert load.num_readings > 0


def test_a_load_that_no_reading_met_is_sent_again(busy) -> None:
    """Metrics that time out at first: other requests follow, until they are read."""
    busy.misses = 10

    load = send_load(busy, ASKED, lambda: False)

    assert load.num_readings > 0
    assert load.peak_running == 2
    assert len(busy.prompts) > ASKED["num_requests"]
    assert len({tuple(prompt) for prompt in busy.prompts}) == len(busy.prompts)


def test_a_load_that_is_never_read_says_so(busy) -> None:
    """All rounds without an answer: no readings, and it does not go on for ever."""
    busy.misses = 10**6

    load = send_load(busy, ASKED, lambda: False)

    assert load.num_readings == 0
    assert load.num_finished == 3
