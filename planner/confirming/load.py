"""The load probe: requests of the planned length, all at once.

It shows whether as many of them are in work together as the plan said, before the KV
cache is full and vLLM makes requests wait or start over.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from planner.confirming.alone.offline import METRICS
from planner.confirming.collecting import load_from
from planner.confirming.measurement import LoadFigures
from planner.confirming.server import Server
from planner.errors import PlannerError
from planner.result import Plan

_STEP_SECONDS = 0.05
_LEAST_OUTPUT = 16
_SPARE = 2
_LEAST_READINGS = 5
_MOST_ROUNDS = 8


def load_of(plan: Plan, num_requests: int) -> dict[str, int]:
    """Return how long prompts and answers are, in tokens, for `num_requests`.

    Prompt and answer together are `max_model_len`. The answer is so long that the first
    request still goes on when the prompt of the last has been read: only then are all
    of them in work at once.

    Raises:
        PlannerError: for a plan that has no requests to send.
    """
    if plan.resolved is None or plan.model is None or plan.model.is_pooling:
        raise PlannerError(
            "A load probe needs a model that generates text and a plan that starts."
        )
    length = plan.resolved.max_model_len
    batch = plan.resolved.max_num_batched_tokens
    steps_to_read_all = -(-num_requests * length // batch)
    output = min(length // 2, max(_LEAST_OUTPUT, _SPARE * steps_to_read_all))
    return {
        "num_requests": num_requests,
        "prompt_tokens": max(1, length - output),
        "output_tokens": max(1, output),
        "vocab_size": plan.model.vocab_size,
    }


def send_load(
    server: Server, asked: Mapping[str, int], is_stopped: Callable[[], bool]
) -> LoadFigures:
    """Send the requests to a server at once and watch its metrics until they end.

    Where they ended before the metrics were read often enough, as on a machine whose
    processors are all taken, other ones are sent, a few times over. The number that
    finished is the least of all times, the seconds are those of the last.
    """
    before = server.metrics().get("vllm:num_preemptions", 0.0)
    draw = random.Random(0)
    told: dict[str, float] = {"finished": asked["num_requests"]}
    with _Watcher(server) as watcher:
        for _round in range(_MOST_ROUNDS):
            begin = time.monotonic()
            finished = _send_all(server, _prompts(asked, draw), asked, is_stopped)
            told["seconds"] = time.monotonic() - begin
            told["finished"] = min(told["finished"], finished)
            if watcher.num_readings >= _LEAST_READINGS or is_stopped():
                break
    told["readings"] = watcher.num_readings
    return load_from(asked, {**watcher.peaks, **told}, preempted_before=before)


def _prompts(asked: Mapping[str, int], draw: random.Random) -> list[list[int]]:
    # Different beginnings: blocks of a common one would be shared.
    return [
        [draw.randrange(asked["vocab_size"]) for _ in range(asked["prompt_tokens"])]
        for _ in range(asked["num_requests"])
    ]


def _send_all(
    server: Server,
    prompts: list[list[int]],
    asked: Mapping[str, int],
    is_stopped: Callable[[], bool],
) -> int:
    """Send the prompts at once and return how many were answered."""

    def send(prompt: list[int]) -> bool:
        if is_stopped():
            return False
        try:
            server.complete(
                prompt, asked["output_tokens"], ignore_eos=True, detokenize=False
            )
        except (OSError, PlannerError):
            return False
        return True

    with ThreadPoolExecutor(max_workers=len(prompts)) as pool:
        return sum(pool.map(send, prompts))


class _Watcher:
    """Reads a server's metrics again and again, in a thread, and keeps the peaks."""

    def __init__(self, server: Server) -> None:
        self.peaks: dict[str, float] = dict.fromkeys(METRICS.values(), 0.0)
        self.num_readings = 0
        """How often the metrics were read while requests were in work."""
        self._server = server
        self._done = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="load probe", daemon=True
        )

    def __enter__(self) -> _Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            is_last = self._done.is_set()
            # An answer that came too late is one reading less, not the end of them.
            with suppress(OSError, http.client.HTTPException):
                self._read()
            if is_last:
                return
            self._done.wait(_STEP_SECONDS)

    def _read(self) -> None:
        told = self._server.metrics()
        for metric, name in METRICS.items():
            self.peaks[name] = max(self.peaks[name], told.get(metric, 0.0))
        self.num_readings += told.get("vllm:num_requests_running", 0.0) > 0
