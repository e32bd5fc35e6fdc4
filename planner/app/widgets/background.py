"""Long work beside the page: models and drafts read in a thread, searches in slices.

A plan names its draft for speculative decoding. Its files are read here first, and
`planner.models.sources.finding` caches them for a while, so that the plan does not
wait.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Thread
from typing import Any

from planner.app.widgets.callbacks import running_loop
from planner.errors import PlannerError, TooOften
from planner.models import catalogue
from planner.models.sources import hub_search
from planner.models.sources.finding import model_files
from planner.models.sources.hub_models import HubGroup
from planner.models.sources.periods import period
from planner.surroundings import is_in_browser

Job = Callable[[], object]
_WITHOUT = ("ngram", "ngram_gpu", "suffix", "[ngram]")
_MOST = 8
SLICE_SECONDS = 0.008
"""Shorter than a step of a slider, which waits for at most one slice."""
REST_SECONDS = 0.001
_NOT_REACHED = "Hub not reachable"
_TOO_OFTEN = "Hub: no more searches for now"
log = logging.getLogger(__name__)
Answer = Callable[[Sequence[HubGroup], str], None]
"""Takes what was found, and a few words where it could not be looked for."""


class Reader:
    """Runs jobs in a thread; only the answer of the newest one is passed on."""

    def __init__(self) -> None:
        self._newest = 0
        self._thread: Thread | None = None

    def start(
        self,
        job: Job,
        done: Callable[[object], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Run `job` in a thread, then `done` or `failed` on the caller's event loop."""
        self._newest += 1
        number = self._newest
        post = _poster()

        def hand_back(call: Callable[[], None]) -> None:
            if number == self._newest:
                post(call)

        def run() -> None:
            try:
                answer = job()
            except Exception as error:  # noqa: BLE001 - passed to the caller's guard
                failure = error
                hand_back(lambda: failed(failure))
            else:
                hand_back(lambda: done(answer))

        if is_in_browser():  # without threads the page has to wait
            run()
            return
        self._thread = Thread(target=run, daemon=True, name="planner-reader")
        self._thread.start()

    def cancel(self) -> None:
        """Discard the answer of the running job."""
        self._newest += 1

    def wait(self, seconds: float) -> None:
        """Wait until the newest job has ended."""
        if self._thread is not None:
            self._thread.join(seconds)


class SlicedJob:
    """Runs a long job of many small steps beside the page, on the same event loop.

    A slice takes a few milliseconds; whatever the page sent meanwhile is answered
    before the next. A thread would compete with a step of a slider for Python's
    interpreter, 5 ms at a time, and a browser has no threads. Without an event loop the
    job runs at once, to its end.
    """

    def __init__(self, seconds: float = SLICE_SECONDS) -> None:
        self.seconds = seconds
        self._waiting: asyncio.Handle | None = None

    def start(
        self,
        steps: Iterator[object],
        between: Callable[[], None],
        done: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Run `steps` instead of the job that still runs.

        Args:
            steps: each takes a few milliseconds at most.
            between: called after each slice.
            done: called after the last one.
            failed: called with the error that ended the job.
        """
        self.cancel()
        loop = running_loop()
        ends = _run(steps, self.seconds if loop is not None else float("inf"))

        def go() -> None:
            self._waiting = None
            try:
                is_over = next(ends)
            except Exception as error:  # noqa: BLE001 - passed to the caller's guard
                failed(error)
                return
            between()
            if is_over:
                done()
            elif loop is not None:
                self._waiting = loop.call_later(REST_SECONDS, go)

        go()

    @property
    def is_running(self) -> bool:
        """Whether a slice is still to come."""
        return self._waiting is not None

    def cancel(self) -> None:
        """End the job after the slice that runs."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def _run(steps: Iterator[object], seconds: float) -> Iterator[bool]:
    """Take steps for a while and yield whether that was the last of them."""
    ends = time.perf_counter() + seconds
    for _ in steps:
        if time.perf_counter() >= ends:
            yield False
            ends = time.perf_counter() + seconds
    yield True


def _poster() -> Callable[[Callable[[], None]], object]:
    """Return what runs a call on the caller's event loop, or at once without one."""
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        return lambda call: call()


def named(request: Mapping[str, Any]) -> str:
    """Return the name of a plan's draft model; empty without one.

    >>> named({"speculative_config": {"model": "nobody/draft"}})
    'nobody/draft'
    """
    config = request.get("speculative_config")
    given = config if isinstance(config, Mapping) else {}
    method = given.get("method") or request.get("spec_method")
    name = given.get("model") or request.get("spec_model")
    is_name = isinstance(name, str) and name not in _WITHOUT
    return str(name) if is_name and method not in _WITHOUT else ""


class Drafts:
    """Records which drafts have been read and are still cached."""

    def __init__(self) -> None:
        self._read: dict[str, int] = {}

    def must_be_read(self, name: str) -> bool:
        """Whether planning with this draft would call the Hub."""
        if catalogue.find(name) is not None:
            return False
        return self._read.get(name) != period()

    def read(self, name: str) -> object:
        """Read a draft's files, which are cached from then on.

        Raises:
            PlannerError: where the model does not exist or cannot be read.
        """
        found = model_files(name)
        while len(self._read) >= _MOST:
            self._read.pop(next(iter(self._read)))
        self._read[name] = period()
        return found


class HubSearch:
    """Searches the Hub for one text at a time; of waiting texts, the newest.

    A newer text ends the search for the one before it after the request that runs.
    """

    def __init__(self) -> None:
        self._reader = Reader()
        self._next: tuple[str, Answer] | None = None
        self._is_asking = False

    def find(self, text: str, answer: Answer) -> None:
        """Call `answer` later with the models whose names contain `text`."""
        self._next = (text, answer)
        self._ask()

    def wait(self, seconds: float) -> None:
        """Wait until the newest search has ended."""
        self._reader.wait(seconds)

    def _ask(self) -> None:
        if self._is_asking or self._next is None:
            return
        (text, answer), self._next = self._next, None
        self._is_asking = True

        def done(found: Sequence[HubGroup], why: str = "") -> None:
            self._is_asking = False
            answer(found, why)
            self._ask()

        def failed(error: Exception) -> None:
            if not isinstance(error, PlannerError):
                log.error("a search on the Hub failed", exc_info=error)
            done((), _TOO_OFTEN if isinstance(error, TooOften) else _NOT_REACHED)

        def job() -> object:
            return hub_search.search(text, is_wanted=lambda: self._next is None)

        self._reader.start(job, done, failed)  # type: ignore[arg-type]
